//! Ends and errors of links.

use std::io;

use icdc_protocol::frame::FrameError;
use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_protocol::validate::Violation;
use icdc_protocol::{LinkFailure, Versions};
use icdc_units::Span;

/// Reason why a link has ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer has ended its direction in order, and everything before the end has been received.
    #[error("the other end closed the connection")]
    Closed,
    /// This end ended the link by [`LinkControl::shutdown`](crate::LinkControl::shutdown) or closed
    /// the pool; or a payload arrived where the pool has no blocks.
    #[error("the connection was shut down at this end")]
    Stopped,
    /// The connection ended without the peer's orderly close: the path, the peer's machine or its
    /// process is gone.
    #[error("the connection with {peer} was cut")]
    Cut {
        /// Address or description of the peer.
        peer: String,
    },
    /// Nothing arrived from the peer for too long.
    #[error("nothing was heard from {peer} for {after}: its machine or the path is down")]
    Silent {
        /// Address or description of the peer.
        peer: String,
        /// Time for which nothing arrived.
        after: Span,
    },
    /// The data that arrived are not what the peer sent. No corrupt data was passed on.
    #[error("data from {peer} was changed on its way: faulty hardware, or somebody between")]
    Corrupt {
        /// Address or description of the peer.
        peer: String,
    },
    /// The peer does not accept this end's key.
    #[error("{peer} does not accept the key of this end: have the public key added to authorized_keys there")]
    KeyRefused {
        /// Address or description of the peer that refused.
        peer: String,
    },
    /// The peer ended the connection with a fatal TLS alert.
    #[error("{peer} broke the connection off with TLS alert {alert}")]
    Alert {
        /// Address or description of the peer that ended it.
        peer: String,
        /// Name of the TLS alert.
        alert: String,
    },
    /// The handshake failed: identities, protocol or keys could not be agreed upon.
    #[error("no secure connection with {peer}: {reason}")]
    Handshake {
        /// Address or description of the peer.
        peer: String,
        /// The failed step, and what the user can do.
        reason: String,
    },
    /// The two ends have no version of the protocol in common.
    #[error("{peer} speaks another protocol ({theirs}; this is {ours}); {}", ours.remedy(*theirs))]
    OtherVersions {
        /// Address or description of the peer.
        peer: String,
        /// Protocol versions of the peer.
        theirs: Versions,
        /// Protocol versions of this end.
        ours: Versions,
    },
    /// The peer did not complete the handshake in time.
    #[error("{peer} did not complete the handshake within {deadline}")]
    Late {
        /// Address or description of the peer.
        peer: String,
        /// Time limit of the handshake.
        deadline: Span,
    },
    /// The path drops large packets: the connection is established, but only small packets arrive.
    #[error(
        "only small packets get through: something on the path to {peer} drops packets of {mtu} bytes and does not say so (an MTU black hole); on both hosts `sudo sysctl net.ipv4.tcp_mtu_probing=1` gets round it, and so does a smaller MTU of the route (`sudo ip route change ... mtu 1280`)"
    )]
    BlackHole {
        /// Address or description of the peer.
        peer: String,
        /// Size of the largest packet that this end sends, in bytes.
        mtu: u64,
    },
    /// The peer sent something that the protocol does not allow.
    #[error("{0}")]
    Protocol(String),
    /// A message of this end is longer than a frame may be.
    #[error("this cannot be sent to the other end: {0}")]
    Unsendable(FrameError),
    /// A message of the peer breaks a rule of the protocol.
    #[error("the other end broke the protocol: {0}")]
    Violation(Violation),
    /// A system call failed.
    #[error("connection with {peer}: {cause}")]
    Io {
        /// Address or description of the peer.
        peer: String,
        /// Name of the system call.
        call: &'static str,
        /// Error of the system call.
        cause: io::Error,
    },
    /// This half of the link was used after it had failed.
    #[error("the connection has failed before")]
    Broken,
}

impl LinkError {
    /// Whether the peer sent something that the protocol does not allow. It is still there, and can
    /// be told so.
    #[must_use]
    pub fn breaks_protocol(&self) -> bool {
        matches!(self, Self::Protocol(_) | Self::Violation(_))
    }

    /// Converts the error of a system call on the link: to a cut where the connection broke, else
    /// to [`LinkError::Io`].
    pub(crate) fn io(peer: &str, call: &'static str, cause: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let peer = peer.to_owned();
        match cause.kind() {
            Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::NotConnected
            | Kind::TimedOut
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::UnexpectedEof => Self::Cut { peer },
            _ => Self::Io { peer, call, cause },
        }
    }
}

impl From<FrameError> for LinkError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Violation(violation) => Self::Violation(violation),
            other => Self::Protocol(other.to_string()),
        }
    }
}

/// Converts a link's error to the failure that a session reports when it loses the link.
impl From<LinkError> for LinkFailure {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Protocol(reason) => Self::Protocol(reason),
            LinkError::Violation(violation) => Self::Protocol(violation.to_string()),
            error @ LinkError::Unsendable(_) => Self::Local(error.to_string()),
            LinkError::KeyRefused { .. } => {
                Self::Refused(Refusal { kind: RefusalKind::NotAllowed, reason: error.to_string() })
            }
            other => Self::Cut(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::Message;
    use icdc_protocol::limits::MAX_HEAD;
    use icdc_protocol::{frame, validate};

    use super::*;

    #[test]
    fn a_broken_rule_is_told_with_who_broke_it_and_to_a_session_without() {
        let violation = validate::message(&Message::Ping, 1).expect_err("a ping has no payload");
        let error = LinkError::from(FrameError::from(violation.clone()));
        assert_eq!(error.to_string(), format!("the other end broke the protocol: {violation}"));
        assert_eq!(LinkFailure::from(error), LinkFailure::Protocol(violation.to_string()));
    }

    #[test]
    fn a_message_of_this_end_that_is_too_long_is_no_fault_of_the_others() {
        let mut frame = Vec::new();
        let excess = frame::encode(&Message::Relay(vec![0; MAX_HEAD + 1]), 0, &mut frame).expect_err("it is too long");
        let LinkFailure::Local(text) = LinkFailure::from(LinkError::Unsendable(excess)) else {
            panic!("it is a failure of this end");
        };
        assert!(text.starts_with("this cannot be sent to the other end: the head of the frame has"), "{text}");
    }
}
