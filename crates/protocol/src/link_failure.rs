//! Failures that end a link, as far as they matter to the session over it.

use crate::message::Refusal;

/// Reason for which a link has ended, in the kinds that the session over it
/// distinguishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkFailure {
    /// The connection is gone, for this reason; another one may do.
    Cut(String),
    /// The other end does not accept this connection.
    Refused(Refusal),
    /// The other end sent something that the protocol does not allow.
    Protocol(String),
    /// This end cannot send what it has to, for this reason.
    Local(String),
}
