//! The user and the client's program: runs a copy, tries again after a cut, and runs the same command again after
//! anything else, until everything is copied.

use icdc_protocol::message::{RefusalKind, TransferId};
use icdc_session::SessionError;
use icdc_units::{Span, Time};

use crate::environment::SessionId;

/// First pause before a broken connection is tried again.
const FIRST_PAUSE: Span = Span::from_millis(500);
const LONGEST_PAUSE: Span = Span::from_secs(15);
/// How long a command tries to get a connection that stays.
const RETRY_FOR: Span = Span::from_secs(120);

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
    pause: Span,
    until: Option<Time>,
}

/// What follows from the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Retry(Span),
    /// The command has failed.
    Over,
}

impl Command {
    pub(crate) fn new(number: u64) -> Self {
        let mut transfer = [0xc0; 16];
        transfer[..8].copy_from_slice(&number.to_le_bytes());
        Self { transfer, session: None, sessions: 0, stopped: false, pause: FIRST_PAUSE, until: None }
    }

    /// A session has ended with an error.
    pub(crate) fn after(&mut self, now: Time, error: &SessionError, progressed: bool) -> Next {
        let passes = match error {
            SessionError::Cut(_) => true,
            SessionError::Interrupted => !self.stopped,
            SessionError::Refused(refusal) => refusal.kind == RefusalKind::Busy && self.sessions > 1,
            SessionError::Protocol(_) | SessionError::Local(_) => false,
        };
        if !passes || self.stopped {
            return Next::Over;
        }
        if progressed || self.until.is_none() {
            self.until = Some(now + RETRY_FOR);
            self.pause = FIRST_PAUSE;
        }
        if self.until.is_some_and(|until| now >= until) {
            return Next::Over;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        Next::Retry(pause)
    }
}
