//! Traffic that comes and goes, as in the ICDC paper's figures 9 and 10: the path, the others on it,
//! and what they leave.
//!
//! Datagrams at a constant rate come for five seconds and go for five, on 1 Gbit/s and 300 ms,
//! queue 25 MB: whoever follows can do so a round trip later at the earliest, and what is sent
//! until then has to wait somewhere (half of the path for one round trip are 19 MB).
//!
//! Shares are of what the others leave of what TCP payload can reach, from ten round trips and a
//! second after the first byte to the end, the times of change included. A change is followed when
//! a window, told by its middle, is within a tenth of what is left over.

use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::traffic::cross_traffic::{CrossTraffic, TrafficPhase};

pub(crate) const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
pub(crate) const ROUND_TRIP: Span = Span::from_millis(300);
pub(crate) const QUEUE: ByteCount = ByteCount::new(25_000_000);
const HALF_PERIOD: Span = Span::from_secs(5);
/// Both ends have found each other by then, and the first byte has arrived.
const QUIET: Span = Span::from_secs(10);
const SECOND: Span = Span::from_secs(1);

/// Others that take `share` per cent of the path while they are there.
pub(crate) fn others(share: u64) -> CrossTraffic {
    CrossTraffic { rate: RATE.scaled(share, 100), quiet: QUIET, half_period: HALF_PERIOD }
}

/// A time in which the others left so much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) from: Span,
    pub(crate) to: Span,
    pub(crate) payload: Rate,
}

/// What the others left, as the receiver saw it, in the time of its first byte.
#[derive(Debug)]
pub(crate) struct LeftOver(Vec<Left>);

impl LeftOver {
    /// `phases` are the senders'.
    pub(crate) fn new(phases: &[TrafficPhase], first_byte: Time) -> Self {
        let direction = path(RATE, ROUND_TRIP, QUEUE);
        let seen = |at: Time| at + direction.delay - first_byte;
        let payload = |rate| {
            let rest = icdc_path::Settings { rate, ..direction.clone() };
            payload_rate(&rest)
        };
        let left = |phase: &TrafficPhase| Left {
            from: seen(phase.from),
            to: seen(phase.to),
            payload: payload(RATE - phase.rate),
        };
        Self(phases.iter().map(left).collect())
    }

    pub(crate) fn phases(&self) -> &[Left] {
        &self.0
    }

    /// Per cent that arrived of what was left in the phases that count, from when it is steady on.
    pub(crate) fn share(&self, arrivals: Arrivals<'_>, counts: impl Fn(&Left) -> bool) -> f64 {
        let (first, last) = (ROUND_TRIP * 10 + SECOND, arrivals.length());
        let (mut got, mut there) = (ByteCount::ZERO, ByteCount::ZERO);
        for phase in self.0.iter().filter(|phase| counts(phase)) {
            let (from, to) = (phase.from.max(first), phase.to.min(last));
            got += arrivals.sum(from, to);
            there += phase.payload * (to - from);
        }
        got.ratio(there) * 100.0
    }

    /// Round trips after each change until a window is near what is left over; infinite if none is
    /// before the next change.
    pub(crate) fn followed(&self, arrivals: Arrivals<'_>, window: Span) -> Spread {
        let changes = self.0.windows(2).filter(|two| two[1].to <= arrivals.length() && two[1].from >= window);
        Spread::of(changes.map(|two| {
            let left = two[1];
            let (least, most) = (left.payload.scaled(9, 10), left.payload.scaled(11, 10));
            // Told by its middle: half of it before the change.
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
        let left = LeftOver::new(&[phase(0, 10, Rate::ZERO), phase(10, 20, RATE / 2)], begin + ROUND_TRIP / 2);
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
