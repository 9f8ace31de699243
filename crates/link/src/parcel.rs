//! Unit of a link: a message with its payload.

use std::ops::{Deref, Range};
use std::sync::Arc;

use icdc_disk::BlockPool;
use icdc_disk::pool::{Block, Closed};
use icdc_protocol::Message;

/// One message with its payload.
#[derive(Debug)]
pub struct Parcel {
    /// The head.
    pub message: Message,
    /// Payload that follows the message.
    pub payload: Option<Payload>,
}

/// The bytes that follow a message.
#[derive(Debug)]
pub enum Payload {
    /// The first bytes of a block, and their number; the rest of the block is ignored.
    Own(Block, usize),
    /// A range of a block that other parcels carry as well.
    Shared(Arc<Block>, Range<usize>),
}

impl Parcel {
    /// Bytes of payload.
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
    /// The payload at the start of a block of its own, and its length; one from `pool` where others
    /// carry the block as well.
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
