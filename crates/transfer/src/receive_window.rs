//! How large a receive buffer to ask for, so that the window covers a long fat path from the start.
//!
//! A buffer that is set is fixed, and the kernel's autotuning is off. With `CAP_NET_ADMIN` any size is
//! granted. Without, it is cut to `net.core.rmem_max`, which is often less than what autotuning reaches
//! by itself (`net.ipv4.tcp_rmem`); then it is better left alone.

use icdc_tcp::Beginning;
use icdc_units::ByteCount;
use rustix::thread::{CapabilitySet, capabilities};

/// Covers 10 Gbit/s at 100 ms. The kernel allocates only what piles up unread.
const WANTED: u64 = 128 << 20;

/// How a connection that may receive begins.
pub(crate) fn beginning() -> Beginning<'static> {
    Beginning { receive_buffer: receive_buffer(), congestion: None }
}

/// Size to ask for; zero leaves the buffer to the kernel.
pub(crate) fn receive_buffer() -> ByteCount {
    let privileged = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
    if privileged {
        return ByteCount::new(WANTED);
    }
    let numbers = |path: &str| -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let granted = numbers("/proc/sys/net/core/rmem_max").first().copied().unwrap_or(0).min(WANTED);
    // The kernel doubles a size that is set; the limit of autotuning is the doubled size.
    let autotuned = numbers("/proc/sys/net/ipv4/tcp_rmem").get(2).copied().unwrap_or(u64::MAX) / 2;
    if granted > autotuned { ByteCount::new(granted) } else { ByteCount::ZERO }
}
