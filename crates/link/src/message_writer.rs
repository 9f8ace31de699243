//! A thread that writes messages to a link on behalf of others, and keep-alives between them: links
//! that are silent for long are given up by their ends and forgotten by firewalls on the path.

use std::convert::Infallible;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use icdc_protocol::Message;
use icdc_tcp::clock;
use icdc_units::Span;

use crate::control::LinkControl;
use crate::halves::{DEAD_AFTER, Outlet};

/// Messages that may wait; who has more waits too.
const DEPTH: usize = 256;

/// How long what is queued at the end may take. Then the peer reads nothing, or too
/// slowly, and the link is ended.
const FAREWELL: Span = Span::from_secs(10);

/// Sends on behalf of any thread. Clones write to the same outlet.
#[derive(Clone)]
pub struct MessageWriter {
    queue: Sender<Queued>,
}

/// Ends the writer when it is dropped, after everything queued before has been sent; within ten
/// seconds, however, by ending the link where the peer does not read it.
pub struct WriterGuard {
    queue: Sender<Queued>,
    control: LinkControl,
    /// Disconnected once the thread has dropped the outlet.
    ended: Receiver<Infallible>,
    thread: Option<JoinHandle<()>>,
}

/// A message, or `None` for the end: clones of the writer may outlive it.
type Queued = Option<Message>;

impl MessageWriter {
    /// Starts the thread that writes to `outlet`, the sending half of the link of `control`.
    ///
    /// # Errors
    /// The process may have no further thread.
    pub fn start(outlet: Box<dyn Outlet>, control: &LinkControl) -> std::io::Result<(Self, WriterGuard)> {
        let (queue, messages) = bounded(DEPTH);
        let (end, ended) = bounded(0);
        let thread = std::thread::Builder::new().name("message-writer".into()).spawn(move || {
            write(outlet, &messages);
            drop(end);
        })?;
        let guard = WriterGuard { queue: queue.clone(), control: control.clone(), ended, thread: Some(thread) };
        Ok((Self { queue }, guard))
    }

    /// Sends a message, soon. Once the link is gone it goes nowhere: who receives notices.
    pub fn send(&self, message: Message) {
        let _ = self.queue.send(Some(message));
    }

    /// As [`MessageWriter::send`], but waits no longer than `patience` while too many others are
    /// waiting. Answers whether it was taken: false as well once the link is gone.
    pub fn send_within(&self, message: Message, patience: Span) -> bool {
        self.queue.send_timeout(Some(message), patience.into()).is_ok()
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        let deadline = clock::now() + FAREWELL;
        let _ = self.queue.send_timeout(None, FAREWELL.into());
        if let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout((deadline - clock::now()).into()) {
            tracing::debug!("{} does not read what is left: the link is ended", self.control.peer());
            self.control.shutdown();
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own thread.
            let _ = thread.join();
        }
    }
}

fn write(mut outlet: Box<dyn Outlet>, messages: &Receiver<Queued>) {
    let pause = Duration::from_nanos(DEAD_AFTER.as_nanos() / 4);
    loop {
        let message = match messages.recv_timeout(pause) {
            Ok(Some(message)) => message,
            Err(RecvTimeoutError::Timeout) => Message::Ping,
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
        };
        let sent = outlet.send(message.into());
        let flushed = if messages.is_empty() { outlet.flush() } else { Ok(()) };
        if let Err(error) = sent.and(flushed) {
            tracing::debug!("nothing more can be sent: {error}");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkError, memory_pair, receive};

    #[test]
    fn everything_sent_arrives_before_the_end() {
        let (near, mut far) = memory_pair();
        let (writer, end) = MessageWriter::start(near.outlet, &near.control).unwrap();
        for _ in 0..3 {
            writer.send(Message::Accepted);
        }
        drop(end);
        for _ in 0..3 {
            assert_eq!(receive(far.inlet.as_mut()).unwrap(), Message::Accepted);
        }
        assert!(matches!(receive(far.inlet.as_mut()), Err(LinkError::Closed)));
        writer.send(Message::Accepted);
    }

    #[test]
    fn a_peer_that_reads_nothing_keeps_nobody_who_is_in_a_hurry() {
        let (near, far) = memory_pair();
        let (writer, end) = MessageWriter::start(near.outlet, &near.control).unwrap();
        let taken = (0..10 * DEPTH).filter(|_| writer.send_within(Message::Accepted, Span::ZERO)).count();
        assert!((DEPTH..10 * DEPTH).contains(&taken), "{taken}");
        near.control.shutdown();
        drop((end, far));
        assert!(!writer.send_within(Message::Interrupt, Span::from_secs(60)), "nobody waits for a link that is gone");
    }

    #[test]
    fn a_peer_that_reads_nothing_does_not_keep_the_end() {
        let (reader, _nothing_comes) = rustix::pipe::pipe().unwrap();
        let (_nobody_reads, writer) = rustix::pipe::pipe().unwrap();
        let link = crate::stdio_link(reader, writer, "peer", None).unwrap();
        let (writer, end) = MessageWriter::start(link.outlet, &link.control).unwrap();
        let message = || Message::Relay(vec![0; 4000]);
        while writer.send_within(message(), Span::from_millis(100)) {}
        let (tell, told) = bounded(1);
        std::thread::spawn(move || {
            drop(end);
            tell.send(()).unwrap();
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(120)), Ok(()), "it ends by itself");
        assert!(!writer.send_within(message(), Span::ZERO));
    }
}
