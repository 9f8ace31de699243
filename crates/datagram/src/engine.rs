//! The thread that carries all of one end's connections.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use icdc_units::ByteCount;
use quinn_proto::{
    AcceptError, ClientConfig, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Incoming as Attempt,
    ServerConfig, StreamId, Transmit,
};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::clock;
use crate::congestion::SharedFlow;
use crate::connection::{Change, Connection, Next};
use crate::error::DatagramError;
use crate::group;
use crate::settings::{Algorithm, UNAUTHENTICATED_STREAMS, transport};
use crate::socket::{Arrived, Sockets};

/// Token in epoll of the descriptor that wakes the thread, and of the first UDP socket, before which are those of the further ones;
/// local sockets have those of their streams.
const WAKE: u64 = u64::MAX;
const UDP: u64 = WAKE - 1;
/// Number of tokens of UDP sockets.
const UDPS: u64 = group::MOST as u64;
/// Number of events of epoll that are processed at once.
const EVENTS: usize = 256;
/// Number of connections of a listening end; further ones are refused.
const MOST_CONNECTIONS: usize = 4096;
/// Number of connections of one address of IPv4 or one /64 of IPv6; further ones are refused.
const MOST_OF_ONE: usize = 256;
/// The same of those of which it is not known who the other end is.
const MOST_UNKNOWN_OF_ONE: usize = 32;
/// Time after which such a connection is closed.
const UNKNOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without a stream after which an accepted connection is closed.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of connections from which on a new address has to show that it is one before there is any state for it.
const RETRY_FROM: usize = 16;

/// Command to an engine.
pub(crate) enum Command {
    /// Make a connection with these settings.
    Connect(SocketAddr, Box<ClientConfig>, Sender<ConnectProgress>),
    /// Open a stream of a connection, which leads to this socket.
    Open(ConnectionHandle, UnixStream),
    /// Let as much arrive on the connection with this handle and number as its path carries.
    Trust(ConnectionHandle, u64),
    /// End the thread once the streams have ended, and each connection with its last stream.
    End,
}

/// Progress of a connection that was asked for.
pub(crate) enum ConnectProgress {
    /// It is being made.
    Begun(ConnectionHandle, SharedFlow),
    /// It stands.
    Connected,
    /// It has ended, or could not be made.
    Ended(DatagramError),
}

/// Function that takes the local end of a stream that another end has opened, with its address.
pub(crate) type Take = Box<dyn Fn(UnixStream, SocketAddr, StreamHandle) + Send>;

/// Handle of an accepted stream: the count of its bytes, and the lifting of its connection's limit.
#[derive(Clone)]
pub struct StreamHandle {
    commands: Commands,
    connection: ConnectionHandle,
    /// Number of the connection: handles are used again.
    number: u64,
    carried: Arc<AtomicU64>,
}

impl StreamHandle {
    /// Lets as much arrive on the stream's connection as its path carries: it is known who the other end is.
    pub fn trust(&self) {
        self.commands.give(Command::Trust(self.connection, self.number));
    }

    /// Number of bytes that the stream has carried in both directions.
    #[must_use]
    pub fn carried(&self) -> ByteCount {
        ByteCount::new(self.carried.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for StreamHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StreamHandle").field("carried", &self.carried()).finish_non_exhaustive()
    }
}

/// Sender of commands to an engine.
#[derive(Clone)]
struct Commands {
    sender: Sender<Command>,
    /// Wakes the engine.
    wake: Arc<OwnedFd>,
}

impl Commands {
    fn give(&self, command: Command) {
        // An engine that has ended cuts what it is asked for.
        let _ = self.sender.send(command);
        // It fails only when the counter is full, and then the engine wakes up anyway.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// Part of an engine that accepts connections.
pub(crate) struct Accepting {
    /// Settings of each connection, but for those of its transport.
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) take: Take,
}

/// Handle of a running engine; dropping it ends the engine once its streams have ended.
pub(crate) struct Handle {
    commands: Commands,
    /// Disconnected when the engine has ended.
    ended: Receiver<()>,
}

impl Handle {
    /// Has the engine do something.
    pub(crate) fn give(&self, command: Command) {
        self.commands.give(command);
    }

    /// Ends the engine, and waits for at most `patience` until what its streams have been given has arrived.
    pub(crate) fn end(&self, patience: Duration) {
        self.give(Command::End);
        // Whether it has ended or not: nothing more can be done.
        let _ = self.ended.recv_timeout(patience);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.give(Command::End);
    }
}

/// A connection of an engine, and who waits for it.
struct Entry {
    connection: Connection,
    /// Number of the connection, different for each of the engine.
    number: u64,
    told: Option<Sender<ConnectProgress>>,
    address: SocketAddr,
    /// When the connection ends if it has no stream by then; `None` if it has one, or is this end's.
    unused_until: Option<Instant>,
    /// When the connection ends if it is not known by then who the other end is; `None` if it is, or is this end's.
    known_until: Option<Instant>,
}

/// The thread's state.
pub(crate) struct Engine {
    sockets: Sockets,
    endpoint: Endpoint,
    entries: HashMap<ConnectionHandle, Entry>,
    accepting: Option<Accepting>,
    algorithm: Algorithm,
    commands: Receiver<Command>,
    /// For commands that come later, and what wakes this thread.
    own: Commands,
    epoll: OwnedFd,
    is_ending: bool,
    response: Vec<u8>,
    /// Time at which the last packet has arrived.
    latest: Instant,
    /// Number of connections so far.
    connections: u64,
}

impl Engine {
    /// Starts an engine at a socket.
    pub(crate) fn start(
        sockets: Sockets,
        algorithm: Algorithm,
        accepting: Option<Accepting>,
    ) -> Result<Handle, DatagramError> {
        let config = Arc::new(EndpointConfig::default());
        let server = accepting.as_ref().map(|accepting| Arc::clone(&accepting.config));
        let endpoint = Endpoint::new(config, server, !sockets.may_fragment(), None);
        let errno = |call| move |errno: rustix::io::Errno| DatagramError::Kernel { call, cause: errno.into() };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(errno("eventfd"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(errno("epoll_create"))?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        for (socket, number) in sockets.descriptors().zip(0..UDPS) {
            epoll::add(&epoll, socket, EventData::new_u64(UDP - number), flags).map_err(errno("epoll_ctl"))?;
        }
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN).map_err(errno("epoll_ctl"))?;
        let (sender, commands) = unbounded();
        let own = Commands { sender, wake: Arc::new(wake) };
        let handed_out = own.clone();
        let engine = Self {
            sockets,
            endpoint,
            entries: HashMap::new(),
            accepting,
            algorithm,
            commands,
            own,
            epoll,
            is_ending: false,
            response: Vec::new(),
            latest: clock::now(),
            connections: 0,
        };
        let (running, ended) = bounded::<()>(0);
        std::thread::Builder::new()
            .name("datagrams".into())
            .spawn(move || {
                let _running = running;
                engine.run();
            })
            .map_err(DatagramError::kernel("clone"))?;
        Ok(Handle { commands: handed_out, ended })
    }

    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        loop {
            self.run_commands();
            if self.sockets.may_have_more() {
                self.receive();
            }
            let next = self.drive();
            if self.is_ending && self.entries.is_empty() {
                return;
            }
            let timeout = match next {
                _ if self.sockets.may_have_more() => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
                Next::Now => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
                Next::At(at) => at.and_then(|at| Timespec::try_from(at.saturating_duration_since(clock::now())).ok()),
            };
            events.clear();
            // An interrupted wait has no events, and the round does no harm.
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
            for event in &events {
                let (token, flags) = (event.data.u64(), event.flags);
                match token {
                    WAKE => {
                        let _ = rustix::io::read(&*self.own.wake, &mut [0; 8]);
                    }
                    token if UDP - token < UDPS => {
                        if flags.contains(EventFlags::IN) {
                            self.sockets.mark((UDP - token) as usize);
                        }
                    }
                    token => self.mark(token, flags),
                }
            }
        }
    }

    /// Notes what epoll tells of a local socket.
    fn mark(&mut self, token: u64, flags: EventFlags) {
        let (handle, stream) = parts(token);
        let Some(bridge) = self.entries.get_mut(&handle).and_then(|entry| entry.connection.bridge(stream)) else {
            return;
        };
        let gone = EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
        bridge.readable |= flags.intersects(EventFlags::IN | gone);
        bridge.writable |= flags.intersects(EventFlags::OUT | gone);
        bridge.is_gone |= flags.intersects(EventFlags::HUP | EventFlags::ERR);
    }

    /// Carries out commands.
    fn run_commands(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Connect(address, config, told)) => self.connect(address, *config, told),
                Ok(Command::Open(handle, socket)) => self.open(handle, socket),
                Ok(Command::Trust(handle, number)) => {
                    if let Some(entry) = self.entries.get_mut(&handle).filter(|entry| entry.number == number) {
                        entry.connection.trust();
                        entry.known_until = None;
                    }
                }
                Ok(Command::End) => self.is_ending = true,
                Err(_) => return,
            }
        }
    }

    fn connect(&mut self, address: SocketAddr, mut config: ClientConfig, told: Sender<ConnectProgress>) {
        let now = clock::now();
        let flow = self.algorithm.begin(now);
        config.transport_config(Arc::new(transport(&flow, 0)));
        // The name is neither sent nor checked: keys are.
        match self.endpoint.connect(now, config, address, "icdc.invalid") {
            Ok((handle, quic)) => {
                let _ = told.send(ConnectProgress::Begun(handle, flow.clone()));
                let mut connection = Connection::new(quic, flow, now);
                // This end has chosen it.
                connection.trust();
                let entry = Entry {
                    connection,
                    number: self.next_number(),
                    told: Some(told),
                    address,
                    unused_until: None,
                    known_until: None,
                };
                self.entries.insert(handle, entry);
            }
            Err(error) => {
                let _ = told.send(ConnectProgress::Ended(error.into()));
            }
        }
    }

    fn open(&mut self, handle: ConnectionHandle, socket: UnixStream) {
        if let Some(entry) = self.entries.get_mut(&handle) {
            entry.connection.open(socket);
        }
    }

    /// Receives what has arrived.
    fn receive(&mut self) {
        for Arrived { from, to, ecn, data, at, .. } in self.sockets.receive() {
            self.response.clear();
            // Time does not go back.
            let now = at.max(self.latest);
            self.latest = now;
            match self.endpoint.handle(now, from, to, ecn, data, &mut self.response) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(entry) = self.entries.get_mut(&handle) {
                        entry.connection.handle(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => self.admit(incoming, now),
                Some(DatagramEvent::Response(transmit)) => self.respond(&transmit),
                None => {}
            }
        }
    }

    fn next_number(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }

    fn respond(&self, transmit: &Transmit) {
        // One that the socket does not take is asked for again.
        self.sockets.send(transmit, &self.response);
    }

    /// Accepts a connection, has its address show that it is one, or refuses it.
    fn admit(&mut self, incoming: Attempt, now: Instant) {
        let Some(accepting) = &self.accepting else {
            self.endpoint.ignore(incoming);
            return;
        };
        self.response.clear();
        let own = network(incoming.remote_address());
        let of_one = || self.entries.values().filter(|entry| network(entry.address) == own);
        let unknown_of_one = of_one().filter(|entry| !entry.connection.is_trusted()).count();
        let is_full = self.entries.len() >= MOST_CONNECTIONS
            || of_one().count() >= MOST_OF_ONE
            || unknown_of_one >= MOST_UNKNOWN_OF_ONE;
        if self.is_ending || is_full {
            let refused = self.endpoint.refuse(incoming, &mut self.response);
            self.respond(&refused);
            return;
        }
        if self.entries.len() >= RETRY_FROM && !incoming.remote_address_validated() && incoming.may_retry() {
            if let Ok(retry) = self.endpoint.retry(incoming, &mut self.response) {
                self.respond(&retry);
            }
            return;
        }
        let address = incoming.remote_address();
        let flow = self.algorithm.begin(now);
        let mut config = ServerConfig::clone(&accepting.config);
        config.transport_config(Arc::new(transport(&flow, UNAUTHENTICATED_STREAMS)));
        match self.endpoint.accept(incoming, now, &mut self.response, Some(Arc::new(config))) {
            Ok((handle, quic)) => {
                let connection = Connection::new(quic, flow, now);
                let (unused_until, known_until) = (Some(now + UNUSED_TIMEOUT), Some(now + UNKNOWN_TIMEOUT));
                let entry =
                    Entry { connection, number: self.next_number(), told: None, address, unused_until, known_until };
                self.entries.insert(handle, entry);
            }
            Err(AcceptError { cause, response }) => {
                tracing::debug!(peer = %address, "no connection over datagrams: {cause}");
                if let Some(response) = response {
                    self.respond(&response);
                }
            }
        }
    }

    /// Has every connection do what is due; returns when the next one is to be driven.
    fn drive(&mut self) -> Next {
        let Self { sockets, endpoint, entries, accepting, epoll, is_ending, own, .. } = self;
        let mut next = Next::At(None);
        entries.retain(|handle, entry| {
            let now = clock::now();
            let is_late = entry.unused_until.is_some_and(|until| until <= now);
            if (*is_ending || is_late) && entry.connection.is_unused() {
                entry.connection.close(now);
                entry.unused_until = None;
            }
            if entry.known_until.is_some_and(|until| until <= now) && !entry.connection.is_trusted() {
                entry.connection.cut();
                entry.connection.close(now);
                entry.known_until = None;
            }
            for stream in entry.connection.open_waiting() {
                watch(epoll, *handle, stream, &mut entry.connection);
            }
            let Entry { connection, number, told, address, unused_until, .. } = entry;
            let tell = |connection: &mut Connection, happened| match happened {
                Change::Connected => {
                    if let Some(told) = told {
                        let _ = told.send(ConnectProgress::Connected);
                    }
                }
                Change::Lost(reason) => {
                    tracing::debug!(peer = %address, "connection over datagrams: {reason}");
                    if let Some(told) = told {
                        let _ = told.send(ConnectProgress::Ended(reason.into()));
                    }
                }
                Change::Opened(stream) => {
                    if let Some(accepting) = accepting {
                        *unused_until = None;
                        let (commands, address) = (own.clone(), *address);
                        let (handle, number) = (*handle, *number);
                        accept_stream((epoll, handle), connection, stream, |far, carried| {
                            (accepting.take)(
                                far,
                                address,
                                StreamHandle { commands, connection: handle, number, carried },
                            );
                        });
                    }
                }
            };
            let due = connection.drive(now, (*handle, endpoint), sockets, tell);
            if entry.told.is_none()
                && entry.unused_until.is_none()
                && entry.connection.is_unused()
                && !entry.connection.is_closed()
            {
                entry.unused_until = Some(now + UNUSED_TIMEOUT);
            }
            next = sooner(sooner(next, due), Next::At(entry.unused_until.into_iter().chain(entry.known_until).min()));
            !entry.connection.is_drained()
        });
        next
    }
}

/// Leads a stream that the other end has opened to a local socket, whose far end `take` gets with the count of what the
/// stream carries.
fn accept_stream(
    (epoll, handle): (&OwnedFd, ConnectionHandle),
    connection: &mut Connection,
    stream: StreamId,
    take: impl FnOnce(UnixStream, Arc<AtomicU64>),
) {
    match pair() {
        Ok((near, far)) => {
            let carried = connection.attach(stream, near);
            watch(epoll, handle, stream, connection);
            take(far, carried);
        }
        Err(error) => {
            tracing::debug!("socketpair: {error}");
            connection.refuse(stream);
        }
    }
}

/// Watches the local socket of a stream.
fn watch(epoll: &OwnedFd, handle: ConnectionHandle, stream: StreamId, connection: &mut Connection) {
    let Some(bridge) = connection.bridge(stream) else { return };
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    if let Err(error) = epoll::add(epoll, &bridge.socket, EventData::new_u64(token(handle, stream)), flags) {
        tracing::debug!("epoll: {error}");
        bridge.cut();
    }
}

/// A pair of local sockets, the first of which does not block.
pub(crate) fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (near, far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    Ok((near, far))
}

/// Number of bits of a token that are those of a stream: the peer numbers those, and no connection carries so many.
const STREAM_BITS: u32 = 32;

fn token(handle: ConnectionHandle, stream: StreamId) -> u64 {
    ((handle.0 as u64) << STREAM_BITS) | (u64::from(stream) & u64::from(u32::MAX))
}

fn parts(token: u64) -> (ConnectionHandle, StreamId) {
    let stream = quinn_proto::VarInt::from_u32(token as u32);
    (ConnectionHandle((token >> STREAM_BITS) as usize), StreamId::from(stream))
}

/// The address without its port, or the network of one of IPv6.
fn network(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

fn sooner(one: Next, other: Next) -> Next {
    match (one, other) {
        (Next::At(one), Next::At(other)) => Next::At(one.into_iter().chain(other).min()),
        _ => Next::Now,
    }
}
