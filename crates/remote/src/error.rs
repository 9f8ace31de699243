//! What a whole copy can fail of.

use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_session::SessionError;

use crate::connect::ConnectError;

/// Why `icdc copy` ended without a summary, or with failures.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The request makes no sense as written.
    #[error("{0}")]
    Usage(String),
    /// The other end could not be reached, or did not let us in.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The other end refused the request.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// The user asked to stop; running the same command again goes on from here.
    #[error("interrupted; run the same command again to go on from here")]
    Interrupted,
    /// The connection was lost and did not come back.
    #[error("{0}; run the same command again to go on from here")]
    Lost(String),
    /// Anything else that ended the run.
    #[error("{0}")]
    Failed(String),
}

impl CopyError {
    /// Exit code of the process as documented: 1 failed, 2 usage or no such place, 3 could not
    /// connect, 4 resumable.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Connect(ConnectError::Interrupted) => 4,
            Self::Connect(_) => 3,
            Self::Refused(refusal) => match refusal.kind {
                RefusalKind::NotAllowed | RefusalKind::Busy => 3,
                RefusalKind::Interrupted => 4,
                // There is no such source, the destination cannot be one, or another process is writing it:
                // nothing was copied.
                RefusalKind::Path | RefusalKind::Running => 2,
                _ => 1,
            },
            Self::Interrupted | Self::Lost(_) => 4,
            Self::Failed(_) => 1,
        }
    }
}

impl From<SessionError> for CopyError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Interrupted => Self::Interrupted,
            SessionError::Refused(refusal) => Self::Refused(refusal),
            SessionError::Cut(reason) => Self::Lost(reason),
            other => Self::Failed(other.to_string()),
        }
    }
}
