//! Sends fireflies for connections as long as they last.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use icdc_stop::StopSignal;
use icdc_tcp::{ConnectionState, TcpInfo, clock};
use icdc_units::{Span, Time};
use jiff::Timestamp;

use crate::firefly::{Firefly, Flow, State, Usage, plain};
use crate::tag::Tag;

/// UDP port for fireflies (SciTags technical specification).
pub const PORT: u16 = 10514;
/// Usual interval between the fireflies of a flow that continues.
pub const INTERVAL: Span = Span::from_secs(60);
/// Interval at which connections are checked for a firefly that is due, or for their end.
const LOOK: Span = Span::from_secs(1);

/// Settings of a [`Marker`]: contents of its fireflies, their interval, and who gets them besides
/// the far ends of connections.
#[derive(Clone, Debug)]
pub struct MarkerConfig {
    /// Experiment and activity of the connections.
    pub tag: Tag,
    /// Name and version of the program.
    pub application: String,
    /// A collector that gets every firefly as well; `None` for none.
    pub collector: Option<SocketAddr>,
    /// Interval of the fireflies of a flow that continues.
    pub interval: Span,
}

/// Thread that sends the fireflies of marked connections once they are due, until this value is
/// dropped; makes the [`Flows`] by which sessions add theirs.
pub struct Marker {
    shared: Arc<Shared>,
    over: StopSignal,
    thread: Option<JoinHandle<()>>,
}

/// State that the marker's thread and all [`Flows`] share.
struct Shared {
    config: MarkerConfig,
    host: String,
    /// A datagram could not be sent; told once.
    has_failed: AtomicBool,
    flows: Mutex<Marked>,
}

/// Marked connections of all sessions, by number.
#[derive(Default)]
struct Marked {
    by_number: BTreeMap<u64, Connection>,
    next: u64,
}

/// A marked connection: its socket, the addresses of both ends, whether this end sends the data,
/// when it began, and when its next firefly is due.
struct Connection {
    socket: Arc<TcpStream>,
    near: SocketAddr,
    far: SocketAddr,
    sends: bool,
    start: Timestamp,
    due: Time,
}

impl Marker {
    /// Starts the thread, with no connections yet.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(config: MarkerConfig) -> io::Result<Self> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let shared = Arc::new(Shared { config, host, has_failed: AtomicBool::new(false), flows: Mutex::default() });
        let over = StopSignal::new();
        let (watched, stop) = (Arc::clone(&shared), over.clone());
        let watch = move || {
            while !stop.wait(LOOK) {
                watched.send_due_fireflies(clock::now());
            }
        };
        let thread = std::thread::Builder::new().name("fireflies".to_owned()).spawn(watch)?;
        Ok(Self { shared, over, thread: Some(thread) })
    }

    /// Makes the list of one session's connections, in which this end sends the data if `sends` is
    /// true, else receives it.
    #[must_use]
    pub fn flows(&self, sends: bool) -> Flows {
        Flows { shared: Arc::clone(&self.shared), sends, numbers: Mutex::default() }
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        self.over.request();
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Marker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Marker").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

/// Marked connections of one session. Dropping it ends their flows, with a last firefly for each.
pub struct Flows {
    shared: Arc<Shared>,
    sends: bool,
    numbers: Mutex<Vec<u64>>,
}

impl Flows {
    /// Adds a connection, which begins now, and sends its first firefly; one that has ended already
    /// is left out. Its socket stays open, though it may be shut down, until its flow ends.
    pub fn add(&self, socket: &Arc<TcpStream>) {
        // One that is gone already has carried nothing.
        let (Ok(near), Ok(far)) = (socket.local_addr(), socket.peer_addr()) else { return };
        let connection = Connection {
            socket: Arc::clone(socket),
            near: plain(near),
            far: plain(far),
            sends: self.sends,
            start: Timestamp::now(),
            due: clock::now() + self.shared.config.interval,
        };
        self.shared.tell(&connection, State::Start);
        let mut flows = self.shared.lock();
        let number = flows.next;
        flows.next += 1;
        flows.by_number.insert(number, connection);
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    /// Sends the last firefly of each connection added so far, and forgets them.
    pub fn end(&self) {
        let numbers = std::mem::take(&mut *self.numbers.lock().unwrap_or_else(PoisonError::into_inner));
        for number in numbers {
            let ended = self.shared.lock().by_number.remove(&number);
            if let Some(connection) = ended {
                self.shared.tell(&connection, State::End);
            }
        }
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Marked> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the fireflies that are due at `now`, and the last one of connections that have ended,
    /// which are forgotten.
    fn send_due_fireflies(&self, now: Time) {
        let mut flows = self.lock();
        flows.by_number.retain(|_, connection| {
            let is_gone = connection.info().is_none_or(|info| info.state == ConnectionState::Closed);
            if is_gone {
                self.tell(connection, State::End);
            } else if now >= connection.due {
                self.tell(connection, State::Ongoing);
                connection.due = now + self.config.interval;
            }
            !is_gone
        });
    }

    /// Sends a firefly of this state to the far end of a connection, and to the collector if there
    /// is one.
    fn tell(&self, connection: &Connection, state: State) {
        let Connection { near, far, sends, start, .. } = *connection;
        let flow = match sends {
            true => Flow { source: near, destination: far },
            false => Flow { source: far, destination: near },
        };
        let usage = connection.info().map_or_else(Usage::default, |info| Usage::of(&info, sends));
        let (tag, application) = (self.config.tag, self.config.application.as_str());
        let now = Timestamp::now();
        let datagram = Firefly { tag, flow, state, start, now, usage, application, host: &self.host }.datagram();
        // From the address of the connection, so that it takes the same path.
        self.send(with_port(near, 0), with_port(far, PORT), &datagram);
        if let Some(collector) = self.config.collector {
            let any = if collector.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            self.send(SocketAddr::new(any, 0), collector, &datagram);
        }
    }

    /// Sends a datagram without waiting; the first failure is logged, later ones are not.
    fn send(&self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        let sent = UdpSocket::bind(from).and_then(|socket| {
            // Data does not wait for a datagram.
            socket.set_nonblocking(true)?;
            socket.send_to(datagram, to)
        });
        if let Err(error) = sent
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("a firefly to {to} could not be sent; others may be missing as well: {error}");
        }
    }
}

impl Connection {
    /// The kernel's counters of the connection; `None` if they cannot be had.
    fn info(&self) -> Option<TcpInfo> {
        icdc_tcp::info(&*self.socket).ok()
    }
}

/// The address with another port.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}
