//! Requests that the other end of a connection may make here.

use std::sync::Arc;

use icdc_protocol::TransferId;
use icdc_protocol::message::Transfer;
use icdc_session_process::{Rights, User};

use crate::admission::revocation::SessionHandle;

/// Requests that the holder of a key may make, and the user that serves it.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    /// Rights of each session of the key; the share of a limit of the rate that a session has as it
    /// begins is not among them yet.
    pub(crate) rights: Rights,
    /// Jobs that the holder may ask for.
    pub(crate) scope: Scope,
    /// Whether the holder may have owners and set-id bits given to files.
    pub(crate) owners: bool,
    /// Whether the holder may ask for what heeds no limit: memory sent and received for a
    /// measurement, and a transfer that this end drives over connections of its own.
    pub(crate) unlimited: bool,
    /// Handle of the connection among the sessions of its key, whose limits it keeps; `None` at a far
    /// end that ssh has started.
    pub(crate) handle: Option<SessionHandle>,
    /// The user whose process serves the holder; `None` for the user of this process.
    pub(crate) acting: Option<Arc<User>>,
    /// Name of the key in logs.
    pub(crate) label: String,
}

/// Jobs that the holder of a key may ask for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scope {
    /// Any job that needs no second far end: the holder is the starting end of a far end that ssh
    /// has started.
    StartingEnd,
    /// Any job, for a key with a line in the authorized keys. It may also admit another key, and
    /// have this end drive a transfer.
    StandingKey,
    /// One part of one transfer, for which the key was admitted.
    OneTransfer(TransferId, Box<Transfer>),
}
