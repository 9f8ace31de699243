//! A limit of the rate at which a session is received, all its connections together: the end that
//! receives reads no faster, so that TCP's window holds the sender back.
//!
//! Model. Everything that has arrived is due at the time at which it would have arrived at exactly the
//! limit; whoever has received waits until then. A new limit stretches or shortens what is left of the
//! wait. When the limit becomes zero, what is on its way ([`ON_ITS_WAY`]) passes, so that a sender that
//! obeys is still heard; all other data are held until there is another limit. Of a session that begins
//! at zero, nothing is on its way.

use std::sync::{Mutex, MutexGuard, PoisonError};

use icdc_units::{ByteCount, Rate, Span, Time};

use crate::clock;

/// Bytes that pass after the limit has become zero. Chosen: what a sender with a window of this length
/// has sent before it hears of the limit.
const ON_ITS_WAY: ByteCount = ByteCount::from_mib(64);
/// Longest wait before the limit is looked at again.
const LOOK: Span = Span::from_millis(100);

/// Keeps what a session receives to a limit that may change.
#[derive(Default)]
pub(super) struct Throttle(Mutex<State>);

/// Bytes that have arrived, as the time that they take at the limit.
struct State {
    /// Time at which everything that has arrived would have arrived at exactly the limit.
    due: Time,
    /// Limit by which `due` was found; zero before the first.
    rate: Rate,
    /// Bytes that may still pass at a limit of zero.
    on_its_way: ByteCount,
}

impl Default for State {
    fn default() -> Self {
        Self { due: Time::ORIGIN, rate: Rate::ZERO, on_its_way: ByteCount::ZERO }
    }
}

impl Throttle {
    /// Waits until `length` bytes more, which have arrived since `begun`, conform to the present
    /// `limit`, or until the session `is_over`, which is asked with the time that it may take.
    pub(super) fn wait(
        &self,
        (begun, length): (Time, ByteCount),
        limit: impl Fn() -> Option<Rate>,
        is_over: impl Fn(Span) -> bool,
    ) {
        let mut is_charged = false;
        loop {
            let Some(rate) = limit() else { return self.lock().on_its_way = ON_ITS_WAY };
            let now = clock::now();
            let left = match (rate.is_zero(), is_charged) {
                (true, _) => self.hold(length),
                (false, true) => self.due(now, rate) - now,
                (false, false) => self.charge(begun, now, length, rate) - now,
            };
            is_charged |= !rate.is_zero();
            if left.is_zero() || is_over(left.min(LOOK)) {
                return;
            }
        }
    }

    /// Time until which the thread that has received `length` bytes since `begun` waits at this limit.
    /// Idle time does not count as credit, except for the time that these bytes themselves take.
    fn charge(&self, begun: Time, now: Time, length: ByteCount, rate: Rate) -> Time {
        let takes = length / rate;
        let since = if now - begun > takes { now - takes } else { begun };
        let mut state = self.lock();
        state.change(now, rate);
        state.due = state.due.max(since) + takes;
        state.due
    }

    /// Time at which what has arrived conforms to this limit.
    fn due(&self, now: Time, rate: Rate) -> Time {
        let mut state = self.lock();
        state.change(now, rate);
        state.due
    }

    /// Time to wait while nothing may arrive: none for `length` bytes of what was on its way.
    fn hold(&self, length: ByteCount) -> Span {
        let mut state = self.lock();
        if length > state.on_its_way {
            return LOOK;
        }
        state.on_its_way -= length;
        Span::ZERO
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Goes over to another limit: what is left of the wait is that for as many bytes.
    fn change(&mut self, now: Time, rate: Rate) {
        self.on_its_way = ON_ITS_WAY;
        let left = self.due - now;
        if rate != self.rate && !left.is_zero() {
            self.due = now + left.scaled(self.rate.as_bits_per_second(), rate.as_bits_per_second());
        }
        self.rate = rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_bytes_per_second(1000);

    fn at(milliseconds: u64) -> Time {
        Time::ORIGIN + Span::from_millis(milliseconds)
    }

    #[test]
    fn bytes_are_due_at_the_rate_and_a_pause_is_not_made_up_for() {
        let throttle = Throttle::default();
        let charge = |begun, now, length| throttle.charge(at(begun), at(now), ByteCount::new(length), RATE);
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
    fn another_limit_applies_to_what_is_left_of_the_wait() {
        let throttle = Throttle::default();
        assert_eq!(throttle.charge(at(0), at(0), ByteCount::new(4000), RATE), at(4000));
        assert_eq!(throttle.due(at(1000), RATE * 3), at(2000));
        assert_eq!(throttle.due(at(1500), RATE), at(3000));
        assert!(throttle.due(at(9000), RATE * 2) <= at(9000), "nothing is left");
    }

    #[test]
    fn at_zero_only_what_is_on_its_way_passes_until_the_next_limit() {
        let throttle = Throttle::default();
        let [all, one] = [ON_ITS_WAY, ByteCount::new(1)];
        assert_eq!((throttle.hold(one), throttle.hold(ByteCount::ZERO)), (LOOK, Span::ZERO), "it has begun so");
        throttle.charge(at(0), at(0), one, RATE);
        assert_eq!((throttle.hold(all), throttle.hold(one)), (Span::ZERO, LOOK));
        throttle.wait((Time::ORIGIN, all), || None, |_| panic!("there is no limit"));
        assert_eq!((throttle.hold(all), throttle.hold(one)), (Span::ZERO, LOOK));
    }

    #[test]
    fn nobody_waits_without_a_limit_or_for_a_session_that_is_over() {
        let length = ByteCount::from_mib(4);
        let throttle = Throttle::default();
        throttle.wait((Time::ORIGIN, length), || None, |_| panic!("there is no limit"));
        throttle.wait((Time::ORIGIN, length), || Some(Rate::from_bits_per_second(8)), |_| true);
        let zero = || Some(Rate::ZERO);
        (0..100).for_each(|_| throttle.wait((Time::ORIGIN, length), zero, |_| true));
    }
}
