//! Sizes asked for the kernel's buffers, so that neither end's window limits a long fat
//! path from the start.
//!
//! A buffer that is set is fixed, and the kernel's autotuning is off. With `CAP_NET_ADMIN` any size
//! is granted. Without, it is cut to `net.core.rmem_max` or `wmem_max`, which is often less than
//! what autotuning reaches by itself (`net.ipv4.tcp_rmem`, `tcp_wmem`); then it is better left
//! alone.
//!
//! A receive buffer has to be there before the handshake: the window scale is agreed on in it, and
//! the first acknowledgement then offers all of it. Autotuning would at best triple the window with
//! each round trip.

use std::net::TcpStream;
use std::os::fd::AsFd as _;

use icdc_tcp::{Privileges, SocketSettings};
use icdc_units::{ByteCount, Span};

/// Buffer size that is requested for long paths, in bytes: covers 10 Gbit/s at 300 ms. The kernel
/// allocates only what is in flight or piles up unread.
const WANTED: u64 = 400 << 20;
/// Limit of the bytes that wait to be sent for the first time. It keeps the socket busy while the
/// writer wakes up, and a user who stops the run waits for it.
const NOT_SENT: ByteCount = ByteCount::from_mib(1);
/// Round-trip time below which buffers are left to the kernel's tuning, which on so short a path
/// is at once where it has to be.
const SHORT: Span = Span::from_millis(2);

/// Settings for the socket of a connection that may receive, before its handshake.
#[must_use]
pub fn socket_settings() -> SocketSettings<'static> {
    SocketSettings { receive_buffer: receive_buffer(), ..SocketSettings::default() }
}

/// Receive buffer size to request; zero leaves the buffer to the kernel.
#[must_use]
pub fn receive_buffer() -> ByteCount {
    size("/proc/sys/net/core/rmem_max", "/proc/sys/net/ipv4/tcp_rmem")
}

/// Enlarges the send buffer of a connection that is going to send, for the data in flight, and
/// limits the data that waits unsent; does nothing on a path of less than 2 ms.
pub fn prepare_to_send(stream: &TcpStream, privileges: &Privileges) {
    if icdc_tcp::info(stream).is_ok_and(|info| info.min_rtt < SHORT) {
        return;
    }
    if let Some(helper) = privileges.helper() {
        return helper.prepare_to_send(stream.as_fd());
    }
    let buffer = size("/proc/sys/net/core/wmem_max", "/proc/sys/net/ipv4/tcp_wmem");
    let set = match buffer.is_zero() {
        true => Ok(()),
        false => icdc_tcp::set_buffers(stream, buffer, ByteCount::ZERO).map(|_| ()),
    };
    if let Err(error) = set.and_then(|()| icdc_tcp::set_not_sent_limit(stream, NOT_SENT)) {
        tracing::debug!("the send buffer stays what it is: {error}");
    }
}

/// Buffer size to request, in bytes, by the files with the system's `limit` and with the limits of
/// its automatic `tuning`; zero if the latter reaches further.
fn size(limit: &str, tuning: &str) -> ByteCount {
    if icdc_tcp::may_exceed_buffer_limits() {
        return ByteCount::new(WANTED);
    }
    let numbers = |path: &str| -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let granted = numbers(limit).first().copied().unwrap_or(0).min(WANTED);
    // The kernel doubles a size that is set; the limit of autotuning is the doubled size.
    let autotuned = numbers(tuning).get(2).copied().unwrap_or(u64::MAX) / 2;
    if granted > autotuned { ByteCount::new(granted) } else { ByteCount::ZERO }
}
