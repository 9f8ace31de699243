//! Rights to list and to change policies.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use icdc_tcp::congestion::{self, PINS};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use crate::policy::PolicyError;

/// Checks that this kernel, process and build support policies; else the obstacle is the error.
///
/// # Errors
/// The obstacle.
pub(super) fn may() -> Result<(), PolicyError> {
    congestion::ebpf_obstacle().map_or(Ok(()), |obstacle| Err(PolicyError::Obstacle(obstacle)))
}

/// Waits for the exclusive lock on the directory of pins, which is held until the result is dropped
/// and gives the right to change policies. An error if the directory cannot be opened or belongs to
/// another user.
pub(super) fn lock() -> Result<File, PolicyError> {
    let failed =
        |call, reason: std::io::Error| PolicyError::Call { path: PINS.into(), call, reason: reason.to_string() };
    let pins = File::open(PINS).map_err(|error| failed("open", error))?;
    // Everybody may make directories in some BPF file systems: what is in another user's is not to
    // be believed or removed.
    let owner = pins.metadata().map_err(|error| failed("fstat", error))?.uid();
    if owner != geteuid().as_raw() {
        let reason = format!("it belongs to user {owner}, not to this one: run as that user, or remove it");
        return Err(failed("open", std::io::Error::other(reason)));
    }
    flock(&pins, FlockOperation::LockExclusive).map_err(|errno| failed("flock", errno.into()))?;
    Ok(pins)
}
