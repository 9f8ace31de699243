//! Frames: the encoding of messages in the byte stream.
//!
//! ```text
//! prefix (8 bytes)                       head            payload
//! ┌──────────────────┬──────────────────┬───────────────┬────────────────────────────┐
//! │ head length      │ payload length   │ postcard of   │ data of blocks and packs   │
//! │ u32 LE, 1..=1 Mi │ u32 LE, 0..=4 Mi │ the message   │ (others: nothing)          │
//! └──────────────────┴──────────────────┴───────────────┴────────────────────────────┘
//! ```
//!
//! Both lengths are checked before anything is allocated for them. Decoding the longest head takes
//! at most some 50 MiB for a moment, whatever it says: a count that claims more elements than bytes
//! follow reserves nothing.

use crate::limits::{MAX_HEAD, MAX_PAYLOAD};
use crate::message::{Entry, Message};
use crate::validate::{self, Violation};

/// Length of a prefix in bytes.
pub const PREFIX_LENGTH: usize = 8;

/// Reason for which a frame cannot be written or is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame has no message.
    #[error("the frame has no head; the other end does not speak icdc's protocol")]
    NoHead,
    /// The head would be, or claims to be, too long.
    #[error("the head of the frame has {length} bytes, more than the {MAX_HEAD} allowed")]
    HeadTooLong {
        /// Length of the head in bytes.
        length: usize,
    },
    /// The payload would be, or claims to be, too long.
    #[error("the payload of the frame has {length} bytes, more than the {MAX_PAYLOAD} allowed")]
    PayloadTooLong {
        /// Length of the payload in bytes.
        length: usize,
    },
    /// The head is not a message.
    #[error("the head of the frame is not a message ({0}); both ends must run compatible releases of icdc")]
    Malformed(postcard::Error),
    /// The head contains bytes after the message.
    #[error(
        "the head of the frame has {excess} bytes after its message; both ends must run compatible releases of icdc"
    )]
    Trailing {
        /// Number of bytes after the message.
        excess: usize,
    },
    /// The message breaks a rule of the protocol.
    #[error("the other end broke the protocol: {0}")]
    Violation(#[from] Violation),
}

/// The two lengths at the start of a frame, within their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Length of the head in bytes, 1 to [`MAX_HEAD`].
    pub head: usize,
    /// Length of the payload in bytes, up to [`MAX_PAYLOAD`].
    pub payload: usize,
}

impl Prefix {
    /// Decodes the prefix of a frame.
    ///
    /// # Errors
    /// If one of the lengths is out of bounds.
    pub fn parse(bytes: &[u8; PREFIX_LENGTH]) -> Result<Self, FrameError> {
        let [h0, h1, h2, h3, p0, p1, p2, p3] = *bytes;
        Self::new(u32::from_le_bytes([h0, h1, h2, h3]) as usize, u32::from_le_bytes([p0, p1, p2, p3]) as usize)
    }

    /// The prefix with these lengths, in bytes; fails if there is no head, or one of them is too
    /// long.
    fn new(head: usize, payload: usize) -> Result<Self, FrameError> {
        if head == 0 {
            return Err(FrameError::NoHead);
        }
        if head > MAX_HEAD {
            return Err(FrameError::HeadTooLong { length: head });
        }
        if payload > MAX_PAYLOAD {
            return Err(FrameError::PayloadTooLong { length: payload });
        }
        Ok(Self { head, payload })
    }

    fn to_bytes(self) -> [u8; PREFIX_LENGTH] {
        let lengths = (self.payload as u64) << 32 | self.head as u64;
        lengths.to_le_bytes()
    }
}

/// Appends prefix and head of a frame to `out`; the caller appends the payload of `payload_length`
/// bytes.
///
/// # Errors
/// If a length is out of bounds; `out` is then unchanged. Texts for people are cut to the length
/// that the other end accepts. The other rules of [`validate`] are checked by the end that decodes
/// the message.
pub fn encode(message: &Message, payload_length: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    let head_start = start + PREFIX_LENGTH;
    out.resize(head_start, 0);
    let written = postcard::to_io(&*message.within_limits(), &mut *out)
        .map_err(FrameError::Malformed)
        .map(drop)
        .and_then(|()| Prefix::new(out.len() - head_start, payload_length));
    match written {
        Ok(prefix) => out[start..head_start].copy_from_slice(&prefix.to_bytes()),
        Err(_) => out.truncate(start),
    }
    written.map(drop)
}

/// Decodes a head whose frame has a payload of `payload_length` bytes.
///
/// # Errors
/// If it is not exactly one message, or one that breaks a rule of [`validate`].
pub fn decode_head(head: &[u8], payload_length: usize) -> Result<Message, FrameError> {
    let (message, rest) = postcard::take_from_bytes::<Message>(head).map_err(FrameError::Malformed)?;
    if !rest.is_empty() {
        return Err(FrameError::Trailing { excess: rest.len() });
    }
    validate::message(&message, payload_length)?;
    Ok(message)
}

/// Length in bytes of an entry in the head of an [`Message::Entries`]; a sender fills messages up
/// to [`MAX_HEAD`] less [`ENTRIES_OVERHEAD`] by it.
#[must_use]
pub fn entry_length(entry: &Entry) -> usize {
    postcard::experimental::serialized_size(entry).expect("an entry in memory has a finite encoding")
}

/// Most bytes that the head of [`Message::Entries`] takes beside its entries.
pub const ENTRIES_OVERHEAD: usize = 16;
