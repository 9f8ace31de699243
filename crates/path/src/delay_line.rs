//! Packets in transit with their delivery times, first in, first out.

use std::collections::VecDeque;

use icdc_units::Time;

/// Queue of the packets of type `P` that are in transit in one direction, each with its
/// delivery time, first in, first out. They must be added in the order of their delivery
/// times, as one [`Direction`](crate::Direction) gives them; only debug builds check
/// this.
#[derive(Clone, Debug)]
pub struct DelayLine<P> {
    waiting: VecDeque<(Time, P)>,
}

impl<P> Default for DelayLine<P> {
    fn default() -> Self {
        Self { waiting: VecDeque::new() }
    }
}

impl<P> DelayLine<P> {
    /// Puts a packet that is due at `due` behind all others.
    pub fn push(&mut self, due: Time, packet: P) {
        debug_assert!(self.waiting.back().is_none_or(|(before, _)| *before <= due), "deliveries are in order");
        self.waiting.push_back((due, packet));
    }

    /// Delivery time of the next packet; `None` if none is in transit.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// The next packet if it is due at `now`, with the time at which it was due; `None` if none is.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, P)> {
        self.next_due().filter(|due| *due <= now)?;
        self.waiting.pop_front()
    }

    /// Number of packets in transit.
    #[must_use]
    pub fn held(&self) -> usize {
        self.waiting.len()
    }
}
