//! Datagrams that the kernel cuts from larger pieces (udp(7), `UDP_SEGMENT`): most of a datagram's
//! cost is its passage through the stack.

use std::net::UdpSocket;

use crate::socket::SocketOption;
use crate::{PacketError, socket};

/// Maximum number of bytes that one call may send on a socket of [`cut`]: the longest IPv4 packet,
/// 65,535 bytes, without the headers of IPv4 (20) and UDP (8).
pub const MOST: usize = 65_507;

/// Makes the kernel cut whatever is sent on the socket from now on into datagrams of `size` payload
/// bytes, the last one shorter if need be. A call may bring up to [`MOST`] bytes and 64 datagrams.
///
/// # Errors
/// The kernel is older than Linux 4.18, or `size` is longer than a packet.
pub fn cut(sender: &UdpSocket, size: u16) -> Result<(), PacketError> {
    let segment = SocketOption::udp(libc::UDP_SEGMENT, "setsockopt(UDP_SEGMENT)");
    socket::set(sender, "a UDP socket", segment, libc::c_int::from(size))
}
