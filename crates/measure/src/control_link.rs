//! One end of the control link of a measurement: a thread that writes messages, one that reads
//! them, and waits for messages, a request to stop, events of this end's threads, or a deadline.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use icdc_link::{Inlet, Link, LinkControl, MessageWriter, WriterGuard, receive};
use icdc_protocol::Message;
use icdc_protocol::measure::ControlMessage;
use icdc_protocol::message::Refusal;
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_units::{Span, Time};

/// Maximum number of queued messages; when the queue is full, the other end has to wait.
const DEPTH: usize = 64;

/// One end of the control link of a measurement.
pub(super) struct ControlLink {
    writer: MessageWriter,
    end: WriterGuard,
    incoming: Receiver<Incoming>,
    stopped: Receiver<()>,
    /// Sender that keeps `stopped` open after the request.
    _stop: Sender<()>,
    /// Signal that is requested once the measurement is over: the other end has gone or ends it,
    /// or this end is stopped.
    ended: StopSignal,
    control: LinkControl,
}

/// A message of the other end, or an event in its place.
pub(super) enum Incoming {
    /// The other end accepts the request.
    Accepted,
    /// The other end refuses the request, or reports a failure.
    Refused(Refusal),
    /// A control message of the measurement.
    Control(ControlMessage),
    /// The other end's user has interrupted the measurement.
    Interrupt,
    /// This end's user has interrupted the measurement.
    Stop,
    /// The link cannot be used any more, for this reason.
    Gone(SessionError),
}

/// Events that [`Watched::next`] waits for.
pub(super) enum Next<E> {
    /// A message of the other end, or an event in its place.
    Incoming(Incoming),
    /// An event of this end's threads.
    Worker(E),
    /// The deadline has passed.
    Deadline,
}

/// The control link and this end's threads, which are waited for together.
#[derive(Clone, Copy)]
pub(super) struct Watched<'a, E> {
    pub(super) control: &'a ControlLink,
    /// Queue of the events of this end's threads.
    pub(super) workers: &'a Receiver<E>,
}

impl<E> Watched<'_, E> {
    /// Waits for a message, an event of this end's threads or the deadline, whichever comes first.
    pub(super) fn next(&self, deadline: Time) -> Next<E> {
        self.control.next(self.workers, deadline)
    }
}

impl ControlLink {
    /// Starts the threads that write and read messages. A request to `stop` ends waits by
    /// [`Incoming::Stop`].
    pub(super) fn open(link: Link, stop: &StopSignal) -> io::Result<Self> {
        let Link { outlet, inlet, control } = link;
        let (writer, end) = MessageWriter::start(outlet, &control)?;
        let (queue, incoming) = bounded(DEPTH);
        let ended = StopSignal::new();
        let on_end = ended.clone();
        icdc_limits::thread::start("message-reader", move || read(inlet, &queue, &on_end))?;
        let (request, stopped) = bounded(1);
        let (on_stop, ends) = (request.clone(), ended.clone());
        stop.on_request(move || {
            let _ = on_stop.try_send(());
            ends.request();
        });
        Ok(Self { writer, end, incoming, stopped, _stop: request, ended, control })
    }

    /// Queues a control message for the other end.
    pub(super) fn send(&self, message: ControlMessage) {
        self.writer.send(Message::Measure(message));
    }

    /// Queues any message of the session for the other end.
    pub(super) fn send_message(&self, message: Message) {
        self.writer.send(message);
    }

    /// Signal that is requested once the measurement is over.
    pub(super) fn ended(&self) -> &StopSignal {
        &self.ended
    }

    /// Waits for a message, an event of `workers` or the deadline, whichever comes first.
    fn next<E>(&self, workers: &Receiver<E>, deadline: Time) -> Next<E> {
        // A constant flow of messages must not delay the deadline.
        if clock::now() >= deadline {
            return Next::Deadline;
        }
        let gone = || Incoming::Gone(SessionError::Cut("the other end is gone".into()));
        select! {
            recv(self.incoming) -> incoming => Next::Incoming(incoming.unwrap_or_else(|_| gone())),
            recv(self.stopped) -> _ => Next::Incoming(Incoming::Stop),
            recv(workers) -> event => match event {
                Ok(event) => Next::Worker(event),
                // The workers have ended; messages and the deadline remain.
                Err(_) => self.next(&never(), deadline),
            },
            default(Duration::from_nanos((deadline - clock::now()).as_nanos())) => Next::Deadline,
        }
    }

    /// Waits for the next message, whichever it is, or for an event in its place: the end of the
    /// link and a request to stop are also returned as [`Incoming`].
    ///
    /// # Errors
    /// Nothing came within `patience`; `awaited` names the expected message in the text.
    pub(super) fn receive(&self, awaited: &str, patience: Span) -> Result<Incoming, SessionError> {
        self.receive_since(awaited, patience, clock::now())
    }

    /// Waits for a message as [`receive`](Self::receive), with a time limit that began at `since`.
    pub(super) fn receive_since(&self, awaited: &str, patience: Span, since: Time) -> Result<Incoming, SessionError> {
        match self.next(&never::<()>(), since + patience) {
            Next::Incoming(incoming) => Ok(incoming),
            Next::Worker(()) | Next::Deadline => Err(SessionError::Cut(format!("no {awaited} came within {patience}"))),
        }
    }

    /// Waits for the next control message; anything else is an error.
    pub(super) fn receive_control(&self, awaited: &str, patience: Span) -> Result<ControlMessage, SessionError> {
        match self.receive(awaited, patience)? {
            Incoming::Control(message) => Ok(message),
            other => Err(other.unexpected(awaited)),
        }
    }

    /// Waits for `Go`, by which the receiver permits sending.
    pub(super) fn await_start(&self, patience: Span) -> Result<(), SessionError> {
        match self.receive_control("Go", patience)? {
            ControlMessage::Go => Ok(()),
            message => Err(Incoming::Control(message).unexpected("Go")),
        }
    }

    /// Ends this end's direction and waits for the other end to end its own, so that its last
    /// messages arrive.
    pub(super) fn close(self, patience: Span) {
        let Self { end, incoming, control, .. } = self;
        drop(end);
        let deadline = clock::now() + patience;
        while let Ok(message) = incoming.recv_timeout(Duration::from_nanos((deadline - clock::now()).as_nanos())) {
            if matches!(message, Incoming::Gone(_)) {
                break;
            }
        }
        control.shutdown();
    }
}

impl Incoming {
    /// Error for this message where `awaited` was expected.
    pub(super) fn unexpected(self, awaited: &str) -> SessionError {
        match self {
            Self::Refused(refusal) => SessionError::Refused(refusal),
            Self::Interrupt | Self::Stop => SessionError::Interrupted,
            Self::Gone(error) => error,
            Self::Accepted => SessionError::Protocol(format!("Accepted instead of {awaited}")),
            Self::Control(message) => {
                SessionError::Protocol(format!("{} instead of {awaited}", control_name(&message)))
            }
        }
    }
}

/// Name of a control message's kind, for error messages.
fn control_name(message: &ControlMessage) -> &'static str {
    match message {
        ControlMessage::Ready { .. } => "Ready",
        ControlMessage::Go => "Go",
        ControlMessage::Samples(_) => "Samples",
        ControlMessage::Received(_) => "Received",
        ControlMessage::Arrivals(_) => "Arrivals",
        ControlMessage::Sent(_) => "Sent",
    }
}

/// Body of the reading thread: queues the other end's messages until the link ends. Requests
/// `ended` when that end refuses, interrupts or is gone.
fn read(mut inlet: Box<dyn Inlet>, queue: &Sender<Incoming>, ended: &StopSignal) {
    loop {
        let incoming = match receive(inlet.as_mut()) {
            Ok(Message::Ping) => continue,
            Ok(Message::Measure(message)) => Incoming::Control(message),
            Ok(Message::Accepted(_)) => Incoming::Accepted,
            Ok(Message::Refused(refusal) | Message::Abort(refusal)) => Incoming::Refused(refusal),
            Ok(Message::Interrupt) => Incoming::Interrupt,
            Ok(other) => {
                Incoming::Gone(SessionError::Protocol(format!("unexpected {} in a measurement", other.kind())))
            }
            Err(error) => Incoming::Gone(SessionError::of_link(error)),
        };
        let last = matches!(incoming, Incoming::Gone(_));
        if matches!(incoming, Incoming::Gone(_) | Incoming::Refused(_) | Incoming::Interrupt) {
            ended.request();
        }
        // The queue has no reader once the measurement is over.
        if queue.send(incoming).is_err() || last {
            return;
        }
    }
}
