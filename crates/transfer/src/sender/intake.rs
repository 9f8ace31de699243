//! What comes back from the receiver, and what the sender does about it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender as Channel;
use icdc_disk::BlockPool;
use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::{Done, Message, Want, Wants};

use super::Shared;
use super::large::LargeJob;
use super::ledger::{Item, Settlement};
use super::small;
use crate::error::SessionError;
use crate::event::{Event, Outcome};
use crate::link::{Inlet, LinkError};
use crate::path_text;

pub(crate) struct Intake<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) packs: Channel<Vec<Arc<Item>>>,
    pub(crate) large: Channel<LargeJob>,
}

impl Intake<'_> {
    /// Handles messages until the session ends.
    pub(crate) fn run(self, mut inlet: Box<dyn Inlet>) {
        // The receiver has no payloads to send: a frame with one finds no block.
        let no_payloads = BlockPool::new(0);
        let pool = match &no_payloads {
            Ok(pool) => pool,
            Err(error) => return self.shared.fail(SessionError::Local(error.to_string())),
        };
        pool.close();
        loop {
            let outcome = match inlet.receive(pool) {
                Ok(parcel) => self.handle(parcel.message),
                Err(LinkError::Closed) if self.shared.is_complete() => return,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = outcome {
                return self.shared.fail(error);
            }
        }
    }

    fn handle(&self, message: Message) -> Result<(), SessionError> {
        if !self.shared.answered.swap(true, Ordering::Relaxed) {
            self.shared.link.begin_data();
        }
        match message {
            Message::Ready(ready) => {
                if ready.resuming {
                    (self.shared.events)(Event::Notice { text: "continuing an interrupted run".into() });
                }
                let _ = self.shared.queue_control(Message::Confirmed);
                Ok(())
            }
            Message::Held(held) => {
                if self.shared.ledger.hold(held.id, held.first, &held.values) {
                    Ok(())
                } else {
                    Err(SessionError::Protocol(format!("holds blocks of item {} that it does not have", held.id)))
                }
            }
            Message::Wants(wants) => self.wants(wants),
            Message::Resend { id, index } => match self.shared.ledger.resend(id, index) {
                Some((item, true)) => {
                    let _ = self.large.send(LargeJob::Again(item, index));
                    Ok(())
                }
                Some((_, false)) => Err(SessionError::Protocol(format!(
                    "asks again for block {index} of item {id}, which it does not hold"
                ))),
                None => Ok(()),
            },
            Message::Done(done) => done.into_iter().try_for_each(|done| self.done(done)),
            Message::Feedback(feedback) => {
                *self.shared.feedback.lock().expect("no panic while feedback is stored") = feedback;
                Ok(())
            }
            Message::Accepted | Message::Ping => Ok(()),
            Message::Interrupt => Err(SessionError::Interrupted),
            Message::Abort(refusal) | Message::Refused(refusal) => Err(SessionError::Refused(refusal)),
            _ => Err(SessionError::Protocol("a message that only a sender may send".into())),
        }
    }

    fn wants(&self, wants: Wants) -> Result<(), SessionError> {
        let mut small = Vec::new();
        for (number, want) in (0..).zip(wants.answers) {
            let Some(id) = wants.first.checked_add(number) else { break };
            // Directories are settled from the start; a directory's failure comes as `Done`.
            let Some(item) = self.shared.ledger.pending(id) else {
                if self.shared.dry_run {
                    self.shared.ledger.directory_done(id, false);
                }
                continue;
            };
            if !self.shared.ledger.ask(id) {
                return Err(SessionError::Protocol(format!("asks twice for item {id}")));
            }
            match want {
                Want::All | Want::Rest if self.shared.dry_run => self.would_send(&item),
                Want::All if item.is_file() && item.size() <= PACK_FILE_LIMIT => small.push(item),
                Want::All | Want::Rest => self.want_large(item),
                Want::Have(digest) => {
                    self.shared.ledger.resumed(item.size());
                    self.shared.ledger.settle(id, Settlement::Published(Some(digest)));
                }
                Want::TakenOver(digest) => {
                    self.shared.ledger.resumed(item.size());
                    self.shared.ledger.settle(id, Settlement::TakenOver(digest));
                }
                Want::Skip => {
                    self.shared.ledger.settle(id, Settlement::Skipped);
                    self.shared.report(&item, Outcome::Skipped, None, None);
                }
                Want::Failed => {}
            }
        }
        for pack in small::into_packs(small) {
            let _ = self.packs.send(pack);
        }
        Ok(())
    }

    fn want_large(&self, item: Arc<Item>) {
        if !item.is_file() {
            return;
        }
        let held = self.shared.ledger.take_held(item.entry.id);
        if let Some(held) = &held {
            self.shared.ledger.resumed(held.bytes());
            (self.shared.events)(Event::Resumed { bytes: held.bytes() });
        }
        let _ = self.large.send(LargeJob::File(item, held));
    }

    fn would_send(&self, item: &Item) {
        (self.shared.events)(Event::WouldSend { path: path_text(&item.path), bytes: item.size() });
        self.shared.ledger.settle(item.entry.id, Settlement::Published(None));
    }

    fn done(&self, done: Done) -> Result<(), SessionError> {
        let ledger = &self.shared.ledger;
        let Some(item) = ledger.pending(done.id) else {
            if let Some(path) = ledger.directory_done(done.id, done.outcome.is_err())
                && let Err(reason) = done.outcome
            {
                self.shared.report_failure(&path, reason);
            }
            return Ok(());
        };
        let ours = ledger.digest(done.id);
        match done.outcome {
            Ok(theirs) if item.is_file() && (theirs.is_none() || theirs != ours) => Err(SessionError::Protocol(
                format!("the receiver published {} with another digest than was sent", path_text(&item.path)),
            )),
            Ok(digest) => {
                ledger.settle(done.id, Settlement::Published(digest));
                self.shared.report(&item, Outcome::Published, digest, None);
                Ok(())
            }
            Err(reason) => {
                ledger.settle(done.id, Settlement::Failed);
                self.shared.report(&item, Outcome::Failed, None, Some(reason));
                Ok(())
            }
        }
    }
}
