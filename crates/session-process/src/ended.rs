//! The end of the work on one connection.

use icdc_metrics::RunResult;
use icdc_protocol::message::Refusal;
use icdc_session::SessionError;
use serde::{Deserialize, Serialize};

/// End of the work on one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// The work is complete.
    Finished,
    /// The connection was handed to the session that it belongs to.
    Joined,
    /// A user or an operator stopped it.
    Interrupted,
    /// The connection broke; the client may come again.
    Cut(String),
    /// The session could not be served, or the other end misbehaved.
    Refused(String),
    /// The connection was refused, and no session began on it.
    TurnedAway(Refusal),
}

impl From<SessionError> for Ended {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Interrupted => Self::Interrupted,
            SessionError::Cut(reason) => Self::Cut(reason),
            error => Self::Refused(error.to_string()),
        }
    }
}

impl Ended {
    /// Result, as in the metrics, of a session in which `errors` items failed.
    pub fn result(&self, errors: u64) -> RunResult {
        match self {
            Self::Finished | Self::Joined if errors == 0 => RunResult::Complete,
            Self::Finished | Self::Joined => RunResult::Incomplete,
            Self::Interrupted => RunResult::Interrupted,
            Self::Cut(_) => RunResult::Lost,
            Self::Refused(_) => RunResult::Failed,
            Self::TurnedAway(_) => RunResult::Refused,
        }
    }

    /// Former word for the result, deprecated since 0.1.0, which logs and reports have beside the
    /// new one.
    pub fn former_result(&self) -> &'static str {
        match self {
            Self::Finished | Self::Joined => "done",
            Self::Interrupted => "interrupted",
            Self::Cut(_) => "cut",
            Self::Refused(_) | Self::TurnedAway(_) => "refused",
        }
    }

    /// The reason for the end; `None` if it was complete, joined or interrupted.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Finished | Self::Joined | Self::Interrupted => None,
            Self::Cut(reason) | Self::Refused(reason) => Some(reason),
            Self::TurnedAway(refusal) => Some(&refusal.reason),
        }
    }
}
