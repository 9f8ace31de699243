//! When packets may leave.
//!
//! ```text
//! due   := max(due, now - BEHIND) + bytes/rate          the mean is the rate, also of hosts that pause
//! apart := max(apart, now - AT_ONCE) + bytes/(CATCH_UP rate)   what a pause has held back does not leave in one burst
//! ```
//!
//! A packet may leave when both have come. A thread that waits is woken late, by a millisecond or more where processors are
//! busy: what was due in [`AT_ONCE`] leaves at once, as with the kernel's pacing, and only what is longer is spread. What
//! is longer than [`BEHIND`] is not caught up: it would be a burst that the path has not been asked about. Packets leave in
//! runs of [`RUN`], of [`LEAST_RUN`] to [`LONGEST_RUN`] packets: a call and a wake-up for each packet would cost more than
//! the network notices of so short a run.

use std::time::{Duration, Instant};

use icdc_units::{ByteCount, Rate, Span};

/// Time of pauses that is caught up at most.
const BEHIND: Span = Span::from_millis(30);
/// Time of a pause whose packets leave at once.
const AT_ONCE: Span = Span::from_millis(3);
/// How many times faster than the rate packets leave to catch up; as a fraction.
const CATCH_UP: (u32, u32) = (3, 2);
/// Length of a run of packets that leave at once.
const RUN: Span = Span::from_micros(500);
/// Number of packets of such a run at least, and at most.
const LEAST_RUN: u64 = 2;
const LONGEST_RUN: u64 = 40;

/// Pacing of one connection.
#[derive(Debug)]
pub(crate) struct Pacing {
    due: Instant,
    apart: Instant,
}

impl Pacing {
    /// Pacing from `now` on.
    pub(crate) fn new(now: Instant) -> Self {
        Self { due: now, apart: now }
    }

    /// Time at which the next packet may leave; `None` if it may at `now`.
    pub(crate) fn waits_until(&self, now: Instant) -> Option<Instant> {
        let next = self.due.max(self.apart);
        (next > now).then_some(next)
    }

    /// Number of packets of `packet` bytes that leave at once at this rate.
    pub(crate) fn run(rate: Option<Rate>, packet: ByteCount) -> u64 {
        let packets = rate.map_or(LONGEST_RUN, |rate| (rate * RUN).as_u64() / packet.as_u64().max(1));
        packets.clamp(LEAST_RUN, LONGEST_RUN)
    }

    /// Records that `bytes` leave at `now`, at this rate; `None`: without limit.
    pub(crate) fn sent(&mut self, now: Instant, bytes: ByteCount, rate: Option<Rate>) {
        let Some(rate) = rate else {
            (self.due, self.apart) = (now, now);
            return;
        };
        let took: Duration = (bytes / rate).into();
        let before = |span: Span| now.checked_sub(span.into()).unwrap_or(now);
        self.due = self.due.max(before(BEHIND)) + took;
        let (more, of) = CATCH_UP;
        self.apart = self.apart.max(before(AT_ONCE)) + took * of / more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const RATE: Option<Rate> = Some(Rate::from_bytes_per_second(1_000_000));
    const PACKET: ByteCount = ByteCount::new(1000);

    /// Bytes that leave within `span` from `begin` on, looked at every 10 us but in the pauses.
    fn leaves(pacing: &mut Pacing, begin: Instant, span: Duration, pauses: impl Fn(Duration) -> bool) -> u64 {
        let mut bytes = 0;
        let mut at = Duration::ZERO;
        while at < span {
            let now = begin + at;
            if !pauses(at) && pacing.waits_until(now).is_none() {
                pacing.sent(now, PACKET, RATE);
                bytes += PACKET.as_u64();
            }
            at += Duration::from_micros(10);
        }
        bytes
    }

    #[test]
    fn the_rate_is_kept() {
        let begin = clock::now();
        let bytes = leaves(&mut Pacing::new(begin), begin, Duration::from_secs(1), |_| false);
        assert!((999_000..=1_001_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn pauses_are_caught_up_without_a_burst() {
        let begin = clock::now();
        let is_paused = |at: Duration| at.as_millis() % 125 < 20;
        let mut pacing = Pacing::new(begin);
        let bytes = leaves(&mut pacing, begin, Duration::from_secs(1), is_paused);
        assert!((980_000..=1_001_000).contains(&bytes), "{bytes}");
        let end = begin + Duration::from_secs(2);
        let mut late = Pacing::new(begin);
        let burst = leaves(&mut late, end, Duration::from_millis(10), |_| false);
        assert!((14_000..=20_500).contains(&burst), "{burst} bytes after a pause of two seconds");
        let rest = leaves(&mut late, end + Duration::from_millis(10), Duration::from_secs(1), |_| false);
        assert!((1_000_000..=1_031_000).contains(&rest), "{rest}: no more than what was held back for a moment");
    }

    #[test]
    fn runs_are_short_and_not_single_packets() {
        assert_eq!(Pacing::run(RATE, PACKET), 2);
        assert_eq!(Pacing::run(Some(Rate::from_bytes_per_second(50_000_000)), PACKET), 25);
        assert_eq!(Pacing::run(None, PACKET), 40);
    }
}
