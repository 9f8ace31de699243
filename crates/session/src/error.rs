//! Why a session ends before its work is done.

use icdc_protocol::LinkFailure;
use icdc_protocol::message::{Refusal, RefusalKind};

/// Why a session ended before its work was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The connection is gone; what is durable stays, a new session goes on from there.
    #[error("connection lost: {0}")]
    Cut(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The other end refused, or broke off with a reason.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// The other end broke the protocol.
    #[error("the other end broke the protocol: {0}")]
    Protocol(String),
    /// Something failed at this end that leaves nothing to go on with.
    #[error("{0}")]
    Local(String),
}

impl SessionError {
    /// How a session ends whose link has failed.
    #[must_use]
    pub fn of_link(failure: impl Into<LinkFailure>) -> Self {
        match failure.into() {
            LinkFailure::Cut(reason) => Self::Cut(reason),
            LinkFailure::Refused(refusal) => Self::Refused(refusal),
            LinkFailure::Protocol(reason) => Self::Protocol(reason),
        }
    }

    /// What to tell the other end before the connection closes, where it makes sense to.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        let kind = match self {
            Self::Cut(_) | Self::Refused(_) => return None,
            Self::Interrupted => RefusalKind::Interrupted,
            Self::Protocol(_) => RefusalKind::Protocol,
            Self::Local(_) => RefusalKind::Internal,
        };
        Some(Refusal { kind, reason: self.to_string() })
    }
}
