//! Expands the compressed payloads that have arrived, on the threads that compare digests.
//!
//! As many threads expand at a time as there are expanders: at most one for each hashing thread, and
//! fewer where memory is limited. What a frame stands for takes its place in its block of the ring.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver as Queue, Sender as Channel, bounded};
use icdc_protocol::compression::{EXPANDER_MEMORY, Expander, NotExpanded};
use icdc_units::ByteCount;

use crate::{processors, resources};

/// The expanders of a session, and sums over the payloads for them.
pub(super) struct Expanding {
    /// Expanders that no thread uses at present.
    idle: (Channel<Expander>, Queue<Expander>),
    plain: AtomicU64,
    frames: AtomicU64,
}

impl Expanding {
    /// Expanders as the host's processors and memory limits permit.
    pub(super) fn new() -> Self {
        let number = resources::codecs(processors::hashers(), EXPANDER_MEMORY).max(1);
        let idle = bounded(number);
        (0..number).for_each(|_| idle.0.send(Expander::default()).expect("it has room for all"));
        Self { idle, plain: AtomicU64::new(0), frames: AtomicU64::new(0) }
    }

    /// Counts a frame of this length that has arrived, and the length of what it stands for.
    pub(super) fn note(&self, plain: usize, frame: usize) {
        self.frames.fetch_add(frame as u64, Ordering::Relaxed);
        self.plain.fetch_add(plain as u64, Ordering::Relaxed);
    }

    /// Number of bytes that the frames stand for, and of their own.
    pub(super) fn sums(&self) -> (u64, u64) {
        (self.plain.load(Ordering::Relaxed), self.frames.load(Ordering::Relaxed))
    }

    /// Bytes that the frames stand for beyond their own number.
    pub(super) fn saved(&self) -> ByteCount {
        let (plain, frames) = self.sums();
        ByteCount::new(plain) - ByteCount::new(frames)
    }

    /// Replaces the frame at the start of `block` by the `plain` bytes that it stands for; an error as
    /// [`Expander::expand`] has it.
    pub(super) fn expand(&self, block: &mut [u8], frame: usize, plain: usize) -> Result<(), NotExpanded> {
        let (give_back, idle) = &self.idle;
        let mut expander = idle.recv().expect("the sending end is here");
        let expanded = expander.expand(block, frame, plain);
        give_back.send(expander).expect("the receiving end is here");
        expanded
    }
}
