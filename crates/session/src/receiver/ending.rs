//! How a receiving session comes to its end: whether everything was done and the sender knows it, or
//! why not, and what is said last.
//!
//! ```text
//! Open ── all done ──► Complete ── goodbye, or the first connection closed in order ──► Parted
//!   │ └── goodbye ──► Taking leave ── all done ──────────────────────────────────────────▲
//!   └── failure ──► Failed                 └── drained before all is done ──► Failed
//!
//! Running ── failure, interrupt ──► Parting (last words) ── said, patience ──► Cut ─┐
//!    └────────────── the first connection has ended ────────────────────────────────┴─► Draining
//! Draining ── everything behind the connections has ended ──► Farewell ── said, patience ──► Ended
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
pub const FAREWELL: Span = Span::from_secs(2);
/// How long the reason may take to be sent while the sender still sends: it keeps nobody waiting who
/// has asked to stop.
pub const PARTING: Span = Span::from_millis(500);

/// How long what has arrived may take to be received when nothing more can be sent: the sender's
/// reason, or its goodbye.
pub const REASON: Span = Span::from_millis(500);

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
    verdict: Verdict,
    course: Course,
    actions: VecDeque<Action>,
}

/// Whether everything was done.
#[derive(Clone, Debug)]
enum Verdict {
    Open,
    /// The sender has said goodbye: it knows that everything is done, before this end does.
    TakingLeave(Goodbye),
    /// Everything is done.
    Complete,
    /// Everything is done, and the sender knows it.
    Parted(Option<Goodbye>),
    Failed(SessionError),
}

/// What still goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Course {
    Running,
    /// The first connection takes nothing more: the session fails by that, unless the sender's end
    /// of it tells more by then.
    Mute {
        until: Time,
        error: SessionError,
    },
    /// The last words are being sent.
    Parting {
        until: Time,
    },
    /// The first connection is being ended.
    Cut,
    /// What has arrived is being made durable.
    Draining {
        has_said_why: bool,
    },
    /// Everything is said that is to be said.
    Farewell {
        until: Time,
    },
    Ended,
}

impl Default for Ending {
    fn default() -> Self {
        Self { verdict: Verdict::Open, course: Course::Running, actions: VecDeque::new() }
    }
}

impl Ending {
    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Every item is done.
    pub fn on_complete(&mut self) {
        self.verdict = match std::mem::replace(&mut self.verdict, Verdict::Complete) {
            Verdict::Open => Verdict::Complete,
            Verdict::TakingLeave(goodbye) => Verdict::Parted(Some(goodbye)),
            other => other,
        };
    }

    /// The session cannot go on. The first reason counts, and none once everything is done.
    pub fn on_failure(&mut self, now: Time, error: SessionError) {
        if matches!(self.verdict, Verdict::Open | Verdict::TakingLeave(_)) {
            let words = last_words(&error);
            self.verdict = Verdict::Failed(error);
            self.part(now, words);
        }
    }

    /// The first connection takes nothing more, for the reason `error`.
    pub fn on_send_failed(&mut self, now: Time, error: SessionError) {
        // Behind a goodbye nobody waits for an answer.
        if let (Verdict::Open, Course::Running) = (&self.verdict, &self.course) {
            self.course = Course::Mute { until: now + REASON, error };
        }
    }

    /// The user asks to stop.
    pub fn on_interrupt(&mut self, now: Time) {
        match self.verdict {
            Verdict::Open | Verdict::TakingLeave(_) => self.verdict = Verdict::Failed(SessionError::Interrupted),
            // Nothing is left to be stopped: the sender is about to say goodbye, by which the run is put away.
            Verdict::Complete if self.is_running() => return self.course = Course::Parting { until: now + FAREWELL },
            _ => {}
        }
        self.part(now, Some(Message::Interrupt));
    }

    /// Says the last words while the sender may still send.
    fn part(&mut self, now: Time, words: Option<Message>) {
        if self.is_running() {
            self.actions.extend(words.map(say));
            self.actions.push_back(Action::Flush);
            self.course = Course::Parting { until: now + PARTING };
        }
    }

    /// The sender has said goodbye on the first connection, where nothing more is received.
    pub fn on_goodbye(&mut self, goodbye: Goodbye) {
        self.verdict = match std::mem::replace(&mut self.verdict, Verdict::Open) {
            Verdict::Open => Verdict::TakingLeave(goodbye),
            Verdict::Complete => Verdict::Parted(Some(goodbye)),
            other => other,
        };
        self.drain(false);
    }

    /// Nothing more is received on the first connection.
    pub fn on_link_ended(&mut self, end: LinkEnd) {
        match &self.verdict {
            Verdict::Open => {
                let error = error_of(end);
                // Whoever has asked to stop is answered when everything is durable.
                let words = last_words(&error).filter(|words| *words != Message::Interrupt);
                self.verdict = Verdict::Failed(error);
                let has_said_why = words.is_some() && self.is_running();
                if has_said_why {
                    self.actions.extend(words.map(say));
                }
                self.drain(has_said_why);
            }
            Verdict::Complete => {
                // A sender that has seen everything done may leave without a word.
                if end == LinkEnd::Closed {
                    self.verdict = Verdict::Parted(None);
                }
                self.drain(false);
            }
            Verdict::TakingLeave(_) | Verdict::Parted(_) | Verdict::Failed(_) => self.drain(false),
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.course, Course::Running | Course::Mute { .. })
    }

    /// The first connection has ended.
    fn drain(&mut self, has_said_why: bool) {
        let has_said_why = match self.course {
            Course::Running | Course::Mute { .. } => has_said_why,
            Course::Parting { .. } | Course::Cut => true,
            Course::Draining { .. } | Course::Farewell { .. } | Course::Ended => return,
        };
        self.course = Course::Draining { has_said_why };
        self.actions.push_back(Action::CutFurther);
    }

    /// Everything behind the connections has ended.
    pub fn on_drained(&mut self, now: Time) {
        if let Verdict::TakingLeave(_) = self.verdict {
            let reason = "it said goodbye before everything was done";
            self.verdict = Verdict::Failed(SessionError::Protocol(reason.into()));
        }
        let Course::Draining { has_said_why } = self.course else { return };
        if let (Verdict::Failed(error), false) = (&self.verdict, has_said_why) {
            self.actions.extend(last_words(error).map(say));
        }
        self.actions.push_back(Action::Close);
        self.course = Course::Farewell { until: now + FAREWELL };
    }

    /// Everything said so far is handed to the carrier, or never will be.
    pub fn on_flushed(&mut self) {
        if let Course::Parting { .. } = self.course {
            self.course = Course::Cut;
            self.actions.push_back(Action::Cut);
        }
    }

    /// Everything is said that was to be said, or never will be.
    pub fn on_closed(&mut self) {
        if let Course::Farewell { .. } = self.course {
            self.course = Course::Ended;
            self.actions.push_back(Action::Cut);
        }
    }

    /// When [`on_time`](Self::on_time) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        match self.course {
            Course::Mute { until, .. } | Course::Parting { until } | Course::Farewell { until } => Some(until),
            Course::Running | Course::Cut | Course::Draining { .. } | Course::Ended => None,
        }
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Time) {
        match self.course {
            Course::Mute { until, ref error } if until <= now => {
                let error = error.clone();
                self.course = Course::Running;
                if let Verdict::Open = self.verdict {
                    self.on_failure(now, error);
                }
            }
            Course::Parting { until } if until <= now => {
                if let Verdict::Complete = self.verdict {
                    self.verdict = Verdict::Failed(SessionError::Interrupted);
                }
                self.on_flushed();
            }
            Course::Farewell { until } if until <= now => self.on_closed(),
            _ => {}
        }
    }

    /// Whether everything is done and the sender knows it.
    #[must_use]
    pub fn has_parted(&self) -> bool {
        matches!(self.verdict, Verdict::Parted(_))
    }

    /// Whether everything is done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self.verdict, Verdict::Complete | Verdict::Parted(_))
    }

    /// Whether it is known how the session ends: all its connections end then.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.verdict, Verdict::Open)
    }

    /// Whether the first connection has ended, so that what has arrived can be drained.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self.course, Course::Draining { .. })
    }

    /// Whether nothing is left to be done.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.course == Course::Ended
    }

    /// Why the session fails, if it does.
    #[must_use]
    pub fn failure(&self) -> Option<&SessionError> {
        match &self.verdict {
            Verdict::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// How it ended: the sender's goodbye if it said one.
    ///
    /// # Errors
    /// Why not everything was done.
    pub fn into_outcome(self) -> Result<Option<Goodbye>, SessionError> {
        match self.verdict {
            Verdict::Failed(error) => Err(error),
            Verdict::Parted(goodbye) => Ok(goodbye),
            Verdict::TakingLeave(goodbye) => Ok(Some(goodbye)),
            Verdict::Open | Verdict::Complete => Ok(None),
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
