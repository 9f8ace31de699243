//! Arrival times and data lengths of TCP segments of one port at this host, from the kernel's
//! stamps and the first bytes of the packets.
//!
//! ```text
//! device → (bridge, bond, VLAN) → filter: TCP, one port → ring of heads → the rest of the stack
//! ```
//!
//! A cooked socket (`SOCK_DGRAM`, packet(7)) for one IP protocol sees each packet once, at the
//! device that hands it to IP, and none that is sent. The kernel fills a ring ([`MappedRing`]) with
//! the first [`HEAD`] bytes; a reader that polls it every few milliseconds makes no system call.
//! Packets that arrive while no slot is free are counted ([`Capture::overflow`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use icdc_units::{ByteCount, Time};

use crate::clock::FromDate;
use crate::mapped::{Filled, Layout, MappedRing};
use crate::{PacketError, socket};

/// Bytes of a packet that are captured: the longest IPv4 header and the fixed part of TCP's.
const HEAD: u32 = 80;
/// Bytes of a slot before the packet: `TPACKET_ALIGN(TPACKET2_HDRLEN) + 16`, as `tpacket_rcv` lays
/// out cooked packets.
const BEFORE_HEAD: usize = 80;
/// Layout of the ring, with 209,408 slots: 200 ms of a million packets per second, for a reader
/// that is kept waiting.
const LAYOUT: Layout = Layout { slot: BEFORE_HEAD + HEAD as usize, block: 64 << 10, blocks: 512 };

/// Name for the device in errors: a capture is bound to all.
const ANY_DEVICE: &str = "any";
/// IP protocol number of TCP.
const TCP: u8 = 6;

/// TCP port whose segments are captured, as their source or their destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Segments from this port.
    Source(u16),
    /// Segments to this port.
    Destination(u16),
}

/// A TCP segment that has arrived, as captured; several that the kernel has joined (GRO) are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Time at which the segment arrived.
    pub at: Time,
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// TCP port of the destination.
    pub destination_port: u16,
    /// Size of the segment's data, without headers.
    pub data: ByteCount,
}

/// Capture of TCP segments from or to one port that arrive at this host, with their arrival times.
pub struct Capture {
    slots: MappedRing,
}

impl Capture {
    /// Begins to capture the TCP segments from or to `port`, of IPv6 or else of IPv4, that arrive
    /// in the network namespace of this thread; none that it sends.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn open(port: Port, ipv6: bool) -> Result<Self, PacketError> {
        let fd = socket::open_cooked(ANY_DEVICE)?;
        let mut program = filter(port, ipv6);
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        socket::set(&fd, ANY_DEVICE, socket::ATTACH_FILTER, program)?;
        let slots = MappedRing::new(fd, ANY_DEVICE, LAYOUT)?;
        let protocol = if ipv6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
        socket::bind_everywhere(slots.socket(), ANY_DEVICE, protocol as u16)?;
        Ok(Self { slots })
    }

    /// Passes the segments that have arrived since the last call to `take`, oldest first, without
    /// waiting; at most as many as the ring has slots.
    pub fn drain(&mut self, mut take: impl FnMut(Segment)) {
        let clock = FromDate::now();
        // A flood must not keep the caller here.
        for _ in 0..LAYOUT.slots() {
            let Some(Filled { index, header }) = self.slots.take() else { return };
            let head = self.slots.bytes(index, usize::from(header.tp_net), header.tp_snaplen as usize);
            if let Some((source, destination_port, data)) = parse(head, header.tp_len) {
                let at = clock.monotonic(header.tp_sec, header.tp_nsec);
                take(Segment { at, source, destination_port, data });
            }
            self.slots.give_back(index);
        }
    }

    /// Number of packets that found no free slot since the capture began.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn overflow(&mut self) -> Result<u64, PacketError> {
        self.slots.overflow()
    }
}

/// Source, port of the destination, and length of the data in bytes of a TCP segment, an IP packet
/// of `length` bytes that begins with `head`; `None` if it is no TCP segment, or the headers are
/// incomplete.
fn parse(head: &[u8], length: u32) -> Option<(SocketAddr, u16, ByteCount)> {
    let word = |at: usize| Some(u32::from(u16::from_be_bytes(head.get(at..at + 2)?.try_into().ok()?)));
    let version = head.first()? >> 4;
    let (source, transport, total, protocol): (IpAddr, usize, u32, u8) = match version {
        4 => {
            let source = Ipv4Addr::from(<[u8; 4]>::try_from(head.get(12..16)?).ok()?);
            (source.into(), usize::from(head[0] & 0x0f) * 4, word(2)?, *head.get(9)?)
        }
        6 => {
            let source = Ipv6Addr::from(<[u8; 16]>::try_from(head.get(8..24)?).ok()?);
            // Zero means that the packet is too long for the field.
            let total = word(4)?;
            (source.into(), 40, if total == 0 { 0 } else { total + 40 }, *head.get(6)?)
        }
        _ => return None,
    };
    // A short packet may be padded: its own length field counts.
    let length = if total == 0 { length } else { total.min(length) };
    let headers = transport as u32 + u32::from(*head.get(transport + 12)? >> 4) * 4;
    let source = SocketAddr::new(source, word(transport)? as u16);
    let data = length.checked_sub(headers)?;
    (protocol == TCP).then_some((source, word(transport + 2)? as u16, ByteCount::new(u64::from(data))))
}

/// Classic BPF for the capture's socket: accepts the first [`HEAD`] bytes of TCP segments from or
/// to the port, and nothing else.
fn filter(port: Port, ipv6: bool) -> Vec<libc::sock_filter> {
    let (offset, port) = match port {
        Port::Source(port) => (0, u32::from(port)),
        Port::Destination(port) => (2, u32::from(port)),
    };
    let code = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |size, mode, at| code(libc::BPF_LD | size | mode, at, 0, 0);
    let unless_equal = |value, skip| code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 0, skip);
    let answer = |bytes| code(libc::BPF_RET | libc::BPF_K, bytes, 0, 0);
    match ipv6 {
        false => vec![
            load(libc::BPF_B, libc::BPF_ABS, 9),
            unless_equal(TCP.into(), 6),
            load(libc::BPF_H, libc::BPF_ABS, 6),
            // A later fragment has no TCP header.
            code(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0x1fff, 4, 0),
            code(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
            load(libc::BPF_H, libc::BPF_IND, offset),
            unless_equal(port, 1),
            answer(HEAD),
            answer(0),
        ],
        true => vec![
            load(libc::BPF_B, libc::BPF_ABS, 6),
            unless_equal(TCP.into(), 3),
            load(libc::BPF_H, libc::BPF_ABS, 40 + offset),
            unless_equal(port, 1),
            answer(HEAD),
            answer(0),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::clock;

    fn ipv4(data: usize) -> Vec<u8> {
        let mut packet = vec![0; 20 + 32];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&((52 + data) as u16).to_be_bytes());
        packet[9] = TCP;
        packet[12..16].copy_from_slice(&[192, 0, 2, 7]);
        packet[20..24].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
        packet[32] = 8 << 4;
        packet
    }

    #[test]
    fn data_is_what_the_headers_leave() {
        let told = parse(&ipv4(1000), 1052).unwrap();
        assert_eq!(told, ("192.0.2.7:4660".parse().unwrap(), 0x5678, ByteCount::new(1000)));
        assert_eq!(parse(&ipv4(0), 60).unwrap().2, ByteCount::ZERO, "an acknowledgement that is padded");
        for length in 0..52 {
            let _ = parse(&ipv4(0)[..length], 52);
        }
        assert_eq!(parse(&[0x60; 80], 100), None);
    }

    #[test]
    fn segments_are_seen_once_with_their_data() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut capture = match Capture::open(Port::Destination(address.port()), false) {
            Ok(capture) => capture,
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        let mut stream = TcpStream::connect(address).unwrap();
        let (_accepted, _) = listener.accept().unwrap();
        stream.write_all(&[7; 100_000]).unwrap();
        let begun = clock::now();
        let mut bytes = 0;
        while bytes < 100_000 {
            capture.drain(|segment| {
                assert_eq!(segment.source, stream.local_addr().unwrap());
                assert!(segment.at <= clock::now());
                bytes += segment.data.as_u64();
            });
            assert!(clock::now() - begun < icdc_units::Span::from_secs(60), "{bytes}");
            // What the first window does not hold is sent as it is read.
            let _ = std::io::Read::read(&mut &_accepted, &mut [0; 65_536]).unwrap();
        }
        assert_eq!(bytes, 100_000);
        assert_eq!(capture.overflow().unwrap(), 0);
    }
}
