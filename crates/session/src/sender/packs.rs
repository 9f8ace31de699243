//! Small files, many to a block: one frame carries hundreds of them.
//!
//! A pack travels over one connection, and the windows of several open side by side only where each
//! of them has something to send. So packs are small at first, when little is wanted yet. Later
//! they are not: each takes a block of the receiver's ring.
//!
//! ```text
//! bytes of a pack = bytes packed so far / 32, no less than 64 KiB, no more than a block
//! ```

use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::EntryId;
use icdc_units::ByteCount;

/// Most files in one pack: enough to make a frame cheap, few enough that several packers have work.
const MOST: usize = 256;
/// Number of packs in which the bytes so far would travel: two for each of as many connections as a
/// session begins with.
const SHARE: u64 = 32;
/// Size of the smallest packs: a connection's initial window takes a quarter of it.
const LEAST: ByteCount = ByteCount::from_kib(64);

/// Groups a session's small files into packs, each of which travels in one frame. Packs
/// begin small and grow with the bytes that were packed before.
#[derive(Debug, Default)]
pub(super) struct Packs {
    /// Number of bytes that were split into packs so far.
    packed: ByteCount,
}

impl Packs {
    /// Splits wanted files, each with its size, into packs.
    pub(super) fn split(&mut self, files: impl IntoIterator<Item = (EntryId, ByteCount)>) -> Vec<Vec<EntryId>> {
        let mut packs: Vec<Vec<EntryId>> = Vec::new();
        let mut room = ByteCount::ZERO;
        for (id, size) in files {
            match packs.last_mut() {
                Some(pack) if pack.len() < MOST && size <= room => {
                    room -= size;
                    pack.push(id);
                }
                _ => {
                    room = (self.packed / SHARE).max(LEAST).min(ByteCount::from(BLOCK_SIZE)) - size;
                    packs.push(vec![id]);
                }
            }
            self.packed += size;
        }
        packs
    }
}
