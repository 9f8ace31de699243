//! How the work on one connection ended.

use icdc_protocol::message::Refusal;
use icdc_session::SessionError;
use serde::{Deserialize, Serialize};

/// How the work on one connection ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// Done.
    Finished,
    /// Handed to the session that it belongs to.
    Joined,
    /// A user or an operator stopped it.
    Interrupted,
    /// The connection broke; the client may come again.
    Cut(String),
    /// The session could not be served, or the other end misbehaved.
    Refused(String),
    /// No session began on it.
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
    /// How it ended, in a word for logs, and the reason if there is one.
    pub fn told(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Finished | Self::Joined => ("done", None),
            Self::Interrupted => ("interrupted", None),
            Self::Cut(reason) => ("cut", Some(reason)),
            Self::Refused(reason) => ("refused", Some(reason)),
            Self::TurnedAway(refusal) => ("refused", Some(&refusal.reason)),
        }
    }
}
