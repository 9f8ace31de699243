//! The clock adapter of this crate and those above it, which take time from here or as a parameter:
//! `CLOCK_MONOTONIC`, and for dates the wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use icdc_units::{Span, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Present time of the monotonic clock, since the host was started.
#[must_use]
pub fn now() -> Time {
    Time::ORIGIN + read(ClockId::Monotonic)
}

/// Present time of the wall clock, which people set and which may jump: for dates only.
#[must_use]
pub fn wall() -> SystemTime {
    let since_1970 = read(ClockId::Realtime);
    UNIX_EPOCH + Duration::from(since_1970)
}

/// Processor time that the calling thread has used so far.
#[must_use]
pub fn of_thread() -> Span {
    read(ClockId::ThreadCPUTime)
}

/// Processor time that this process has used.
#[must_use]
pub fn of_process() -> Span {
    read(ClockId::ProcessCPUTime)
}

/// Reads a clock of the kernel, as time since its origin.
fn read(clock: ClockId) -> Span {
    let read = clock_gettime(clock);
    Span::from_secs(read.tv_sec as u64) + Span::from_nanos(read.tv_nsec as u64)
}

/// Converts a span to the form that the kernel's waiting calls take.
#[must_use]
pub fn timespec(span: Span) -> Timespec {
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: (span.as_nanos() % 1_000_000_000) as _ }
}
