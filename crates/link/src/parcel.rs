//! What travels over a link.

use icdc_disk::pool::Block;
use icdc_protocol::Message;

/// One message with its payload.
#[derive(Debug)]
pub struct Parcel {
    /// The head.
    pub message: Message,
    /// The first so many bytes of the block; what follows them in the block means nothing.
    pub payload: Option<(Block, usize)>,
}

impl Parcel {
    /// Bytes of payload.
    #[must_use]
    pub fn payload_length(&self) -> usize {
        self.payload.as_ref().map_or(0, |(_, length)| *length)
    }
}

impl From<Message> for Parcel {
    fn from(message: Message) -> Self {
        Self { message, payload: None }
    }
}
