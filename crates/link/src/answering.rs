//! The end of a link that answers a request by messages.
//!
//! ```text
//! messages ─► MessageWriter ─► outlet        inlet ─► reading thread ─► what is heard
//! ```
//!
//! The answer ends early when the other end leaves, or this one is stopped.

use std::convert::Infallible;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use icdc_protocol::Message;
use icdc_stop::StopSignal;
use icdc_units::Span;

use crate::control::LinkControl;
use crate::halves::Inlet;
use crate::link::Link;
use crate::message_writer::{MessageWriter, WriterGuard};
use crate::messages::receive;

/// Time limit for the other end to take the end of the answer and to leave.
const CLOSE_TIMEOUT: Span = Span::from_secs(10);
/// Maximum number of messages of the other end that wait; more than an end has to send that keeps to
/// a window.
const MOST_HEARD: usize = 64;

/// Link to an end that has requested something: a thread writes, another one reads. The other end
/// says `S`s.
pub struct Answering<S> {
    writer: MessageWriter,
    end: WriterGuard,
    control: LinkControl,
    heard: Receiver<S>,
    /// Disconnected when the other end has left, or this one is stopped.
    ended: Receiver<Infallible>,
    /// Disconnected when the other end has left.
    left: Receiver<Infallible>,
}

impl<S: Send + 'static> Answering<S> {
    /// Starts the threads that write and read. The answer ends when `over` is requested; `over` is
    /// requested here when the other end leaves. `understand` converts the other end's messages:
    /// one for which it returns `None`, unless it is a ping, counts as leaving.
    ///
    /// # Errors
    /// The process may have no further thread.
    pub fn begin(
        link: Link,
        over: &StopSignal,
        understand: impl Fn(&Message) -> Option<S> + Send + 'static,
    ) -> std::io::Result<Self> {
        let Link { outlet, inlet, control } = link;
        let (writer, end) = MessageWriter::start(outlet, &control)?;
        let (tell, heard) = bounded(MOST_HEARD);
        let (hold, ended) = bounded(0);
        let (stay, left) = bounded::<Infallible>(0);
        over.on_request(move || drop::<Sender<Infallible>>(hold));
        let over = over.clone();
        icdc_limits::thread::start("message-reader", move || {
            read(inlet, &tell, understand);
            drop(stay);
            over.request();
        })?;
        Ok(Self { writer, end, control, heard, ended, left })
    }

    /// Queues a message to the other end.
    pub fn send(&self, message: Message) {
        self.writer.send(message);
    }

    /// Messages of the other end that have arrived and were not taken yet; does not wait.
    pub fn heard(&self) -> impl Iterator<Item = S> + '_ {
        self.heard.try_iter()
    }

    /// Waits for what the other end says next; `None` if it has left, or this end is stopped.
    #[must_use]
    pub fn hear(&self) -> Option<S> {
        select! {
            recv(self.heard) -> said => said.ok(),
            recv(self.ended) -> _ => None,
        }
    }

    /// Ends this end's direction, and waits for the other end to leave, at most 10 s.
    pub fn close(self) {
        let Self { end, control, left, heard, .. } = self;
        // The reader does not wait for room in a queue that nobody empties.
        drop((end, heard));
        let _ = left.recv_timeout(CLOSE_TIMEOUT.into());
        control.shutdown();
    }
}

/// Reads what the other end says, until it leaves.
fn read<S>(mut inlet: Box<dyn Inlet>, tell: &Sender<S>, understand: impl Fn(&Message) -> Option<S>) {
    loop {
        let message = match receive(inlet.as_mut()) {
            Ok(Message::Ping) => continue,
            Ok(message) => message,
            Err(error) => return tracing::debug!("the answer ends: {error}"),
        };
        match understand(&message) {
            Some(said) => {
                // At the end nobody asks any more.
                let _ = tell.send(said);
            }
            None => return tracing::debug!("{} ends the answer", message.kind()),
        }
    }
}
