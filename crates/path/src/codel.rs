//! CoDel: a queue that drops at its head once packets have waited for too long (RFC 8289).
//!
//! ```text
//! sojourn   how long a packet waited, when it leaves
//! above     sojourn ≥ target for an interval
//! dropping  begins with the first packet that is above; the next is dropped interval/√1 later, then interval/√2, …
//!           ends with the first packet whose sojourn is less than the target
//! ```
//!
//! In place of a drop, an ECN-capable packet gets a mark (RFC 3168), where that is wanted.
//!
//! A dropping state that begins within 16 intervals of the last one begins with as many drops as
//! that one needed.
//!
//! The path decides on a packet as it arrives, at the time at which it will leave: that is known,
//! because the bottleneck serves in order and a dropped packet takes no time. Until then a real
//! queue holds it, this one does not. What arrives behind it is not known: RFC 8289's exception for
//! a queue of one packet is left out. It matters only where a packet takes longer than the target,
//! below 2.5 Mbit/s with 5 ms.

use icdc_units::{Span, Time};
use serde::{Deserialize, Serialize};

/// Number of intervals after which the drop count of an earlier dropping state is forgotten.
const REMEMBERED: u64 = 16;

/// Parameters of CoDel (RFC 8289).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Target: the acceptable sojourn time of packets in the queue.
    pub target: Span,
    /// Time for which the sojourn time may exceed the target: a round trip of the senders that are
    /// to react.
    pub interval: Span,
    /// ECN-capable packets get a mark in place of a drop.
    #[serde(default)]
    pub marks: bool,
}

impl Default for Parameters {
    /// RFC 8289's: 5 ms, 100 ms, drops.
    fn default() -> Self {
        Self { target: Span::from_millis(5), interval: Span::from_millis(100), marks: false }
    }
}

/// State of a CoDel queue (RFC 8289), which decides about each packet.
#[derive(Clone, Debug)]
pub struct Codel {
    parameters: Parameters,
    /// Time at which the sojourn times will have reached the target for an interval; `None` while
    /// they are below it.
    above_from: Option<Time>,
    /// Drops of the present or the last dropping state, and the count with which it began.
    count: u32,
    first_count: u32,
    is_dropping: bool,
    /// The packet before was dropped, and that counts once this one has waited too long as well.
    has_dropped: bool,
    next: Time,
}

impl Codel {
    /// Makes the state for an empty queue.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            above_from: None,
            count: 0,
            first_count: 0,
            is_dropping: false,
            has_dropped: false,
            next: Time::ORIGIN,
        }
    }

    /// Whether ECN-capable packets are marked instead of dropped.
    #[must_use]
    pub fn marks(&self) -> bool {
        self.parameters.marks
    }

    /// Whether a packet that leaves at `now` after a sojourn time of `sojourn` is dropped or
    /// marked; packets come in the order in which they leave.
    pub fn drops(&mut self, now: Time, sojourn: Span) -> bool {
        let is_above = self.is_above(now, sojourn);
        if self.is_dropping {
            if !is_above {
                self.is_dropping = false;
                self.has_dropped = false;
                return false;
            }
            if std::mem::take(&mut self.has_dropped) {
                self.next = self.after(self.next);
            }
            if now < self.next {
                return false;
            }
            self.count += 1;
            self.has_dropped = true;
            return true;
        }
        if !is_above {
            return false;
        }
        self.is_dropping = true;
        let needed = self.count - self.first_count;
        let is_soon = now - self.next < self.parameters.interval * REMEMBERED;
        self.count = if needed > 1 && is_soon { needed } else { 1 };
        self.first_count = self.count;
        self.next = self.after(now);
        true
    }

    /// Whether sojourn times, of which `sojourn` is the next, have been at or above the target for
    /// an interval.
    fn is_above(&mut self, now: Time, sojourn: Span) -> bool {
        if sojourn < self.parameters.target {
            self.above_from = None;
            return false;
        }
        let from = *self.above_from.get_or_insert(now + self.parameters.interval);
        now >= from
    }

    /// Control law: the time of the drop that follows one at `time` is `interval / √count` later,
    /// because TCP's throughput depends on the square root of the drop rate (RFC 8289).
    fn after(&self, time: Time) -> Time {
        let nanos = self.parameters.interval.as_nanos() as f64 / f64::from(self.count).sqrt();
        time + Span::from_nanos(nanos as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn at(millis: u64) -> Time {
        Time::ORIGIN + MS * millis
    }

    #[test]
    fn a_queue_that_drains_in_time_loses_nothing() {
        let mut codel = Codel::new(Parameters::default());
        for millis in 0..10_000 {
            // A burst every 90 ms, which is gone before the interval is over.
            let sojourn = MS * (20 - (millis % 90).min(20));
            assert!(!codel.drops(at(millis), sojourn), "{millis}");
        }
    }

    #[test]
    fn drops_come_at_the_control_laws_times() {
        let mut codel = Codel::new(Parameters::default());
        let dropped: Vec<u64> = (0..600).filter(|millis| codel.drops(at(*millis), MS * 30)).collect();
        // 100 ms above the target; then after 100, 100/√2, 100/√3, …
        assert_eq!(dropped, [100, 200, 271, 329, 379, 424, 464, 502, 538, 571]);
        // Below the target it ends, and what it needed is remembered: the next one begins with 9.
        assert!(!codel.drops(at(600), MS));
        let again: Vec<u64> = (601..800).filter(|millis| codel.drops(at(*millis), MS * 30)).collect();
        assert_eq!(again[..3], [701, 735, 766]);
    }
}
