//! A listing as a stream of records, whether this host makes it or another one.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use icdc_disk::tree::Tree;
use icdc_filter::Rules;
use icdc_link::{Inlet, Link, LinkControl, MessageWriter, WriterGuard, receive};
use icdc_protocol::message::{Job, ListMessage, ListRequest, Listed, Refusal, RefusalKind, Request, TransferId};
use icdc_protocol::{Features, Message};
use icdc_session::SessionError;
use icdc_session::listing::checker::{ListingChecker, Record};
use icdc_session::listing::window::{Received, weight};
use icdc_stop::StopSignal;

use crate::produce::produce;
use crate::root::Root;

/// Maximum number of batches that are queued between the thread that lists this host and the reader
/// of the listing.
const AHEAD: usize = 64;

/// Message of the end that lists, or the end of its session.
enum Incoming {
    /// Further records.
    Records(Vec<Listed>),
    /// The listing is complete.
    End,
    /// There will be no more, for this reason.
    Failed(SessionError),
}

/// A listing as a stream of records; dropping it ends it.
pub struct Listing {
    incoming: Receiver<Incoming>,
    batch: std::vec::IntoIter<Listed>,
    /// Weight of the batch.
    weight: usize,
    checker: ListingChecker,
    origin: Origin,
}

/// The end that makes the listing: this process or another host.
enum Origin {
    /// Threads of this process, until this is requested.
    Here(StopSignal),
    /// Another host.
    There(RemoteEnd),
}

/// Connection to the other host, which lists.
struct RemoteEnd {
    writer: MessageWriter,
    /// Guard of the writing thread; dropped first when the listing is.
    end: Option<WriterGuard>,
    control: LinkControl,
    received: Arc<Mutex<Received>>,
}

impl Listing {
    /// Begins a listing of this host.
    ///
    /// # Errors
    /// [`SessionError::Refused`] if the path cannot be listed; this host may lack a thread.
    pub fn here(tree: &Tree, request: ListRequest, stop: &StopSignal) -> Result<Self, SessionError> {
        let refused = |reason: String| SessionError::Refused(Refusal::new(RefusalKind::Path, reason));
        let root = Root::find(tree, &request.path).map_err(|error| refused(error.to_string()))?;
        let rules = Rules::compile(&request.rules).map_err(|error| refused(error.to_string()))?;
        let over = stop.child();
        let (queue, incoming) = bounded(AHEAD);
        let signal = over.clone();
        let work = move || {
            let mut pass = |records| queue.send(Incoming::Records(records)).is_ok();
            let last = match produce(root, (&request, &rules), &signal, &mut pass) {
                Ok(()) => Incoming::End,
                Err(error) => Incoming::Failed(error),
            };
            // Nobody takes it if the listing was dropped.
            let _ = queue.send(last);
        };
        icdc_limits::thread::start("list", work).map_err(|error| SessionError::Local(error.to_string()))?;
        Ok(Self::new(incoming, Origin::Here(over)))
    }

    /// Asks the end of this link for a listing.
    ///
    /// # Errors
    /// This host lacks a thread.
    pub fn there(
        link: Link,
        transfer: TransferId,
        request: ListRequest,
        stop: &StopSignal,
    ) -> Result<Self, SessionError> {
        let local = |error: std::io::Error| SessionError::Local(error.to_string());
        let Link { outlet, inlet, control } = link;
        let (writer, end) = MessageWriter::start(outlet, &control).map_err(local)?;
        // As much as the window allows.
        let (queue, incoming) = unbounded();
        let received = Arc::new(Mutex::new(Received::default()));
        let stopped = queue.clone();
        let (counted, closing) = (Arc::clone(&received), control.clone());
        let work = move || read(inlet, &queue, &counted);
        icdc_limits::thread::start("message-reader", work).map_err(|error| local(error.into()))?;
        writer.send(Message::Request(Request::new(transfer, Job::List(request))));
        stop.on_request(move || {
            let _ = stopped.send(Incoming::Failed(SessionError::Interrupted));
            closing.shutdown();
        });
        Ok(Self::new(incoming, Origin::There(RemoteEnd { writer, end: Some(end), control, received })))
    }

    /// A listing of which nothing has been read; its batches come by `incoming`.
    fn new(incoming: Receiver<Incoming>, origin: Origin) -> Self {
        Self { incoming, batch: Vec::new().into_iter(), weight: 0, checker: ListingChecker::new(), origin }
    }

    /// Waits for the next record; `None` once the listing is complete.
    ///
    /// # Errors
    /// The other end refused or left, or broke the protocol; or [`SessionError::Interrupted`].
    pub fn next_record(&mut self) -> Result<Option<Record>, SessionError> {
        loop {
            if let Some(record) = self.batch.next() {
                let record = self.checker.take(record);
                return record.map(Some).map_err(|rule| SessionError::Protocol(rule.to_owned()));
            }
            self.used();
            let gone = || Incoming::Failed(SessionError::Cut("the other end is gone".into()));
            match self.incoming.recv().unwrap_or_else(|_| gone()) {
                Incoming::Records(records) => {
                    self.weight = weight(&records);
                    self.batch = records.into_iter();
                }
                Incoming::End if self.checker.is_complete() => return Ok(None),
                Incoming::End => {
                    return Err(SessionError::Protocol("the listing has ended before it is complete".into()));
                }
                Incoming::Failed(error) => return Err(error),
            }
        }
    }

    /// Notes that the batch is used, and tells the other host from time to time, which then may
    /// send more. Nothing for a listing of this host.
    fn used(&mut self) {
        let weight = std::mem::take(&mut self.weight);
        let Origin::There(there) = &self.origin else { return };
        let told = there.received.lock().unwrap_or_else(PoisonError::into_inner).used(weight);
        if let Some(weight) = told {
            there.writer.send(Message::List(ListMessage::Used { weight }));
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        match &mut self.origin {
            Origin::Here(over) => over.request(),
            Origin::There(there) => {
                drop(there.end.take());
                there.control.shutdown();
            }
        }
    }
}

/// Reading thread: queues the messages of the listing end, until the last one or an error, and
/// counts their weight in `received`.
fn read(mut inlet: Box<dyn Inlet>, queue: &Sender<Incoming>, received: &Mutex<Received>) {
    let mut accepted = false;
    loop {
        let incoming = match receive(inlet.as_mut()) {
            Ok(Message::Ping | Message::MaxRate { .. } | Message::Congestion(_)) => continue,
            Ok(Message::Accepted(theirs)) => match theirs.lacking(Features::LISTING) {
                None => {
                    accepted = true;
                    continue;
                }
                Some(sentence) => lacking(sentence),
            },
            // An end that does not know the request.
            Ok(Message::Refused(Refusal { kind: RefusalKind::Protocol, .. })) if !accepted => {
                lacking(Features::NONE.lacking(Features::LISTING).unwrap_or_default())
            }
            Ok(Message::Refused(refusal) | Message::Abort(refusal)) => Incoming::Failed(SessionError::Refused(refusal)),
            Ok(Message::List(ListMessage::Listed(records))) if accepted => {
                let counted = received.lock().unwrap_or_else(PoisonError::into_inner).arrived(weight(&records));
                match counted {
                    Ok(()) => Incoming::Records(records),
                    Err(rule) => Incoming::Failed(SessionError::Protocol(rule.to_owned())),
                }
            }
            Ok(Message::List(ListMessage::End)) if accepted => Incoming::End,
            Ok(other) => Incoming::Failed(SessionError::Protocol(format!("unexpected {} in a listing", other.kind()))),
            Err(error) => Incoming::Failed(SessionError::of_link(error)),
        };
        let is_last = !matches!(incoming, Incoming::Records(_));
        if queue.send(incoming).is_err() || is_last {
            return;
        }
    }
}

/// The error for an end whose release cannot list; `sentence` tells the user what it lacks.
fn lacking(sentence: &str) -> Incoming {
    Incoming::Failed(SessionError::Refused(Refusal::new(RefusalKind::NotAllowed, sentence)))
}
