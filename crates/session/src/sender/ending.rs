//! The end of a sending session.
//!
//! ```text
//!  Open ──on_interrupt──► Interrupting ─┐ patience, silence
//!     │ everything settled, a failure   ▼
//!     └──────────────────────────────► Closing ── last words sent, receiver closed, patience ──► Closed
//! ```

use icdc_units::{Span, Time};

use crate::error::SessionError;

/// Time limit for the receiver to make its data durable when the user stops the run.
pub const INTERRUPT_PATIENCE: Span = Span::from_secs(10);
/// Time limit for the last messages of a session to leave through the socket, and for the
/// receiver's close after a goodbye.
pub const LAST_WORDS_PATIENCE: Span = Span::from_secs(2);
/// Time limit for the receiver's reason to arrive when the connection takes nothing more.
pub const REASON_PATIENCE: Span = Span::from_millis(500);

/// Outcome of the session: success, or the error for which it has failed.
type Outcome = Result<(), SessionError>;

/// State of the end of a sending session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The session is under way.
    Open(Outgoing),
    /// The user has stopped the run; the receiver makes durable what it has.
    Interrupting { until: Time, outgoing: Outgoing },
    /// The last words are being sent.
    Closing { outcome: Outcome, awaits: Awaits, until: Time },
    /// The session has ended, and nothing follows.
    Closed,
}

/// State of the sending direction of the first connection: whether it still takes messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Open,
    /// The direction takes nothing more; unless the receiver's reason arrives by `until`, the
    /// session fails with `error`.
    Broken {
        error: SessionError,
        until: Time,
    },
}

/// Events that a closing session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// The last messages are still to be sent.
    Sent,
    /// The last messages are still to be sent, and the receiver to close.
    SentAndClosed,
    /// The receiver is still to close.
    Closed,
}

/// Step that the sender takes for its ending: end all work, or the session with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is to be done.
    Nothing,
    /// End all work; if there is an error, send it to the receiver where that is possible.
    Leave(Option<SessionError>),
    /// End all work and the session.
    LeaveAndEnd(Outcome),
    /// The session has ended.
    End(Outcome),
}

impl Ending {
    /// Whether the session is ending: nothing more is read or announced, though last messages may
    /// still be sent.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Closing { .. } | Self::Closed)
    }

    /// Records that the user stops the run; returns whether this is the first time.
    pub(super) fn interrupt(&mut self, now: Time) -> bool {
        let Self::Open(outgoing) = self else { return false };
        let outgoing = std::mem::replace(outgoing, Outgoing::Open);
        *self = Self::Interrupting { until: now + INTERRUPT_PATIENCE, outgoing };
        true
    }

    /// Handles that every item is settled. `awaits_close`: the receiver closes once it has removed
    /// its journal.
    pub(super) fn complete(&mut self, now: Time, awaits_close: bool) -> Step {
        let awaits = match (self.outgoing(), awaits_close) {
            (None, _) => return Step::Nothing,
            (Some(Outgoing::Open), true) => Awaits::SentAndClosed,
            (Some(Outgoing::Open), false) => Awaits::Sent,
            (Some(Outgoing::Broken { .. }), true) => Awaits::Closed,
            (Some(Outgoing::Broken { .. }), false) => return self.leave_and_end(Ok(())),
        };
        *self = Self::Closing { outcome: Ok(()), awaits, until: now + LAST_WORDS_PATIENCE };
        Step::Leave(None)
    }

    /// Handles a failure that ends the session; only the first one counts.
    pub(super) fn fail(&mut self, now: Time, error: SessionError) -> Step {
        let Some(outgoing) = self.outgoing() else { return Step::Nothing };
        let is_broken = matches!(outgoing, Outgoing::Broken { .. });
        let interrupted = matches!(self, Self::Interrupting { .. });
        let outcome = Err(if interrupted { SessionError::Interrupted } else { error.clone() });
        if is_broken || matches!(error, SessionError::Cut(_)) {
            return self.leave_and_end(outcome);
        }
        *self = Self::Closing { outcome, awaits: Awaits::Sent, until: now + LAST_WORDS_PATIENCE };
        Step::Leave(Some(error))
    }

    /// Handles that nothing more can be sent on the first connection.
    pub(super) fn send_failed(&mut self, now: Time, error: SessionError) -> Step {
        match self {
            Self::Open(outgoing) | Self::Interrupting { outgoing, .. } => {
                if *outgoing == Outgoing::Open {
                    *outgoing = Outgoing::Broken { error, until: now + REASON_PATIENCE };
                }
                Step::Nothing
            }
            Self::Closing { .. } | Self::Closed => self.sent(now),
        }
    }

    /// Handles that nothing more arrives from the receiver.
    pub(super) fn receive_ended(&mut self, now: Time, error: SessionError) -> Step {
        match self {
            Self::Closing { awaits: Awaits::Closed, .. } => self.end(),
            Self::Closing { awaits: awaits @ Awaits::SentAndClosed, .. } => {
                *awaits = Awaits::Sent;
                Step::Nothing
            }
            Self::Closing { .. } | Self::Closed => Step::Nothing,
            Self::Open(_) | Self::Interrupting { .. } => self.fail(now, error),
        }
    }

    /// Handles that the last messages are handed to the carrier, or cannot be.
    pub(super) fn sent(&mut self, now: Time) -> Step {
        match self {
            Self::Closing { awaits: Awaits::Sent, .. } => self.end(),
            Self::Closing { awaits: awaits @ Awaits::SentAndClosed, until, .. } => {
                *awaits = Awaits::Closed;
                *until = now + LAST_WORDS_PATIENCE;
                Step::Nothing
            }
            _ => Step::Nothing,
        }
    }

    /// Handles a long silence of the receiver, which normally sends something all the time: what is
    /// on its way cannot be completed.
    pub(super) fn silent(&mut self, now: Time) -> Step {
        match self {
            Self::Interrupting { .. } => self.leave_and_end(Err(SessionError::Interrupted)),
            _ => self.sent(now),
        }
    }

    /// Handles the deadline, if it is due at `now`.
    pub(super) fn time(&mut self, now: Time) -> Step {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return Step::Nothing;
        }
        match self {
            Self::Open(outgoing) => match std::mem::replace(outgoing, Outgoing::Open) {
                Outgoing::Broken { error, .. } => self.leave_and_end(Err(error)),
                Outgoing::Open => Step::Nothing,
            },
            Self::Interrupting { outgoing: Outgoing::Broken { .. }, .. } => {
                self.leave_and_end(Err(SessionError::Interrupted))
            }
            Self::Interrupting { .. } => {
                let outcome = Err(SessionError::Interrupted);
                *self = Self::Closing { outcome, awaits: Awaits::Sent, until: now + LAST_WORDS_PATIENCE };
                Step::Leave(None)
            }
            Self::Closing { .. } => self.end(),
            Self::Closed => Step::Nothing,
        }
    }

    /// Time at which [`time`](Self::time) is due; `None` if no deadline is set.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        match self {
            Self::Open(Outgoing::Open) | Self::Closed => None,
            Self::Open(Outgoing::Broken { until, .. }) => Some(*until),
            Self::Interrupting { until, outgoing: Outgoing::Open } => Some(*until),
            Self::Interrupting { until, outgoing: Outgoing::Broken { until: reason, .. } } => Some(*until.min(reason)),
            Self::Closing { until, .. } => Some(*until),
        }
    }

    /// State of the sending direction while the session is under way; `None` afterwards.
    fn outgoing(&self) -> Option<&Outgoing> {
        match self {
            Self::Open(outgoing) | Self::Interrupting { outgoing, .. } => Some(outgoing),
            Self::Closing { .. } | Self::Closed => None,
        }
    }

    /// Closes the session at once: the step ends all work and the session with this outcome.
    fn leave_and_end(&mut self, outcome: Outcome) -> Step {
        *self = Self::Closed;
        Step::LeaveAndEnd(outcome)
    }

    /// Closes a session whose last messages are sent: the step ends it with the outcome that was
    /// decided.
    fn end(&mut self) -> Step {
        match std::mem::replace(self, Self::Closed) {
            Self::Closing { outcome, .. } => Step::End(outcome),
            _ => Step::Nothing,
        }
    }
}

#[cfg(test)]
#[path = "ending/tests.rs"]
mod tests;
