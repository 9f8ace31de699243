//! A ceiling of the rate at which a session is received, all its connections together: the end that
//! receives reads no faster, so that TCP's window holds the sender back.

use std::sync::{Mutex, PoisonError};

use icdc_units::{ByteCount, Rate, Span, Time};

use crate::clock;
use crate::once::Once;

/// A limit of the rate at which a session is received.
pub(super) struct Throttle {
    rate: Rate,
    /// Time at which everything that has arrived would have arrived at exactly the limit of the
    /// rate.
    due: Mutex<Time>,
}

impl Throttle {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, due: Mutex::new(Time::ORIGIN) }
    }

    /// Waits until `length` bytes more, which have arrived since `begun`, conform to the limit, or
    /// until the session is `over`.
    pub(super) fn wait(&self, begun: Time, length: ByteCount, over: &Once) {
        let due = self.charge(begun, clock::now(), length);
        let left = due - clock::now();
        if left > Span::ZERO {
            over.wait(left);
        }
    }

    /// Time until which the thread that has received `length` bytes since `begun` waits. Idle time
    /// does not count as credit, except for the time that these bytes themselves take at the rate.
    fn charge(&self, begun: Time, now: Time, length: ByteCount) -> Time {
        let takes = length / self.rate;
        let since = if now - begun > takes { now - takes } else { begun };
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        *due = (*due).max(since) + takes;
        *due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_due_at_the_rate_and_a_pause_is_not_made_up_for() {
        let throttle = Throttle::new(Rate::from_bytes_per_second(1000));
        let at = |milliseconds| Time::ORIGIN + Span::from_millis(milliseconds);
        let charge = |begun, now, length| throttle.charge(at(begun), at(now), ByteCount::new(length));
        assert_eq!(charge(0, 0, 500), at(500));
        assert_eq!(charge(100, 100, 500), at(1000));
        assert_eq!(charge(5000, 5000, 100), at(5100));
        assert_eq!(charge(5000, 5000, 0), at(5100));
        // What has come at the rate need not wait.
        assert_eq!(charge(6000, 6100, 100), at(6100));
        assert_eq!(charge(6100, 6150, 100), at(6200));
        // A long wait counts once for all connections.
        assert_eq!(charge(7000, 9000, 100), at(9000));
        assert_eq!(charge(7000, 9000, 100), at(9100));
    }

    #[test]
    fn nobody_waits_for_a_session_that_is_over() {
        let throttle = Throttle::new(Rate::from_bits_per_second(8));
        let over = Once::default();
        over.signal();
        throttle.wait(Time::ORIGIN, ByteCount::from_mib(4), &over);
    }
}
