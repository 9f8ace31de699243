//! Unit of a link: a message with its payload.

use std::ops::{Deref, Range};
use std::sync::Arc;

use icdc_disk::BlockPool;
use icdc_disk::pool::{Block, Closed};
use icdc_protocol::Message;

/// Unit of transport over a link: one message with its payload.
#[derive(Debug)]
pub struct Parcel {
    /// The message (head of the frame).
    pub message: Message,
    /// Payload that follows the message; `None` for none.
    pub payload: Option<Payload>,
}

/// Payload bytes that follow a message.
#[derive(Debug)]
pub enum Payload {
    /// The first bytes of a block, and their number; the rest of the block is ignored.
    Own(Block, usize),
    /// A range of a block that other parcels carry as well.
    Shared(Arc<Block>, Range<usize>),
}

impl Parcel {
    /// Number of payload bytes; 0 without a payload.
    #[must_use]
    pub fn payload_length(&self) -> usize {
        self.payload.as_ref().map_or(0, |payload| payload.len())
    }
}

impl From<Message> for Parcel {
    fn from(message: Message) -> Self {
        Self { message, payload: None }
    }
}

impl Payload {
    /// The payload at the start of a block of its own, and its length; copied to a block from
    /// `pool` if other parcels carry the block as well.
    ///
    /// # Errors
    /// If the pool is closed and a block of it is needed.
    pub fn into_block(self, pool: &BlockPool) -> Result<(Block, usize), Closed> {
        match self {
            Self::Own(block, length) => Ok((block, length)),
            Self::Shared(of, range) => {
                let (mut block, length) = (pool.take()?, range.len());
                block[..length].copy_from_slice(&of[range]);
                Ok((block, length))
            }
        }
    }
}

impl From<(Block, usize)> for Payload {
    fn from((block, length): (Block, usize)) -> Self {
        Self::Own(block, length)
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(block, length) => &block[..*length],
            Self::Shared(block, range) => &block[range.clone()],
        }
    }
}
