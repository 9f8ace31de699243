//! How the work on one connection ended.

use icdc_session::SessionError;

/// How the work on one connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
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
    TurnedAway(String),
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
