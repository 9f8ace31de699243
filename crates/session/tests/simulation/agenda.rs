//! The virtual clock: what happens when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use icdc_units::{Span, Time};

/// Events of type `E` in the order of their times; those of one time in the order in which they were set.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    now: Time,
    set: u64,
    events: BinaryHeap<Reverse<Due<E>>>,
}

#[derive(Debug)]
struct Due<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { now: Time::ORIGIN, set: 0, events: BinaryHeap::new() }
    }
}

impl<E> Agenda<E> {
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Has `event` happen `after` from now.
    pub(crate) fn after(&mut self, after: Span, event: E) {
        self.at(self.now + after, event);
    }

    /// Has `event` happen at a time, now if that is past.
    pub(crate) fn at(&mut self, at: Time, event: E) {
        self.set += 1;
        self.events.push(Reverse(Due { at: at.max(self.now), number: self.set, event }));
    }

    /// The next event; the clock shows its time from then on.
    pub(crate) fn next(&mut self) -> Option<E> {
        let Reverse(due) = self.events.pop()?;
        self.now = due.at;
        Some(due.event)
    }
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
