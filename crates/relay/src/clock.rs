//! The clock adapter of this crate: everything else takes time from here or as a parameter.

use std::sync::OnceLock;
use std::time::Instant;

use icdc_units::{Span, Time};
use rustix::time::Timespec;

/// Monotonic time since the first call in this process.
pub(crate) fn now() -> Time {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "this is the clock adapter")]
    let now = Instant::now();
    let origin = *ORIGIN.get_or_init(|| now);
    Time::from_nanos(u64::try_from(now.duration_since(origin).as_nanos()).unwrap_or(u64::MAX))
}

/// A span as the kernel's waiting calls take it.
pub(crate) fn timespec(span: Span) -> Timespec {
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: (span.as_nanos() % 1_000_000_000) as _ }
}
