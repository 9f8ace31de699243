//! The date, for reports, and how long something took.

use std::time::Instant;

pub(crate) use icdc_tuning::seconds_since_1970;
use icdc_units::{Span, Time};
use jiff::Timestamp;

use crate::copy::summary::counted;

/// Present date and time in UTC as `2026-11-20 19:30 UTC`.
pub(crate) fn utc_now() -> String {
    utc(seconds_since_1970())
}

/// A length of time in words, in the largest unit of which it has at least one: `3 days`.
pub(crate) fn age(seconds: u64) -> String {
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")];
    let (length, unit) = units.into_iter().find(|(length, _)| seconds >= *length).unwrap_or((1, "second"));
    counted(seconds / length, unit)
}

/// Present time of `CLOCK_MONOTONIC`, by which reports of several programs on this host can be
/// aligned.
pub(crate) fn monotonic() -> Time {
    icdc_tcp::clock::now()
}

/// Runs `work`; returns its result, and the time that it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Span) {
    let begin = Stopwatch::start();
    let done = work();
    (done, begin.elapsed())
}

/// Measures the time since it was started.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// A stopwatch that starts now.
    pub(crate) fn start() -> Self {
        #[expect(clippy::disallowed_methods, reason = "it is told; nothing is decided by it")]
        let begin = Instant::now();
        Self(begin)
    }

    /// Time since the stopwatch was started.
    pub(crate) fn elapsed(&self) -> Span {
        self.0.elapsed().into()
    }
}

/// A Unix time in seconds as UTC date and time, formatted as [`utc_now`]; one beyond the calendar
/// gives its last.
pub(crate) fn utc(seconds: u64) -> String {
    let instant = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    instant.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// A Unix time in seconds as UTC date and time, `2026-11-20T19:30:07Z`; one beyond the calendar
/// gives its first or last.
pub(crate) fn utc_seconds(seconds: i64) -> String {
    let beyond = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    let instant = Timestamp::from_second(seconds).unwrap_or(beyond);
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::{utc, utc_seconds};

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From `date -u -d @SECONDS`.
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_340), "2000-02-28 23:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_709_251_199), "2024-02-29 23:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00 UTC");
        assert_eq!(utc(u64::MAX), "9999-12-30 22:00 UTC");
    }

    #[test]
    fn times_before_the_epoch_and_beyond_the_calendar_have_a_text() {
        assert_eq!(utc_seconds(-1), "1969-12-31T23:59:59Z");
        assert!(utc_seconds(i64::MAX).starts_with("9999-12-30") && utc_seconds(i64::MIN).starts_with("-9999"));
    }
}
