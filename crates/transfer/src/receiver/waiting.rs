//! LockWait for locks that other sessions hold: one of the present run that is coming to its end,
//! or another icdc that writes the same.

use std::cell::Cell;
use std::fs::File;

use icdc_protocol::limits::MAX_SHOWN_PATH;
use icdc_protocol::message::{IfRunning, Message, Refusal, RefusalKind, Running};
use icdc_session::SessionError;
use icdc_units::Span;

use super::holder::{Holder, holder};
use super::shared::Shared;
use crate::event::Event;

/// Time limit for waiting for the lock of a session that is coming to its end, or that holds no
/// more than one item of many.
pub(super) const LOCK_PATIENCE: Span = Span::from_secs(30);
/// Time that a session which is coming to its end may hold a lock before it counts as another one.
const ENDING_GRACE: Span = Span::from_millis(500);

/// Policy that decides how long to wait for a lock.
pub(super) trait WaitPolicy {
    /// Whether to keep waiting for the lock of `file`, shown to the user as `what`, after `waited`.
    fn keep_waiting(&self, file: &File, what: &str, waited: Span) -> bool;

    /// Called when the wait has ended.
    fn ends(&self) {}
}

/// Extent of a lock that another process holds: it decides what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    /// The lock covers all that the session is about.
    Everything,
    /// The lock covers one item of many. This session holds others, for which the other process
    /// may wait.
    OneOfMany,
}

/// Wait policy of a session, which reports the holder of the lock to the user.
pub(super) struct LockWait<'a> {
    shared: &'a Shared<'a>,
    locked: Locked,
    is_reported: Cell<bool>,
}

impl<'a> LockWait<'a> {
    /// Wait policy for a lock of this extent, of whose holder the user has not been told.
    pub(super) fn of(shared: &'a Shared<'a>, locked: Locked) -> Self {
        Self { shared, locked, is_reported: Cell::new(false) }
    }

    /// Tells the user and the sender which process is waited for; `None` once it is not any more.
    fn report(&self, running: Option<Running>) {
        (self.shared.events)(Event::of_running(running.as_ref()));
        self.shared.reply(Message::Running(running));
    }

    /// Handles a lock that another process holds as the user wants; false if it is not waited for.
    fn on_contended(&self, file: &File, what: &str) -> bool {
        let then = match self.locked {
            Locked::Everything => self.shared.options.if_running,
            Locked::OneOfMany => IfRunning::Wait,
        };
        let holder = holder(file);
        let mut path = what.as_bytes().to_vec();
        path.truncate(MAX_SHOWN_PATH);
        let (pid, age) = (holder.map(Holder::pid), holder.and_then(Holder::age));
        self.report(Some(Running { path, pid, age, then }));
        if then != IfRunning::Wait {
            let who = holder.map_or(String::new(), |holder| format!(" ({holder})"));
            let reason =
                format!("another icdc{who} is writing {what}; stop it, or wait for its end (--if-running wait)");
            self.shared.fail(SessionError::Refused(Refusal::new(RefusalKind::Running, reason)));
        }
        then == IfRunning::Wait
    }
}

impl WaitPolicy for LockWait<'_> {
    fn keep_waiting(&self, file: &File, what: &str, waited: Span) -> bool {
        let shared = self.shared;
        if !shared.has_failed() && shared.link.is_hung_up() {
            let reason = "the sender closed the connection while another icdc was waited for";
            shared.fail(SessionError::Cut(reason.into()));
        }
        if shared.has_failed() {
            return false;
        }
        if waited >= ENDING_GRACE && !self.is_reported.replace(true) && !self.on_contended(file, what) {
            return false;
        }
        self.locked == Locked::Everything || waited < LOCK_PATIENCE
    }

    fn ends(&self) {
        if self.is_reported.replace(false) && !self.shared.has_failed() {
            self.report(None);
        }
    }
}

/// Wait policy that does not wait.
#[cfg(test)]
pub(super) struct Never;

#[cfg(test)]
impl WaitPolicy for Never {
    fn keep_waiting(&self, _: &File, _: &str, _: Span) -> bool {
        false
    }
}
