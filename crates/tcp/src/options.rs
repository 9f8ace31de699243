//! Options of a connected socket: pacing, buffers, shutdown.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use icdc_units::{ByteCount, Rate};
use rustix::net::{Shutdown, sockopt};
use rustix::thread::{CapabilitySet, capabilities};
use socket2::{Domain, SockRef, Socket, Type};
use thiserror::Error;

use crate::kernel;

/// Error: a socket option could not be read or set.
#[derive(Debug, Error)]
#[error("{} of the connection{} cannot be used: {cause}", option(.call), with_peer(.peer))]
pub struct OptionError {
    /// Name of the system call and the option.
    pub call: &'static str,
    /// Peer of the socket, while it has one.
    pub peer: Option<SocketAddr>,
    /// Error that the kernel returned.
    pub cause: io::Error,
}

/// Name of the option for a message: of `setsockopt(SO_SNDBUF)` that in parentheses, of another
/// call the call itself.
fn option(call: &str) -> &str {
    call.split_once('(').map_or(call, |(_, option)| option.trim_end_matches(')'))
}

/// The peer for a message; empty if it is unknown.
fn with_peer(peer: &Option<SocketAddr>) -> String {
    peer.map_or_else(String::new, |peer| format!(" with {peer}"))
}

impl OptionError {
    /// Error of a system call on the socket `fd`, with the address of its peer.
    pub(crate) fn of(fd: &impl AsFd, call: &'static str, cause: impl Into<io::Error>) -> Self {
        let peer = SockRef::from(fd).peer_addr().ok().and_then(|address| address.as_socket());
        Self { call, peer, cause: cause.into() }
    }
}

impl From<OptionError> for io::Error {
    fn from(error: OptionError) -> Self {
        Self::new(error.cause.kind(), error)
    }
}

/// Limits the rate at which the kernel sends segments (`SO_MAX_PACING_RATE`); `None` removes the
/// limit.
///
/// TCP paces by itself or leaves it to the fq qdisc if the device has one. A rate of zero is
/// refused: the kernel would take it for no pacing.
pub fn set_pacing_rate(fd: &impl AsFd, rate: Option<Rate>) -> Result<(), OptionError> {
    const CALL: &str = "setsockopt(SO_MAX_PACING_RATE)";
    let bytes_per_second = match rate.map(Rate::as_bytes_per_second) {
        None => u64::MAX,
        // A rate below 1 B/s would be rounded down to nothing.
        Some(0) => {
            let reason = io::Error::new(io::ErrorKind::InvalidInput, "the rate must be 8bit or more");
            return Err(OptionError::of(fd, CALL, reason));
        }
        Some(bytes) => bytes,
    };
    kernel::set_socket_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
        .map_err(|error| OptionError::of(fd, CALL, error))
}

/// Reads the limit that [`set_pacing_rate`] has set, rounded down to bytes per second; `None` if
/// there is none.
pub fn pacing_rate(fd: &impl AsFd) -> Result<Option<Rate>, OptionError> {
    const CALL: &str = "getsockopt(SO_MAX_PACING_RATE)";
    let mut value = [0; 8];
    let written = kernel::socket_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut value)
        .map_err(|error| OptionError::of(fd, CALL, error))?
        .len();
    // A 32-bit kernel has a `long` of four bytes, in which all ones mean no limit as well.
    let bytes_per_second = match written {
        4 => match u32::from_ne_bytes([value[0], value[1], value[2], value[3]]) {
            u32::MAX => u64::MAX,
            bytes => u64::from(bytes),
        },
        _ => u64::from_ne_bytes(value),
    };
    Ok((bytes_per_second < u64::MAX).then(|| Rate::from_bytes_per_second(bytes_per_second)))
}

/// Cookie of this thread's network namespace (`SO_NETNS_COOKIE`, Linux 5.14): no other one gets it
/// until the host restarts, unlike the number of its file below `/proc`.
///
/// # Errors
/// No socket can be had, or the kernel is older.
pub fn namespace_cookie() -> Result<u64, OptionError> {
    const CALL: &str = "getsockopt(SO_NETNS_COOKIE)";
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(|cause| OptionError {
        call: "socket",
        peer: None,
        cause,
    })?;
    let mut value = [0; 8];
    kernel::socket_option(&socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, &mut value)
        .map_err(|cause| OptionError { call: CALL, peer: None, cause })?;
    Ok(u64::from_ne_bytes(value))
}

/// Sizes of a socket's buffers that the kernel granted, in bytes of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Send buffer: data not yet sent, or sent and not yet acknowledged.
    pub send: ByteCount,
    /// Receive buffer: data received and not yet read.
    pub receive: ByteCount,
}

/// Maximum buffer size that can be requested, in bytes: the kernel doubles the size within an
/// `int`.
const MAX_BUFFER: usize = (i32::MAX / 2) as usize;

/// Fixes the sizes of the buffers; [`ByteCount::ZERO`] leaves one to the kernel's autotuning.
///
/// Gives what was granted. With `CAP_NET_ADMIN` that is up to 1 GiB each; without it the kernel
/// cuts the sizes to `net.core.wmem_max` and `net.core.rmem_max`, so compare and tell the user. A
/// size once set stays: autotuning is off for that buffer. The receive window can only use what the
/// window scale chosen at the handshake expresses, so give [`listen`](crate::listen()) or
/// [`connect_with`](crate::connect_with()) the size if it is known by then.
pub fn set_buffers(fd: &impl AsFd, send: ByteCount, receive: ByteCount) -> Result<Buffers, OptionError> {
    if !send.is_zero() {
        let size = send.as_usize().min(MAX_BUFFER);
        sockopt::set_socket_send_buffer_size_force(fd, size)
            .or_else(|_| sockopt::set_socket_send_buffer_size(fd, size))
            .map_err(|error| OptionError::of(fd, "setsockopt(SO_SNDBUF)", error))?;
    }
    if !receive.is_zero() {
        let size = receive.as_usize().min(MAX_BUFFER);
        sockopt::set_socket_recv_buffer_size_force(fd, size)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, size))
            .map_err(|error| OptionError::of(fd, "setsockopt(SO_RCVBUF)", error))?;
    }
    let granted_send =
        sockopt::socket_send_buffer_size(fd).map_err(|error| OptionError::of(fd, "getsockopt(SO_SNDBUF)", error))?;
    let granted_receive =
        sockopt::socket_recv_buffer_size(fd).map_err(|error| OptionError::of(fd, "getsockopt(SO_RCVBUF)", error))?;
    // socket(7): the kernel doubles a size for its own bookkeeping and reports the double.
    Ok(Buffers { send: ByteCount::from(granted_send / 2), receive: ByteCount::from(granted_receive / 2) })
}

/// Changes how much data may wait unread in a connected socket: its receive buffer, and the limit
/// of its window (`TCP_WINDOW_CLAMP`) where that is less: since Linux 6.6 it follows the size that
/// the buffer has when the first segments come. The window's scale was chosen at the handshake. A
/// window that was announced is not taken back: of what then comes beyond a smaller buffer, the
/// kernel drops what does not fit, and it comes again.
///
/// # Errors
/// See [`OptionError`].
pub fn set_receive_room(fd: &impl AsFd, size: ByteCount) -> Result<(), OptionError> {
    set_buffers(fd, ByteCount::ZERO, size)?;
    let mut value = [0; 4];
    kernel::socket_option(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &mut value)
        .map_err(|error| OptionError::of(fd, "getsockopt(TCP_WINDOW_CLAMP)", error))?;
    let most = u32::try_from(size.as_u64()).unwrap_or(u32::MAX).min(i32::MAX as u32 / 2);
    // Not otherwise: from Linux 5.15 to 6.6, setting it while the window is closed may keep it
    // closed (fixed by 58d3aade20cd).
    if u32::from_ne_bytes(value) >= most {
        return Ok(());
    }
    // The kernel's own bookkeeping counts in the buffer as well, and is less for long segments.
    kernel::set_socket_option(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, most * 2)
        .map_err(|error| OptionError::of(fd, "setsockopt(TCP_WINDOW_CLAMP)", error))
}

/// Reads how much kernel memory received and unread data takes, the kernel's structures included
/// (`SO_MEMINFO`, Linux 4.12).
///
/// # Errors
/// See [`OptionError`].
pub fn receive_memory(fd: &impl AsFd) -> Result<ByteCount, OptionError> {
    // asm-generic/socket.h; SK_MEMINFO_RMEM_ALLOC, the first of SK_MEMINFO_VARS
    // (linux/sock_diag.h).
    const SO_MEMINFO: libc::c_int = 55;
    let mut values = [0; 9 * 4];
    let read = kernel::socket_option(fd, libc::SOL_SOCKET, SO_MEMINFO, &mut values)
        .map_err(|error| OptionError::of(fd, "getsockopt(SO_MEMINFO)", error))?;
    let bytes = read.first_chunk().map_or(0, |first| u32::from_ne_bytes(*first));
    Ok(ByteCount::new(bytes.into()))
}

/// Whether [`set_buffers`] grants this thread more than the system's limits for unprivileged users;
/// false if its capabilities cannot be read.
#[must_use]
pub fn may_exceed_buffer_limits() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN))
}

/// Limits the bytes that wait to be sent for the first time (`TCP_NOTSENT_LOWAT`), however large
/// the send buffer is: a write then waits, and later data are sent sooner.
///
/// # Errors
/// See [`OptionError`].
pub fn set_not_sent_limit(fd: &impl AsFd, limit: ByteCount) -> Result<(), OptionError> {
    let limit = u32::try_from(limit.as_u64()).unwrap_or(u32::MAX);
    kernel::set_socket_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, limit)
        .map_err(|error| OptionError::of(fd, "setsockopt(TCP_NOTSENT_LOWAT)", error))
}

/// Ends both directions and wakes every call that is blocked on the socket. May be called twice, or
/// after the peer has closed.
///
/// # Errors
/// See [`OptionError`].
pub fn shutdown(fd: &impl AsFd) -> Result<(), OptionError> {
    match rustix::net::shutdown(fd, Shutdown::Both) {
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(OptionError::of(fd, "shutdown", error)),
    }
}

/// Reads how many bytes are still in the send queue: not yet sent, or sent and not yet
/// acknowledged. Does not wait. Zero means that all that was written has reached the peer's kernel.
///
/// # Errors
/// See [`OptionError`].
pub fn send_queue(fd: &impl AsFd) -> Result<ByteCount, OptionError> {
    kernel::send_queue(fd).map(ByteCount::new).map_err(|error| OptionError::of(fd, "ioctl(SIOCOUTQ)", error))
}
