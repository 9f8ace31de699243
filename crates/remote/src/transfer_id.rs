//! Names of runs.

use icdc_protocol::message::TransferId;
use rustix::rand::{GetRandomFlags, getrandom};

/// A random name for a run.
pub(crate) fn new_transfer() -> Result<TransferId, String> {
    let mut id = TransferId::default();
    let filled = getrandom(&mut id[..], GetRandomFlags::empty());
    match filled {
        Ok(length) if length == id.len() => Ok(id),
        Ok(_) => Err("the system gave too few random bytes".into()),
        Err(errno) => Err(format!("the system gave no random bytes: {errno}")),
    }
}
