//! Buffers of the data connections' sockets, at both ends.

use std::net::TcpStream;
use std::sync::Arc;

use icdc_protocol::measure::MeasureRequest;
use icdc_session::SessionError;
use icdc_tuning::buffers;
use icdc_units::ByteCount;

/// Size of the data connections' buffers in bytes, as read from the first one by `which`; 0 where
/// none was requested, so that the kernel tunes them, or where it cannot be read.
pub(crate) fn granted(
    order: &MeasureRequest,
    first: Option<&TcpStream>,
    which: fn(&icdc_tcp::Buffers) -> ByteCount,
) -> u64 {
    // All connections have the same.
    let first = first.filter(|_| order.window.is_some());
    let buffers = first.and_then(|socket| icdc_tcp::set_buffers(socket, ByteCount::ZERO, ByteCount::ZERO).ok());
    buffers.map_or(0, |buffers| which(&buffers).as_u64())
}

/// Size of the receive buffer to request: that of the order. Without one it is the kernel's
/// default, or, where the rate is found automatically, a size that never limits.
pub(crate) fn receive_buffer(order: &MeasureRequest) -> ByteCount {
    match (order.window, &order.congestion) {
        (None, None) => buffers::receive_buffer(),
        (window, _) => window.unwrap_or_default(),
    }
}

/// Sets the requested receive buffers of connections to the control link's port; others have them
/// from the beginning.
pub(crate) fn set_receive_buffers(order: &MeasureRequest, sockets: &[Arc<TcpStream>]) {
    let Some(window) = order.window else { return };
    for socket in sockets {
        if let Err(error) = icdc_tcp::set_buffers(&**socket, ByteCount::ZERO, window) {
            tracing::debug!("the receive buffer stays what it is: {error}");
        }
    }
}

/// Error for a system call that failed at this end.
pub(crate) fn local(call: &str, error: impl std::fmt::Display) -> SessionError {
    SessionError::Local(format!("{call}: {error}"))
}
