//! Blocks that have arrived and wait for the disk.

use std::sync::{Arc, Mutex};

use icdc_disk::Block;
use icdc_rate::disk_ceiling::{Backlog, Load};
use icdc_units::ByteCount;

use crate::clock;

/// Payload of a block that has arrived completely. It counts as waiting for the disk until it is
/// dropped.
pub(super) struct Arrived {
    pub(super) block: Block,
    pub(super) length: usize,
    pub(super) waits: WaitingBlock,
}

/// Counter of one session's blocks that have arrived and are not yet written to disk, for the
/// feedback to the sender.
#[derive(Clone, Default)]
pub(super) struct DiskQueue(Arc<Mutex<Backlog>>);

/// Counts one block as waiting for the disk until it is dropped: the block is written or discarded.
pub(super) struct WaitingBlock {
    waiting: DiskQueue,
    length: ByteCount,
}

const NO_PANIC: &str = "no panic while blocks are counted";

impl DiskQueue {
    /// Counts the block as waiting for the disk from now on; returns it with `length` bytes of
    /// data.
    pub(super) fn arrived(&self, block: Block, length: usize) -> Arrived {
        self.0.lock().expect(NO_PANIC).arrived(clock::now());
        Arrived { block, length, waits: WaitingBlock { waiting: self.clone(), length: ByteCount::from(length) } }
    }

    /// Number of blocks that wait for the disk at present, and the rate at which it takes them.
    pub(super) fn load(&self) -> Load {
        self.0.lock().expect(NO_PANIC).sample(clock::now())
    }
}

impl Drop for WaitingBlock {
    fn drop(&mut self) {
        // A panic of another thread has ended the session by itself.
        if let Ok(mut backlog) = self.waiting.0.lock() {
            backlog.left(clock::now(), self.length);
        }
    }
}
