//! `CLOCK_MONOTONIC`, in which all times of this crate are told, and waiting by it.

use icdc_units::{Span, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now.
#[must_use]
pub fn now() -> Time {
    of(ClockId::Monotonic)
}

/// Waits until `due`; returns early if a signal comes.
pub fn sleep_until(due: Time) {
    let due =
        Timespec { tv_sec: (due.as_nanos() / 1_000_000_000) as i64, tv_nsec: (due.as_nanos() % 1_000_000_000) as _ };
    // The caller looks at the clock again in any case.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &due);
}

fn of(clock: ClockId) -> Time {
    let since = clock_gettime(clock);
    Time::ORIGIN + Span::from_secs(since.tv_sec as u64) + Span::from_nanos(since.tv_nsec as u64)
}

/// Turns stamps of `CLOCK_REALTIME`, which the kernel gives, into `CLOCK_MONOTONIC`, with the distance of
/// the two clocks at the moment: a step of the date shifts only what is stamped while it happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromDate {
    /// Date less monotonic time, in nanoseconds.
    distance: u64,
}

impl FromDate {
    pub(crate) fn now() -> Self {
        // The date is after 1970 and the machine's start: never negative.
        Self { distance: (of(ClockId::Realtime) - now()).as_nanos() }
    }

    pub(crate) fn monotonic(self, seconds: u32, nanos: u32) -> Time {
        let date = Span::from_secs(u64::from(seconds)) + Span::from_nanos(u64::from(nanos));
        Time::ORIGIN + (date - Span::from_nanos(self.distance))
    }
}
