//! Small files, many to a block: one frame carries hundreds of them.

use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::EntryId;
use icdc_units::ByteCount;

/// Files in one pack: enough to make a frame cheap, few enough that several packers have work.
const MOST: usize = 256;

/// Splits wanted small files, each with its size, into packs.
pub(super) fn into_packs(files: impl IntoIterator<Item = (EntryId, ByteCount)>) -> Vec<Vec<EntryId>> {
    let mut packs: Vec<Vec<EntryId>> = Vec::new();
    let mut room = ByteCount::ZERO;
    for (id, size) in files {
        match packs.last_mut() {
            Some(pack) if pack.len() < MOST && size <= room => {
                room -= size;
                pack.push(id);
            }
            _ => {
                room = ByteCount::from(BLOCK_SIZE) - size;
                packs.push(vec![id]);
            }
        }
    }
    packs
}
