//! Answers of a network's neighbours to requests for their hardware addresses: ARP replies (RFC
//! 826) and neighbour advertisements (RFC 4861), as they arrive at a device.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::{PacketError, socket};

/// Socket that receives neighbours' answers to requests for their hardware addresses (ARP replies,
/// neighbour advertisements of RFC 4861) at one device.
#[derive(Debug)]
pub struct Neighbours {
    device: String,
    fd: OwnedFd,
}

impl Neighbours {
    /// Begins to receive answers that arrive at `device` of this thread's network namespace.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn open(device: &str) -> Result<Self, PacketError> {
        let fd = socket::open(device)?;
        let mut program = filter();
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        socket::set(&fd, device, socket::ATTACH_FILTER, program)?;
        socket::ignore_outgoing(&fd, device)?;
        socket::bind(&fd, device, libc::ETH_P_ALL as u16)?;
        Ok(Self { device: device.to_owned(), fd })
    }

    /// Reads the next answer, an Ethernet frame, without waiting; returns its length. `None` if
    /// there is none, or while the device is down. A frame longer than `buffer` is cut off.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, PacketError> {
        match recv(&self.fd, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((length, _)) => Ok(Some(length)),
            // A device that is down answers once it is up again.
            Err(Errno::AGAIN | Errno::INTR | Errno::NETDOWN) => Ok(None),
            Err(errno) => Err(PacketError::new("recv(AF_PACKET)", &self.device, errno)),
        }
    }
}

impl AsFd for Neighbours {
    /// Descriptor for poll(2), readable when an answer is there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Classic BPF for the socket: accepts ARP replies and neighbour advertisements, and nothing else.
fn filter() -> Vec<libc::sock_filter> {
    let code = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |size, at| code(libc::BPF_LD | size | libc::BPF_ABS, at, 0, 0);
    let compare = |value, yes, no| code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, yes, no);
    let answer = |bytes| code(libc::BPF_RET | libc::BPF_K, bytes, 0, 0);
    vec![
        load(libc::BPF_H, 12),
        compare(libc::ETH_P_ARP as u32, 0, 2),
        load(libc::BPF_H, 20),
        // A reply.
        compare(2, 5, 6),
        compare(libc::ETH_P_IPV6 as u32, 0, 5),
        load(libc::BPF_B, 20),
        compare(libc::IPPROTO_ICMPV6 as u32, 0, 3),
        load(libc::BPF_B, 54),
        // A neighbour advertisement.
        compare(136, 0, 1),
        answer(u32::MAX),
        answer(0),
    ]
}
