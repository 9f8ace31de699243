//! The bottleneck: a transmitter behind a first-in first-out queue that is bounded in bytes.
//!
//! A frame that arrives while `queue + its wire length > limit` is dropped (drop-tail). The queue
//! is all that has been accepted and is not yet on the wire, the rest of the frame in transmission
//! included; an idle bottleneck therefore takes any frame that the limit holds at all.

use icdc_units::{ByteCount, Rate, Span, Time};

use crate::Transmitter;

/// A bottleneck with a drop-tail queue, computed without storing packets.
#[derive(Clone, Debug)]
pub struct DropTail {
    transmitter: Transmitter,
    limit: ByteCount,
}

impl DropTail {
    /// An empty queue of at most `limit` bytes on the wire before a transmitter of `rate`.
    ///
    /// # Panics
    /// If the rate is zero.
    #[must_use]
    pub fn new(rate: Rate, limit: ByteCount) -> Self {
        Self { transmitter: Transmitter::new(rate), limit }
    }

    /// Accepts a frame that arrives at `now`, and returns the time at which its last bit has left;
    /// `None` if the queue has no room and the frame is dropped.
    pub fn offer(&mut self, now: Time, wire_length: ByteCount) -> Option<Time> {
        self.has_room(now, wire_length).then(|| self.transmitter.send(now, wire_length))
    }

    /// Whether the queue has room for a frame of this length that arrives at `now`.
    #[must_use]
    pub fn has_room(&self, now: Time, wire_length: ByteCount) -> bool {
        self.transmitter.backlog(now) + wire_length <= self.limit
    }

    /// Time that a frame arriving at `now` waits before its first bit leaves.
    #[must_use]
    pub fn wait(&self, now: Time) -> Span {
        self.transmitter.backlog_time(now)
    }

    /// Changes the rate from `now` on, see [`Transmitter::change_rate`].
    ///
    /// # Panics
    /// If the rate is zero.
    pub fn change_rate(&mut self, now: Time, rate: Rate) {
        self.transmitter.change_rate(now, rate);
    }

    /// Bytes in the queue at `now`.
    #[must_use]
    pub fn queued(&self, now: Time) -> ByteCount {
        self.transmitter.backlog(now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NANOS: u64 = 1_000_000_000;

    /// Arrivals as (nanoseconds since the one before, wire length), dense enough to overflow at
    /// times.
    fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0_u64..20_000, 84_u64..1600), 1..400)
    }

    proptest! {
        #[test]
        fn the_queue_never_exceeds_its_limit_nor_the_rate_its_setting(
            arrivals in arrivals(), rate in 100_000_000_u64..10_000_000_000, limit in 1_600_u64..100_000,
        ) {
            let mut queue = DropTail::new(Rate::from_bits_per_second(rate), ByteCount::new(limit));
            let mut now = 0;
            let mut departures: Vec<(u64, u64)> = Vec::new();
            for (gap, size) in arrivals {
                now += gap;
                let arrival = Time::from_nanos(now);
                let before = queue.queued(arrival);
                match queue.offer(arrival, ByteCount::new(size)) {
                    Some(left) => {
                        prop_assert!(queue.queued(arrival) <= ByteCount::new(limit));
                        prop_assert!(left >= arrival);
                        prop_assert!(departures.last().is_none_or(|&(before, _)| before <= left.as_nanos()), "in order");
                        departures.push((left.as_nanos(), size));
                    }
                    None => prop_assert!(before + ByteCount::new(size) > ByteCount::new(limit), "dropped only when full"),
                }
            }
            // Over any window between two departures: the bits after the first are at most rate ×
            // window (+ 1 ns of rounding).
            for (index, &(first, _)) in departures.iter().enumerate() {
                let mut bits = 0_u128;
                for &(last, size) in &departures[index + 1..] {
                    bits += u128::from(size) * 8;
                    prop_assert!(bits * u128::from(NANOS) <= u128::from(rate) * u128::from(last - first + 1));
                }
            }
        }
    }

    #[test]
    fn an_idle_bottleneck_takes_a_frame_that_just_fits() {
        let mut queue = DropTail::new(Rate::from_bits_per_second(1_000_000_000), ByteCount::new(1538));
        assert!(queue.offer(Time::ORIGIN, ByteCount::new(1538)).is_some());
        assert!(queue.offer(Time::from_nanos(12_000), ByteCount::new(1538)).is_none(), "38 bytes are still to go");
        assert!(queue.offer(Time::from_nanos(12_304), ByteCount::new(1538)).is_some());
        assert!(queue.offer(Time::from_nanos(12_304 * 3), ByteCount::new(1539)).is_none());
    }
}
