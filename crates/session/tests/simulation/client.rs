//! The user and the client's program: runs a copy, tries again after a cut, and runs the same command again after
//! anything else, until everything is copied.

use icdc_protocol::message::TransferId;
use icdc_session::SessionError;
use icdc_session::retry::{RETRY_FOR, Retry};
use icdc_units::{Span, Time};

use crate::environment::SessionId;

/// What the client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The user runs the command.
    Run,
    /// The program connects.
    Connect { transfer: TransferId },
    /// A further connection is made.
    Join { session: SessionId },
}

/// A command that is being run.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) transfer: TransferId,
    pub(crate) session: Option<SessionId>,
    /// Sessions so far: from the second on, what the run has made durable counts.
    pub(crate) sessions: u32,
    /// The user has asked to stop.
    pub(crate) stopped: bool,
    /// It only tells what it would do.
    pub(crate) is_dry: bool,
    retry: Retry,
}

/// What follows from the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Retry(Span),
    /// The command has failed.
    Over,
}

impl Command {
    pub(crate) fn new(number: u64, is_dry: bool) -> Self {
        let mut transfer = [0xc0; 16];
        transfer[..8].copy_from_slice(&number.to_le_bytes());
        Self { transfer, session: None, sessions: 0, stopped: false, is_dry, retry: Retry::new(RETRY_FOR) }
    }

    /// A session has ended with an error.
    pub(crate) fn after(&mut self, now: Time, error: &SessionError, progressed: bool) -> Next {
        if self.stopped || !self.retry.is_worth_it(error, self.stopped) {
            return Next::Over;
        }
        self.retry.again(now, progressed).map_or(Next::Over, |attempt| Next::Retry(attempt.pause))
    }
}
