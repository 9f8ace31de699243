//! One leg of a relayed connection: a TCP socket that never blocks, in clear or with TLS.
//!
//! * Readiness is edge-triggered: a leg counts as readable and writable until a call would block,
//!   and again after an event.
//! * A leg is closed by a reset when it is dropped, unless [`Leg::close_gracefully`] was called:
//!   the neighbour of a relay that dies, or that aborts a connection, must not take what it has
//!   received for everything.

mod raw;
mod tls;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use icdc_tcp::canonical;
use icdc_trust::PublicKey;
use icdc_units::{ByteCount, Time};
use rustix::net::Shutdown;
use rustix::pipe::{SpliceFlags, splice};
use socket2::SockRef;

use crate::buffers;
use crate::known_paths::{PathCache, PathObserver};
use crate::pipe::Pipe;
use crate::receive_budget::{MINIMUM, ReceiveBudget, Reservation, Traffic};
use raw::{read_from, retried, write_to};
use tls::Tls;

pub(crate) use raw::Received;

/// TCP keepalive: idle time before the first probe, and between probes.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A TCP connection to one neighbour.
#[derive(Debug)]
pub(crate) struct Leg {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether TCP urgent data has arrived.
    pub(crate) has_urgent: bool,
    /// Whether the leg leads to a relay: the path may be long, so buffers are sized at run time.
    pub(crate) between_relays: bool,
    observer: Option<Box<PathObserver>>,
    /// Size that was set; zero while the kernel tunes it.
    send_buffer: ByteCount,
    reservation: Option<Box<Reservation>>,
    /// Bytes that go before anything else.
    prefix: Vec<u8>,
}

impl Leg {
    /// Takes over a socket that does not block.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let options = SockRef::from(&socket);
        options.set_linger(Some(Duration::ZERO))?;
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        options.set_tcp_keepalive(&keepalive)?;
        Ok(Self {
            socket,
            tls: None,
            readable: false,
            writable: false,
            has_urgent: false,
            between_relays: false,
            observer: None,
            send_buffer: ByteCount::ZERO,
            reservation: None,
            prefix: Vec::new(),
        })
    }

    /// Encrypts everything on the leg from now on, by this TLS session.
    pub(crate) fn secure(&mut self, session: rustls::Connection) {
        self.tls = Some(Box::new(Tls::new(session)));
    }

    /// The leg's socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the leg is not encrypted.
    pub(crate) fn is_clear(&self) -> bool {
        self.tls.is_none()
    }

    /// Whether `splice` may read from the leg: not with TLS, and not after urgent data, at which
    /// splice stops for good, while a read skips it.
    pub(crate) fn can_be_spliced(&self) -> bool {
        self.is_clear() && !self.has_urgent
    }

    /// The key that the other end has proved to hold, by TLS; `None` without TLS, or before the
    /// handshake.
    pub(crate) fn peer_key(&self) -> Option<PublicKey> {
        self.tls.as_ref().and_then(|tls| tls.peer_key())
    }

    /// Address of the other end; `None` if the kernel does not tell it.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok().map(canonical)
    }

    /// Address of this end; `None` if the kernel does not tell it.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok().map(canonical)
    }

    /// Enlarges the send buffer of a leg between relays ahead of its congestion window, up to
    /// `most`; not if `is_fixed`, as a buffer of a configured size is.
    pub(crate) fn grow_send_buffer(&mut self, most: ByteCount, is_fixed: bool) {
        if !self.between_relays || is_fixed || !buffers::may_exceed_limits() {
            return;
        }
        let Ok(info) = icdc_tcp::info(&self.socket) else { return };
        let Some(size) = buffers::larger_send(info.window(), self.send_buffer, most) else { return };
        match icdc_tcp::set_buffers(&self.socket, size, ByteCount::ZERO) {
            Ok(_) => self.send_buffer = size,
            Err(error) => tracing::debug!("the send buffer keeps its size: {error}"),
        }
    }

    /// Limits the receive buffer until the other end has authenticated.
    pub(crate) fn restrict_receive_buffer(&self) {
        set_receive_buffer(&self.socket, MINIMUM);
    }

    /// Reserves a receive buffer for what the path has in flight, because the leg is about to carry
    /// data: at most `largest`, `None` for no reservation. Legs that lead to no relay reserve none.
    pub(crate) fn reserve_receive_buffer(&mut self, budget: &Arc<ReceiveBudget>, largest: Option<ByteCount>) {
        let Some(largest) = largest.filter(|_| self.between_relays && self.reservation.is_none()) else { return };
        let reservation = Reservation::new(budget, largest);
        set_receive_buffer(&self.socket, reservation.size());
        self.reservation = Some(Box::new(reservation));
    }

    /// Fits a reserved receive buffer to what arrives.
    pub(crate) fn resize_receive_buffer(&mut self, largest: Option<ByteCount>, now: Time) {
        let (Some(largest), Some(reservation)) = (largest, &mut self.reservation) else { return };
        let (Ok(info), Ok(occupied)) = (icdc_tcp::info(&self.socket), icdc_tcp::receive_memory(&self.socket)) else {
            return;
        };
        // An end that only receives has no new samples of its own.
        let round_trip = info.rtt.max(info.receive_rtt);
        if reservation.update(now, Traffic { received: info.bytes_received, occupied, round_trip }, largest) {
            set_receive_buffer(&self.socket, reservation.size());
        }
    }

    /// Samples what the path has free, if it leads to another relay.
    pub(crate) fn observe_path(&mut self, paths: &PathCache, now: Time) {
        if self.between_relays {
            paths.observe(&self.socket, self.observer.get_or_insert_default(), now);
        }
    }

    /// Takes the pending error of the socket (`SO_ERROR`), or the error of reading it; `None` if
    /// there is none.
    pub(crate) fn error(&self) -> Option<io::Error> {
        self.socket.take_error().unwrap_or_else(Some)
    }

    /// Bytes in the socket's send queue: unsent, or not acknowledged by the neighbour's kernel.
    /// Zero if that cannot be read.
    pub(crate) fn unacknowledged(&self) -> ByteCount {
        icdc_tcp::send_queue(&self.socket).unwrap_or(ByteCount::ZERO)
    }

    /// Bytes that wait in the receive buffer; zero if that cannot be read.
    pub(crate) fn unread(&self) -> ByteCount {
        ByteCount::new(rustix::io::ioctl_fionread(&self.socket).unwrap_or(0))
    }

    /// Continues the TLS handshake; returns true once it is complete, or without TLS.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.handshake(&self.socket, &mut self.readable, &mut self.writable),
        }
    }

    /// Sends these bytes before everything that is written from now on.
    pub(crate) fn send_first(&mut self, bytes: &[u8]) {
        self.prefix.extend_from_slice(bytes);
    }

    /// Sends what waits in user space; false if the socket did not take all of it.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while !self.prefix.is_empty() {
            let prefix = std::mem::take(&mut self.prefix);
            let written = self.write_now(&prefix);
            self.prefix = prefix;
            match written? {
                0 => return Ok(false),
                count => drop(self.prefix.drain(..count)),
            }
        }
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.push(&self.socket, &mut self.writable),
        }
    }

    /// Writes what the leg takes; returns the number of bytes taken, zero while bytes before them
    /// wait.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.prefix.is_empty() || self.flush()? { self.write_now(bytes) } else { Ok(0) }
    }

    /// Writes what the socket takes at once; returns the number of bytes.
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.write(bytes, &self.socket, &mut self.writable),
            None => write_to(&self.socket, bytes, &mut self.writable),
        }
    }

    /// Reads what has arrived on the leg, decrypted if it has TLS.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<Received> {
        match &mut self.tls {
            Some(tls) => tls.read(into, &self.socket, &mut self.readable),
            None => read_from(&self.socket, into, &mut self.readable),
        }
    }

    /// Moves what has arrived into an empty pipe within the kernel. For legs without TLS only.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn splice_in(&mut self, pipe: &Pipe, most: usize) -> io::Result<Received> {
        if !self.readable {
            return Ok(Received::WouldBlock);
        }
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match retried(|| Ok(splice(&self.socket, None, &pipe.writer, None, most, flags)?)) {
            Ok(0) => Ok(Received::End),
            Ok(count) => Ok(Received::Bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(Received::WouldBlock)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves bytes out of a pipe that holds `most` of them; returns how many the socket took.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn splice_out(&mut self, pipe: &Pipe, most: usize) -> io::Result<usize> {
        if !self.writable {
            return Ok(0);
        }
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match retried(|| Ok(splice(&pipe.reader, None, &self.socket, None, most, flags)?)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Ok(0)
            }
            outcome => outcome,
        }
    }

    /// Shuts the sending direction down; false if bytes before that still wait.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn shut_down_writing(&mut self) -> io::Result<bool> {
        if !self.flush()? {
            return Ok(false);
        }
        if let Some(tls) = &mut self.tls
            && !tls.close_notify(&self.socket, &mut self.writable)?
        {
            return Ok(false);
        }
        rustix::net::shutdown(&self.socket, Shutdown::Write)?;
        Ok(true)
    }

    /// Lets the leg be closed in order when it is dropped: the kernel still sends what it holds.
    pub(crate) fn close_gracefully(&self) {
        // It fails only if the connection is gone already.
        let _ = SockRef::from(&self.socket).set_linger(None);
    }
}

/// Sets the size of a receive buffer, in bytes of data; an error is only logged.
fn set_receive_buffer(socket: &TcpStream, size: ByteCount) {
    if let Err(error) = icdc_tcp::set_receive_room(socket, size) {
        tracing::debug!("the receive buffer keeps its size: {error}");
    }
}
