//! Puts frames together from a stream of bytes that arrives in pieces of any size.
//!
//! ```text
//!          prefix and head complete,      payload complete
//!          payload announced: take block
//! Head ───────────────────────────────► Payload ─────────► parcel
//!   └── complete without payload ──────────────────────────► parcel
//! ```
//!
//! A head grows as it arrives, never by the length that its prefix claims. Payload bytes either
//! come through [`Assembler::feed`], which copies them, or are written by the caller into
//! [`Assembler::payload_room`].

use icdc_disk::pool::{Block, BlockPool};
use icdc_protocol::Message;
use icdc_protocol::frame::{self, PREFIX_LENGTH, Prefix};

use crate::error::LinkError;
use crate::parcel::{Parcel, Payload};

/// Parser that puts frames together from a stream of bytes that arrives in pieces of any size.
#[derive(Default)]
pub(crate) struct Assembler {
    head: Vec<u8>,
    body: Option<Body>,
}

/// A frame whose payload is being received.
struct Body {
    message: Message,
    block: Block,
    filled: usize,
    length: usize,
}

impl Assembler {
    /// Takes bytes up to the end of the current frame; returns how many it took, and the parcel if
    /// they complete it.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub(crate) fn feed(&mut self, bytes: &[u8], pool: &BlockPool) -> Result<(usize, Option<Parcel>), LinkError> {
        if let Some(body) = &mut self.body {
            let take = bytes.len().min(body.length - body.filled);
            body.block[body.filled..][..take].copy_from_slice(&bytes[..take]);
            return Ok((take, self.payload_arrived(take)));
        }
        let mut taken = self.grow_head(bytes, PREFIX_LENGTH);
        let Some(prefix) = self.head.first_chunk() else { return Ok((taken, None)) };
        let Prefix { head, payload } = Prefix::parse(prefix)?;
        taken += self.grow_head(&bytes[taken..], PREFIX_LENGTH + head);
        if self.head.len() < PREFIX_LENGTH + head {
            return Ok((taken, None));
        }
        let message = frame::decode_head(&self.head[PREFIX_LENGTH..], payload)?;
        self.head.clear();
        if payload == 0 {
            return Ok((taken, Some(message.into())));
        }
        let block = pool.take().map_err(|_| LinkError::Stopped)?;
        self.body = Some(Body { message, block, filled: 0, length: payload });
        Ok((taken, None))
    }

    /// Space for the payload being received: the block from the next payload byte on, and the
    /// number of payload bytes that are missing; `None` if no payload is being received. The rest
    /// of the block may be overwritten.
    pub(crate) fn payload_room(&mut self) -> Option<(&mut [u8], usize)> {
        let body = self.body.as_mut()?;
        Some((&mut body.block[body.filled..], body.length - body.filled))
    }

    /// Counts payload bytes that the caller wrote into the space; returns the parcel if they
    /// complete it, `None` if more are missing or no payload is being received.
    pub(crate) fn payload_arrived(&mut self, count: usize) -> Option<Parcel> {
        let body = self.body.as_mut()?;
        body.filled += count;
        if body.filled < body.length {
            return None;
        }
        let Body { message, block, length, .. } = self.body.take()?;
        Some(Parcel { message, payload: Some(Payload::Own(block, length)) })
    }

    /// Whether the next bytes are payload of a frame.
    pub(crate) fn is_in_payload(&self) -> bool {
        self.body.is_some()
    }

    /// Whether nothing of an unfinished frame has arrived.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.head.is_empty() && self.body.is_none()
    }

    /// Takes bytes into the head until that has `until` bytes; returns how many it took.
    fn grow_head(&mut self, bytes: &[u8], until: usize) -> usize {
        let take = bytes.len().min(until.saturating_sub(self.head.len()));
        self.head.extend_from_slice(&bytes[..take]);
        take
    }
}
