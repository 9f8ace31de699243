//! Kinds of failures, as callers and exit codes tell them apart.

use icdc_protocol::message::RefusalKind;

use crate::connect::ConnectError;

/// Kind of a failure of a whole run, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Any other failure.
    Failed,
    /// The request is invalid, or there is no such place; nothing was done.
    Unusable,
    /// The other end could not be reached, or did not admit this user.
    NotLetIn,
    /// The run was stopped or cut; the same command resumes it.
    Interrupted,
}

impl From<&ConnectError> for FailureKind {
    fn from(error: &ConnectError) -> Self {
        match error {
            ConnectError::Interrupted => Self::Interrupted,
            _ => Self::NotLetIn,
        }
    }
}

impl From<RefusalKind> for FailureKind {
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::NotAllowed | RefusalKind::Busy => Self::NotLetIn,
            RefusalKind::Interrupted => Self::Interrupted,
            // There is no such source, the destination cannot be one, or another process is writing
            // it: nothing was copied.
            RefusalKind::Path | RefusalKind::Running => Self::Unusable,
            _ => Self::Failed,
        }
    }
}
