//! Names of runs.

use icdc_protocol::message::TransferId;

/// A random name for a run.
pub(crate) fn new_transfer() -> Result<TransferId, String> {
    let mut id = TransferId::default();
    getrandom::fill(&mut id[..]).map_err(|error| format!("the system gave no random bytes: {error}"))?;
    Ok(id)
}
