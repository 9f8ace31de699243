//! The end of a receiving session: whether everything was done and the sender knows it, or the
//! failure, and the last messages.
//!
//! ```text
//! outcome  Pending ── all done ──► Complete ── goodbye, or the first connection closed in order ──► Agreed
//!            │ └── goodbye ──► SenderDone ── all done ─────────────────────────────────────────────▲
//!            └── failure ──► Failed                └── drained before all is done ──► Failed
//!
//! phase    Open ── failure, interrupt ──► Closing (last words) ── said, patience ──► Cut ─┐
//!            └────────────── the first connection has ended ─────────────────────────────┴─► Draining
//!          Draining ── everything behind the connections has ended ──► Flushing ── said, patience ──► Closed
//! ```
//!
//! Only the first connection shows that the sender knows: its goodbye comes there, and a sender
//! that has seen everything done may close it without a message. A further one may be closed at any
//! time; any other end of one is a failure of the session.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use icdc_protocol::message::{Goodbye, Message, RefusalKind};
use icdc_units::{Span, Time};

use crate::SessionError;

/// Time limit for sending the last messages.
pub const LAST_WORDS_PATIENCE: Span = Span::from_secs(2);
/// Time limit for sending the reason while the sender still sends; short, because the user of the
/// stopped run is waiting.
pub const CLOSING_PATIENCE: Span = Span::from_millis(500);

/// Time limit for receiving what has arrived, the sender's reason or its goodbye, once nothing more
/// can be sent.
pub const REASON_PATIENCE: Span = Span::from_millis(500);

/// An action of the end of the session for the executor to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this on the first connection.
    Say(Box<Message>),
    /// Flush all messages to the carrier: [`on_flushed`](Ending::on_flushed).
    Flush,
    /// End the first connection without waiting for what is on its way.
    Cut,
    /// End all further connections.
    CutFurther,
    /// Flush all messages to the carrier, and close this direction of the first connection:
    /// [`on_closed`](Ending::on_closed).
    Close,
}

/// Way in which the receiving direction of the first connection has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// The sender has closed it in order.
    Closed,
    /// The connection broke, or a message on it ends the session.
    Failed(SessionError),
}

/// State machine of the end of a receiving session: its outcome, and the phase of the first
/// connection.
#[derive(Debug)]
pub struct Ending {
    outcome: Outcome,
    phase: Phase,
    actions: VecDeque<Action>,
}

/// Outcome of the session, as far as it is known.
#[derive(Clone, Debug)]
enum Outcome {
    /// Nothing is decided yet.
    Pending,
    /// The sender has said goodbye: it knows that everything is done, before this end does.
    SenderDone(Goodbye),
    /// Everything is done.
    Complete,
    /// Everything is done, and the sender knows it.
    Agreed(Option<Goodbye>),
    /// The session has failed.
    Failed(SessionError),
}

/// Phase of the first connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Both directions of the first connection are in use.
    Open,
    /// The first connection takes nothing more: the session fails with this error unless a better
    /// reason arrives by then.
    SendBroken { until: Time, error: SessionError },
    /// The last messages are being sent.
    Closing { until: Time },
    /// The first connection is being ended.
    Cut,
    /// Data that has arrived is being made durable.
    Draining { has_said_why: bool },
    /// The last messages are being flushed to the carrier.
    Flushing { until: Time },
    /// The session has ended.
    Closed,
}

impl Default for Ending {
    fn default() -> Self {
        Self { outcome: Outcome::Pending, phase: Phase::Open, actions: VecDeque::new() }
    }
}

impl Ending {
    /// The next action to carry out.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Handles the event that every item is done.
    pub fn on_complete(&mut self) {
        self.outcome = match std::mem::replace(&mut self.outcome, Outcome::Complete) {
            Outcome::Pending => Outcome::Complete,
            Outcome::SenderDone(goodbye) => Outcome::Agreed(Some(goodbye)),
            other => other,
        };
    }

    /// Handles a failure of the session. Only the first one counts, and none once everything is
    /// done.
    pub fn on_failure(&mut self, now: Time, error: SessionError) {
        if matches!(self.outcome, Outcome::Pending | Outcome::SenderDone(_)) {
            let words = last_words(&error);
            self.outcome = Outcome::Failed(error);
            self.close_with(now, words);
        }
    }

    /// Handles that nothing more can be sent on the first connection, for the reason `error`.
    pub fn on_send_failed(&mut self, now: Time, error: SessionError) {
        // The sender expects no answer after its goodbye.
        if let (Outcome::Pending, Phase::Open) = (&self.outcome, &self.phase) {
            self.phase = Phase::SendBroken { until: now + REASON_PATIENCE, error };
        }
    }

    /// Handles the user's request to stop.
    pub fn on_interrupt(&mut self, now: Time) {
        match self.outcome {
            Outcome::Pending | Outcome::SenderDone(_) => self.outcome = Outcome::Failed(SessionError::Interrupted),
            // Nothing is left to be stopped: the sender is about to say goodbye, by which the run
            // is put away.
            Outcome::Complete if self.is_running() => {
                return self.phase = Phase::Closing { until: now + LAST_WORDS_PATIENCE };
            }
            _ => {}
        }
        self.close_with(now, Some(Message::Interrupt));
    }

    /// Sends the last message `words`, if there is one, while the sender may still send.
    fn close_with(&mut self, now: Time, words: Option<Message>) {
        if self.is_running() {
            self.actions.extend(words.map(say));
            self.actions.push_back(Action::Flush);
            self.phase = Phase::Closing { until: now + CLOSING_PATIENCE };
        }
    }

    /// Handles the sender's goodbye on the first connection, after which nothing more is received
    /// there.
    pub fn on_goodbye(&mut self, goodbye: Goodbye) {
        self.outcome = match std::mem::replace(&mut self.outcome, Outcome::Pending) {
            Outcome::Pending => Outcome::SenderDone(goodbye),
            Outcome::Complete => Outcome::Agreed(Some(goodbye)),
            other => other,
        };
        self.drain(false);
    }

    /// Handles the end of the receiving direction of the first connection.
    pub fn on_link_ended(&mut self, end: LinkEnd) {
        match &self.outcome {
            Outcome::Pending => {
                let error = error_of(end);
                // A request to stop is answered once everything is durable.
                let words = last_words(&error).filter(|words| *words != Message::Interrupt);
                self.outcome = Outcome::Failed(error);
                let has_said_why = words.is_some() && self.is_running();
                if has_said_why {
                    self.actions.extend(words.map(say));
                }
                self.drain(has_said_why);
            }
            Outcome::Complete => {
                // A sender that has seen everything done may close without a message.
                if end == LinkEnd::Closed {
                    self.outcome = Outcome::Agreed(None);
                }
                self.drain(false);
            }
            Outcome::SenderDone(_) | Outcome::Agreed(_) | Outcome::Failed(_) => self.drain(false),
        }
    }

    /// Whether the first connection is in use and not being closed.
    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::SendBroken { .. })
    }

    /// Begins to drain after the first connection has ended; `has_said_why`: the reason was sent.
    fn drain(&mut self, has_said_why: bool) {
        let has_said_why = match self.phase {
            Phase::Open | Phase::SendBroken { .. } => has_said_why,
            Phase::Closing { .. } | Phase::Cut => true,
            Phase::Draining { .. } | Phase::Flushing { .. } | Phase::Closed => return,
        };
        self.phase = Phase::Draining { has_said_why };
        self.actions.push_back(Action::CutFurther);
    }

    /// Handles that all data behind the connections has been processed.
    pub fn on_drained(&mut self, now: Time) {
        if let Outcome::SenderDone(_) = self.outcome {
            let reason = "it said goodbye before everything was done";
            self.outcome = Outcome::Failed(SessionError::Protocol(reason.into()));
        }
        let Phase::Draining { has_said_why } = self.phase else { return };
        if let (Outcome::Failed(error), false) = (&self.outcome, has_said_why) {
            self.actions.extend(last_words(error).map(say));
        }
        self.actions.push_back(Action::Close);
        self.phase = Phase::Flushing { until: now + LAST_WORDS_PATIENCE };
    }

    /// Handles the outcome of [`Action::Flush`]: the messages are flushed, or could not be.
    pub fn on_flushed(&mut self) {
        if let Phase::Closing { .. } = self.phase {
            self.phase = Phase::Cut;
            self.actions.push_back(Action::Cut);
        }
    }

    /// Handles the outcome of [`Action::Close`]: the sending direction is closed, or could not be.
    pub fn on_closed(&mut self) {
        if let Phase::Flushing { .. } = self.phase {
            self.phase = Phase::Closed;
            self.actions.push_back(Action::Cut);
        }
    }

    /// Time at which [`on_time`](Self::on_time) is due, if a deadline is set.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::SendBroken { until, .. } | Phase::Closing { until } | Phase::Flushing { until } => Some(until),
            Phase::Open | Phase::Cut | Phase::Draining { .. } | Phase::Closed => None,
        }
    }

    /// Handles the deadline, if it is due.
    pub fn on_time(&mut self, now: Time) {
        match self.phase {
            Phase::SendBroken { until, ref error } if until <= now => {
                let error = error.clone();
                self.phase = Phase::Open;
                if let Outcome::Pending = self.outcome {
                    self.on_failure(now, error);
                }
            }
            Phase::Closing { until } if until <= now => {
                if let Outcome::Complete = self.outcome {
                    self.outcome = Outcome::Failed(SessionError::Interrupted);
                }
                self.on_flushed();
            }
            Phase::Flushing { until } if until <= now => self.on_closed(),
            _ => {}
        }
    }

    /// Whether every item is done and the sender knows it.
    #[must_use]
    pub fn is_agreed(&self) -> bool {
        matches!(self.outcome, Outcome::Agreed(_))
    }

    /// Whether every item is done at this end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.outcome, Outcome::Complete | Outcome::Agreed(_))
    }

    /// Whether the outcome is decided, which ends all connections.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.outcome, Outcome::Pending)
    }

    /// Whether the first connection has ended, so that what has arrived can be drained.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// The error for which the session fails, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<&SessionError> {
        match &self.outcome {
            Outcome::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// The outcome of the session, with the sender's goodbye if there was one.
    ///
    /// # Errors
    /// The error for which not everything was done.
    pub fn into_outcome(self) -> Result<Option<Goodbye>, SessionError> {
        match self.outcome {
            Outcome::Failed(error) => Err(error),
            Outcome::Agreed(goodbye) => Ok(goodbye),
            Outcome::SenderDone(goodbye) => Ok(Some(goodbye)),
            Outcome::Pending | Outcome::Complete => Ok(None),
        }
    }
}

/// The action that sends this message.
fn say(words: Message) -> Action {
    Action::Say(Box::new(words))
}

/// The error of a session whose first connection ended this way before the outcome was decided.
fn error_of(end: LinkEnd) -> SessionError {
    match end {
        LinkEnd::Closed => SessionError::Cut("the sender closed the connection early".into()),
        LinkEnd::Failed(error) => error,
    }
}

/// The last message to the sender after a failure, if there is one.
fn last_words(failure: &SessionError) -> Option<Message> {
    match failure {
        SessionError::Interrupted => Some(Message::Interrupt),
        // A refusal at this end is sent to the sender; other refusals came from there.
        SessionError::Refused(refusal) if matches!(refusal.kind, RefusalKind::Path | RefusalKind::Running) => {
            Some(Message::Abort(refusal.clone()))
        }
        other => other.refusal().map(Message::Abort),
    }
}
