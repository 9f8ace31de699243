//! Whether a path carries more than is sent: a train now and then at a higher rate.
//!
//! A train is a moment only, so it may go far above the rate that is held, and what the path does
//! not carry waits in its queue for no longer. At which rate it came is what the path has for the
//! bundle; of three trains the second best is believed, because a host that pauses brings
//! acknowledgements together.
//!
//! Where others seem to have taken a good part of what the path carried before, they may go at any
//! time: one train follows another then, at up to twice the rate that is held, and just below what
//! was carried before. One that is stretched counts for nothing then: who was there first would have
//! more than another bundle that came later.

use icdc_units::{Rate, Span, Time};

use super::train::{FULL, Outcome, Train};
use super::whole::Whole;

/// What a train goes above the capacity that is known: one in so many, at first and at last. Each
/// that is carried doubles it.
const FIRST_ABOVE: u64 = 3;
const LAST_ABOVE: u64 = 1;
/// Trains of which the second best is believed.
const TRAINS: usize = 3;
/// Round trips between two trains, after one that has shown nothing new.
const PAUSE: u64 = 4;
/// Trains go so much below what the path has carried before, so that no queue tells that it does again:
/// one in so many.
const BELOW: u64 = 32;
/// A train that was not carried takes so much of that: one in so many.
const DOUBT: u64 = 64;
/// What windows that are too small are given to grow: one in so many.
const ROOM: u64 = 8;
/// What counts as more: one in so many.
const MORE: u64 = 64;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Search {
    train: Option<Train>,
    /// What the last trains have shown, where that was more.
    shown: [Rate; TRAINS],
    /// What the next train goes above the capacity: one in so many.
    above: u64,
    /// When the next one may leave.
    next: Time,
    /// What the path has carried before others came, less what trains since then speak against.
    had: Rate,
}

impl Search {
    /// One whose first train leaves at `next`, on a path that has carried `had`.
    pub(super) fn new(next: Time, had: Rate) -> Self {
        Self { train: None, shown: [Rate::ZERO; TRAINS], above: FIRST_ABOVE, next, had }
    }

    /// This search begun anew, where another capacity is found than the one that was held.
    pub(super) fn anew(&self, whole: &Whole, held: Rate, found: Rate) -> Self {
        let anew = Self::new(whole.settled(), self.had.max(held));
        if anew.others_had(found) { Self { next: whole.seen.at, ..anew } } else { anew }
    }

    /// What the path has carried before others came, as far as is believed.
    pub(super) fn had(&self) -> Rate {
        self.had
    }

    /// The rate in force instead of what is held, while a train leaves.
    pub(super) fn ceiling(&self, capacity: Rate) -> Option<Rate> {
        self.train.as_ref().filter(|train| train.is_leaving()).map(|_| self.rate(capacity))
    }

    pub(super) fn next_look(&self, now: Time) -> Option<Time> {
        self.train.as_ref().map(|train| train.next_look(now))
    }

    /// Takes note of the bundle, whose `capacity` is held; returns a higher one if the path has it.
    /// Nothing is tried where `most` would keep a train from its rate. Windows tell nothing of the path
    /// where members `are_coming`: those open at first whatever it carries.
    pub(super) fn look(&mut self, whole: &Whole, capacity: Rate, most: Rate, are_coming: bool) -> Option<Rate> {
        let now = whole.seen.at;
        let rate = self.rate(capacity);
        if most < rate {
            self.train = None;
            return None;
        }
        let others_had = self.others_had(capacity);
        let Some(train) = &mut self.train else {
            if now >= self.next && !whole.seen.idle {
                self.train = Some(Train::begin(whole, rate));
            }
            return None;
        };
        let outcome = train.look(whole)?;
        self.train = None;
        self.next = now;
        let least = capacity + capacity / MORE;
        let came = match outcome {
            Outcome::Carried(went, came) if went >= self.full(rate, capacity) => came.min(went),
            // It did not go at its rate. What went is known all the same; where no more went than
            // what is held, the windows may be too small, and only grow while they limit. Where more
            // went and did not come, the path is what limits.
            Outcome::Carried(went, came) if !others_had && !outcome.is_stretched() => {
                let found = match went.min(came) {
                    shown if shown > least => shown,
                    _ if went <= least && whole.windows_limit() && !are_coming => {
                        whole.windows().min(capacity + capacity / ROOM)
                    }
                    _ => return None,
                };
                return Some(found.min(whole.carried * 2)).filter(|found| *found > least);
            }
            _ => return None,
        };
        let is_more = came > least && !(others_had && outcome.is_stretched());
        if others_had && !is_more {
            self.had = self.had - self.had / DOUBT;
        }
        self.shown.rotate_right(1);
        self.shown[0] = if is_more { came } else { Rate::ZERO };
        let mut shown = self.shown;
        shown.sort_unstable();
        let found = shown[TRAINS - 2];
        if found.is_zero() {
            let is_open = shown[TRAINS - 1] > Rate::ZERO;
            if !is_open {
                let pause = if self.others_had(capacity) { Span::ZERO } else { whole.seen.least_rtt * PAUSE };
                (self.next, self.above) = (now + pause, FIRST_ABOVE);
            }
            return None;
        }
        self.shown = [Rate::ZERO; TRAINS];
        self.above = if outcome.is_stretched() { FIRST_ABOVE } else { (self.above / 2).max(LAST_ABOVE) };
        // Acknowledgements that come together, as a busy host sends them, promise anything: no more
        // is believed than one step above what was carried over a whole round trip.
        Some(found.min(whole.carried * 2)).filter(|found| *found > capacity)
    }

    /// A train that went at less tells nothing of what it was to have.
    fn full(&self, rate: Rate, capacity: Rate) -> Rate {
        let full = rate.scaled(FULL.0, FULL.1);
        if self.others_had(capacity) { full.min(capacity.scaled(3, 2)) } else { full }
    }

    /// Of the next train.
    fn rate(&self, capacity: Rate) -> Rate {
        if self.others_had(capacity) {
            return (capacity * 2).min(self.had - self.had / BELOW);
        }
        capacity + capacity / self.above
    }

    /// Whether others seem to have a good part of what the path carries.
    fn others_had(&self, capacity: Rate) -> bool {
        capacity < self.had.scaled(3, 4)
    }
}
