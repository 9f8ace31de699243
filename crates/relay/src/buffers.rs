//! Sizes of the socket buffers of legs between relays.

use std::sync::OnceLock;

use icdc_units::ByteCount;

use crate::config::Config;

/// The kernel's tuning of send buffers is left alone up to this size.
const TUNED_BY_KERNEL: ByteCount = ByteCount::from_mib(1);

/// Whether this process may set buffers beyond the system's limits (CAP_NET_ADMIN).
pub(crate) fn may_exceed_limits() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(icdc_tcp::may_exceed_buffer_limits)
}

/// Largest receive buffer of a leg that is sized at run time. `None` where buffers have a
/// configured size, or where the kernel's own tuning reaches further than what this process may
/// set.
pub(crate) fn largest_receive(config: &Config) -> Option<ByteCount> {
    let is_sized = config.leg.buffer.is_none() && may_exceed_limits();
    is_sized.then_some(config.limits.memory_per_connection)
}

/// Receive buffer before the handshake, which agrees on the window scale; how much of it a leg may
/// use is set later. Zero leaves it to the kernel.
pub(crate) fn receive_before_handshake(config: &Config) -> ByteCount {
    config.leg.buffer.or(largest_receive(config)).unwrap_or(ByteCount::ZERO)
}

/// The send buffer that a leg needs for a congestion window of `window` and its growth, if its
/// `current` one (zero while the kernel tunes it) is too small, else `None`; at most `most`. The
/// kernel's own tuning ends at `net.ipv4.tcp_wmem`, far below what a long fat path holds.
pub(crate) fn larger_send(window: ByteCount, current: ByteCount, most: ByteCount) -> Option<ByteCount> {
    let needed = window * 2;
    let is_enough = needed <= current.max(TUNED_BY_KERNEL) || current >= most;
    (!is_enough).then(|| (needed * 2).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_buffer_grows_ahead_of_the_window_up_to_the_limit() {
        let mib = ByteCount::from_mib;
        let most = mib(64);
        assert_eq!(larger_send(ByteCount::from_kib(400), ByteCount::ZERO, most), None, "the kernel's tuning is enough");
        assert_eq!(larger_send(mib(2), ByteCount::ZERO, most), Some(mib(8)));
        assert_eq!(larger_send(mib(4), mib(8), most), None);
        assert_eq!(larger_send(mib(40), mib(8), most), Some(most));
        assert_eq!(larger_send(mib(400), most, most), None);
    }
}
