//! Whether a path carries more than is sent: a train now and then at a higher rate.
//!
//! A train is a moment only, so it may go far above the rate that is held, and what the path does
//! not carry waits in its queue for no longer. At which rate it came is what the path has for the
//! bundle; of three trains the second best is believed, because a host that pauses brings
//! acknowledgements together.

use icdc_units::{Rate, Time};

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
}

impl Search {
    /// One whose first train leaves at `next`.
    pub(super) fn new(next: Time) -> Self {
        Self { train: None, shown: [Rate::ZERO; TRAINS], above: FIRST_ABOVE, next }
    }

    /// The rate in force instead of what is held, while a train leaves.
    pub(super) fn ceiling(&self, capacity: Rate) -> Option<Rate> {
        self.train.as_ref().filter(|train| train.is_leaving()).map(|_| self.above(capacity))
    }

    pub(super) fn next_look(&self, now: Time) -> Option<Time> {
        self.train.as_ref().map(|train| train.next_look(now))
    }

    /// Takes note of the bundle, whose `capacity` is held; returns a higher one if the path has it.
    /// Nothing is tried where `most` would keep a train from its rate. Windows tell nothing of the path
    /// where members `are_coming`: those open at first whatever it carries.
    pub(super) fn look(&mut self, whole: &Whole, capacity: Rate, most: Rate, are_coming: bool) -> Option<Rate> {
        let now = whole.seen.at;
        if most < self.above(capacity) {
            self.train = None;
            return None;
        }
        let rate = self.above(capacity);
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
            Outcome::Carried(went, came) if went >= rate.scaled(FULL.0, FULL.1) => came.min(went),
            // It did not go at its rate. What went is known all the same; where no more went than
            // what is held, the windows may be too small, and only grow while they limit. Where more
            // went and did not come, the path is what limits.
            Outcome::Carried(went, came) if !outcome.is_stretched() => {
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
        let is_more = came > least;
        self.shown.rotate_right(1);
        self.shown[0] = if is_more { came } else { Rate::ZERO };
        let mut shown = self.shown;
        shown.sort_unstable();
        let found = shown[TRAINS - 2];
        if found.is_zero() {
            let is_open = shown[TRAINS - 1] > Rate::ZERO;
            if !is_open {
                (self.next, self.above) = (now + whole.seen.least_rtt * PAUSE, FIRST_ABOVE);
            }
            return None;
        }
        self.shown = [Rate::ZERO; TRAINS];
        self.above = if outcome.is_stretched() { FIRST_ABOVE } else { (self.above / 2).max(LAST_ABOVE) };
        // Acknowledgements that come together, as a busy host sends them, promise anything: no more
        // is believed than one step above what was carried over a whole round trip.
        Some(found.min(whole.carried * 2)).filter(|found| *found > capacity)
    }

    fn above(&self, capacity: Rate) -> Rate {
        capacity + capacity / self.above
    }
}
