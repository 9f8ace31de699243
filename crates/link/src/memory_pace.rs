//! The rate of one direction of a link within a process: each parcel is handed on when, at that
//! rate, its last byte would have arrived.
//!
//! ```text
//! due ← max(due, now − late) + payload / rate
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use icdc_tcp::clock;
use icdc_units::{ByteCount, Rate, Span, Time};

/// Maximum lateness of a thread that is made up for; idle time is not.
const LATE: Span = Span::from_millis(20);
/// Maximum length of a single wait, so that a change of the rate takes effect soon.
const STEP: Span = Span::from_millis(20);
/// Lower bound of the rate, in bytes per second: at 0, a copy would never end.
const LEAST: u64 = 1;

/// Rate limit of one direction of a link in memory, and how long it has made its sender wait.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Rate limit; `u64::MAX` for no limit.
    bytes_per_second: AtomicU64,
    waited_nanos: AtomicU64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { bytes_per_second: AtomicU64::new(u64::MAX), waited_nanos: AtomicU64::new(0) }
    }
}

impl Pace {
    /// Changes the rate limit; `None` for no limit.
    pub(crate) fn set(&self, rate: Option<Rate>) {
        let bytes = rate.map_or(u64::MAX, |rate| rate.as_bytes_per_second().max(LEAST));
        self.bytes_per_second.store(bytes, Ordering::Relaxed);
    }

    /// Rate limit; `None` for no limit.
    fn rate(&self) -> Option<Rate> {
        let bytes = self.bytes_per_second.load(Ordering::Relaxed);
        (bytes != u64::MAX).then(|| Rate::from_bytes_per_second(bytes))
    }

    /// Total time for which parcels have been delayed so far.
    pub(crate) fn waited(&self) -> Span {
        Span::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }
}

/// Time at which, at the rate limit, the last payload that was passed on would have arrived.
#[derive(Debug)]
pub(crate) struct Due(Time);

impl Default for Due {
    fn default() -> Self {
        Self(Time::ORIGIN)
    }
}

impl Due {
    /// Delays a payload of `length` bytes until it is due at the rate limit, in steps by `wait`,
    /// which returns false if the link has ended.
    pub(crate) fn wait_for(&mut self, pace: &Pace, length: usize, wait: impl Fn(Span) -> bool) {
        let mut left = ByteCount::new(length as u64);
        let mut now = clock::now();
        self.0 = self.0.max(now - LATE);
        // The rate may change while it waits: what is left goes at the new one.
        while let Some(rate) = pace.rate().filter(|_| left > ByteCount::ZERO) {
            let due = self.0 + left / rate;
            if now >= due {
                self.0 = due;
                return;
            }
            if !wait((due - now).min(STEP)) {
                return;
            }
            let later = clock::now();
            pace.waited_nanos.fetch_add((later - now).as_nanos(), Ordering::Relaxed);
            now = later;
            let passed = (now - self.0) * rate;
            if passed < left {
                left -= passed;
                // A part of a byte counts at the next step.
                self.0 += passed / rate;
            }
        }
    }
}
