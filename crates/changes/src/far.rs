//! The end that changes for another.

use std::convert::Infallible;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use icdc_disk::tree::Tree;
use icdc_link::{Inlet, Link, LinkControl, MessageWriter, WriterGuard, receive};
use icdc_protocol::limits::MAX_SHOWN_PATH;
use icdc_protocol::message::{ChangeCount, ChangeMessage, ChangeRequest, ChangedItem};
use icdc_protocol::validate::clip;
use icdc_protocol::{Features, Message};
use icdc_session::listing::window::Sent;
use icdc_session::{ItemBatch, SessionError};
use icdc_stop::StopSignal;
use icdc_units::Span;

use crate::carry_out::carry_out;
use crate::report::{Over, Reporter};

/// Time limit for the other end to take the end of the change and to leave.
const CLOSE_TIMEOUT: Span = Span::from_secs(10);
/// Maximum number of messages of the other end that wait; more than an end has to send that keeps to
/// the window.
const MOST_SAID: usize = 64;

/// Changes a part of `tree` for the other end, as requested; ends early when `stop` is requested or
/// the other end leaves.
///
/// # Errors
/// The error by which the session ended; the other end has been told.
pub fn answer(link: Link, tree: &Tree, request: &ChangeRequest, stop: &StopSignal) -> Result<(), SessionError> {
    let over = stop.child();
    let connection = Connection::open(link, &over).map_err(|error| SessionError::Local(error.to_string()))?;
    connection.writer.send(Message::Accepted(Features::OURS));
    let mut teller =
        Teller { connection: &connection, sent: Sent::default(), batch: ItemBatch::default(), broken: None };
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
        error.refusal().into_iter().for_each(|refusal| connection.writer.send(Message::Abort(refusal)));
    }
    connection.close();
    // An end that does not agree to what was counted leaves.
    if outcome == Err(SessionError::Interrupted) && !stop.is_requested() { Ok(()) } else { outcome }
}

/// What the other end says.
enum Said {
    /// It agrees to what was counted.
    Proceed,
    /// It has used messages of this weight.
    Used(u32),
}

/// The link to the other end: a thread writes, another one reads.
struct Connection {
    writer: MessageWriter,
    end: WriterGuard,
    control: LinkControl,
    said: Receiver<Said>,
    /// Disconnected when the other end has left, or this one is stopped.
    ended: Receiver<Infallible>,
    /// Disconnected when the other end has left.
    left: Receiver<Infallible>,
}

impl Connection {
    fn open(link: Link, over: &StopSignal) -> std::io::Result<Self> {
        let Link { outlet, inlet, control } = link;
        let (writer, end) = MessageWriter::start(outlet, &control)?;
        let (say, said) = bounded(MOST_SAID);
        let (hold, ended) = bounded(0);
        let (stay, left) = bounded::<Infallible>(0);
        over.on_request(move || drop::<Sender<Infallible>>(hold));
        let over = over.clone();
        icdc_limits::thread::start("message-reader", move || {
            read(inlet, &say);
            drop(stay);
            over.request();
        })?;
        Ok(Self { writer, end, control, said, ended, left })
    }

    /// Waits for what the other end says next.
    ///
    /// # Errors
    /// It has left, or this end is stopped.
    fn hear(&self) -> Result<Said, Over> {
        select! {
            recv(self.said) -> said => said.map_err(|_| Over),
            recv(self.ended) -> _ => Err(Over),
        }
    }

    /// Ends this end's direction, and waits for the other end to leave.
    fn close(self) {
        let Self { end, control, left, said, .. } = self;
        // The reader does not wait for room in a queue that nobody empties.
        drop((end, said));
        let _ = left.recv_timeout(CLOSE_TIMEOUT.into());
        control.shutdown();
    }
}

/// Reads what the other end says, until it leaves.
fn read(mut inlet: Box<dyn Inlet>, said: &Sender<Said>) {
    loop {
        let next = match receive(inlet.as_mut()) {
            Ok(Message::Ping) => continue,
            Ok(Message::Change(ChangeMessage::Used { weight })) => Said::Used(weight),
            Ok(Message::Change(ChangeMessage::Proceed)) => Said::Proceed,
            Ok(other) => return tracing::debug!("{} ends the change", other.kind()),
            Err(error) => return tracing::debug!("the change ends: {error}"),
        };
        // At the end nobody asks any more.
        let _ = said.send(next);
    }
}

/// Tells the other end what is changed.
struct Teller<'a> {
    connection: &'a Connection,
    sent: Sent,
    batch: ItemBatch,
    /// The rule that the other end breaks.
    broken: Option<&'static str>,
}

impl Teller<'_> {
    fn flush(&mut self) -> Result<(), Over> {
        self.batch.take().map_or(Ok(()), |items| self.tell(ChangeMessage::Changed(items)))
    }

    /// Sends a message once the window has room for it.
    fn tell(&mut self, message: ChangeMessage) -> Result<(), Over> {
        while !self.sent.send(message.weight()) {
            match self.connection.hear()? {
                Said::Used(weight) => self.used(weight)?,
                Said::Proceed => return self.broken("an agreement to nothing"),
            }
        }
        self.connection.writer.send(Message::Change(message));
        Ok(())
    }

    fn used(&mut self, weight: u32) -> Result<(), Over> {
        self.sent.used(weight).or_else(|rule| self.broken(rule))
    }

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
            match self.connection.hear()? {
                Said::Proceed => return Ok(()),
                Said::Used(weight) => self.used(weight)?,
            }
        }
    }
}
