//! No disk: reads give zeros, writes go nowhere, and all is done at once.
//!
//! What is left of a transfer then is everything but its disks. A block is filled with zeros when
//! it is first read into, so that its memory is there; later reads leave what it has, as a disk's
//! own transfer takes no processor time.

use std::collections::{HashSet, VecDeque};

use super::contract::Engine;
use super::job::{Completion, Job, JobKind};

/// A disk engine that uses no disk: reads give zeros, and writes are discarded.
#[derive(Default)]
pub(super) struct NoDisk {
    finished: VecDeque<Completion>,
    /// Addresses of blocks that have been filled.
    filled: HashSet<usize>,
}

impl Engine for NoDisk {
    fn submit(&mut self, tag: u64, job: Job) {
        self.finished.push_back(match job {
            Job::Read { length, mut block, .. } => {
                if self.filled.insert(block.as_ptr() as usize) {
                    block.fill(0);
                }
                Completion { tag, kind: JobKind::Read, block: Some(block), result: Ok(length) }
            }
            Job::Write { length, block, .. } => {
                Completion { tag, kind: JobKind::Write, block: Some(block), result: Ok(length) }
            }
            Job::Sync { .. } => Completion { tag, kind: JobKind::Sync, block: None, result: Ok(0) },
        });
    }

    fn wait(&mut self) -> Option<Completion> {
        self.finished.pop_front()
    }

    fn try_wait(&mut self) -> Option<Completion> {
        self.finished.pop_front()
    }

    fn in_flight(&self) -> usize {
        self.finished.len()
    }

    fn depth(&self) -> usize {
        usize::MAX
    }

    fn name(&self) -> &'static str {
        "none"
    }
}
