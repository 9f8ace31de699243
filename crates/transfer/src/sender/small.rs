//! Packs small files, many to a block: one frame carries hundreds of them.
//!
//! Several packers work at once, because opening and reading small files waits for the medium, not
//! for the processor.

use std::cmp::Ordering;

use crossbeam_channel::Receiver as Queue;
use icdc_disk::Block;
use icdc_disk::tree::Stat;
use icdc_link::Parcel;
use icdc_protocol::message::{EntryId, GivenUp, Message, PackItem};

use super::executor::{Contents, Executor};
use super::given_up::{resized, unopened, unreadable};
use super::misstated::{self, misstated};
use super::source_version::{is_another, version};

/// Number of threads that pack small files at once.
pub(super) const PACKERS: usize = 10;

/// Reads and packs small files until the queue is closed or the session ends.
pub(super) fn run(executor: &Executor<'_>, queue: &Queue<Vec<EntryId>>) {
    for pack in queue {
        let Ok(mut block) = executor.pool.take() else { return };
        let (items, length) = fill(executor, &executor.contents_of(&pack), &mut block);
        if !items.is_empty() {
            executor.with(|machine| machine.on_packed(&items));
            let parcel = Parcel { message: Message::Pack(items), payload: Some((block, length).into()) };
            let busy = executor.stages.hash.busy();
            let parcel = executor.compressing.compressed_pack(executor.takes_compressed(), parcel);
            drop(busy);
            if executor.queue_data(parcel).is_none() {
                return;
            }
        }
    }
}

/// Reads the files of a pack into `block`, back to back; returns those that could be read, and the
/// number of bytes filled.
fn fill(executor: &Executor<'_>, pack: &[Contents], block: &mut Block) -> (Vec<PackItem>, usize) {
    let _busy = executor.stages.read.busy();
    let mut items = Vec::with_capacity(pack.len());
    let mut filled = 0;
    for file in pack {
        let length = file.size as usize;
        let target = &mut block[filled..filled + length];
        match read_whole(file, target) {
            Ok(()) => {
                let digest = *blake3::hash(target).as_bytes();
                items.push(PackItem { id: file.id, length: length as u32, digest });
                filled += length;
            }
            Err(given_up) => executor.give_up(file.id, given_up),
        }
    }
    (items, filled)
}

/// Reads the file into `target`, which has the announced length; refuses a file that has changed,
/// or has another length than its file system states.
fn read_whole(contents: &Contents, target: &mut [u8]) -> Result<(), GivenUp> {
    if let Some(held) = &contents.held {
        target.copy_from_slice(held);
        return Ok(());
    }
    let (file, stat) =
        contents.directory.open_file(&contents.name).map_err(|error| unopened(&error, || is_another(contents)))?;
    if version(&stat) != contents.version {
        return Err(resized(contents.size, stat.size));
    }
    let length =
        misstated::read_whole(&file, target).map_err(|error| unreadable(format!("it cannot be read: {error}")))?;
    let after = Stat::of(&file).map_err(|error| unreadable(format!("its size and time cannot be read: {error}")))?;
    match length {
        _ if version(&after) != contents.version => Err(resized(contents.size, after.size)),
        Ordering::Equal => Ok(()),
        length => Err(misstated(length, contents.size)),
    }
}
