//! Advisory locks on files.

use std::fs::File;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Takes the exclusive advisory lock on `file` if it is free; false if it is held by another
/// opening of the file, of this process or another. The lock lasts until the last descriptor of
/// this opening is closed.
///
/// # Errors
/// Other errors of `flock`.
pub fn try_lock(file: &File) -> std::io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Releases the advisory lock on `file`.
///
/// # Errors
/// Error of `flock`.
pub fn unlock(file: &File) -> std::io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::Unlock)?)
}
