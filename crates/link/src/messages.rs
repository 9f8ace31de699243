//! Receiving where only messages travel.

use icdc_disk::pool::BlockPool;
use icdc_protocol::Message;

use crate::error::LinkError;
use crate::halves::Inlet;

/// Receives a message that carries no payload.
///
/// # Errors
/// As [`Inlet::receive`]; a payload is [`LinkError::Stopped`].
pub fn receive(inlet: &mut dyn Inlet) -> Result<Message, LinkError> {
    // A pool that has no block to give: where payloads are not expected, none is taken in.
    inlet.receive(&BlockPool::without_blocks()).map(|parcel| parcel.message)
}
