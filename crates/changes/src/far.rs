//! The end that changes for another.

use icdc_disk::tree::Tree;
use icdc_link::{Answering, Link};
use icdc_protocol::limits::MAX_SHOWN_PATH;
use icdc_protocol::message::{ChangeCount, ChangeMessage, ChangeRequest, ChangedItem};
use icdc_protocol::validate::clip;
use icdc_protocol::{Features, Message};
use icdc_session::listing::window::Sent;
use icdc_session::{ItemBatch, SessionError};
use icdc_stop::StopSignal;

use crate::carry_out::carry_out;
use crate::report::{Over, Reporter};

/// Carries out the other end's request to make, remove or rename items in `tree`, and sends it the
/// progress; ends early when `stop` is requested or the other end leaves.
///
/// # Errors
/// The error by which the session ended; the other end has been told.
pub fn answer(link: Link, tree: &Tree, request: &ChangeRequest, stop: &StopSignal) -> Result<(), SessionError> {
    let over = stop.child();
    let answering = Answering::begin(link, &over, said).map_err(|error| SessionError::Local(error.to_string()))?;
    answering.send(Message::Accepted(Features::OURS));
    let mut teller = Teller { answering: &answering, sent: Sent::default(), batch: ItemBatch::default(), broken: None };
    let outcome = carry_out(tree, request, &over, &mut teller).and_then(|count| {
        teller.flush()?;
        teller.tell(ChangeMessage::End(count))
    });
    let outcome = match (outcome, teller.broken) {
        (Ok(()), _) => Ok(()),
        (Err(Over), Some(rule)) => Err(SessionError::Protocol(rule.to_owned())),
        (Err(Over), None) => Err(SessionError::Interrupted),
    };
    if let Err(error) = &outcome {
        error.refusal().into_iter().for_each(|refusal| answering.send(Message::Abort(refusal)));
    }
    answering.close();
    // An end that does not agree to what was counted leaves.
    if outcome == Err(SessionError::Interrupted) && !stop.is_requested() { Ok(()) } else { outcome }
}

/// Message of the requesting end while its request is carried out.
enum Said {
    /// It agrees to what was counted.
    Proceed,
    /// It has used messages of this weight.
    Used(u32),
}

/// Parses a message of the requesting end; `None` for one that has no place in a change, which ends
/// the session.
fn said(message: &Message) -> Option<Said> {
    match message {
        Message::Change(ChangeMessage::Used { weight }) => Some(Said::Used(*weight)),
        Message::Change(ChangeMessage::Proceed) => Some(Said::Proceed),
        _ => None,
    }
}

/// Reporter at the end that changes: sends changed items, failures and counts to the requesting
/// end, waiting where that has not used enough of what was sent before.
struct Teller<'a> {
    answering: &'a Answering<Said>,
    sent: Sent,
    batch: ItemBatch,
    /// The rule that the other end breaks.
    broken: Option<&'static str>,
}

impl Teller<'_> {
    /// Sends the changed items that were collected and not sent yet.
    fn flush(&mut self) -> Result<(), Over> {
        self.batch.take().map_or(Ok(()), |items| self.tell(ChangeMessage::Changed(items)))
    }

    /// Sends a message, after waiting until the window (weight of messages sent and not used) has
    /// room for it.
    fn tell(&mut self, message: ChangeMessage) -> Result<(), Over> {
        while !self.sent.send(message.weight()) {
            match self.answering.hear().ok_or(Over)? {
                Said::Used(weight) => self.used(weight)?,
                Said::Proceed => return self.broken("an agreement to nothing"),
            }
        }
        self.answering.send(Message::Change(message));
        Ok(())
    }

    /// Notes that the requesting end has used messages of this weight, which frees room in the
    /// window.
    fn used(&mut self, weight: u32) -> Result<(), Over> {
        self.sent.used(weight).or_else(|rule| self.broken(rule))
    }

    /// Notes the protocol rule that the requesting end breaks; always returns the error, which ends
    /// the change.
    fn broken(&mut self, rule: &'static str) -> Result<(), Over> {
        self.broken = Some(rule);
        Err(Over)
    }
}

impl Reporter for Teller<'_> {
    fn changed(&mut self, mut item: ChangedItem) -> Result<(), Over> {
        item.path.truncate(MAX_SHOWN_PATH);
        self.batch.push(item).map_or(Ok(()), |items| self.tell(ChangeMessage::Changed(items)))
    }

    fn failed(&mut self, path: &[u8], reason: String) -> Result<(), Over> {
        self.flush()?;
        // The root has no path.
        let path = if path.is_empty() { b"." } else { &path[..path.len().min(MAX_SHOWN_PATH)] };
        self.tell(ChangeMessage::Failed { path: path.to_vec(), reason: clip(reason) })
    }

    fn counted(&mut self, count: &ChangeCount) -> Result<(), Over> {
        self.flush()?;
        self.tell(ChangeMessage::Counted(*count))?;
        loop {
            match self.answering.hear().ok_or(Over)? {
                Said::Proceed => return Ok(()),
                Said::Used(weight) => self.used(weight)?,
            }
        }
    }
}
