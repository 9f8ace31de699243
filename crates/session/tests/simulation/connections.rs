//! The connections of one session, as its two ends use them.

use icdc_protocol::limits::DEAD_AFTER;
use icdc_units::{Span, Time};

use crate::environment::{Environment, Event, SessionId, Side};
use crate::random::Random;
use crate::sender::Task;
use crate::wire::{Arrival, Direction, End, Frame};

/// How much longer than a round trip the receiver, which tells something each 100 ms, is not heard
/// before the sender takes it for silent.
const SILENT_AFTER: Span = Span::from_millis(500);

/// A connection: what is on its way to each side.
#[derive(Debug)]
struct Connection {
    to_receiver: Direction,
    to_sender: Direction,
}

/// See the module's description. The first one carries everything but further blocks and packs.
#[derive(Debug)]
pub(crate) struct Connections {
    session: SessionId,
    connections: Vec<Connection>,
    latency: Latency,
    /// The sender hears nothing on the first connection from then on.
    silent_from: Option<Time>,
    /// Frames that have arrived so far, in either direction.
    arrived: u64,
}

/// How long a frame is on its way between the two hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    delay: Span,
    jitter: Span,
}

impl Latency {
    pub(crate) fn any(random: &mut Random) -> Self {
        let delay = random.span(Span::from_micros(50), Span::from_millis(150));
        let jitter = random.span(Span::from_micros(1), Span::from_millis(20));
        Self { delay, jitter }
    }
}

impl Connections {
    pub(crate) fn new(session: SessionId, latency: Latency) -> Self {
        Self { session, connections: Vec::new(), latency, silent_from: None, arrived: 0 }
    }

    /// Makes one more; gives its number.
    pub(crate) fn open(&mut self, random: &mut Random) -> usize {
        let window = random.within(2, 12) as usize;
        let Latency { mut delay, jitter } = self.latency;
        if !self.connections.is_empty() {
            // What goes over one may come long behind what goes over another: its path has queues.
            delay = delay * random.within(1, 8);
        }
        let to_receiver = Direction::new(delay, jitter, window, random);
        let to_sender = Direction::new(delay, jitter, usize::MAX, random);
        self.connections.push(Connection { to_receiver, to_sender });
        self.connections.len() - 1
    }

    pub(crate) fn count(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    fn direction(&mut self, connection: usize, side: Side) -> &mut Direction {
        let found = &mut self.connections[connection];
        match side {
            Side::Receiver => &mut found.to_receiver,
            Side::Sender => &mut found.to_sender,
        }
    }

    /// Whether a frame to `side` can be sent without waiting.
    pub(crate) fn has_room(&mut self, connection: usize, side: Side) -> bool {
        self.direction(connection, side).has_room()
    }

    /// Sends a frame to `side`; false if the connection takes nothing more.
    pub(crate) fn send(&mut self, connection: usize, side: Side, frame: Frame, env: &mut Environment) -> bool {
        match frame.transmitted() {
            Ok(frame) => self.put(connection, side, Arrival::Frame(Box::new(frame)), env),
            Err(error) => {
                env.violate(format!("{}: {side:?} would not believe what it is sent: {error}", self.session));
                true
            }
        }
    }

    /// Sends a frame that no end would send, unless the codec refuses it: no machine hears of that.
    pub(crate) fn forge(&mut self, connection: usize, side: Side, frame: Frame, env: &mut Environment) {
        if let Ok(frame) = frame.transmitted() {
            self.put(connection, side, Arrival::Frame(Box::new(frame)), env);
        }
    }

    fn put(&mut self, connection: usize, side: Side, arrival: Arrival, env: &mut Environment) -> bool {
        let session = self.session;
        let Some(due) = self.direction(connection, side).send(env.agenda.now(), arrival) else { return false };
        env.agenda.at(due, Event::Arrives { session, connection, side });
        true
    }

    /// What has arrived for `side`, moved to where it is read.
    pub(crate) fn deliver(&mut self, connection: usize, side: Side, env: &Environment) {
        let frames = self.direction(connection, side).deliver(env.agenda.now());
        self.arrived += frames as u64;
    }

    pub(crate) fn peek(&mut self, connection: usize, side: Side) -> Option<&Arrival> {
        self.direction(connection, side).peek()
    }

    /// The next thing to read; who waits for room to send learns of it in time.
    pub(crate) fn read(&mut self, connection: usize, side: Side, env: &mut Environment) -> Option<Arrival> {
        let was_full = !self.has_room(connection, side);
        let read = self.direction(connection, side).read();
        if was_full {
            let session = self.session;
            env.agenda.after(self.latency.delay, Event::Arrives { session, connection, side: side.other() });
        }
        read
    }

    /// A side ends a connection behind what it has sent; nothing more arrives at it.
    pub(crate) fn close(&mut self, connection: usize, by: Side, end: End, env: &mut Environment) {
        self.put(connection, by.other(), Arrival::End(end), env);
        let towards = self.direction(connection, by);
        towards.cut();
        towards.end();
        towards.notice();
        let session = self.session;
        env.agenda.after(Span::ZERO, Event::Arrives { session, connection, side: by });
    }

    /// A side's process is gone: all its connections end behind what it has sent.
    pub(crate) fn abandon(&mut self, by: Side, env: &mut Environment) {
        for connection in 0..self.count() {
            self.close(connection, by, End::Broken, env);
        }
    }

    /// The wire is cut: what is on its way is lost. Each side learns of it at once, or when it has heard nothing for long.
    pub(crate) fn cut(&mut self, connection: usize, env: &mut Environment) {
        let session = self.session;
        if connection == 0 {
            let after = SILENT_AFTER + self.latency.delay * 2;
            self.silent_from.get_or_insert(env.agenda.now() + after);
            env.agenda.after(after, Event::Sender { session, task: Task::Clock });
        }
        for side in [Side::Sender, Side::Receiver] {
            self.direction(connection, side).cut();
            let at_once = env.random.once_in(2);
            let after = if at_once { Span::ZERO } else { env.random.span(Span::from_millis(200), DEAD_AFTER) };
            env.agenda.after(after, Event::Noticed { session, connection, side });
        }
    }

    /// The wires are cut: what is on its way is lost. The sender learns of it at once, and the receiver after this time.
    pub(crate) fn cut_unseen(&mut self, span: Span, env: &mut Environment) {
        let session = self.session;
        for connection in 0..self.count() {
            for (side, after) in [(Side::Sender, Span::ZERO), (Side::Receiver, span)] {
                self.direction(connection, side).cut();
                env.agenda.after(after, Event::Noticed { session, connection, side });
            }
        }
    }

    /// Whether the sender has not heard the receiver for long.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        self.silent_from.is_some_and(|from| from <= now)
    }

    /// A side takes the connection for broken.
    pub(crate) fn notice(&mut self, connection: usize, side: Side) {
        self.direction(connection, side).notice();
        self.direction(connection, side.other()).end();
    }

    /// Whether `side` could know that the other one has ended the connection.
    pub(crate) fn is_hung_up(&mut self, connection: usize, side: Side) -> bool {
        self.direction(connection, side).is_hung_up()
    }
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}
