//! Requests that the other end of a connection may make here.

use std::sync::Arc;

use icdc_protocol::TransferId;
use icdc_protocol::message::Transfer;
use icdc_session_process::{Rights, User};

use crate::admission::revocation::Place;

/// Requests that the holder of a key may make, and the user that serves it.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    /// Rights of each of its sessions.
    pub(crate) rights: Rights,
    /// Jobs that it may ask for.
    pub(crate) scope: Scope,
    /// It may have owners and set-id bits given to files.
    pub(crate) owners: bool,
    /// It may ask for what heeds no limit: memory sent and received for a measurement, and a
    /// transfer that this end drives over connections of its own.
    pub(crate) unlimited: bool,
    /// Its place among the sessions of its key, where they are limited.
    pub(crate) place: Option<Place>,
    /// The user whose process serves it; `None` for the user of this one.
    pub(crate) acting: Option<Arc<User>>,
    /// Its name in logs.
    pub(crate) label: String,
}

/// Jobs that the holder of a key may ask for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scope {
    /// The starting end of a far end that ssh has started: any job that needs no second far end.
    StartingEnd,
    /// A key with a line in the authorized keys: any job. It may also admit another key, and have
    /// this end drive a transfer.
    StandingKey,
    /// A key that was admitted for this part of one transfer.
    OneTransfer(TransferId, Transfer),
}
