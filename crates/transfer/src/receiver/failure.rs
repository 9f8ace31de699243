//! Why an item is not done, and whether the same command goes on with it later.

use std::io;

use icdc_disk::tree::TreeError;

/// Why an item is not done.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// A later run begins it anew: nothing of it is kept.
    Final(String),
    /// The reason may be gone when the same command is run again, as where the disk was full: what is durable is kept.
    Passing(String),
}

impl Failure {
    /// A write, a read or a flush of the item at `path` failed.
    pub(super) fn of_disk(path: &str, call: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::full(path),
            _ => Self::Passing(format!("{path}: {call}: {error}")),
        }
    }

    /// There is no room for the item at `path`.
    pub(super) fn full(path: &str) -> Self {
        Self::Passing(format!("{path}: the disk is full; make room and run the same command again"))
    }

    /// The same failure of an item of which enough is durable to be worth keeping.
    pub(super) fn passing(self) -> Self {
        Self::Passing(self.into_reason())
    }

    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Passing(_))
    }

    /// Sentence for the user.
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::Final(reason) | Self::Passing(reason) => reason,
        }
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Final(reason)
    }
}

impl From<&str> for Failure {
    fn from(reason: &str) -> Self {
        Self::Final(reason.to_owned())
    }
}

impl From<TreeError> for Failure {
    fn from(error: TreeError) -> Self {
        let is_disk = match &error {
            TreeError::System { cause, .. } => is_of_medium(cause),
            other => other.is_out_of_space(),
        };
        let reason = error.to_string();
        if is_disk { Self::Passing(reason) } else { Self::Final(reason) }
    }
}

/// Whether the medium or the server that holds it failed.
fn is_of_medium(cause: &io::Error) -> bool {
    use rustix::io::Errno;
    let errors = [Errno::IO, Errno::STALE, Errno::TIMEDOUT, Errno::HOSTDOWN, Errno::REMOTEIO];
    cause.raw_os_error().is_some_and(|code| errors.iter().any(|errno| errno.raw_os_error() == code))
}
