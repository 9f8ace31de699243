//! Errors that end a session before its work is done.

use icdc_protocol::LinkFailure;
use icdc_protocol::message::{Refusal, RefusalKind};

/// An error that ended a session before its work was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The connection is lost; what is durable is kept, and a new session continues from there.
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
    /// A failure at this end that ends the session.
    #[error("{0}")]
    Local(String),
}

impl SessionError {
    /// The error of a session whose link has failed, by the kind of that failure.
    #[must_use]
    pub fn of_link(failure: impl Into<LinkFailure>) -> Self {
        match failure.into() {
            LinkFailure::Cut(reason) => Self::Cut(reason),
            LinkFailure::Refused(refusal) => Self::Refused(refusal),
            LinkFailure::Protocol(reason) => Self::Protocol(reason),
            LinkFailure::Local(reason) => Self::Local(reason),
        }
    }

    /// The refusal to send to the other end before the connection closes, if there is one to send.
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

#[cfg(test)]
mod tests {
    use icdc_protocol::{Message, validate};

    use super::*;

    #[test]
    fn a_broken_rule_is_told_once() {
        let violation = validate::message(&Message::Ping, 1).expect_err("a ping has no payload");
        let text = SessionError::of_link(LinkFailure::Protocol(violation.to_string())).to_string();
        assert_eq!(text.matches("the other end broke the protocol").count(), 1, "{text}");
        assert!(text.contains("Ping: it has a payload"), "{text}");
    }
}
