//! The clock adapter of this crate: quinn takes time as it is here.

#![expect(clippy::disallowed_methods, reason = "this is where time is read")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Present time of the monotonic clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Present time of the wall clock since 1970, by which the kernel stamps packets.
pub(crate) fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
