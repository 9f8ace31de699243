//! How a receiving session comes to its end.

use icdc_protocol::message::{Message, RefusalKind};
use icdc_session::SessionError;
use icdc_units::{Span, Time};

use crate::wire::End;

/// How long what has arrived may take to be read when nothing more can be sent.
const REASON: Span = Span::from_millis(500);
/// How long after the end of a further connection the goodbye may take to arrive on the first.
const GOODBYE: Span = Span::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Ending {
    failure: Option<SessionError>,
    complete: bool,
    parted: bool,
    goodbye: bool,
    over: bool,
    last_words: Option<Vec<Message>>,
    takes_down: bool,
    further: Option<(Time, SessionError)>,
    broken: Option<Time>,
    pub(crate) first_ended: bool,
}

impl Ending {
    pub(crate) fn fail(&mut self, _now: Time, error: SessionError) {
        if self.failure.is_none() && !self.complete {
            let last = match &error {
                SessionError::Interrupted => Some(Message::Interrupt),
                SessionError::Refused(refusal) if refusal.kind == RefusalKind::Path => {
                    Some(Message::Abort(refusal.clone()))
                }
                other => other.refusal().map(Message::Abort),
            };
            self.last_words = Some(last.into_iter().collect());
            self.takes_down = true;
            self.failure = Some(error);
            self.over = true;
        }
    }

    pub(crate) fn on_complete(&mut self, _now: Time) {
        self.complete = true;
        self.over = true;
    }

    pub(crate) fn has_parted(&self) -> bool {
        self.parted
    }

    /// True if nothing more is read on the connection.
    pub(crate) fn on_message(&mut self, now: Time, message: Message) -> bool {
        match message {
            Message::Goodbye(_) => {
                self.goodbye = true;
                self.parted = true;
                self.over = true;
                self.first_ended = true;
            }
            Message::Interrupt => self.fail(now, SessionError::Interrupted),
            Message::Abort(refusal) | Message::Refused(refusal) => self.fail(now, SessionError::Refused(refusal)),
            _ => return false,
        }
        true
    }

    pub(crate) fn on_connection_ended(&mut self, now: Time, connection: usize, end: End) {
        let error = SessionError::Cut(format!("{end:?}"));
        if connection == 0 {
            self.first_ended = true;
            match end {
                End::Closed if self.complete => self.parted = true,
                _ if self.complete => {}
                _ => self.fail(now, error),
            }
        } else if !self.over && self.further.is_none() {
            self.further = Some((now + GOODBYE, error));
        }
    }

    pub(crate) fn on_send_failed(&mut self, now: Time) {
        if self.parted {
            // Nobody waits for an answer.
            return;
        }
        self.broken.get_or_insert(now + REASON);
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let further = self.further.as_ref().filter(|_| !self.over).map(|(until, _)| *until);
        further.into_iter().chain(self.broken.filter(|_| !self.first_ended)).min()
    }

    pub(crate) fn on_time(&mut self, now: Time) {
        if self.broken.take_if(|until| *until <= now).is_some() && !self.first_ended {
            self.fail(now, SessionError::Cut("takes nothing more".into()));
        }
        if let Some((until, error)) = self.further.take() {
            if self.over {
            } else if until <= now {
                self.fail(now, error);
            } else {
                self.further = Some((until, error));
            }
        }
    }

    pub(crate) fn take_last_words(&mut self) -> Option<Vec<Message>> {
        self.last_words.take()
    }

    /// Whether the links are to be ended now, where everything said is handed on.
    pub(crate) fn takes_link_down(&mut self, all_said: bool) -> bool {
        let now = self.takes_down && all_said;
        self.takes_down &= !now;
        now
    }

    /// Everything behind the link has come to its end.
    pub(crate) fn settled(&mut self, now: Time) -> Result<(), SessionError> {
        if self.goodbye && !self.complete {
            self.fail(now, SessionError::Protocol("it said goodbye before everything was done".into()));
        }
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
