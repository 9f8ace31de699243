//! The end that lists for another.

use std::convert::Infallible;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use icdc_disk::tree::Tree;
use icdc_filter::Rules;
use icdc_link::{Inlet, Link, LinkControl, MessageWriter, WriterGuard, receive};
use icdc_protocol::message::{ListMessage, ListRequest, Listed, Refusal, RefusalKind};
use icdc_protocol::validate::clip;
use icdc_protocol::{Features, Message};
use icdc_session::SessionError;
use icdc_session::listing::window::{Sent, weight};
use icdc_stop::StopSignal;
use icdc_units::Span;

use crate::produce::produce;
use crate::root::Root;

/// Time limit for the other end to take the end of the listing and to leave.
const CLOSE_TIMEOUT: Span = Span::from_secs(10);
/// Maximum number of `Used` messages that wait; more than an end has to send that keeps to the
/// window.
const MOST_USED: usize = 64;

/// Lists a part of `tree` for the other end, as requested; ends early when `stop` is requested or
/// the other end leaves.
///
/// # Errors
/// The error by which the session ended; the other end has been told.
pub fn answer(link: Link, tree: &Tree, request: &ListRequest, stop: &StopSignal) -> Result<(), SessionError> {
    let over = stop.child();
    let connection = Connection::open(link, &over).map_err(|error| SessionError::Local(error.to_string()))?;
    let outcome = list(tree, request, &over, &connection);
    match &outcome {
        Ok(()) => connection.writer.send(Message::List(ListMessage::End)),
        Err(SessionError::Refused(refusal)) => connection.writer.send(Message::Refused(refusal.clone())),
        Err(error) => error.refusal().into_iter().for_each(|refusal| connection.writer.send(Message::Abort(refusal))),
    }
    connection.close();
    // An end that has seen enough leaves.
    if outcome == Err(SessionError::Interrupted) && !stop.is_requested() { Ok(()) } else { outcome }
}

fn list(tree: &Tree, request: &ListRequest, over: &StopSignal, connection: &Connection) -> Result<(), SessionError> {
    let refused = |reason: String| SessionError::Refused(Refusal::new(RefusalKind::Path, clip(reason)));
    let root = Root::find(tree, &request.path).map_err(|error| refused(error.to_string()))?;
    let rules = Rules::compile(&request.rules).map_err(|error| refused(error.to_string()))?;
    connection.writer.send(Message::Accepted(Features::OURS));
    let mut sent = Sent::default();
    let mut broken = None;
    let mut pass = |records: Vec<Listed>| match connection.await_room(&mut sent, weight(&records)) {
        Ok(true) => {
            connection.writer.send(Message::List(ListMessage::Listed(records)));
            true
        }
        Ok(false) => false,
        Err(rule) => {
            broken = Some(SessionError::Protocol(rule.to_owned()));
            false
        }
    };
    let produced = produce(root, (request, &rules), over, &mut pass);
    broken.map_or(produced, Err)
}

/// The link to the other end: a thread writes, another one reads.
struct Connection {
    writer: MessageWriter,
    end: WriterGuard,
    control: LinkControl,
    /// Weights that the other end has used.
    used: Receiver<u32>,
    /// Disconnected when the other end has left, or this one is stopped.
    ended: Receiver<Infallible>,
    /// Disconnected when the other end has left.
    left: Receiver<Infallible>,
}

impl Connection {
    fn open(link: Link, over: &StopSignal) -> std::io::Result<Self> {
        let Link { outlet, inlet, control } = link;
        let (writer, end) = MessageWriter::start(outlet, &control)?;
        let (tell_used, used) = bounded(MOST_USED);
        let (hold, ended) = bounded(0);
        let (stay, left) = bounded::<Infallible>(0);
        over.on_request(move || drop::<Sender<Infallible>>(hold));
        let over = over.clone();
        icdc_limits::thread::start("message-reader", move || {
            read(inlet, &tell_used);
            drop(stay);
            over.request();
        })?;
        Ok(Self { writer, end, control, used, ended, left })
    }

    /// Waits until records of this weight may be sent; false if the other end has left.
    ///
    /// # Errors
    /// The rule that the other end breaks.
    fn await_room(&self, sent: &mut Sent, weight: usize) -> Result<bool, &'static str> {
        self.used.try_iter().try_for_each(|used| sent.used(used))?;
        while !sent.send(weight) {
            select! {
                recv(self.used) -> used => match used {
                    Ok(used) => sent.used(used)?,
                    Err(_) => return Ok(false),
                },
                recv(self.ended) -> _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Ends this end's direction, and waits for the other end to leave.
    fn close(self) {
        let Self { end, control, left, used, .. } = self;
        // The reader does not wait for room in a queue that nobody empties.
        drop((end, used));
        let _ = left.recv_timeout(CLOSE_TIMEOUT.into());
        control.shutdown();
    }
}

/// Reads what the other end says, until it leaves.
fn read(mut inlet: Box<dyn Inlet>, used: &Sender<u32>) {
    loop {
        match receive(inlet.as_mut()) {
            Ok(Message::Ping) => {}
            Ok(Message::List(ListMessage::Used { weight })) => {
                // At the end nobody asks any more.
                let _ = used.send(weight);
            }
            Ok(other) => {
                tracing::debug!("{} ends the listing", other.kind());
                return;
            }
            Err(error) => {
                tracing::debug!("the listing ends: {error}");
                return;
            }
        }
    }
}
