//! Counters of a whole relay since its start, and its present levels.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of the relay, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) unreachable: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) aborted: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) bytes_up: AtomicU64,
    pub(crate) bytes_down: AtomicU64,
    pub(crate) nanos_for_near: AtomicU64,
    pub(crate) nanos_for_far: AtomicU64,
    /// Levels of each worker, as it last set them.
    levels: Vec<Levels>,
}

/// Present levels of one worker: bytes buffered, and number of connections that hold some of them.
#[derive(Debug, Default)]
struct Levels {
    buffered: AtomicU64,
    holders: AtomicU64,
}

impl Counters {
    /// Counters of this number of workers; all zero.
    pub(crate) fn new(workers: usize) -> Self {
        Self { levels: std::iter::repeat_with(Levels::default).take(workers).collect(), ..Self::default() }
    }

    /// Sets the levels of one worker: bytes buffered, and connections that have some.
    pub(crate) fn set_levels(&self, worker: usize, buffered: u64, holders: u64) {
        self.levels[worker].buffered.store(buffered, Relaxed);
        self.levels[worker].holders.store(holders, Relaxed);
    }

    /// Bytes buffered in the relay, in all threads.
    pub(crate) fn buffered(&self) -> u64 {
        self.levels.iter().map(|levels| levels.buffered.load(Relaxed)).sum()
    }

    /// Number of connections that have buffered bytes.
    pub(crate) fn holders(&self) -> u64 {
        self.levels.iter().map(|levels| levels.holders.load(Relaxed)).sum()
    }
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
