//! The clock adapter of this crate and those above it, which take time from here or as a parameter:
//! `CLOCK_MONOTONIC`.

use icdc_units::{Span, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now, since the host was started.
#[must_use]
pub fn now() -> Time {
    let since_boot = clock_gettime(ClockId::Monotonic);
    Time::ORIGIN + Span::from_secs(since_boot.tv_sec as u64) + Span::from_nanos(since_boot.tv_nsec as u64)
}

/// Processor time that this thread has taken.
#[must_use]
pub fn of_thread() -> Span {
    let taken = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_secs(taken.tv_sec as u64) + Span::from_nanos(taken.tv_nsec as u64)
}

/// A span as the kernel's waiting calls take it.
#[must_use]
pub fn timespec(span: Span) -> Timespec {
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: (span.as_nanos() % 1_000_000_000) as _ }
}
