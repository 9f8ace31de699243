//! Expands the compressed payloads that have arrived, on the threads that compare digests.
//!
//! As many threads expand at a time as there are expanders: at most one for each hashing thread, and
//! fewer where memory is limited. What a frame stands for takes its place in its block of the ring.

use std::sync::atomic::{AtomicU64, Ordering};

use icdc_protocol::compression::{EXPANDER_MEMORY, Expander, NotExpanded};
use icdc_units::ByteCount;

use crate::codecs::Codecs;
use crate::{processors, resources};

/// The expanders of a session, and sums over the payloads for them.
pub(super) struct Expanding {
    expanders: Codecs<Expander>,
    plain: AtomicU64,
    frames: AtomicU64,
}

/// A payload that has arrived compressed.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Length of the frame, in bytes.
    pub(super) length: usize,
    /// Length of what it stands for, in bytes.
    pub(super) plain: usize,
}

impl Expanding {
    /// Expanders as the host's processors and memory limits permit.
    pub(super) fn new() -> Self {
        let number = resources::codecs(processors::hashers(), EXPANDER_MEMORY).max(1);
        Self { expanders: Codecs::new(number), plain: AtomicU64::new(0), frames: AtomicU64::new(0) }
    }

    /// Counts a frame that has arrived.
    pub(super) fn note(&self, frame: Frame) {
        self.frames.fetch_add(frame.length as u64, Ordering::Relaxed);
        self.plain.fetch_add(frame.plain as u64, Ordering::Relaxed);
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

    /// Replaces the frame at the start of `block` by the bytes that it stands for; an error as
    /// [`Expander::expand`] has it.
    pub(super) fn expand(&self, block: &mut [u8], frame: Frame) -> Result<(), NotExpanded> {
        self.expanders.with(|expander| expander.expand(block, frame.length, frame.plain))
    }
}
