//! UDP sockets, many packets at a time.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustix::io::Errno;

use crate::clock;

/// Receive and send buffer that is asked for, in bytes; what `net.core.rmem_max` allows is given.
const BUFFER: usize = 16 << 20;
/// Number of system calls' worth of packets that are received in a row.
const CALLS: usize = 4;

/// Time that a packet may have waited in the socket, as its stamp tells; one that tells more was set by another clock.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A UDP socket of one end.
pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Space for what one call receives.
    space: Vec<u8>,
    each: usize,
}

/// A datagram that has arrived.
pub(crate) struct Arrived {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) data: BytesMut,
    /// Time at which the kernel has received it.
    pub(crate) at: Instant,
}

impl Socket {
    /// Prepares a socket: it does not block, sends and receives runs of packets, and has large buffers where it may.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        // What the kernel's limits do not allow, it cuts.
        let _ = state.set_recv_buffer_size((&socket).into(), BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), BUFFER);
        let each = if state.gro_segments() > 1 { 64 << 10 } else { 9 << 10 };
        Ok(Self { socket, space: vec![0; each * quinn_udp::BATCH_SIZE], each, state })
    }

    /// Number of packets that one call may send.
    pub(crate) fn longest_run(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Whether packets may be cut on their way, so that no length of them can be tried.
    pub(crate) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Address at which the socket receives.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Hands each datagram that has arrived to `take`; whether there may be more.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(Arrived)) -> bool {
        let mut metas = [RecvMeta::default(); quinn_udp::BATCH_SIZE];
        for _ in 0..CALLS {
            let mut slices: Vec<IoSliceMut<'_>> = self.space.chunks_mut(self.each).map(IoSliceMut::new).collect();
            let count = match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // An ICMP message about an earlier packet; and what cannot be received shows as a loss.
                Err(error) => {
                    tracing::debug!("recvmmsg: {error}");
                    return true;
                }
            };
            let (now, wall) = (clock::now(), clock::wall());
            for (meta, space) in metas[..count].iter().zip(self.space.chunks(self.each)) {
                let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
                let at = meta.timestamp.map_or(now, |stamp| now.checked_sub(age(stamp, wall)).unwrap_or(now));
                // Nobody receives at port 0, and the kernel refuses to send there.
                if meta.addr.port() == 0 {
                    continue;
                }
                for datagram in space[..meta.len].chunks(meta.stride.max(1)) {
                    // Each by itself: one that is kept must not keep a whole run.
                    let data = BytesMut::from(datagram);
                    take(Arrived { from: meta.addr, to: meta.dst_ip, ecn, data, at });
                }
            }
        }
        true
    }

    /// Sends packets; false if the socket takes none now.
    pub(crate) fn send(&self, transmit: &Transmit, contents: &[u8]) -> bool {
        let sent = self.state.try_send(
            (&self.socket).into(),
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

/// Time since the kernel's stamp; none where the wall clock was set meanwhile.
fn age(stamp: Duration, wall: Duration) -> Duration {
    let age = wall.saturating_sub(stamp);
    if age < LONGEST_WAIT { age } else { Duration::ZERO }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
