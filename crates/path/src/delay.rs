//! Propagation delay, with jitter that never reorders.
//!
//! ```text
//! delivery = max(previous delivery, departure + delay + J),  J uniform in [0, jitter]
//! ```
//!
//! Packets stay in order because they do on one real path; netem's independent delays reorder,
//! which TCP takes for loss.

use icdc_units::{Span, Time};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Propagation delay with jitter, without reordering.
#[derive(Clone, Debug)]
pub struct Delay {
    delay: Span,
    jitter: Span,
    random: ChaCha8Rng,
    previous: Time,
    /// Departure of the packet that was delivered last.
    departed: Time,
    /// Whether packets would have overtaken others since a change of the delay, and are held for
    /// that.
    is_catching_up: bool,
}

impl Delay {
    /// A delay of `delay` to `delay + jitter`.
    #[must_use]
    pub fn new(delay: Span, jitter: Span, seed: u64) -> Self {
        Self {
            delay,
            jitter,
            random: ChaCha8Rng::seed_from_u64(seed),
            previous: Time::ORIGIN,
            departed: Time::ORIGIN,
            is_catching_up: false,
        }
    }

    /// Changes the delay from the next packet on; also called when the rate before it changes. See
    /// [`Change`](crate::Change) for packets that would overtake others.
    pub fn change(&mut self, delay: Span) {
        self.delay = delay;
        self.is_catching_up = true;
    }

    /// Delivery time of a packet that departed at `departure`.
    pub fn deliver(&mut self, departure: Time) -> Time {
        let mut due = departure + self.delay;
        if !self.jitter.is_zero() {
            let share = u128::from(self.random.next_u64());
            due += Span::from_nanos(((share * (u128::from(self.jitter.as_nanos()) + 1)) >> 64) as u64);
        }
        if self.is_catching_up {
            let soonest = self.previous + (departure - self.departed) / 2;
            self.is_catching_up = soonest > due;
            due = due.max(soonest);
        }
        self.departed = departure;
        self.previous = self.previous.max(due);
        self.previous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_jitter_the_delay_is_exact() {
        let mut delay = Delay::new(Span::from_millis(150), Span::ZERO, 1);
        assert_eq!(delay.deliver(Time::from_nanos(7)), Time::from_nanos(150_000_007));
    }

    #[test]
    fn behind_a_route_that_became_shorter_packets_arrive_twice_as_fast_until_they_have_caught_up() {
        let mut delay = Delay::new(Span::from_millis(150), Span::ZERO, 1);
        let mut at = |millis| (delay.deliver(Time::ORIGIN + Span::from_millis(millis)) - Time::ORIGIN).as_millis();
        assert_eq!(at(10), 160);
        delay.change(Span::from_millis(25));
        let mut at = |millis| (delay.deliver(Time::ORIGIN + Span::from_millis(millis)) - Time::ORIGIN).as_millis();
        assert_eq!([at(20), at(110), at(210), at(260), at(300)], [165, 210, 260, 285, 325]);
        delay.change(Span::from_millis(150));
        assert_eq!((delay.deliver(Time::ORIGIN + Span::from_millis(310)) - Time::ORIGIN).as_millis(), 460);
    }

    #[test]
    fn jitter_fills_its_range_and_keeps_the_order() {
        let (base, jitter) = (Span::from_millis(10), Span::from_millis(4));
        // Far apart, so that each draw shows by itself.
        let mut sparse = Delay::new(base, jitter, 7);
        let draws: Vec<Span> = (0..10_000_u64)
            .map(|index| {
                let departure = Time::from_nanos(index * 1_000_000_000);
                sparse.deliver(departure) - departure
            })
            .collect();
        let mean = draws.iter().map(|span| span.as_secs_f64()).sum::<f64>() / draws.len() as f64;
        assert!(draws.iter().all(|&span| span >= base && span <= base + jitter));
        assert!((mean - 0.012).abs() < 0.000_1, "{mean}");
        let mut dense = Delay::new(base, jitter, 7);
        let deliveries: Vec<Time> =
            (0..10_000_u64).map(|index| dense.deliver(Time::from_nanos(index * 12_000))).collect();
        assert!(deliveries.is_sorted());
    }
}
