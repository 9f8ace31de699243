//! A thread that writes messages to a link on behalf of others, and keep-alives between them: links
//! that are silent for long are given up by their ends and forgotten by firewalls on the path.

use std::convert::Infallible;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use icdc_protocol::Message;
use icdc_tcp::clock;
use icdc_units::Span;

use crate::control::LinkControl;
use crate::halves::{DEAD_AFTER, Outlet};

/// Maximum number of queued messages; senders wait while the queue is full.
const DEPTH: usize = 256;

/// Time limits for sending what is queued at the end; after them the link is shut down.
#[derive(Clone, Copy, Debug)]
struct DrainLimits {
    /// Maximum time since a message was written: longer means that the peer does not read any
    /// more.
    without_progress: Span,
    /// Maximum time in total: that of a full queue on a path of a few kilobytes a second.
    in_all: Span,
}

const DRAIN_LIMITS: DrainLimits = DrainLimits { without_progress: Span::from_secs(10), in_all: Span::from_secs(60) };

/// Queues messages of any thread for sending on a link. Clones write to the same outlet.
#[derive(Clone)]
pub struct MessageWriter {
    queue: Sender<Message>,
}

/// Guard that ends the message writer when it is dropped, after everything queued before has been
/// sent. Where the peer reads none of it for ten seconds, or not all within a minute, the link is
/// ended instead.
pub struct WriterGuard {
    /// Channel that is disconnected to end the thread: clones of the writer may outlive it.
    end: Option<Sender<Infallible>>,
    control: LinkControl,
    limits: DrainLimits,
    /// Signal of each written message; disconnected once the thread has dropped the outlet.
    progress: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl MessageWriter {
    /// Starts the thread that writes to `outlet`, the sending half of the link of `control`.
    ///
    /// # Errors
    /// The process may have no further thread.
    pub fn start(outlet: Box<dyn Outlet>, control: &LinkControl) -> std::io::Result<(Self, WriterGuard)> {
        Self::start_with(outlet, control, DRAIN_LIMITS)
    }

    /// Starts the thread as [`start`](Self::start), with other limits for sending what is left at
    /// the end.
    fn start_with(
        outlet: Box<dyn Outlet>,
        control: &LinkControl,
        limits: DrainLimits,
    ) -> std::io::Result<(Self, WriterGuard)> {
        let (queue, messages) = bounded(DEPTH);
        let (end, ended) = bounded(0);
        let (wrote, progress) = bounded(1);
        let thread = std::thread::Builder::new().name("message-writer".into()).spawn(move || {
            write(outlet, &messages, &ended, || {
                // One that is not taken yet will do.
                let _ = wrote.try_send(());
            });
        })?;
        let guard = WriterGuard { end: Some(end), control: control.clone(), limits, progress, thread: Some(thread) };
        Ok((Self { queue }, guard))
    }

    /// Queues a message. Once the link has ended the message is dropped: the receiving thread
    /// notices the end.
    pub fn send(&self, message: Message) {
        let _ = self.queue.send(message);
    }

    /// Queues a message, waiting at most `patience` while the queue is full. False if the message
    /// was not queued, also once the link has ended.
    pub fn send_within(&self, message: Message, patience: Span) -> bool {
        self.queue.send_timeout(message, patience.into()).is_ok()
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        let last = clock::now() + self.limits.in_all;
        drop(self.end.take());
        loop {
            let patience = self.limits.without_progress.min(last - clock::now());
            match self.progress.recv_timeout(patience.into()) {
                Ok(()) if clock::now() < last => {}
                Ok(()) | Err(RecvTimeoutError::Timeout) => {
                    tracing::debug!("{} does not read what is left: the link is ended", self.control.peer());
                    self.control.shutdown();
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own thread.
            let _ = thread.join();
        }
    }
}

/// Writes messages until the end is signalled, then what is queued by then, and drops the outlet;
/// calls `wrote` after each message.
fn write(mut outlet: Box<dyn Outlet>, messages: &Receiver<Message>, end: &Receiver<Infallible>, wrote: impl Fn()) {
    let pause = Duration::from_nanos(DEAD_AFTER.as_nanos() / 4);
    let mut put = |message: Message, is_last: bool| {
        let sent = outlet.send(message.into());
        let flushed = if is_last { outlet.flush() } else { Ok(()) };
        wrote();
        sent.and(flushed).inspect_err(|error| tracing::debug!("nothing more can be sent: {error}")).is_ok()
    };
    loop {
        let message = select! {
            recv(messages) -> message => message.ok(),
            recv(end) -> _ => None,
            default(pause) => Some(Message::Ping),
        };
        let Some(message) = message else { break };
        if !put(message, messages.is_empty()) {
            return;
        }
    }
    // Each at once, so that a slow path is seen to take them.
    let left = messages.len();
    for message in messages.try_iter().take(left) {
        if !put(message, true) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use icdc_protocol::Features;

    use super::*;
    use crate::{LinkError, memory_pair, receive};

    #[test]
    fn everything_sent_arrives_before_the_end() {
        let (near, mut far) = memory_pair();
        let (writer, end) = MessageWriter::start(near.outlet, &near.control).unwrap();
        for _ in 0..3 {
            writer.send(Message::Accepted(Features::OURS));
        }
        drop(end);
        for _ in 0..3 {
            assert_eq!(receive(far.inlet.as_mut()).unwrap(), Message::Accepted(Features::OURS));
        }
        assert!(matches!(receive(far.inlet.as_mut()), Err(LinkError::Closed)));
        writer.send(Message::Accepted(Features::OURS));
    }

    #[test]
    fn a_peer_that_reads_nothing_keeps_nobody_who_is_in_a_hurry() {
        let (near, far) = memory_pair();
        let (writer, end) = MessageWriter::start(near.outlet, &near.control).unwrap();
        let taken =
            (0..10 * DEPTH).filter(|_| writer.send_within(Message::Accepted(Features::OURS), Span::ZERO)).count();
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
        let (signal, signalled) = bounded(1);
        std::thread::spawn(move || {
            drop(end);
            signal.send(()).unwrap();
        });
        assert_eq!(signalled.recv_timeout(Duration::from_secs(120)), Ok(()), "it ends by itself");
        assert!(!writer.send_within(message(), Span::ZERO));
    }

    /// A link whose peer reads nothing until it is signalled, with everything queued that the
    /// writer takes, and the number of these messages.
    fn stuck(limits: DrainLimits) -> (OwnedFd, WriterGuard, usize, OwnedFd) {
        let (reader, nothing_comes) = rustix::pipe::pipe().unwrap();
        let (read, writer) = rustix::pipe::pipe().unwrap();
        let link = crate::stdio_link(reader, writer, "peer", None).unwrap();
        let (writer, end) = MessageWriter::start_with(link.outlet, &link.control, limits).unwrap();
        let message = || Message::Relay(vec![0; 4000]);
        let taken = std::iter::repeat_with(message)
            .take_while(|message| writer.send_within(message.clone(), Span::from_millis(100)))
            .count();
        (read, end, taken, nothing_comes)
    }

    /// Reads a little each `pause`; gives how many bytes came in all.
    fn read_slowly(from: &OwnedFd, pause: Span) -> usize {
        let mut buffer = [0; 4096];
        let nothing = crossbeam_channel::never::<()>();
        std::iter::from_fn(|| {
            let _ = nothing.recv_timeout(pause.into());
            Some(rustix::io::read(from, &mut buffer).unwrap()).filter(|count| *count > 0)
        })
        .sum()
    }

    /// The end of a writer whose peer reads a little each `pause`: how long it took, messages that
    /// were queued, bytes that arrived.
    fn end_beside_slow_reader(limits: DrainLimits, pause: Span) -> (Span, usize, usize) {
        let (read, end, taken, _open) = stuck(limits);
        let reader = std::thread::spawn(move || read_slowly(&read, pause));
        let start = clock::now();
        drop(end);
        (clock::now() - start, taken, reader.join().unwrap())
    }

    #[test]
    fn a_slow_path_that_takes_what_is_left_is_waited_for() {
        let limits = DrainLimits { without_progress: Span::from_millis(500), in_all: Span::from_secs(60) };
        let (took, taken, arrived) = end_beside_slow_reader(limits, Span::from_millis(5));
        assert!(took > limits.without_progress, "otherwise this shows nothing");
        assert!(taken > DEPTH && arrived > 4000 * taken, "{arrived} bytes of {taken} messages");
    }

    #[test]
    fn a_peer_that_reads_too_slowly_does_not_keep_the_end() {
        let limits = DrainLimits { without_progress: Span::from_secs(60), in_all: Span::from_millis(500) };
        let (took, taken, arrived) = end_beside_slow_reader(limits, Span::from_millis(20));
        assert!(took < Span::from_secs(30));
        assert!(arrived < 4000 * taken, "{arrived} bytes of {taken} messages");
    }
}
