//! Carriers of a link's records: TCP connections, streams over datagrams, and streams that another program carries.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use icdc_datagram::{Dialed, FlowState, StreamHandle};
use icdc_tcp::{OptionError, TcpInfo, canonical};
use icdc_units::{ByteCount, Rate, Span};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::write_clock::{SharedPacer, WriteClock};

/// Send buffer, in bytes, of the local socket to a forwarding program whose window is opened here:
/// a program that has not run for a moment then has little to send at once.
const WAITS: usize = 48 << 10;

/// Byte stream that carries a link's records in both directions; any thread can monitor and end
/// it.
#[derive(Clone)]
pub enum Carrier {
    /// A TCP connection, and the pacer of its writes where the kernel does not pace.
    Tcp(Arc<TcpStream>, Arc<WritePace>),
    /// A stream over datagrams.
    Datagrams(Arc<OverDatagrams>),
    /// A stream that another program, such as ssh, carries.
    Forwarded(Arc<Forwarded>),
}

/// A byte stream over datagrams, which a thread of this process or of another one sends and receives.
pub struct OverDatagrams {
    socket: UnixStream,
    peer: SocketAddr,
    connection: OwnConnection,
    clock: WriteClock,
    written: AtomicU64,
}

/// Rate limit of a TCP connection that is enforced by delaying writes, on kernels that do not pace
/// a socket (Linux before 3.13).
#[derive(Default)]
pub struct WritePace(OnceLock<WriteClock>);

/// The program that carries a stream, such as ssh; dropping it ends the program.
pub trait ForwardingProgram: Send + Sync {
    /// Asks the program to end and does not wait, because the stream is of no use any more.
    fn end(&self);
}

/// A byte stream that another program carries, such as ssh.
pub struct Forwarded {
    socket: UnixStream,
    peer: String,
    /// TCP connection of the program; `None` once the stream is shut down, or if it cannot be
    /// seen.
    network: Mutex<Option<Network>>,
    /// Window of the program's own flow control in bytes, if it is known.
    window: Option<ByteCount>,
    clock: WriteClock,
    written: AtomicU64,
    /// The program, which ends together with the stream.
    program: Box<dyn ForwardingProgram>,
}

/// The TCP connection by which another program sends. Only that program reads, writes and closes
/// it; this process only reads its statistics and paces it.
struct Network {
    socket: TcpStream,
    /// Bytes that were acknowledged before the stream began.
    before: ByteCount,
}

impl Forwarded {
    /// New stream: `socket` leads to `program`, which sends over the TCP connection `network`, if
    /// that could be found; `peer` names the other end in messages.
    #[must_use]
    pub fn new(
        socket: UnixStream,
        peer: String,
        network: Option<TcpStream>,
        program: impl ForwardingProgram + 'static,
    ) -> Self {
        let (clock, written) = (WriteClock::default(), AtomicU64::new(0));
        let network = network.map(|socket| Network { before: has_arrived(&socket), socket });
        Self { socket, peer, network: Mutex::new(network), window: None, clock, written, program: Box::new(program) }
    }

    /// Declares that the program carries at most `window` bytes per round trip. Where its TCP
    /// connection can be seen and the round trip is not short, writes are paced: at first as a
    /// congestion window opens, then at just under the rate of the window. Streams with the same
    /// `pacer` share the sum of their rates.
    #[must_use]
    pub fn with_window(self, window: ByteCount, pacer: &Arc<SharedPacer>) -> Self {
        let round_trip =
            self.with_network(|network| icdc_tcp::info(&network.socket).ok()).flatten().map(|info| info.min_rtt);
        // Without the smaller buffer a burst may be longer, and everything works.
        if round_trip.is_some_and(|round_trip| self.clock.open(window, round_trip, pacer))
            && let Err(errno) = set_socket_send_buffer_size(&self.socket, WAITS)
        {
            tracing::debug!("{}: the local buffer stays what it is: {errno}", self.peer);
        }
        Self { window: Some(window), ..self }
    }

    /// Calls `look` with the program's TCP connection; `None` if it cannot be seen, or the stream
    /// is shut down.
    fn with_network<T>(&self, look: impl FnOnce(&Network) -> T) -> Option<T> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(look)
    }
}

impl From<TcpStream> for Carrier {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(Arc::new(stream), Arc::default())
    }
}

/// The connection over datagrams that carries a stream, as far as it is this process's.
pub enum OwnConnection {
    /// This process has made it.
    Dialed(Arc<Dialed>),
    /// This process has accepted it.
    Accepted(StreamHandle),
    /// It is another process's.
    None,
}

impl OverDatagrams {
    /// New stream: `socket` leads to the thread that carries it, and `peer` is the other end's address.
    #[must_use]
    pub fn new(socket: UnixStream, peer: SocketAddr, connection: OwnConnection) -> Self {
        Self { socket, peer, connection, clock: WriteClock::default(), written: AtomicU64::new(0) }
    }

    /// State of the congestion control; `None` if this end has not made the connection.
    fn state(&self) -> Option<FlowState> {
        match &self.connection {
            OwnConnection::Dialed(connection) => Some(connection.state()),
            OwnConnection::Accepted(_) | OwnConnection::None => None,
        }
    }
}

impl From<OverDatagrams> for Carrier {
    fn from(stream: OverDatagrams) -> Self {
        Self::Datagrams(Arc::new(stream))
    }
}

impl From<Forwarded> for Carrier {
    fn from(forwarded: Forwarded) -> Self {
        Self::Forwarded(Arc::new(forwarded))
    }
}

impl Carrier {
    /// Ends one direction of the stream or both.
    ///
    /// # Errors
    /// Error that the kernel returned, if the peer has ended it before.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream, pace) => {
                if let Some(clock) = pace.0.get() {
                    clock.stop();
                }
                stream.shutdown(how)
            }
            Self::Datagrams(stream) => {
                stream.clock.stop();
                stream.socket.shutdown(how)
            }
            Self::Forwarded(forwarded) => {
                forwarded.clock.stop();
                let shut = forwarded.socket.shutdown(how);
                if how == Shutdown::Both {
                    forwarded.program.end();
                    // Whoever still holds its connection keeps that open.
                    drop(forwarded.network.lock().unwrap_or_else(PoisonError::into_inner).take());
                }
                shut
            }
        }
    }

    /// Name of the other end, for messages.
    pub(super) fn peer(&self) -> String {
        match self {
            Self::Tcp(stream, _) => {
                let shown = |address| canonical(address).to_string();
                stream.peer_addr().map_or_else(|_| "a peer that is gone".to_owned(), shown)
            }
            Self::Datagrams(stream) => canonical(stream.peer).to_string(),
            Self::Forwarded(forwarded) => forwarded.peer.clone(),
        }
    }

    /// Address of the other end; `None` if another program carries the stream, or it is gone.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream, _) => stream.peer_addr().ok(),
            Self::Datagrams(stream) => Some(stream.peer),
            Self::Forwarded(_) => None,
        }
    }

    /// Lets the other end send as much as the path carries: it is known who that is.
    pub(super) fn trust(&self) {
        if let Self::Datagrams(stream) = self
            && let OwnConnection::Accepted(incoming) = &stream.connection
        {
            incoming.trust();
        }
    }

    /// Number of bytes carried in both directions, as this process's transport counts them, which the program at either
    /// end cannot change.
    pub(super) fn carried(&self) -> ByteCount {
        match self {
            Self::Datagrams(stream) => match &stream.connection {
                OwnConnection::Accepted(incoming) => incoming.carried(),
                OwnConnection::Dialed(_) | OwnConnection::None => ByteCount::ZERO,
            },
            Self::Tcp(..) | Self::Forwarded(_) => {
                self.tcp_info().map_or(ByteCount::ZERO, |info| info.bytes_acked + info.bytes_received)
            }
        }
    }

    /// The TCP connection, if it is one and nobody else has it.
    #[must_use]
    pub fn into_tcp(self) -> Option<TcpStream> {
        match self {
            Self::Tcp(stream, _) => Arc::try_unwrap(stream).ok(),
            Self::Datagrams(_) | Self::Forwarded(_) => None,
        }
    }

    /// The socket, if another process can go on with it; `None` if another program carries the stream.
    pub(super) fn to_hand_over(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tcp(..) | Self::Datagrams(_) => Some(self.as_fd()),
            Self::Forwarded(_) => None,
        }
    }

    /// Whether one such stream reaches the path's rate, because of the congestion control beneath it.
    pub(super) fn finds_the_rate(&self) -> bool {
        matches!(self, Self::Datagrams(_))
    }

    /// Disables Nagle's algorithm: flights of the handshake and frames are gathered into large
    /// writes here, and the last piece of one must not wait for an acknowledgement.
    pub(super) fn send_at_once(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream, _) => stream.set_nodelay(true),
            Self::Datagrams(_) | Self::Forwarded(_) => Ok(()),
        }
    }

    /// Window of the program that carries the stream: its maximum bytes in flight; `None` if
    /// unknown.
    pub(super) fn window(&self) -> Option<ByteCount> {
        match self {
            Self::Tcp(..) | Self::Datagrams(_) => None,
            Self::Forwarded(forwarded) => forwarded.window,
        }
    }

    /// Kernel's TCP statistics of the connection, also of one that another program uses; `None` if
    /// there is none.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        match self {
            Self::Tcp(stream, _) => icdc_tcp::info(&**stream).ok(),
            Self::Datagrams(_) => None,
            Self::Forwarded(forwarded) => forwarded.with_network(|network| icdc_tcp::info(&network.socket).ok())?,
        }
    }

    /// The TCP connection; `None` if another program carries the stream.
    pub(super) fn tcp(&self) -> Option<&Arc<TcpStream>> {
        match self {
            Self::Tcp(stream, _) => Some(stream),
            Self::Datagrams(_) | Self::Forwarded(_) => None,
        }
    }

    /// Reads what has arrived; waits for it within the read timeout.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream, _) => (&**stream).read(buffer),
            Self::Datagrams(stream) => (&stream.socket).read(buffer),
            Self::Forwarded(forwarded) => (&forwarded.socket).read(buffer),
        }
    }

    /// Writes as many of the bytes as are taken at once, after the wait that a rate limit demands;
    /// returns their number.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream, pace) => (&**stream).write(&bytes[..pace.take(bytes.len())]),
            Self::Datagrams(stream) => {
                let count = (&stream.socket).write(&bytes[..stream.clock.take(bytes.len(), || None)])?;
                stream.written.fetch_add(count as u64, Ordering::Relaxed);
                Ok(count)
            }
            Self::Forwarded(forwarded) => forwarded.write(bytes),
        }
    }

    pub(super) fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Span>) -> io::Result<()> {
        match self {
            Self::Tcp(stream, _) => stream.set_read_timeout(timeout.map(Duration::from)),
            Self::Datagrams(stream) => stream.socket.set_read_timeout(timeout.map(Duration::from)),
            Self::Forwarded(forwarded) => forwarded.socket.set_read_timeout(timeout.map(Duration::from)),
        }
    }

    pub(super) fn set_write_timeout(&self, timeout: Option<Span>) -> io::Result<()> {
        match self {
            Self::Tcp(stream, _) => stream.set_write_timeout(timeout.map(Duration::from)),
            Self::Datagrams(stream) => stream.socket.set_write_timeout(timeout.map(Duration::from)),
            Self::Forwarded(forwarded) => forwarded.socket.set_write_timeout(timeout.map(Duration::from)),
        }
    }

    /// Limits the sending rate: by the kernel's pacing where the carrier is TCP, also of another
    /// program, and else by delaying writes, as on kernels that do not pace a socket; `None` for no
    /// limit.
    pub(super) fn set_rate(&self, rate: Option<Rate>) {
        let set = match self {
            Self::Tcp(stream, pace) => pace.set_rate(stream, rate),
            Self::Datagrams(stream) => {
                stream.clock.set_rate(rate);
                Ok(())
            }
            Self::Forwarded(forwarded) => {
                let set = forwarded.with_network(|network| icdc_tcp::set_pacing_rate(&network.socket, rate));
                set.unwrap_or_else(|| {
                    forwarded.clock.set_rate(rate);
                    Ok(())
                })
            }
        };
        if let Err(error) = set {
            tracing::debug!("{}: pacing rate not set: {error}", self.peer());
        }
    }

    /// Bytes that have reached the peer's host, or, where another program sends over a connection
    /// that cannot be seen, that the program has taken.
    pub(super) fn delivered(&self) -> ByteCount {
        match self {
            Self::Tcp(stream, _) => has_arrived(stream),
            Self::Datagrams(stream) => {
                let written = ByteCount::new(stream.written.load(Ordering::Relaxed));
                // What has not left is not known: it is little beside what is under way.
                written - stream.state().map_or(ByteCount::ZERO, |state| state.in_flight)
            }
            Self::Forwarded(forwarded) => {
                let written = ByteCount::new(forwarded.written.load(Ordering::Relaxed));
                let arrived = forwarded.with_network(|network| has_arrived(&network.socket) - network.before);
                arrived.map_or(written, |arrived| written.min(arrived))
            }
        }
    }
}

impl WritePace {
    /// Limits the rate by the kernel's pacing; where the kernel does not pace sockets, by delaying
    /// writes from now on.
    fn set_rate(&self, stream: &TcpStream, rate: Option<Rate>) -> Result<(), OptionError> {
        match icdc_tcp::set_pacing_rate(stream, rate) {
            Err(error) if error.cause.raw_os_error() == Some(Errno::NOPROTOOPT.raw_os_error()) => {
                self.0.get_or_init(WriteClock::default).set_rate(rate);
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Waits until bytes are due; returns how many of the `wanted` bytes may be written then.
    fn take(&self, wanted: usize) -> usize {
        self.0.get().map_or(wanted, |clock| clock.take(wanted, || None))
    }
}

/// Bytes sent on a connection that have reached the other end's host; zero if the kernel does not
/// tell.
fn has_arrived(stream: &TcpStream) -> ByteCount {
    icdc_tcp::info(stream).map_or(ByteCount::ZERO, |info| info.bytes_acked + info.mss * u64::from(info.sacked))
}

impl Forwarded {
    /// Writes to the program as many bytes as the pacing allows, after the wait that it demands;
    /// returns their number.
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let arrived = || self.with_network(|network| has_arrived(&network.socket) - network.before);
        let count = (&self.socket).write(&bytes[..self.clock.take(bytes.len(), arrived)])?;
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream, _) => stream.as_fd(),
            Self::Datagrams(stream) => stream.socket.as_fd(),
            Self::Forwarded(forwarded) => forwarded.socket.as_fd(),
        }
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Carrier").field(&self.peer()).finish()
    }
}
