//! The clock adapter of this crate: everything else takes time from here or as a parameter.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use icdc_units::Time;

/// Monotonic time since the first call in this process.
pub(crate) fn now() -> Time {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "this is the clock adapter")]
    let now = Instant::now();
    let origin = *ORIGIN.get_or_init(|| now);
    Time::from_nanos(u64::try_from(now.duration_since(origin).as_nanos()).unwrap_or(u64::MAX))
}

/// The date, for what is remembered between runs.
pub(crate) fn seconds_since_1970() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this is the clock adapter")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
