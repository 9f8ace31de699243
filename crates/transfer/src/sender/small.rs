//! Packs small files, many to a block: one frame carries hundreds of them.
//!
//! Several packers work at once, because opening and reading small files waits for the medium, not
//! for the processor.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crossbeam_channel::Receiver as Queue;
use icdc_disk::Block;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{EntryKind, FileDigest, GivenUp, Message, PackItem};

use super::ledger::Item;
use super::scan::version;
use super::{Shared, changed, unopened, unreadable};
use crate::link::Parcel;

/// Packers that work at once.
pub(crate) const PACKERS: usize = 4;
/// Files in one pack: enough to make a frame cheap, few enough that all packers have work.
const PACK_FILES: usize = 256;

/// Splits wanted small files into packs.
pub(crate) fn into_packs(items: Vec<Arc<Item>>) -> Vec<Vec<Arc<Item>>> {
    let mut packs: Vec<Vec<Arc<Item>>> = Vec::new();
    let mut room = 0;
    for item in items {
        let size = item.size() as usize;
        match packs.last_mut() {
            Some(pack) if pack.len() < PACK_FILES && size <= room => {
                room -= size;
                pack.push(item);
            }
            _ => {
                room = BLOCK_SIZE - size;
                packs.push(vec![item]);
            }
        }
    }
    packs
}

/// Reads packs until the queue is closed or the session ends.
pub(crate) fn run(shared: &Shared<'_>, queue: &Queue<Vec<Arc<Item>>>) {
    for pack in queue {
        let Ok(mut block) = shared.pool.take() else { return };
        let (items, length) = fill(shared, &pack, &mut block);
        if !items.is_empty() {
            let parcel = Parcel { message: Message::Pack(items), payload: Some((block, length)) };
            if shared.queue_data(parcel).is_none() {
                return;
            }
        }
    }
}

fn fill(shared: &Shared<'_>, pack: &[Arc<Item>], block: &mut Block) -> (Vec<PackItem>, usize) {
    let _busy = shared.stages.read.busy();
    let mut items = Vec::with_capacity(pack.len());
    let mut filled = 0;
    for item in pack {
        let length = item.size() as usize;
        let target = &mut block[filled..filled + length];
        match read_whole(item, target) {
            Ok(()) => {
                let digest = *blake3::hash(target).as_bytes();
                shared.ledger.set_digest(item.entry.id, FileDigest::Blake3(digest));
                items.push(PackItem { id: item.entry.id, length: length as u32, digest });
                filled += length;
            }
            Err(given_up) => shared.give_up(item, given_up),
        }
    }
    (items, filled)
}

/// Reads the file into `target`, which has the announced length; refuses a file that has changed.
fn read_whole(item: &Item, target: &mut [u8]) -> Result<(), GivenUp> {
    let (file, stat) = item.directory.open_file(&item.name).map_err(|error| unopened(&error))?;
    let EntryKind::File { version: announced, .. } = item.entry.kind else {
        return Err(changed());
    };
    if version(&stat) != announced {
        return Err(changed());
    }
    let read = match file.read_exact_at(target, 0) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(changed()),
        Err(error) => Err(unreadable(format!("it cannot be read: {error}"))),
    };
    read?;
    let after = icdc_disk::tree::Stat::of(&file)
        .map_err(|error| unreadable(format!("its size and time cannot be read: {error}")))?;
    if version(&after) == announced { Ok(()) } else { Err(changed()) }
}
