//! Random identifiers of transfers.

use icdc_protocol::message::TransferId;

/// New random identifier of a transfer; an error if the system gives no random bytes.
pub(crate) fn new_transfer() -> Result<TransferId, String> {
    let mut id = TransferId::default();
    getrandom::fill(&mut id[..]).map_err(|error| format!("the system gave no random bytes: {error}"))?;
    Ok(id)
}
