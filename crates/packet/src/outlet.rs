//! Frames out, many by one system call.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::socket::SocketOption;
use crate::{PacketError, socket};

/// Maximum number of frames of one system call: enough to make the call's own cost vanish.
const BATCH: usize = 64;

/// Size of the socket's send buffer in bytes: what is in flight to the receiving stack, where the
/// kernel permits that many.
const BUFFER: libc::c_int = 512 << 20;

/// Socket by which frames are sent out of a device, past its queueing discipline.
pub struct Outlet {
    device: String,
    fd: OwnedFd,
    vectors: Vec<libc::iovec>,
}

/// Result of [`Outlet::send`]: how many packets were sent, and why no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of packets sent, from the first on. Fewer than all means that the device had no room
    /// for more: they may be tried again.
    pub packets: usize,
    /// Whether the packet after these is one that the device never takes: too long, or with
    /// offloads that it lacks.
    pub refused: bool,
}

// SAFETY: `vectors` is empty between calls; its pointers are never followed outside of `send`.
unsafe impl Send for Outlet {}

impl Outlet {
    /// Opens `device` of this thread's network namespace for sending.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn open(device: &str) -> Result<Self, PacketError> {
        let fd = socket::open(device)?;
        let bypass = SocketOption::packet(libc::PACKET_QDISC_BYPASS, "setsockopt(PACKET_QDISC_BYPASS)");
        socket::set(&fd, device, socket::VNET_HEADER, 1_i32)?;
        socket::set(&fd, device, bypass, 1_i32)?;
        // What a busy receiver has not taken in yet counts as not sent.
        let forced = SocketOption::socket(libc::SO_SNDBUFFORCE, "setsockopt(SO_SNDBUFFORCE)");
        if socket::set(&fd, device, forced, BUFFER).is_err() {
            let limited = SocketOption::socket(libc::SO_SNDBUF, "setsockopt(SO_SNDBUF)");
            socket::set(&fd, device, limited, BUFFER)?;
        }
        socket::bind(&fd, device, 0)?;
        Ok(Self { device: device.to_owned(), fd, vectors: Vec::with_capacity(BATCH) })
    }

    /// Sends packets, each preceded by the header of its offloads ([`Offload`](crate::Offload)),
    /// without waiting for room.
    ///
    /// # Errors
    /// See [`PacketError`].
    pub fn send<'a>(&mut self, packets: impl IntoIterator<Item = &'a [u8]>) -> Result<Sent, PacketError> {
        let mut sent = Sent::default();
        let mut packets = packets.into_iter();
        loop {
            self.vectors.clear();
            self.vectors.extend(
                packets
                    .by_ref()
                    .take(BATCH)
                    .map(|packet| libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() }),
            );
            if self.vectors.is_empty() {
                return Ok(sent);
            }
            let batch = self.send_batch();
            let complete = matches!(&batch, Ok(batch) if batch.packets == self.vectors.len());
            self.vectors.clear();
            let batch = batch?;
            sent = Sent { packets: sent.packets + batch.packets, refused: batch.refused };
            if !complete {
                return Ok(sent);
            }
        }
    }

    /// Sends the packets of `vectors` by one system call, without waiting for room.
    fn send_batch(&mut self) -> Result<Sent, PacketError> {
        let mut headers: [libc::mmsghdr; BATCH] =
            // SAFETY: all zeros is a valid mmsghdr: no name, no data, no control.
            unsafe { std::mem::zeroed() };
        for (header, vector) in headers.iter_mut().zip(&mut self.vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        loop {
            // The kernel's own call: musl's function sends one by one.
            // SAFETY: as many headers as vectors are set up; the vectors describe slices that
            // outlive the call, and the kernel only reads them.
            let sent = unsafe {
                libc::syscall(
                    libc::SYS_sendmmsg,
                    self.fd.as_raw_fd(),
                    headers.as_mut_ptr(),
                    self.vectors.len() as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            if sent >= 0 {
                return Ok(Sent { packets: sent as usize, refused: false });
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::ENOBUFS) => return Ok(Sent::default()),
                // Errors are those of the first packet (sendmmsg(2)): longer than the device takes,
                // or with offloads that it lacks.
                Some(libc::EMSGSIZE | libc::EINVAL) => return Ok(Sent { packets: 0, refused: true }),
                _ => return Err(PacketError::new("sendmmsg", &self.device, error)),
            }
        }
    }
}
