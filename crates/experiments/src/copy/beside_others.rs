//! Cross-traffic that is on and off in turns, as in figures 9 and 10 of the ICDC paper (Tanida,
//! Inaba, Hiraki): the path, the traffic, and the capacity that it leaves.
//!
//! Datagrams at a constant rate are sent for five seconds and then not for five, on 1 Gbit/s and
//! 300 ms, queue 25 MB. A sender can follow a change one round trip later at the earliest, and
//! until then its excess is queued (half of the path's rate for one round trip is 19 MB).
//!
//! Shares are of the payload rate that the cross-traffic leaves, from ten round trips and a second
//! after the first byte to the end, transitions included. A change counts as followed when the mean
//! of a window is within a tenth of the rate that is left; the time is that of the window's middle.

use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::traffic::cross_traffic::{CrossTraffic, TrafficPhase};

/// Rate of the path.
pub(crate) const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Round-trip time of the path.
pub(crate) const ROUND_TRIP: Span = Span::from_millis(300);
/// Size of the path's queue.
pub(crate) const QUEUE: ByteCount = ByteCount::new(25_000_000);
/// Length of each phase with and without cross-traffic.
const HALF_PERIOD: Span = Span::from_secs(5);
/// Time before the cross-traffic begins, in which the connection is established and its first byte
/// arrives.
const QUIET: Span = Span::from_secs(10);
const SECOND: Span = Span::from_secs(1);

/// Cross-traffic that takes `share` per cent of the path while it is on.
pub(crate) fn others(share: u64) -> CrossTraffic {
    CrossTraffic { rate: RATE.scaled(share, 100), quiet: QUIET, half_period: HALF_PERIOD }
}

/// A phase with or without cross-traffic, in the receiver's time since its first byte, with the
/// payload rate that the path has free in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResidualPhase {
    pub(crate) from: Span,
    pub(crate) to: Span,
    pub(crate) payload: Rate,
}

/// Payload rates that the cross-traffic left free, phase by phase in the receiver's time since its
/// first byte.
#[derive(Debug)]
pub(crate) struct ResidualCapacity(Vec<ResidualPhase>);

impl ResidualCapacity {
    /// Converts the `phases` of the cross-traffic's sender to the receiver's time.
    pub(crate) fn new(phases: &[TrafficPhase], first_byte: Time) -> Self {
        let direction = path(RATE, ROUND_TRIP, QUEUE);
        let seen = |at: Time| at + direction.delay - first_byte;
        let payload = |rate| {
            let rest = icdc_path::Settings { rate, ..direction.clone() };
            payload_rate(&rest)
        };
        let left = |phase: &TrafficPhase| ResidualPhase {
            from: seen(phase.from),
            to: seen(phase.to),
            payload: payload(RATE - phase.rate),
        };
        Self(phases.iter().map(left).collect())
    }

    pub(crate) fn phases(&self) -> &[ResidualPhase] {
        &self.0
    }

    /// Payload that arrived in the phases that count, after start-up, in per cent of the rate that
    /// was left.
    pub(crate) fn share(&self, arrivals: Arrivals<'_>, counts: impl Fn(&ResidualPhase) -> bool) -> f64 {
        let (first, last) = (ROUND_TRIP * 10 + SECOND, arrivals.length());
        let (mut got, mut there) = (ByteCount::ZERO, ByteCount::ZERO);
        for phase in self.0.iter().filter(|phase| counts(phase)) {
            let (from, to) = (phase.from.max(first), phase.to.min(last));
            got += arrivals.sum(from, to);
            there += phase.payload * (to - from);
        }
        got.ratio(there) * 100.0
    }

    /// Round trips after each change until the mean of a window is near the rate that is left;
    /// infinite if none is before the next change.
    pub(crate) fn followed(&self, arrivals: Arrivals<'_>, window: Span) -> Spread {
        let changes = self.0.windows(2).filter(|two| two[1].to <= arrivals.length() && two[1].from >= window);
        Spread::of(changes.map(|two| {
            let left = two[1];
            let (least, most) = (left.payload.scaled(9, 10), left.payload.scaled(11, 10));
            // The time of a window is its middle, so half of it may be before the change.
            let from = left.from - window / 2;
            let near = arrivals.first_window(window, from + window, |_, mean| (least..=most).contains(&mean));
            let near = near.map(|end| end - window / 2).filter(|middle| *middle < left.to);
            near.map_or(f64::INFINITY, |middle| (middle - left.from).ratio(ROUND_TRIP))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_from_what_arrived() {
        let begin = Time::ORIGIN + SECOND * 100;
        let phase =
            |from: u64, to: u64, rate| TrafficPhase { from: begin + SECOND * from, to: begin + SECOND * to, rate };
        let left = ResidualCapacity::new(&[phase(0, 10, Rate::ZERO), phase(10, 20, RATE / 2)], begin + ROUND_TRIP / 2);
        let [alone, beside] = left.phases() else { panic!("two phases") };
        assert_eq!((alone.to, beside.to), (SECOND * 10, SECOND * 20));
        // All that is left in the first phase; in the second too, after four round trips.
        let of = |rate: Rate| (rate * Span::from_millis(1)).as_u64() as u32;
        let late = 10_000 + (ROUND_TRIP * 4).as_millis();
        let bytes: Vec<u32> =
            (0..20_000).map(|at| of(if at < late { alone.payload } else { beside.payload })).collect();
        let arrivals = Arrivals::new(&bytes);
        assert!((left.share(arrivals, |phase| phase.payload > RATE / 2) - 100.0).abs() < 0.1);
        assert!((left.followed(arrivals, ROUND_TRIP).median - 4.0).abs() < 0.5);
    }
}
