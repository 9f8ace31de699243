//! Failures of items, by the error of the system.

use std::io;

use icdc_disk::tree::{Directory, TreeError};
pub(super) use icdc_session::Failure;

/// Failure of the item at `path`, in which the system call `call` (write, read or flush) failed.
pub(super) fn of_disk(path: &str, call: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::full(path),
        _ => Failure::Passing(format!("{path}: {call}: {error}")),
    }
}

/// Failure of an item that is written at its place, in a `what` (device, file) of which parts may have been
/// written.
pub(super) fn inconsistent(failure: Failure, what: &str) -> Failure {
    failure.map_reason(|reason| {
        format!(
            "{reason}; the {what} may have parts of its old and of its new contents until a run succeeds: run the same command again"
        )
    })
}

/// Failure of an item whose name could not be made, changed or looked up.
pub(super) fn of_tree(error: &TreeError) -> Failure {
    let is_disk = match error {
        TreeError::System { cause, .. } => is_of_medium(cause),
        other => other.is_out_of_space(),
    };
    let reason = error.to_string();
    if is_disk { Failure::Passing(reason) } else { Failure::Final(reason) }
}

/// Failure of the item at `path` because its directory was removed meanwhile; `None` if the
/// directory exists.
pub(super) fn of_removed(directory: &Directory, path: &str) -> Option<Failure> {
    let is_removed = directory.own_stat().is_ok_and(|stat| stat.nlink == 0);
    let reason = "the directory that it was to be in has been removed meanwhile; run the same command again";
    is_removed.then(|| format!("{path}: {reason}").into())
}

/// Whether the error means that the storage medium, or the server that holds it, failed.
fn is_of_medium(cause: &io::Error) -> bool {
    use rustix::io::Errno;
    let errors = [Errno::IO, Errno::STALE, Errno::TIMEDOUT, Errno::HOSTDOWN, Errno::REMOTEIO];
    cause.raw_os_error().is_some_and(|code| errors.iter().any(|errno| errno.raw_os_error() == code))
}
