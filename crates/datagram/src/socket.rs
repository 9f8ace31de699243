//! UDP sockets of one end, many packets at a time.
//!
//! The kernel limits the memory of each socket; with its defaults a host that does not run for two milliseconds loses packets
//! at 1 Gbit/s. So an end has several sockets of one address there, over which the kernel spreads by chance what arrives
//! ([`group`]). What they have received is put into order by the kernel's stamps, as QUIC takes a packet that is much older than
//! others for a duplicate:
//!
//! ```text
//! round n      every socket is read; what arrives meanwhile at one that was read before another is missed
//! round n + 1  every socket is read again: what came before the last of round n is there now, and goes on in order;
//!              the rest waits for the next round, as does what came after the last that a socket has given which has more
//! ```

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::io::Errno;

use crate::clock;
use crate::group;

/// Receive and send buffer that is asked for, in bytes; the kernel gives what `net.core.rmem_max` allows.
const BUFFER: usize = 16 << 20;
/// Number of system calls' worth of packets that are received in a row from one socket.
const CALLS: usize = 4;
/// Time that a packet may have waited in the socket, as its stamp tells; one that tells more was set by another clock.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The UDP sockets of one end, which share an address; the first one sends.
pub(crate) struct Sockets {
    sockets: Vec<Socket>,
    /// Space for what one call receives.
    space: Vec<u8>,
    each: usize,
    /// Datagrams that wait for earlier ones which other sockets may have, in order.
    waiting: Vec<Arrived>,
}

struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// True if there may be something to receive.
    readable: bool,
}

/// A datagram that has arrived.
pub(crate) struct Arrived {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) data: BytesMut,
    /// Time at which the kernel has received it.
    pub(crate) at: Instant,
    /// Kernel's stamp of that time, since 1970.
    stamp: Duration,
}

/// Clocks at the begin of a round.
#[derive(Clone, Copy)]
struct Clocks {
    now: Instant,
    wall: Duration,
}

impl Clocks {
    fn read() -> Self {
        Self { now: clock::now(), wall: clock::wall() }
    }

    /// The monotonic time of a stamp of the wall clock; now where that was set meanwhile.
    fn monotonic(self, stamp: Duration) -> Instant {
        match self.wall.checked_sub(stamp) {
            Some(age) if age < LONGEST_WAIT => self.now.checked_sub(age).unwrap_or(self.now),
            None if stamp - self.wall < LONGEST_WAIT => self.now + (stamp - self.wall),
            _ => self.now,
        }
    }
}

impl Sockets {
    /// Prepares a socket, and further ones of its address where its buffer is small: they do not block, send and receive runs of
    /// packets.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let first = Socket::new(socket)?;
        let buffer = first.state.recv_buffer_size((&first.socket).into())?;
        let each = if first.state.gro_segments() > 1 { 64 << 10 } else { 9 << 10 };
        let further = group::join(&first.socket, buffer)?;
        let mut sockets = vec![first];
        for socket in further {
            sockets.push(Socket::new(socket)?);
        }
        Ok(Self { sockets, space: vec![0; each * quinn_udp::BATCH_SIZE], each, waiting: Vec::new() })
    }

    /// Number of packets that one call may send.
    pub(crate) fn longest_run(&self) -> usize {
        self.sockets[0].state.max_gso_segments()
    }

    /// Whether packets may be cut on their way, so that no length of them can be tried.
    pub(crate) fn may_fragment(&self) -> bool {
        self.sockets[0].state.may_fragment()
    }

    /// Address at which the sockets receive.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.sockets[0].socket.local_addr()
    }

    /// The sockets, by number.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.socket.as_fd())
    }

    /// Notes that the socket of this number may have something to receive.
    pub(crate) fn mark(&mut self, number: usize) {
        if let Some(socket) = self.sockets.get_mut(number) {
            socket.readable = true;
        }
    }

    /// True if there may be something to receive.
    pub(crate) fn may_have_more(&self) -> bool {
        !self.waiting.is_empty() || self.sockets.iter().any(|socket| socket.readable)
    }

    /// Receives datagrams, in order.
    pub(crate) fn receive(&mut self) -> Vec<Arrived> {
        let clocks = Clocks::read();
        let Self { sockets, space, each, waiting } = self;
        let mut arrived = std::mem::take(waiting);
        let is_alone = sockets.len() == 1;
        let mut settled = arrived.last().map(|datagram| datagram.stamp);
        for socket in sockets.iter_mut().filter(|socket| socket.readable) {
            let before = arrived.len();
            socket.readable = socket.receive(space, *each, clocks, &mut arrived);
            // What it still has may come before what others have brought.
            if let Some(last) = arrived[before..].last().filter(|_| socket.readable) {
                settled = settled.min(Some(last.stamp));
            }
        }
        if !is_alone {
            // Stable: what has no stamps stays as it is.
            arrived.sort_by_key(|datagram| datagram.stamp);
            *waiting = arrived.split_off(arrived.partition_point(|datagram| Some(datagram.stamp) <= settled));
        }
        arrived
    }

    /// Sends packets; false if the socket takes none now.
    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) -> bool {
        let first = &self.sockets[0];
        let sent = first.state.try_send(
            (&first.socket).into(),
            &quinn_udp::Transmit {
                destination: transmit.destination,
                ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &contents[..transmit.size],
                segment_size: transmit.segment_size,
                src_ip: transmit.src_ip,
            },
        );
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // A probe of the path's MTU that is longer than this host's.
            Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => {}
            // QUIC takes it for a loss.
            Err(error) => tracing::debug!("sendmsg to {}: {error}", transmit.destination),
            Ok(()) => {}
        }
        true
    }
}

impl Socket {
    fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        // What the kernel's limits do not allow, it cuts.
        let _ = state.set_recv_buffer_size((&socket).into(), BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), BUFFER);
        Ok(Self { socket, state, readable: true })
    }

    /// Adds what has arrived to `arrived`; whether there may be more.
    fn receive(&self, space: &mut [u8], each: usize, clocks: Clocks, arrived: &mut Vec<Arrived>) -> bool {
        let mut metas = [RecvMeta::default(); quinn_udp::BATCH_SIZE];
        for _ in 0..CALLS {
            let mut slices: Vec<IoSliceMut<'_>> = space.chunks_mut(each).map(IoSliceMut::new).collect();
            let count = match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // An ICMP message about an earlier packet; and what cannot be received shows as a loss.
                Err(error) => {
                    tracing::debug!("recvmmsg: {error}");
                    return true;
                }
            };
            for (meta, space) in metas[..count].iter().zip(space.chunks(each)) {
                let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
                let stamp = meta.timestamp.unwrap_or(clocks.wall);
                let at = clocks.monotonic(stamp);
                // Nobody receives at port 0, and the kernel refuses to send there.
                if meta.addr.port() == 0 {
                    continue;
                }
                for datagram in space[..meta.len].chunks(meta.stride.max(1)) {
                    // Each by itself: one that is kept must not keep a whole run.
                    let data = BytesMut::from(datagram);
                    arrived.push(Arrived { from: meta.addr, to: meta.dst_ip, ecn, data, at, stamp });
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_while_the_host_pauses_is_kept_and_in_order() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let mut sockets = Sockets::new(socket).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // 30 ms at 1 Gbit/s.
        let sent: Vec<u32> = (0..2600).collect();
        for number in &sent {
            let mut datagram = [0; 1452];
            datagram[..4].copy_from_slice(&number.to_ne_bytes());
            sender.send_to(&datagram, address).unwrap();
        }
        let mut received = Vec::new();
        let begun = clock::now();
        while received.len() < sent.len() && begun.elapsed() < Duration::from_secs(10) {
            for number in 0..sockets.descriptors().count() {
                sockets.mark(number);
            }
            for datagram in sockets.receive() {
                received.push(u32::from_ne_bytes(datagram.data[..4].try_into().unwrap()));
            }
        }
        let turned = received.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert_eq!((received.len(), turned), (sent.len(), 0), "{} sockets", sockets.descriptors().count());
    }

    #[test]
    fn an_address_in_use_is_an_error() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let _sockets = Sockets::new(socket).unwrap();
        assert_eq!(UdpSocket::bind(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn stamps_of_another_clock_are_not_believed() {
        let clocks = Clocks::read();
        let ago = |span| clocks.monotonic(clocks.wall - span);
        assert_eq!(ago(Duration::from_millis(5)), clocks.now - Duration::from_millis(5));
        assert_eq!(ago(Duration::from_secs(3600)), clocks.now);
        assert_eq!(clocks.monotonic(clocks.wall + Duration::from_secs(3600)), clocks.now);
    }
}
