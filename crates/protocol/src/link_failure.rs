//! Why a link carries no more, in what matters to the session over it.

use crate::message::Refusal;

/// Why a link carries no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkFailure {
    /// The connection is gone, for this reason; another one may do.
    Cut(String),
    /// The other end does not accept this one.
    Refused(Refusal),
    /// The other end sent what the protocol does not allow.
    Protocol(String),
}
