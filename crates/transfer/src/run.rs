//! The run of which a session is part.

use std::sync::Arc;

use icdc_stop::StopSignal;

use crate::account::Account;
use crate::event::EventSink;
use crate::user_ceiling::UserCeiling;

/// Parts of a run that each of its sessions is given: totals, events, and the request to stop.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Totals over all sessions of the run.
    pub account: &'a Account,
    /// Receiver of the run's events.
    pub events: &'a EventSink,
    /// The user's request to stop.
    pub stop: &'a StopSignal,
    /// The user's ceiling of the sending rate; `None` where the other end's user has it.
    pub ceiling: Option<&'a Arc<UserCeiling>>,
}
