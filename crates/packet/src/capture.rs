//! When TCP segments of one port arrive at this host, and how much data they carry: the kernel's stamps and the heads
//! of the packets, nothing else.
//!
//! ```text
//! device → (bridge, bond, VLAN) → filter: TCP, one port → ring of heads → the rest of the stack
//! ```
//!
//! A cooked socket (`SOCK_DGRAM`, packet(7)) for one IP protocol sees each packet once, at the device that hands it to
//! IP, and none that is sent. The kernel fills a ring (`TPACKET_V2`) with the first [`HEAD`] bytes; whoever reads it
//! every few milliseconds makes no system call. What arrives while no slot is free is counted ([`Capture::overflow`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use icdc_units::{ByteCount, Time};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::clock::FromDate;
use crate::{PacketError, socket};

/// Bytes of a packet that are kept: the longest IPv4 header and the fixed part of TCP's.
const HEAD: u32 = 80;
/// Bytes of a slot before the packet: `TPACKET_ALIGN(TPACKET2_HDRLEN) + 16`, as `tpacket_rcv` lays out cooked packets.
const BEFORE_HEAD: usize = 80;
const SLOT: usize = BEFORE_HEAD + HEAD as usize;
const BLOCK: usize = 64 << 10;
const SLOTS_PER_BLOCK: usize = BLOCK / SLOT;
/// 209 408 slots: 200 ms of a million packets per second, for a reader that is kept waiting.
const BLOCKS: usize = 512;
const SLOTS: usize = SLOTS_PER_BLOCK * BLOCKS;

const ANY_DEVICE: &str = "any";
const TCP: u8 = 6;

/// Which segments are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Those that come from this port.
    Source(u16),
    /// Those that go to this port.
    Destination(u16),
}

/// A segment that has arrived; several that the kernel has joined (GRO) are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When.
    pub at: Time,
    /// From where.
    pub source: SocketAddr,
    /// Port that it goes to.
    pub destination_port: u16,
    /// Data in it, without headers.
    pub data: ByteCount,
}

/// See the module's description.
pub struct Capture {
    fd: OwnedFd,
    memory: NonNull<u8>,
    next: usize,
    overflow: u64,
}

// SAFETY: the mapping belongs to the capture alone and has no thread of its own.
unsafe impl Send for Capture {}

impl Capture {
    /// Begins to capture in the network namespace of this thread, IPv6 or IPv4.
    pub fn open(port: Port, ipv6: bool) -> Result<Self, PacketError> {
        let fd = socket::open_cooked(ANY_DEVICE)?;
        let packet =
            |option, value: libc::c_int, call| socket::set(&fd, ANY_DEVICE, libc::SOL_PACKET, option, value, call);
        packet(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32, "setsockopt(PACKET_VERSION)")?;
        let stamps = libc::SOF_TIMESTAMPING_SOFTWARE as libc::c_int;
        packet(libc::PACKET_TIMESTAMP, stamps, "setsockopt(PACKET_TIMESTAMP)")?;
        // Has packets stamped as they arrive, not as they are copied into the ring.
        socket::set(&fd, ANY_DEVICE, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1_i32, "setsockopt(SO_TIMESTAMPNS)")?;
        let mut program = filter(port, ipv6);
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        socket::set(
            &fd,
            ANY_DEVICE,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            program,
            "setsockopt(SO_ATTACH_FILTER)",
        )?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: SLOT as u32,
            tp_frame_nr: SLOTS as u32,
        };
        socket::set(&fd, ANY_DEVICE, libc::SOL_PACKET, libc::PACKET_RX_RING, request, "setsockopt(PACKET_RX_RING)")?;
        // SAFETY: a new mapping at an address of the kernel's choice; no memory in use is touched.
        let mapped = unsafe {
            mmap(std::ptr::null_mut(), BLOCK * BLOCKS, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &fd, 0)
        };
        let mapped = mapped.map_err(|error| PacketError::new("mmap(PACKET_RX_RING)", ANY_DEVICE, error))?;
        let memory = NonNull::new(mapped.cast()).expect("mmap does not give the null page");
        let capture = Self { fd, memory, next: 0, overflow: 0 };
        let protocol = if ipv6 { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
        socket::bind_everywhere(&capture.fd, ANY_DEVICE, protocol as u16)?;
        Ok(capture)
    }

    /// Hands over what has arrived since the last call, oldest first.
    pub fn drain(&mut self, mut take: impl FnMut(Segment)) {
        let clock = FromDate::now();
        // A flood must not keep the caller here.
        for _ in 0..SLOTS {
            let slot = self.slot(self.next);
            // SAFETY: a slot begins with its status, aligned to 16 bytes, which kernel and process share.
            let status = unsafe { AtomicU32::from_ptr(slot.cast().as_ptr()) };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the kernel has filled the header and leaves the slot alone until it is given back.
            let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
            let start = usize::from(header.tp_net).min(SLOT);
            let kept = (header.tp_snaplen as usize).min(SLOT - start);
            // SAFETY: the range lies within the slot, which the kernel leaves alone.
            let head = unsafe { std::slice::from_raw_parts(slot.add(start).as_ptr(), kept) };
            if let Some((source, destination_port, data)) = parse(head, header.tp_len) {
                let at = clock.monotonic(header.tp_sec, header.tp_nsec);
                take(Segment { at, source, destination_port, data });
            }
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % SLOTS;
        }
    }

    /// Packets that found no free slot since the capture began.
    pub fn overflow(&mut self) -> Result<u64, PacketError> {
        self.overflow += socket::drops(&self.fd, ANY_DEVICE)?;
        Ok(self.overflow)
    }

    fn slot(&self, index: usize) -> NonNull<u8> {
        let offset = index / SLOTS_PER_BLOCK * BLOCK + index % SLOTS_PER_BLOCK * SLOT;
        // SAFETY: indices are below the number of slots, all of which lie in the mapping.
        unsafe { self.memory.add(offset) }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, to which no reference is left.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), BLOCK * BLOCKS) };
    }
}

/// Source, port of destination, and length of the data of a TCP segment of `length` bytes that begins with `head`.
fn parse(head: &[u8], length: u32) -> Option<(SocketAddr, u16, ByteCount)> {
    let word = |at: usize| Some(u32::from(u16::from_be_bytes(head.get(at..at + 2)?.try_into().ok()?)));
    let version = head.first()? >> 4;
    let (source, transport, told, protocol): (IpAddr, usize, u32, u8) = match version {
        4 => {
            let source = Ipv4Addr::from(<[u8; 4]>::try_from(head.get(12..16)?).ok()?);
            (source.into(), usize::from(head[0] & 0x0f) * 4, word(2)?, *head.get(9)?)
        }
        6 => {
            let source = Ipv6Addr::from(<[u8; 16]>::try_from(head.get(8..24)?).ok()?);
            // Zero stands for a packet that is too long for the field.
            let told = word(4)?;
            (source.into(), 40, if told == 0 { 0 } else { told + 40 }, *head.get(6)?)
        }
        _ => return None,
    };
    // A short packet may be padded, and then its own word counts.
    let length = if told == 0 { length } else { told.min(length) };
    let headers = transport as u32 + u32::from(*head.get(transport + 12)? >> 4) * 4;
    let source = SocketAddr::new(source, word(transport)? as u16);
    let data = length.checked_sub(headers)?;
    (protocol == TCP).then_some((source, word(transport + 2)? as u16, ByteCount::new(u64::from(data))))
}

/// Classic BPF over a packet that begins with its IP header: the first [`HEAD`] bytes of what is wanted, nothing of
/// the rest.
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
