//! How a receiving session comes to its end: whether everything was done and the sender knows it, or
//! why not, and what is said last.
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
//! Only the first connection tells that the sender knows: its goodbye comes there, and a sender that
//! has seen everything done may close it without a word. A further one may be closed at any time;
//! what else ends it is a failure of the session.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use icdc_protocol::message::{Goodbye, Message, RefusalKind};
use icdc_units::{Span, Time};

use crate::SessionError;

/// How long the last messages may take to be sent.
pub const LAST_WORDS_PATIENCE: Span = Span::from_secs(2);
/// How long the reason may take to be sent while the sender still sends: it keeps nobody waiting who
/// has asked to stop.
pub const CLOSING_PATIENCE: Span = Span::from_millis(500);

/// How long what has arrived may take to be received when nothing more can be sent: the sender's
/// reason, or its goodbye.
pub const REASON_PATIENCE: Span = Span::from_millis(500);

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this on the first connection.
    Say(Box<Message>),
    /// Hand everything said so far to the carrier: [`on_flushed`](Ending::on_flushed).
    Flush,
    /// End the first connection, whatever of it is on its way.
    Cut,
    /// End all further connections.
    CutFurther,
    /// Hand everything said so far to the carrier, and end this direction of the first connection:
    /// [`on_closed`](Ending::on_closed).
    Close,
}

/// How the first connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// Its sender has closed it in order.
    Closed,
    /// It broke, or what came on it ends the session.
    Failed(SessionError),
}

/// See the module's description.
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
    Failed(SessionError),
}

/// Phase of the first connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Both directions are in use.
    Open,
    /// The first connection takes nothing more: the session fails by that, unless the sender's end
    /// of it tells more by then.
    SendBroken { until: Time, error: SessionError },
    /// The last words are being sent.
    Closing { until: Time },
    /// The first connection is being ended.
    Cut,
    /// What has arrived is being made durable.
    Draining { has_said_why: bool },
    /// The last words are on their way to the carrier.
    Flushing { until: Time },
    /// Nothing follows.
    Closed,
}

impl Default for Ending {
    fn default() -> Self {
        Self { outcome: Outcome::Pending, phase: Phase::Open, actions: VecDeque::new() }
    }
}

impl Ending {
    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Every item is done.
    pub fn on_complete(&mut self) {
        self.outcome = match std::mem::replace(&mut self.outcome, Outcome::Complete) {
            Outcome::Pending => Outcome::Complete,
            Outcome::SenderDone(goodbye) => Outcome::Agreed(Some(goodbye)),
            other => other,
        };
    }

    /// The session cannot go on. The first reason counts, and none once everything is done.
    pub fn on_failure(&mut self, now: Time, error: SessionError) {
        if matches!(self.outcome, Outcome::Pending | Outcome::SenderDone(_)) {
            let words = last_words(&error);
            self.outcome = Outcome::Failed(error);
            self.part(now, words);
        }
    }

    /// The first connection takes nothing more, for the reason `error`.
    pub fn on_send_failed(&mut self, now: Time, error: SessionError) {
        // Behind a goodbye nobody waits for an answer.
        if let (Outcome::Pending, Phase::Open) = (&self.outcome, &self.phase) {
            self.phase = Phase::SendBroken { until: now + REASON_PATIENCE, error };
        }
    }

    /// The user asks to stop.
    pub fn on_interrupt(&mut self, now: Time) {
        match self.outcome {
            Outcome::Pending | Outcome::SenderDone(_) => self.outcome = Outcome::Failed(SessionError::Interrupted),
            // Nothing is left to be stopped: the sender is about to say goodbye, by which the run is put away.
            Outcome::Complete if self.is_running() => {
                return self.phase = Phase::Closing { until: now + LAST_WORDS_PATIENCE };
            }
            _ => {}
        }
        self.part(now, Some(Message::Interrupt));
    }

    /// Says the last words while the sender may still send.
    fn part(&mut self, now: Time, words: Option<Message>) {
        if self.is_running() {
            self.actions.extend(words.map(say));
            self.actions.push_back(Action::Flush);
            self.phase = Phase::Closing { until: now + CLOSING_PATIENCE };
        }
    }

    /// The sender has said goodbye on the first connection, where nothing more is received.
    pub fn on_goodbye(&mut self, goodbye: Goodbye) {
        self.outcome = match std::mem::replace(&mut self.outcome, Outcome::Pending) {
            Outcome::Pending => Outcome::SenderDone(goodbye),
            Outcome::Complete => Outcome::Agreed(Some(goodbye)),
            other => other,
        };
        self.drain(false);
    }

    /// Nothing more is received on the first connection.
    pub fn on_link_ended(&mut self, end: LinkEnd) {
        match &self.outcome {
            Outcome::Pending => {
                let error = error_of(end);
                // Whoever has asked to stop is answered when everything is durable.
                let words = last_words(&error).filter(|words| *words != Message::Interrupt);
                self.outcome = Outcome::Failed(error);
                let has_said_why = words.is_some() && self.is_running();
                if has_said_why {
                    self.actions.extend(words.map(say));
                }
                self.drain(has_said_why);
            }
            Outcome::Complete => {
                // A sender that has seen everything done may leave without a word.
                if end == LinkEnd::Closed {
                    self.outcome = Outcome::Agreed(None);
                }
                self.drain(false);
            }
            Outcome::SenderDone(_) | Outcome::Agreed(_) | Outcome::Failed(_) => self.drain(false),
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::SendBroken { .. })
    }

    /// The first connection has ended.
    fn drain(&mut self, has_said_why: bool) {
        let has_said_why = match self.phase {
            Phase::Open | Phase::SendBroken { .. } => has_said_why,
            Phase::Closing { .. } | Phase::Cut => true,
            Phase::Draining { .. } | Phase::Flushing { .. } | Phase::Closed => return,
        };
        self.phase = Phase::Draining { has_said_why };
        self.actions.push_back(Action::CutFurther);
    }

    /// Everything behind the connections has ended.
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

    /// Everything said so far is handed to the carrier, or never will be.
    pub fn on_flushed(&mut self) {
        if let Phase::Closing { .. } = self.phase {
            self.phase = Phase::Cut;
            self.actions.push_back(Action::Cut);
        }
    }

    /// Everything is said that was to be said, or never will be.
    pub fn on_closed(&mut self) {
        if let Phase::Flushing { .. } = self.phase {
            self.phase = Phase::Closed;
            self.actions.push_back(Action::Cut);
        }
    }

    /// When [`on_time`](Self::on_time) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::SendBroken { until, .. } | Phase::Closing { until } | Phase::Flushing { until } => Some(until),
            Phase::Open | Phase::Cut | Phase::Draining { .. } | Phase::Closed => None,
        }
    }

    /// Time has passed.
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

    /// Whether everything is done and the sender knows it.
    #[must_use]
    pub fn is_agreed(&self) -> bool {
        matches!(self.outcome, Outcome::Agreed(_))
    }

    /// Whether everything is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.outcome, Outcome::Complete | Outcome::Agreed(_))
    }

    /// Whether it is known how the session ends: all its connections end then.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.outcome, Outcome::Pending)
    }

    /// Whether the first connection has ended, so that what has arrived can be drained.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// Whether nothing is left to be done.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Why the session fails, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<&SessionError> {
        match &self.outcome {
            Outcome::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// How it ended: the sender's goodbye if it said one.
    ///
    /// # Errors
    /// Why not everything was done.
    pub fn into_outcome(self) -> Result<Option<Goodbye>, SessionError> {
        match self.outcome {
            Outcome::Failed(error) => Err(error),
            Outcome::Agreed(goodbye) => Ok(goodbye),
            Outcome::SenderDone(goodbye) => Ok(Some(goodbye)),
            Outcome::Pending | Outcome::Complete => Ok(None),
        }
    }
}

fn say(words: Message) -> Action {
    Action::Say(Box::new(words))
}

fn error_of(end: LinkEnd) -> SessionError {
    match end {
        LinkEnd::Closed => SessionError::Cut("the sender closed the connection early".into()),
        LinkEnd::Failed(error) => error,
    }
}

/// What the sender is told of a failure.
fn last_words(failure: &SessionError) -> Option<Message> {
    match failure {
        SessionError::Interrupted => Some(Message::Interrupt),
        // What is refused at this end the sender has to hear of; other refusals came from there.
        SessionError::Refused(refusal) if matches!(refusal.kind, RefusalKind::Path | RefusalKind::Running) => {
            Some(Message::Abort(refusal.clone()))
        }
        other => other.refusal().map(Message::Abort),
    }
}
