//! Errors of a whole copy.

use icdc_protocol::message::Refusal;
use icdc_session::SessionError;
use icdc_units::ByteCount;

use crate::connect::ConnectError;
use crate::failure_kind::FailureKind;

/// Reasons why `icdc copy` ended without a summary.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The request is invalid as written.
    #[error("{0}")]
    Usage(String),
    /// The other end could not be reached, or did not admit this user.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The other end refused the request.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// The user asked to stop; the same command resumes the copy.
    #[error("interrupted; run the same command again to go on from here")]
    Interrupted,
    /// The connection was lost and did not come back.
    #[error("{0}; run the same command again to go on from here")]
    Lost(String),
    /// A copy from or to a stream was interrupted, or its connection lost.
    #[error("{0}; a stream is not resumed: run all of the command again")]
    StreamBroken(String),
    /// A copy from a stream that is kept unfinished was interrupted, or its connection lost.
    #[error(
        "{reason}; {durable} bytes of the stream are durable at the destination: continue it from there with --resume-stream {durable}"
    )]
    StreamKept {
        /// Reason of the end.
        reason: String,
        /// Number of bytes from the start of the stream that are durable, as far as is known here.
        durable: u64,
    },
    /// A copy into a device was interrupted, or its connection lost.
    #[error(
        "{0}; the device may have parts of its old and of its new contents until a run succeeds: run the same command again"
    )]
    DeviceUnfinished(String),
    /// A copy that writes existing files at their place was interrupted, or its connection lost, before some
    /// of them were complete.
    #[error(
        "{reason}; at the destination, {files} inconsistent, with parts of the old and of the new contents, until the same command has completed: run it again"
    )]
    FilesUnfinished {
        /// Reason of the end.
        reason: String,
        /// Names of the files, with the verb that follows.
        files: String,
    },
    /// Any other failure that ended the run.
    #[error("{0}")]
    Failed(String),
}

impl CopyError {
    /// Kind of failure, which decides the exit code.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Usage(_) => FailureKind::Unusable,
            Self::Connect(error) => error.into(),
            Self::Refused(refusal) => refusal.kind.into(),
            Self::Interrupted
            | Self::Lost(_)
            | Self::StreamBroken(_)
            | Self::StreamKept { .. }
            | Self::DeviceUnfinished(_)
            | Self::FilesUnfinished { .. } => FailureKind::Interrupted,
            Self::Failed(_) => FailureKind::Failed,
        }
    }

    /// This error, of a copy into a device, which has parts of the old and of the new contents then.
    #[must_use]
    pub(crate) fn of_device(self) -> Self {
        match self {
            Self::Interrupted => Self::DeviceUnfinished("interrupted".to_owned()),
            Self::Lost(reason) => Self::DeviceUnfinished(reason),
            other => other,
        }
    }

    /// This error, of a copy that has begun to write into these files at their place and has not completed
    /// them.
    #[must_use]
    pub(crate) fn of_files(self, files: &[String]) -> Self {
        let Some(files) = listed(files) else { return self };
        match self {
            Self::Interrupted => Self::FilesUnfinished { reason: "interrupted".to_owned(), files },
            Self::Lost(reason) => Self::FilesUnfinished { reason, files },
            Self::Failed(reason) => Self::Failed(format!(
                "{reason}; at the destination, {files} inconsistent, with parts of the old and of the new contents, until the same command has completed"
            )),
            other => other,
        }
    }

    /// This error, of a copy from or to a stream, which the same command does not resume. `durable`: number of
    /// its bytes that are durable, of one that is kept unfinished.
    #[must_use]
    pub(crate) fn of_stream(self, durable: Option<ByteCount>) -> Self {
        let broken = |reason| match durable {
            Some(durable) => Self::StreamKept { reason, durable: durable.as_u64() },
            None => Self::StreamBroken(reason),
        };
        match self {
            Self::Interrupted => broken("interrupted".to_owned()),
            Self::Lost(reason) => broken(reason),
            other => other,
        }
    }
}

/// Most files that are named in a message.
const MOST_NAMED: usize = 3;

/// Names of files that are inconsistent, at most [`MOST_NAMED`], with the verb that follows; `None` if there are none.
fn listed(files: &[String]) -> Option<String> {
    let named = files.get(..MOST_NAMED.min(files.len())).unwrap_or_default().join(", ");
    match files.len() {
        0 => None,
        1 => Some(format!("{named} is")),
        count if count <= MOST_NAMED => Some(format!("{named} are")),
        count => Some(format!("{named} and {} more are", count - MOST_NAMED)),
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
