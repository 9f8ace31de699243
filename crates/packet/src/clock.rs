//! `CLOCK_MONOTONIC`, the clock of all times in this crate, and waiting by it.

use icdc_units::{Span, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The present time of `CLOCK_MONOTONIC`.
#[must_use]
pub fn now() -> Time {
    of(ClockId::Monotonic)
}

/// Waits until `due`; returns early if a signal comes.
pub fn sleep_until(due: Time) {
    let due =
        Timespec { tv_sec: (due.as_nanos() / 1_000_000_000) as i64, tv_nsec: (due.as_nanos() % 1_000_000_000) as _ };
    // The caller reads the clock again in any case.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &due);
}

/// Present time of a clock of the kernel.
fn of(clock: ClockId) -> Time {
    let since = clock_gettime(clock);
    Time::ORIGIN + Span::from_secs(since.tv_sec as u64) + Span::from_nanos(since.tv_nsec as u64)
}

/// Longest time between readings of the two clocks that count as simultaneous.
const AT_ONCE: Span = Span::from_micros(2);
/// Greatest number of attempts at simultaneous readings.
const TRIES: usize = 16;

/// Conversion of the kernel's stamps of `CLOCK_REALTIME` into `CLOCK_MONOTONIC` by the present
/// distance of the two clocks: a step of the date shifts only packets that are stamped while it
/// happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromDate {
    /// Date less monotonic time, in nanoseconds.
    distance: u64,
    /// Time at which the clocks were read.
    read: Time,
}

impl FromDate {
    /// Reads both clocks for a conversion that holds for now.
    pub(crate) fn now() -> Self {
        Self::closest((0..TRIES).map(|_| (now(), of(ClockId::Realtime), now())))
    }

    /// Picks, of readings (monotonic, date, monotonic), the one with the least time between its
    /// first and last: this thread may be preempted between them, and for that long packets would
    /// seem to come from the future.
    fn closest(readings: impl Iterator<Item = (Time, Time, Time)>) -> Self {
        let mut closest = (Span::MAX, Span::ZERO, Time::ORIGIN);
        for (before, date, after) in readings {
            // The date is after 1970 and the machine's start: never negative.
            closest = closest.min((after - before, date - before, after));
            if closest.0 <= AT_ONCE {
                break;
            }
        }
        Self { distance: closest.1.as_nanos(), read: closest.2 }
    }

    /// Converts a kernel's stamp of `CLOCK_REALTIME`; the result is at most the present time.
    pub(crate) fn monotonic(self, seconds: u32, nanos: u32) -> Time {
        let date = Span::from_secs(u64::from(seconds)) + Span::from_nanos(u64::from(nanos));
        let at = Time::ORIGIN + (date - Span::from_nanos(self.distance));
        // A date that was set meanwhile must not delay later packets.
        if at > self.read { at.min(now()) } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_between_the_readings_dates_nothing_ahead() {
        let at = |micros| Time::ORIGIN + Span::from_micros(micros);
        let date = |micros: u64| at(5_000_000 + micros);
        let stalled_after_date = (at(10), date(10), at(40_010));
        let stalled_before_date = (at(50_000), date(90_000), at(90_000));
        let close = (at(90_005), date(90_005), at(90_006));
        let monotonic =
            |readings: &[(Time, Time, Time)]| FromDate::closest(readings.iter().copied()).monotonic(5, 100_000_000);
        assert_eq!(monotonic(&[stalled_before_date, stalled_after_date, close]), at(100_000));
        // None is close: the closest counts.
        assert_eq!(
            monotonic(&[(at(0), date(40_000), at(40_000)), (at(50_000), date(50_000), at(50_003))]),
            at(100_000)
        );
    }
}
