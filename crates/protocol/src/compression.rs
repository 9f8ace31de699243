//! Compression of payloads by zstd, each by itself: no payload refers to another.
//!
//! ```text
//! Block, Difference, Assembled, Pack   payload: p bytes
//!         │  compress                        z ≤ p − p/16, or it stays as it is
//!         ▼
//! Compressed { length: p, … }  payload: one zstd frame of z bytes
//!         │  expand                          exactly p bytes, nothing behind the frame
//!         ▼
//! what it was, whose digests are compared as always
//! ```
//!
//! Digests are of what is not compressed. A frame is expanded into a buffer of the length that the
//! message states, which its rules bound, so no frame takes more memory than the block that it was
//! received into, whatever it claims. Format: RFC 8878.

use std::io;

use icdc_units::ByteCount;
use serde::{Deserialize, Serialize};
use zstd::bulk;
use zstd::zstd_safe::find_frame_compressed_size;

use crate::limits::MAX_PAYLOAD;
use crate::message::{Assembled, BlockHeader, Message, PackItem};

/// Highest level of compression: those above need much more memory for each thread.
pub const MAX_LEVEL: u8 = 19;

/// Reciprocal of the share of a payload that has to be saved for it to travel compressed.
const LEAST_SAVING: usize = 16;

/// Shortest payload that is compressed, in bytes: a few packets save no time.
pub const LEAST_LENGTH: usize = 4 << 10;

/// The user's choice of compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compress {
    /// While the network limits, processors are idle, and the data shrinks.
    #[default]
    Auto,
    /// Never.
    Never,
    /// Always at this level of zstd, 1 to [`MAX_LEVEL`], what shrinks by it.
    Level(u8),
}

/// Reason for which data travels as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uncompressed {
    /// The receiver does not know compression.
    OlderEnd,
    /// A disk limits the rate.
    Disk,
    /// No processor is idle, or compressing takes longer than sending.
    Processor,
    /// The data does not shrink.
    Data,
    /// The sending end may not have the memory that it takes.
    Memory,
}

/// A payload that travels compressed, with the message that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compressed {
    /// Length of what is compressed, in bytes: the payload that the message has otherwise.
    pub length: u32,
    /// The message.
    pub of: Compressible,
}

/// The messages whose payloads may travel compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compressible {
    /// As [`Message::Block`].
    Block(BlockHeader),
    /// As [`Message::Difference`].
    Difference(BlockHeader),
    /// As [`Message::Pack`].
    Pack(Vec<PackItem>),
    /// As [`Message::Assembled`].
    Assembled(Assembled),
}

impl Compressible {
    /// The message, if its payload may travel compressed; otherwise it is given back as the error.
    ///
    /// # Errors
    /// Any message that is none of these.
    pub fn of(message: Message) -> Result<Self, Box<Message>> {
        match message {
            Message::Block(header) => Ok(Self::Block(header)),
            Message::Difference(header) => Ok(Self::Difference(header)),
            Message::Pack(items) => Ok(Self::Pack(items)),
            Message::Assembled(assembled) => Ok(Self::Assembled(assembled)),
            other => Err(Box::new(other)),
        }
    }
}

impl From<Compressible> for Message {
    fn from(of: Compressible) -> Self {
        match of {
            Compressible::Block(header) => Self::Block(header),
            Compressible::Difference(header) => Self::Difference(header),
            Compressible::Pack(items) => Self::Pack(items),
            Compressible::Assembled(assembled) => Self::Assembled(assembled),
        }
    }
}

impl From<Compressed> for Message {
    fn from(compressed: Compressed) -> Self {
        Self::Compressed(compressed)
    }
}

/// Upper bound of the memory of a [`Compressor`] that is used up to this level: what zstd takes for a
/// payload of the greatest length, and the frame.
#[must_use]
pub fn compressor_memory(level: u8) -> ByteCount {
    let of_zstd = match level {
        0..=3 => ByteCount::from_mib(2),
        4..=8 => ByteCount::from_mib(12),
        _ => ByteCount::from_mib(76),
    };
    of_zstd + ByteCount::from(MAX_PAYLOAD)
}

/// Upper bound of the memory of an [`Expander`]: the longest frame, and the state of zstd, which has
/// some 100 KB and no window, as what a frame stands for is written to its place at once.
pub const EXPANDER_MEMORY: ByteCount = ByteCount::from_mib(MAX_PAYLOAD as u64 / (1 << 20) + 1);

/// Compresses payloads. Its memory, at most [`compressor_memory`], is taken with the first use and kept.
#[derive(Default)]
pub struct Compressor {
    /// The state of zstd and its level; `None` before the first use.
    state: Option<(bulk::Compressor<'static>, u8)>,
    /// The result of the last compression.
    frame: Vec<u8>,
}

impl Compressor {
    /// The frame that `payload` becomes at this level; `None` where that would save little, or zstd
    /// has no memory.
    pub fn compress(&mut self, payload: &[u8], level: u8) -> Option<&[u8]> {
        if payload.len() < LEAST_LENGTH {
            return None;
        }
        let most = payload.len() - payload.len() / LEAST_SAVING;
        self.frame.clear();
        self.frame.try_reserve_exact(most).ok()?;
        let (compressor, frame) = self.at(level).ok()?;
        // It may be as long as the vector's capacity.
        compressor.compress_to_buffer(payload, frame).ok().filter(|length| *length <= most)?;
        Some(&self.frame)
    }

    /// Length of the frame that `sample` becomes at this level, or that of the sample where it is
    /// less.
    pub fn measure(&mut self, sample: &[u8], level: u8) -> usize {
        self.compress(sample, level).map_or(sample.len(), <[u8]>::len)
    }

    /// The state of zstd at this level, and the room for the frame; an error where there is no memory.
    fn at(&mut self, level: u8) -> io::Result<(&mut bulk::Compressor<'static>, &mut Vec<u8>)> {
        let Self { state, frame } = self;
        let wanted = level.clamp(1, MAX_LEVEL);
        let (compressor, present) = match state {
            Some(state) => state,
            None => state.insert((bulk::Compressor::new(i32::from(wanted))?, wanted)),
        };
        if *present != wanted {
            compressor.set_compression_level(i32::from(wanted))?;
            *present = wanted;
        }
        Ok((compressor, frame))
    }
}

/// Expands payloads. Its memory, at most [`EXPANDER_MEMORY`], is taken with the first use and kept.
#[derive(Default)]
pub struct Expander {
    /// The state of zstd; `None` before the first use.
    state: Option<bulk::Decompressor<'static>>,
    /// The frame that is expanded, as what it stands for takes its place.
    frame: Vec<u8>,
}

/// A payload that is not what its message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its data is not {length} bytes in one zstd frame")]
pub struct NotExpanded {
    /// Length that the message states, in bytes.
    pub length: usize,
}

impl Expander {
    /// Replaces the frame of `compressed` bytes at the start of `block` by the `length` bytes that it
    /// stands for.
    ///
    /// # Errors
    /// It is not exactly one frame, stands for another number of bytes, is not shorter than that, or
    /// there is no memory. The content of the block is undefined then.
    pub fn expand(&mut self, block: &mut [u8], compressed: usize, length: usize) -> Result<(), NotExpanded> {
        let refused = NotExpanded { length };
        if compressed >= length || length > block.len() {
            return Err(refused);
        }
        self.frame.clear();
        self.frame.try_reserve_exact(compressed).map_err(|_| refused)?;
        self.frame.extend_from_slice(&block[..compressed]);
        if find_frame_compressed_size(&self.frame) != Ok(compressed) {
            return Err(refused);
        }
        let state = match &mut self.state {
            Some(state) => state,
            none => none.insert(bulk::Decompressor::new().map_err(|_| refused)?),
        };
        match state.decompress_to_buffer(&self.frame, &mut block[..length]) {
            Ok(expanded) if expanded == length => Ok(()),
            _ => Err(refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(length: usize) -> Vec<u8> {
        (0_u32..).flat_map(|line| format!("line {line} of {length}\n").into_bytes()).take(length).collect()
    }

    /// Bytes in which zstd finds nothing to save.
    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn expanded(frame: &[u8], length: usize) -> Result<Vec<u8>, NotExpanded> {
        let mut block = vec![0; 1 << 20];
        block[..frame.len()].copy_from_slice(frame);
        Expander::default().expand(&mut block, frame.len(), length).map(|()| block[..length].to_vec())
    }

    #[test]
    fn text_shrinks_at_every_level_and_noise_does_not() {
        let (text, mut compressor) = (text(300_000), Compressor::default());
        for level in [1, 3, MAX_LEVEL, 2] {
            let frame = compressor.compress(&text, level).unwrap().to_vec();
            assert!(frame.len() * 2 < text.len(), "{} bytes at level {level}", frame.len());
            assert_eq!(expanded(&frame, text.len()).unwrap(), text);
            assert_eq!(compressor.compress(&noise(300_000), level), None);
        }
        assert_eq!(compressor.measure(&noise(5000), 1), 5000);
        assert_eq!(compressor.compress(&[0; 100], 1), None, "too short to gain anything");
    }

    #[test]
    fn a_frame_stands_for_exactly_what_the_message_says() {
        let text = text(100_000);
        let frame = Compressor::default().compress(&text, 1).unwrap().to_vec();
        let refused = |frame: &[u8], length| assert_eq!(expanded(frame, length), Err(NotExpanded { length }));
        refused(&frame, text.len() - 1);
        refused(&frame, text.len() + 1);
        refused(&frame[..frame.len() - 1], text.len());
        refused(&[&frame[..], b"x"].concat(), text.len());
        refused(&[&frame[..], &frame].concat(), 2 * text.len());
        // A skippable frame of no bytes.
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
        refused(&[&frame[..], &skippable].concat(), text.len());
        refused(&skippable, 0);
        refused(&[], 0);
        refused(&text[..5000], text.len());
    }

    #[test]
    fn memory_keeps_to_its_bounds() {
        let mut payload = text(MAX_PAYLOAD);
        payload[..MAX_PAYLOAD / 4].copy_from_slice(&noise(MAX_PAYLOAD / 4));
        for level in 1..=MAX_LEVEL {
            let mut compressor = Compressor::default();
            let frame = compressor.compress(&payload, level).unwrap().to_vec();
            let (state, _) = compressor.state.as_mut().unwrap();
            let used = state.context_mut().sizeof() + compressor.frame.capacity();
            assert!(ByteCount::from(used) <= compressor_memory(level), "{used} bytes at level {level}");
            let (mut block, mut expander) = (vec![0; MAX_PAYLOAD], Expander::default());
            block[..frame.len()].copy_from_slice(&frame);
            expander.expand(&mut block, frame.len(), MAX_PAYLOAD).unwrap();
            assert!(block == payload);
            assert!(expander.frame.capacity() <= MAX_PAYLOAD);
        }
    }

    #[test]
    fn a_bomb_fills_no_more_than_the_stated_length() {
        let zeros = vec![0; 900_000];
        let frame = Compressor::default().compress(&zeros, 1).unwrap().to_vec();
        assert!(frame.len() < 200);
        let mut block = vec![7; 1000];
        block[..frame.len()].copy_from_slice(&frame);
        let outcome = Expander::default().expand(&mut block, frame.len(), 500);
        assert_eq!(outcome, Err(NotExpanded { length: 500 }));
        assert!(block[500..].iter().all(|byte| *byte == 7));
        let outcome = Expander::default().expand(&mut block, frame.len(), 900_000);
        assert_eq!(outcome, Err(NotExpanded { length: 900_000 }));
    }

    #[test]
    fn an_expander_goes_on_after_what_it_refused() {
        let text = text(50_000);
        let frame = Compressor::default().compress(&text, 3).unwrap().to_vec();
        let (mut expander, mut block) = (Expander::default(), vec![0; 60_000]);
        for broken in [true, false, true, false] {
            block[..frame.len()].copy_from_slice(&frame);
            if broken {
                block[frame.len() / 2] ^= 0xff;
            }
            let outcome = expander.expand(&mut block, frame.len(), text.len());
            assert!(outcome.is_err() || broken || block[..text.len()] == text[..]);
            assert!(broken || outcome.is_ok());
        }
    }

    proptest! {
        #[test]
        fn whatever_shrinks_comes_back(
            pieces in prop::collection::vec((any::<u8>(), 1..5000_usize, any::<bool>()), 1..40),
            level in 1..=5_u8,
        ) {
            let piece = |(byte, length, is_noise)| if is_noise { noise(length) } else { vec![byte; length] };
            let payload = pieces.into_iter().flat_map(piece).collect::<Vec<u8>>();
            let mut compressor = Compressor::default();
            if let Some(frame) = compressor.compress(&payload, level) {
                prop_assert!(frame.len() <= payload.len() - payload.len() / LEAST_SAVING);
                prop_assert_eq!(expanded(frame, payload.len()), Ok(payload));
            }
        }

        #[test]
        fn foreign_bytes_are_refused_or_have_the_stated_length(
            frame in prop::collection::vec(any::<u8>(), 0..200),
            is_zstd in any::<bool>(),
            length in 0..5000_usize,
        ) {
            let frame = if is_zstd { [&[0x28, 0xb5, 0x2f, 0xfd][..], &frame].concat() } else { frame };
            if let Ok(bytes) = expanded(&frame, length) {
                prop_assert_eq!(bytes.len(), length);
            }
        }
    }
}
