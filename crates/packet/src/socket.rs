//! The socket calls that rings and outlet share.

use std::ffi::CString;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::PacketError;

/// Opens a packet socket for raw frames, which receives nothing yet.
///
/// # Errors
/// See [`PacketError`].
pub(crate) fn open(device: &str) -> Result<OwnedFd, PacketError> {
    open_kind(device, libc::SOCK_RAW)
}

/// A socket for packets without the device's header, that receives nothing yet.
///
/// # Errors
/// See [`PacketError`].
pub(crate) fn open_cooked(device: &str) -> Result<OwnedFd, PacketError> {
    open_kind(device, libc::SOCK_DGRAM)
}

/// Opens a packet socket of the type `SOCK_RAW` or `SOCK_DGRAM`.
fn open_kind(device: &str, kind: libc::c_int) -> Result<OwnedFd, PacketError> {
    // SAFETY: socket takes three integers; the descriptor that it returns has no other owner.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(PacketError::last("socket(AF_PACKET)", device));
    }
    // SAFETY: fd is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Number of an option of setsockopt(2), with its level and its name in errors.
#[derive(Clone, Copy)]
pub(crate) struct SocketOption {
    /// Level of the protocol stack to which the option belongs, such as `SOL_SOCKET`.
    level: libc::c_int,
    number: libc::c_int,
    /// Call that sets it, as errors name it.
    call: &'static str,
}

impl SocketOption {
    /// Option `number` of a packet socket (packet(7)).
    pub(crate) const fn packet(number: libc::c_int, call: &'static str) -> Self {
        Self { level: libc::SOL_PACKET, number, call }
    }

    /// Option `number` of any socket (socket(7)).
    pub(crate) const fn socket(number: libc::c_int, call: &'static str) -> Self {
        Self { level: libc::SOL_SOCKET, number, call }
    }

    /// Option `number` of a UDP socket (udp(7)).
    pub(crate) const fn udp(number: libc::c_int, call: &'static str) -> Self {
        Self { level: libc::SOL_UDP, number, call }
    }
}

/// Option that sets the filter of the packets that a socket receives, in classic BPF.
pub(crate) const ATTACH_FILTER: SocketOption =
    SocketOption::socket(libc::SO_ATTACH_FILTER, "setsockopt(SO_ATTACH_FILTER)");

/// Option that puts the header of the offloads before each packet (packet(7), linux/virtio_net.h).
pub(crate) const VNET_HEADER: SocketOption = SocketOption::packet(libc::PACKET_VNET_HDR, "setsockopt(PACKET_VNET_HDR)");

/// Sets an option to a plain C value. `device` is the name in errors.
pub(crate) fn set<T: Copy>(fd: &impl AsRawFd, device: &str, option: SocketOption, value: T) -> Result<(), PacketError> {
    let SocketOption { level, number, call } = option;
    // SAFETY: the pointer and the length describe `value`, which lives through the call.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, number, (&raw const value).cast(), size_of::<T>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(PacketError::last(call, device)) }
}

/// Binds a packet socket to the device, to receive packets of the Ethernet type `protocol`; 0
/// receives none.
///
/// # Errors
/// See [`PacketError`].
pub(crate) fn bind(fd: &OwnedFd, device: &str, protocol: u16) -> Result<(), PacketError> {
    let name = CString::new(device)
        .map_err(|error| PacketError::new("if_nametoindex", device, std::io::Error::from(error)))?;
    // SAFETY: name is a NUL-terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(PacketError::last("if_nametoindex", device));
    }
    bind_index(fd, device, protocol, index as i32)
}

/// Binds a packet socket to all devices of this thread's network namespace, to receive packets of
/// the Ethernet type `protocol`; `device` is the name in errors.
///
/// # Errors
/// See [`PacketError`].
pub(crate) fn bind_everywhere(fd: &OwnedFd, device: &str, protocol: u16) -> Result<(), PacketError> {
    bind_index(fd, device, protocol, 0)
}

/// Binds a packet socket to the device of this index, 0 for all.
fn bind_index(fd: &OwnedFd, device: &str, protocol: u16, index: i32) -> Result<(), PacketError> {
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    // SAFETY: the pointer and the length describe `address`.
    let result =
        unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t) };
    if result == 0 { Ok(()) } else { Err(PacketError::last("bind(AF_PACKET)", device)) }
}

/// Option by which a packet socket receives no outgoing packets (linux/if_packet.h, Linux 4.20).
const IGNORE_OUTGOING: SocketOption = SocketOption::packet(23, "setsockopt(PACKET_IGNORE_OUTGOING)");

/// Makes a packet socket receive no packets that this host sends.
///
/// # Errors
/// See [`PacketError`].
pub(crate) fn ignore_outgoing(fd: &OwnedFd, device: &str) -> Result<(), PacketError> {
    set(fd, device, IGNORE_OUTGOING, 1_i32)
}

/// Number of packets that the socket dropped for lack of room since the last call: the kernel
/// resets the counter when it is read.
///
/// # Errors
/// See [`PacketError`].
pub(crate) fn drops(fd: &OwnedFd, device: &str) -> Result<u64, PacketError> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: pointer and length describe `statistics`, which the kernel fills.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(u64::from(statistics.tp_drops))
    } else {
        Err(PacketError::last("getsockopt(PACKET_STATISTICS)", device))
    }
}
