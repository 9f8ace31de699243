//! One leg of a relayed connection: a TCP socket that never blocks, in clear or with TLS.
//!
//! Readiness comes by edges: a leg is taken for readable and writable until the kernel says otherwise, and again when
//! an event says so. Every leg is closed by a reset unless it is [`Leg::close`]d: whoever talks to a relay that dies, or
//! that gives a connection up, must not take what it has got for all there is.

mod tls;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use icdc_trust::PublicKey;
use icdc_units::{ByteCount, Time};
use rustix::net::Shutdown;
use rustix::pipe::{SpliceFlags, splice};
use socket2::SockRef;

use crate::known_paths::{LegWatch, Paths};
use crate::pipe::Pipe;
use crate::rooms::{LEAST, Pool, Room, Traffic};
use crate::socket::may_have_large_buffers;
use tls::Tls;

/// How long silence may last until the kernel asks whether the other end is still there, and between such questions.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Up to here the kernel's tuning of send buffers is left alone.
const TUNED: ByteCount = ByteCount::from_mib(1);

/// A TCP connection to one neighbour.
#[derive(Debug)]
pub(crate) struct Leg {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Urgent data has come.
    pub(crate) has_urgent: bool,
    /// The path may be long: the send buffer grows with its window, and what it carries is worth knowing.
    pub(crate) between_relays: bool,
    watch: Option<Box<LegWatch>>,
    /// What the send buffer was set to; zero while the kernel tunes it.
    send_buffer: ByteCount,
    room: Option<Box<Room>>,
    /// Goes before anything else.
    first: Vec<u8>,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// So many bytes.
    Bytes(usize),
    /// The other end has said that nothing more comes.
    End,
    /// Nothing now.
    Later,
}

impl Leg {
    /// Takes over a socket that does not block.
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
            watch: None,
            send_buffer: ByteCount::ZERO,
            room: None,
            first: Vec::new(),
        })
    }

    /// From here on everything is encrypted.
    pub(crate) fn secure(&mut self, session: rustls::Connection) {
        self.tls = Some(Box::new(Tls::new(session)));
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn is_clear(&self) -> bool {
        self.tls.is_none()
    }

    /// Not where urgent data have come: splice stops before them for good, reading leaves them out and goes on.
    pub(crate) fn can_be_spliced(&self) -> bool {
        self.is_clear() && !self.has_urgent
    }

    /// The key that the other end has proved to hold.
    pub(crate) fn peer_key(&self) -> Option<PublicKey> {
        self.tls.as_ref().and_then(|tls| tls.peer_key())
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok().map(canonical)
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok().map(canonical)
    }

    /// Gives the send buffer room for twice the congestion window, which can then go on growing: the kernel's own tuning ends
    /// at `net.ipv4.tcp_wmem`, far below what a long fat path holds.
    pub(crate) fn grow(&mut self, most: ByteCount, is_fixed: bool) {
        if !self.between_relays || is_fixed || !may_have_large_buffers() {
            return;
        }
        let Ok(info) = icdc_tcp::info(&self.socket) else { return };
        let wanted = info.window() * 2;
        if wanted <= self.send_buffer.max(TUNED) || self.send_buffer >= most {
            return;
        }
        let size = (wanted * 2).min(most);
        match icdc_tcp::set_buffers(&self.socket, size, ByteCount::ZERO) {
            Ok(_) => self.send_buffer = size,
            Err(error) => tracing::debug!("the send buffer stays what it is: {error}"),
        }
    }

    /// Lets little wait unread here: who is at the other end has not yet shown it.
    pub(crate) fn narrow(&self) {
        set_room(&self.socket, LEAST);
    }

    /// Takes room for what is on its way on the path, if it leads to another relay: it is about to carry data.
    pub(crate) fn take_room(&mut self, pool: &Arc<Pool>, largest: Option<ByteCount>) {
        let Some(largest) = largest.filter(|_| self.between_relays && self.room.is_none()) else { return };
        let room = Room::new(pool, largest);
        set_room(&self.socket, room.size());
        self.room = Some(Box::new(room));
    }

    /// Fits the room, if it has one, to what comes.
    pub(crate) fn fit_room(&mut self, largest: Option<ByteCount>, now: Time) {
        let (Some(largest), Some(room)) = (largest, &mut self.room) else { return };
        let (Ok(info), Ok(occupied)) = (icdc_tcp::info(&self.socket), icdc_tcp::receive_memory(&self.socket)) else {
            return;
        };
        // Who only receives measures nothing new by what it sends.
        let round_trip = info.rtt.max(info.receive_rtt);
        if room.look(now, Traffic { received: info.bytes_received, occupied, round_trip }, largest) {
            set_room(&self.socket, room.size());
        }
    }

    /// Looks what the path carries, if it leads to another relay.
    pub(crate) fn learn(&mut self, paths: &Paths, now: Time) {
        if !self.between_relays {
            return;
        }
        let mut watch = self.watch.take().unwrap_or_default();
        paths.look(self, &mut watch, now);
        self.watch = Some(watch);
    }

    /// The error that the kernel has noted for the socket.
    pub(crate) fn error(&self) -> Option<io::Error> {
        self.socket.take_error().unwrap_or_else(Some)
    }

    /// Bytes that the neighbour has not yet acknowledged.
    pub(crate) fn queue(&self) -> ByteCount {
        icdc_tcp::drained(&self.socket).unwrap_or(ByteCount::ZERO)
    }

    /// Bytes that have arrived and wait to be read.
    pub(crate) fn unread(&self) -> ByteCount {
        ByteCount::new(rustix::io::ioctl_fionread(&self.socket).unwrap_or(0))
    }

    /// Goes on with the TLS handshake; true once it is through, or where there is none.
    pub(crate) fn shake_hands(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.shake_hands(&self.socket, &mut self.readable, &mut self.writable),
        }
    }

    /// Puts bytes before everything that is written from now on.
    pub(crate) fn send_first(&mut self, bytes: &[u8]) {
        self.first.extend_from_slice(bytes);
    }

    /// Sends what waits in user space; false if some of it still waits.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            let written = self.write_now(&first);
            self.first = first;
            match written? {
                0 => return Ok(false),
                count => drop(self.first.drain(..count)),
            }
        }
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.push(&self.socket, &mut self.writable),
        }
    }

    /// Writes what there is room for.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.first.is_empty() || self.flush()? { self.write_now(bytes) } else { Ok(0) }
    }

    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.write(bytes, &self.socket, &mut self.writable),
            None => write_to(&self.socket, bytes, &mut self.writable),
        }
    }

    /// Reads what is there.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived> {
        match &mut self.tls {
            Some(tls) => tls.read(into, &self.socket, &mut self.readable),
            None => read_from(&self.socket, into, &mut self.readable),
        }
    }

    /// Moves what is there into an empty pipe, without its passing through this process. For clear legs only.
    pub(crate) fn splice_in(&mut self, pipe: &Pipe, most: usize) -> io::Result<Arrived> {
        if !self.readable {
            return Ok(Arrived::Later);
        }
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        match retried(|| Ok(splice(&self.socket, None, &pipe.writer, None, most, flags)?)) {
            Ok(0) => Ok(Arrived::End),
            Ok(count) => Ok(Arrived::Bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(Arrived::Later)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves what there is room for out of a pipe that holds `most` bytes.
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

    /// Tells the other end that nothing more comes; false if that still waits behind other bytes.
    pub(crate) fn end_writing(&mut self) -> io::Result<bool> {
        if !self.flush()? {
            return Ok(false);
        }
        if let Some(tls) = &mut self.tls
            && !tls.say_goodbye(&self.socket, &mut self.writable)?
        {
            return Ok(false);
        }
        rustix::net::shutdown(&self.socket, Shutdown::Write)?;
        Ok(true)
    }

    /// Closes it in order: what is still to be sent is sent by the kernel.
    pub(crate) fn close(self) {
        // If that fails the socket is gone already.
        let _ = SockRef::from(&self.socket).set_linger(None);
    }
}

fn set_room(socket: &TcpStream, size: ByteCount) {
    if let Err(error) = icdc_tcp::set_receive_room(socket, size) {
        tracing::debug!("the receive buffer stays what it is: {error}");
    }
}

/// An address as it was meant: IPv4 on a socket of both families is IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn read_from(mut socket: &TcpStream, into: &mut [u8], readable: &mut bool) -> io::Result<Arrived> {
    if !*readable {
        return Ok(Arrived::Later);
    }
    match retried(|| socket.read(into)) {
        Ok(0) => Ok(Arrived::End),
        Ok(count) => Ok(Arrived::Bytes(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            *readable = false;
            Ok(Arrived::Later)
        }
        Err(error) => Err(error),
    }
}

fn write_to(mut socket: &TcpStream, bytes: &[u8], writable: &mut bool) -> io::Result<usize> {
    if !*writable || bytes.is_empty() {
        return Ok(0);
    }
    match retried(|| socket.write(bytes)) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            *writable = false;
            Ok(0)
        }
        outcome => outcome,
    }
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
