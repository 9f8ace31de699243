//! Several UDP sockets of one address, over which the kernel spreads what arrives (socket(7), `SO_REUSEPORT` and
//! `SO_ATTACH_REUSEPORT_CBPF`, since Linux 4.5): each has memory of its own, and needs no privilege for it.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use nix::libc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::AttachReusePortCbpf;
use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

/// Number of sockets at most.
pub(crate) const MOST: usize = 32;
/// Memory of all in bytes: 40 ms of packets at 1 Gbit/s, for each of which of 1,500 bytes the kernel counts 2,304.
const ENOUGH: usize = 8 << 20;

/// Further sockets of the address of `first`, which has `buffer` bytes of memory for what arrives; none where that suffices, or the
/// kernel has no groups.
pub(crate) fn join(first: &UdpSocket, buffer: usize) -> io::Result<Vec<UdpSocket>> {
    let count = ENOUGH.div_ceil(buffer.max(1)).min(MOST);
    if count < 2 {
        return Ok(Vec::new());
    }
    // Only now: an address that is in use was an error before.
    set_socket_reuseport(first, true)?;
    let address = first.local_addr()?;
    let further = (1..count).map(|_| another(address)).collect::<io::Result<Vec<_>>>()?;
    match spread(first, count) {
        Ok(()) => Ok(further),
        Err(error) => {
            tracing::debug!("setsockopt(SO_ATTACH_REUSEPORT_CBPF): {error}");
            Ok(Vec::new())
        }
    }
}

fn another(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket.into())
}

/// Spreads what arrives by chance over the first `count` sockets of a group.
fn spread(socket: &UdpSocket, count: usize) -> nix::Result<()> {
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // What the program returns is the number of a socket.
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, random),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count as u32),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    setsockopt(socket, AttachReusePortCbpf, &program)
}
