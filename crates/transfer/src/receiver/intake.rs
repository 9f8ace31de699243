//! What comes from the sender, handed to the thread whose work it is.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use crossbeam_channel::Sender as Channel;
use icdc_protocol::message::{Congestion, Goodbye, Message, Problem};
use icdc_session::receiver::connections::{Answer, Connections};
use icdc_units::Span;

use super::Shared;
use super::hash::HashJob;
use super::names::NameJob;
use crate::account::Account;
use crate::error::SessionError;
use crate::event::{Event, Outcome};
use crate::link::{Inlet, LinkError, Parcel};
use crate::path_text;

#[derive(Clone)]
pub(super) struct Intake<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) names: Channel<NameJob>,
    pub(super) hash: Channel<HashJob>,
    pub(super) account: &'a Account,
    pub(super) goodbye: &'a Mutex<Option<Goodbye>>,
}

/// What a message means for the intake.
enum Flow {
    Continue,
    End,
}

/// How a connection ended that had nothing more to carry.
enum Left {
    /// Its sender closed it in order.
    Closed,
    Over,
}

impl Intake<'_> {
    /// Receives on the first connection until it or the session ends.
    pub(super) fn run(self, inlet: Box<dyn Inlet>) {
        match self.receive(inlet, None) {
            // The goodbye comes here, and so does the end of a sender that has left without one.
            Ok(Left::Closed) => self.shared.part(),
            Ok(Left::Over) => {}
            Err(error) => self.shared.fail(error),
        }
    }

    /// Receives on the further connection of this number until it or the session ends.
    pub(super) fn run_further(self, number: u8, inlet: Box<dyn Inlet>) {
        match self.receive(inlet, Some(number)) {
            Ok(_) => {}
            // All connections end with the session.
            Err(SessionError::Cut(_)) if self.shared.over.wait(Span::ZERO) => {}
            // The sender transmits what did not arrive over another one.
            Err(SessionError::Cut(_)) => self.ended(number),
            Err(error) => self.shared.fail(error),
        }
    }

    fn receive(&self, mut inlet: Box<dyn Inlet>, further: Option<u8>) -> Result<Left, SessionError> {
        loop {
            let flow = match inlet.receive(&self.shared.pool) {
                Ok(parcel) => {
                    if let Some(number) = further {
                        self.connections().on_message(number, &parcel.message);
                    }
                    self.handle(parcel)?
                }
                // A sender that has seen everything done may leave without a word.
                Err(LinkError::Closed) if self.shared.is_complete() => return Ok(Left::Closed),
                Err(_) if self.shared.is_complete() => return Ok(Left::Over),
                Err(LinkError::Closed) => {
                    return Err(SessionError::Cut("the sender closed the connection early".into()));
                }
                Err(error) => return Err(error.into()),
            };
            if matches!(flow, Flow::End) {
                return Ok(Left::Over);
            }
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.shared.connections.lock().expect("no panic while frames are counted")
    }

    /// A further connection has ended.
    fn ended(&self, number: u8) {
        let told = self.connections().on_ended(number);
        self.shared.further.shut(number);
        if let Some(left) = told {
            (self.shared.events)(Event::connection_lost(number));
            self.shared.reply(left);
        }
    }

    /// A further connection has ended at the sender's end.
    fn left(&self, number: u8) {
        let answer = self.connections().on_left(number);
        match answer {
            Answer::Nothing => {}
            Answer::Shut => self.shared.further.shut(number),
            Answer::NothingArrived => {
                self.shared.reply(Message::Left { connection: number, frames: 0 });
            }
        }
    }

    fn handle(&self, parcel: Parcel) -> Result<Flow, SessionError> {
        let length = parcel.payload_length() as u64;
        self.shared.counters.received.fetch_add(length, Ordering::Relaxed);
        let Parcel { message, payload } = parcel;
        let payload = payload.map(|(block, length)| self.shared.waiting.arrived(block, length));
        match message {
            Message::Block(header) => {
                let _ = self.hash.send(HashJob::Block { header, payload });
            }
            Message::FileEnd(end) => {
                // Behind the blocks, so that it does not overtake them on this connection.
                let _ = self.hash.send(HashJob::End(end));
            }
            Message::Pack(items) => {
                let _ = self.names.send(NameJob::Pack(items, payload));
            }
            Message::Totals(totals) => *self.shared.totals.lock().expect("no panic while totals are noted") = totals,
            Message::Problem(problem) => self.problem(&problem),
            Message::Accepted | Message::Ping => {}
            Message::Congestion(Congestion { name, instead }) => {
                self.account.note_congestion(name);
                if !instead.is_empty() {
                    (self.shared.events)(Event::Notice { text: instead });
                }
            }
            Message::Goodbye(goodbye) => {
                *self.goodbye.lock().expect("no panic while the goodbye is noted") = Some(goodbye);
                self.shared.part();
                self.shared.over.tell();
                return Ok(Flow::End);
            }
            Message::Left { connection, .. } => self.left(connection),
            Message::Interrupt => return Err(SessionError::Interrupted),
            Message::Abort(refusal) | Message::Refused(refusal) => return Err(SessionError::Refused(refusal)),
            Message::Confirmed => {
                let _ = self.hash.send(HashJob::Confirmed);
                let _ = self.names.send(NameJob::Message(Message::Confirmed));
            }
            other => {
                let _ = self.names.send(NameJob::Message(other));
            }
        }
        Ok(Flow::Continue)
    }

    fn problem(&self, problem: &Problem) {
        let path = path_text(&problem.path);
        if problem.error {
            self.shared.failed();
            let reason = Some(problem.reason.clone());
            (self.shared.events)(Event::Item { path, bytes: 0, digest: None, outcome: Outcome::Failed, reason });
        } else {
            (self.shared.events)(Event::Notice { text: format!("{path}: {}", problem.reason) });
        }
    }
}
