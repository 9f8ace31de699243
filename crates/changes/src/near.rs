//! Asks another end for a change, and hears what becomes of it.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, unbounded};
use icdc_link::{Inlet, Link, LinkControl, MessageWriter, receive};
use icdc_protocol::message::{
    ChangeCount, ChangeMessage, ChangeRequest, Job, Refusal, RefusalKind, Request, TransferId,
};
use icdc_protocol::{Features, Message};
use icdc_session::SessionError;
use icdc_session::listing::window::Received;
use icdc_stop::StopSignal;

use crate::report::{Over, Reporter};

/// Message of the end that changes, or the error that ended its session.
type Incoming = Result<ChangeMessage, SessionError>;

/// Asks the end of this link for a change; returns how much it has changed, or would in a dry run.
///
/// # Errors
/// The other end refused or left, or broke the protocol; or [`SessionError::Interrupted`], also if
/// the reporter ends the change.
pub fn request(
    link: Link,
    transfer: TransferId,
    request: ChangeRequest,
    stop: &StopSignal,
    reporter: &mut dyn Reporter,
) -> Result<ChangeCount, SessionError> {
    let Link { outlet, inlet, control } = link;
    // Dropped last, after what was sent has left.
    let _leave = Leave(control.clone());
    let (writer, _end) =
        MessageWriter::start(outlet, &control).map_err(|error| SessionError::Local(error.to_string()))?;
    // As much as the window allows.
    let (queue, incoming) = unbounded();
    let stopped = queue.clone();
    let received = Arc::new(Mutex::new(Received::default()));
    let counted = Arc::clone(&received);
    icdc_limits::thread::start("message-reader", move || read(inlet, &queue, &counted))
        .map_err(|error| SessionError::Local(error.to_string()))?;
    let can_count = matches!(request, ChangeRequest::Remove { dry_run: false, .. });
    writer.send(Message::Request(Request::new(transfer, Job::Change(request))));
    stop.on_request(move || {
        let _ = stopped.send(Err(SessionError::Interrupted));
        control.shutdown();
    });
    let conversation = Conversation { incoming, writer, received: &received, can_count };
    conversation.run(reporter)
}

/// Guard that ends the connection to the end that changes when it is dropped.
struct Leave(LinkControl);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

/// The requesting end's part of the dialogue about one change: takes the messages of the end that
/// changes, and answers them.
struct Conversation<'a> {
    incoming: Receiver<Incoming>,
    writer: MessageWriter,
    received: &'a Mutex<Received>,
    /// Whether the other end has something to count, which it tells once.
    can_count: bool,
}

impl Conversation<'_> {
    /// Passes what the end that changes tells to the reporter, agrees to a removal once the
    /// reporter has taken its count, and returns the final count.
    fn run(mut self, reporter: &mut dyn Reporter) -> Result<ChangeCount, SessionError> {
        loop {
            let gone = || Err(SessionError::Cut("the other end is gone".into()));
            let message = self.incoming.recv().unwrap_or_else(|_| gone())?;
            let weight = message.weight();
            match message {
                ChangeMessage::Changed(items) => {
                    items.into_iter().try_for_each(|item| reporter.changed(item)).map_err(interrupted)?;
                }
                ChangeMessage::Failed { path, reason } => reporter.failed(&path, reason).map_err(interrupted)?,
                ChangeMessage::Counted(count) if self.can_count => {
                    self.can_count = false;
                    reporter.counted(&count).map_err(interrupted)?;
                    self.writer.send(Message::Change(ChangeMessage::Proceed));
                }
                ChangeMessage::End(count) => return Ok(count),
                ChangeMessage::Counted(_) | ChangeMessage::Proceed | ChangeMessage::Used { .. } => {
                    return Err(SessionError::Protocol("a message of a change that is out of place".into()));
                }
            }
            let told = self.received.lock().unwrap_or_else(PoisonError::into_inner).used(weight);
            if let Some(weight) = told {
                self.writer.send(Message::Change(ChangeMessage::Used { weight }));
            }
        }
    }
}

/// The session's error where the reporter ends the change.
fn interrupted(Over: Over) -> SessionError {
    SessionError::Interrupted
}

/// Reading thread: queues the messages of the end that changes, until the last one or an error, and
/// counts their weight in `received`.
fn read(mut inlet: Box<dyn Inlet>, queue: &Sender<Incoming>, received: &Mutex<Received>) {
    let mut accepted = false;
    loop {
        let incoming = match receive(inlet.as_mut()) {
            Ok(Message::Ping | Message::MaxRate { .. }) => continue,
            Ok(Message::Accepted(theirs)) => match theirs.lacking(Features::CHANGES) {
                None => {
                    accepted = true;
                    continue;
                }
                Some(sentence) => lacking(sentence),
            },
            // An end that does not know the request.
            Ok(Message::Refused(Refusal { kind: RefusalKind::Protocol, .. })) if !accepted => {
                lacking(Features::NONE.lacking(Features::CHANGES).unwrap_or_default())
            }
            Ok(Message::Refused(refusal) | Message::Abort(refusal)) => Err(SessionError::Refused(refusal)),
            Ok(Message::Change(message)) if accepted => {
                let arrived = received.lock().unwrap_or_else(PoisonError::into_inner).arrived(message.weight());
                arrived.map(|()| message).map_err(|rule| SessionError::Protocol(rule.to_owned()))
            }
            Ok(other) => Err(SessionError::Protocol(format!("unexpected {} in a change", other.kind()))),
            Err(error) => Err(SessionError::of_link(error)),
        };
        let is_last = !matches!(&incoming, Ok(message) if !matches!(message, ChangeMessage::End(_)));
        if queue.send(incoming).is_err() || is_last {
            return;
        }
    }
}

/// The error for an end whose release does not know such requests; `sentence` tells the user what
/// it lacks.
fn lacking(sentence: &str) -> Incoming {
    Err(SessionError::Refused(Refusal::new(RefusalKind::NotAllowed, sentence)))
}
