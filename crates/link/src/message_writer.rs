//! A thread that writes messages to a link on behalf of others, and keep-alives between them: links
//! that are silent for long are given up by their ends and forgotten by firewalls on the path.

use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use icdc_protocol::Message;
use icdc_units::Span;

use crate::halves::{DEAD_AFTER, Outlet};

/// Messages that may wait; who has more waits too.
const DEPTH: usize = 256;

/// Sends on behalf of any thread. Clones write to the same outlet.
#[derive(Clone)]
pub struct MessageWriter {
    queue: Sender<Queued>,
}

/// Ends the writer when it is dropped, after everything queued before has been sent.
pub struct WriterGuard {
    queue: Sender<Queued>,
    thread: Option<JoinHandle<()>>,
}

/// A message, or `None` for the end: clones of the writer may outlive it.
type Queued = Option<Message>;

impl MessageWriter {
    /// Starts the thread that writes to `outlet`.
    ///
    /// # Errors
    /// The process may have no further thread.
    pub fn start(outlet: Box<dyn Outlet>) -> std::io::Result<(Self, WriterGuard)> {
        let (queue, messages) = bounded(DEPTH);
        let thread =
            std::thread::Builder::new().name("message-writer".into()).spawn(move || write(outlet, &messages))?;
        Ok((Self { queue: queue.clone() }, WriterGuard { queue, thread: Some(thread) }))
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
        let _ = self.queue.send(None);
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
        let (writer, end) = MessageWriter::start(near.outlet).unwrap();
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
        let (writer, end) = MessageWriter::start(near.outlet).unwrap();
        let taken = (0..10 * DEPTH).filter(|_| writer.send_within(Message::Accepted, Span::ZERO)).count();
        assert!((DEPTH..10 * DEPTH).contains(&taken), "{taken}");
        near.control.shutdown();
        drop((end, far));
        assert!(!writer.send_within(Message::Interrupt, Span::from_secs(60)), "nobody waits for a link that is gone");
    }
}
