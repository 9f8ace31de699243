//! A transmitter of constant rate: how long a frame takes, and when the wire is free again.
//!
//! ```text
//! start  = max(arrival, free)
//! free   = start + 8 · bytes / rate
//! ```
//!
//! `free` is stored as whole nanoseconds and the exact rest in units of 1/rate ns, so that a busy
//! transmitter carries `rate × time` bits over any span, whatever the size of its frames.

use icdc_units::{ByteCount, Rate, Span, Time};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A line that sends frames in order at a constant rate; computes the time at which each has left.
#[derive(Clone, Debug)]
pub struct Transmitter {
    rate: Rate,
    free: Time,
    /// Part of the time that is below 1 ns, in 1/rate ns.
    rest: u64,
}

impl Transmitter {
    /// A transmitter that is free. The rate must not be zero.
    ///
    /// # Panics
    /// If the rate is zero: such a transmitter would never send. [`Settings`](crate::Settings)
    /// refuses it.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        assert!(!rate.is_zero(), "a transmitter needs a rate");
        Self { rate, free: Time::ORIGIN, rest: 0 }
    }

    /// Changes the rate from `now` on. The backlog takes its time at the new rate for packets
    /// behind it; the departure times of its own packets were returned already and stay.
    ///
    /// # Panics
    /// If the rate is zero.
    pub fn change_rate(&mut self, now: Time, rate: Rate) {
        let waiting = self.backlog(now);
        *self = Self::new(rate);
        self.send(now, waiting);
    }

    /// Time that a frame arriving at `now` waits before its first bit leaves.
    #[must_use]
    pub fn backlog_time(&self, now: Time) -> Span {
        self.free - now
    }

    /// Bytes that were accepted and are not on the wire at `now`, the rest of the frame in
    /// transmission included. Rounded up.
    #[must_use]
    pub fn backlog(&self, now: Time) -> ByteCount {
        let bit_nanos = u128::from((self.free - now).as_nanos()) * u128::from(self.rate.as_bits_per_second());
        if bit_nanos == 0 {
            return ByteCount::ZERO;
        }
        let bytes = (bit_nanos + u128::from(self.rest)).div_ceil(8 * NANOS_PER_SECOND);
        ByteCount::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Accepts `bytes` that arrive at `now`; gives the time at which the last bit has left, rounded
    /// down.
    pub fn send(&mut self, now: Time, bytes: ByteCount) -> Time {
        if now > self.free {
            (self.free, self.rest) = (now, 0);
        }
        let rate = u128::from(self.rate.as_bits_per_second());
        let bit_nanos = u128::from(bytes.as_u64()) * 8 * NANOS_PER_SECOND + u128::from(self.rest);
        self.rest = (bit_nanos % rate) as u64;
        self.free += Span::from_nanos(u64::try_from(bit_nanos / rate).unwrap_or(u64::MAX));
        self.free
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_busy_transmitter_loses_no_nanosecond(rate in 8_u64..400_000_000_000, sizes in prop::collection::vec(60_u64..9100, 1..200)) {
            let mut transmitter = Transmitter::new(Rate::from_bits_per_second(rate));
            let mut total = 0_u128;
            for size in sizes {
                total += u128::from(size);
                let left = transmitter.send(Time::ORIGIN, ByteCount::new(size));
                prop_assert_eq!(u128::from(left.as_nanos()), total * 8 * NANOS_PER_SECOND / u128::from(rate));
            }
        }

        #[test]
        fn backlog_is_what_was_accepted_less_what_has_left(sizes in prop::collection::vec(60_u64..9100, 1..50), later in 0_u64..1_000_000) {
            // 8 Gbit/s: one byte a nanosecond.
            let mut transmitter = Transmitter::new(Rate::from_bits_per_second(8_000_000_000));
            let total: u64 = sizes.iter().sum();
            for size in sizes {
                transmitter.send(Time::ORIGIN, ByteCount::new(size));
            }
            prop_assert_eq!(transmitter.backlog(Time::from_nanos(later)), ByteCount::new(total.saturating_sub(later)));
        }
    }
}
