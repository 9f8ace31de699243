//! Search for a higher capacity while the rate is held: trains at a higher rate, at intervals.
//!
//! A train is short, so it may go far above the rate that is held: what the path does not carry
//! waits in its queue only briefly. The rate at which it arrives is what the path has for the
//! bundle. Of three trains the second best counts, because a host that pauses brings
//! acknowledgements together.
//!
//! Where other traffic seems to have taken a good part of what the path carried before, it may end
//! at any time. One train then follows another, at up to twice the rate that is held, and just
//! below what was carried before. A train that was stretched does not count then: otherwise the
//! bundle that came first would keep more than one that came later.

use icdc_units::{Rate, Ratio, Span, Time};

use super::aggregate::Aggregate;
use super::train::{FULL_RATE, Outcome, Train};

/// Divisor of the capacity that gives a train's step above it at first; each higher capacity that
/// is found halves the divisor. Chosen: at 6 transfer `onoff` carries 70 %, not 66 %; at 2 no test
/// fails and transfers `stock` and `onoff` do not differ.
const FIRST_STEP_DIVISOR: u64 = 3;
/// Divisor of the capacity that gives a train's largest step above it. Chosen: at 2 transfer
/// `onoff` carries 70 %, not 66 %.
const LAST_STEP_DIVISOR: u64 = 1;
/// Trains of which the second best counts: a host that pauses makes one look too fast. Chosen; not
/// varied.
const TRAINS: usize = 3;
/// Round trips between two trains, after one that has shown nothing new. Chosen: no test fails and
/// transfers `stock` and `onoff` do not differ at 2 and 8.
const ROUNDS_BETWEEN_TRAINS: u64 = 4;
/// Margin by which trains stay below the capacity of before, so that no queue shows when the path
/// has it again. Chosen: no test fails and transfers `stock` and `onoff` do not differ at 1/64 and
/// 1/16.
const RETURN_MARGIN: Ratio = Ratio::new(1, 32);
/// Part by which a train that was not carried lowers the estimated capacity before other traffic
/// came. Chosen: at 1/32 transfer `onoff` drops 19,034 packets, not 12,116; at 1/128 no test fails
/// and transfers `stock` and `onoff` do not differ.
const FAILED_TRAIN_PENALTY: Ratio = Ratio::new(1, 64);
/// Part of the capacity by which it is raised where the windows are too small to show more, so that
/// they can grow. Chosen: no test fails and transfers `stock` and `onoff` do not differ at 1/16 and
/// 1/4.
const WINDOW_HEADROOM: Ratio = Ratio::new(1, 8);
/// Least part by which a higher capacity exceeds the known one. Chosen: no test fails at 1/128 and
/// 1/32.
const LEAST_GAIN: Ratio = Ratio::new(1, 64);
/// Greatest multiple of the rate carried over a whole round trip that a train can show: a busy host
/// sends acknowledgements in bunches, which promise any rate. Chosen: no test fails at 1 and 4.
const MOST_GAIN: u64 = 2;
/// Greatest multiple of the capacity at which trains go beside other traffic. Chosen: no test fails
/// at 1 and 4.
const SHARED_TRAIN_FACTOR: u64 = 2;
/// Part of the capacity before other traffic came, below which the present capacity shows that such
/// traffic has a good part of the path. Chosen: no test fails at 7/8 and 1/2.
const SHARED_THRESHOLD: Ratio = Ratio::new(3, 4);
/// Multiple of the capacity at which a train shows enough beside other traffic. Chosen: no test
/// fails at 5/4 and 2.
const FULL_SHARED_RATE: Ratio = Ratio::new(3, 2);

/// State of the search for a higher capacity.
#[derive(Debug)]
pub(super) struct Search {
    train: Option<Train>,
    /// Rates that the last trains have shown; zero where that was no more than the capacity.
    shown: [Rate; TRAINS],
    /// The rate of the next train is `capacity / divisor` above the capacity.
    divisor: u64,
    /// Earliest time of the next train.
    next: Time,
    /// Capacity before other traffic came, lowered by trains that contradict it.
    carried_before: Rate,
}

impl Search {
    /// A search whose first train leaves at `next`, on a path that has carried `carried_before`.
    pub(super) fn new(next: Time, carried_before: Rate) -> Self {
        Self { train: None, shown: [Rate::ZERO; TRAINS], divisor: FIRST_STEP_DIVISOR, next, carried_before }
    }

    /// A new search after the capacity `held` has been replaced by `found`.
    pub(super) fn anew(&self, aggregate: &Aggregate, held: Rate, found: Rate) -> Self {
        let anew = Self::new(aggregate.settled(), self.carried_before.max(held));
        if anew.is_shared(found) { Self { next: aggregate.seen.at, ..anew } } else { anew }
    }

    /// Estimate of the capacity before other traffic came.
    pub(super) fn carried_before(&self) -> Rate {
        self.carried_before
    }

    /// Rate of the train that is leaving; `None` while none is.
    pub(super) fn ceiling(&self, capacity: Rate) -> Option<Rate> {
        self.train.as_ref().filter(|train| train.is_leaving()).map(|_| self.rate(capacity))
    }

    /// Time of the next update; `None` between trains.
    pub(super) fn next_update(&self, now: Time) -> Option<Time> {
        self.train.as_ref().map(|train| train.next_update(now))
    }

    /// Processes the sum over the bundle, which holds `capacity`; returns a higher one if the path
    /// has it, else `None`. No train is sent where `most` is below its rate. While new members
    /// `are_joining`, windows say nothing about the path: they grow at first whatever it carries.
    pub(super) fn update(
        &mut self,
        aggregate: &Aggregate,
        capacity: Rate,
        most: Option<Rate>,
        are_joining: bool,
    ) -> Option<Rate> {
        let now = aggregate.seen.at;
        let rate = self.rate(capacity);
        if most.is_some_and(|most| most < rate) {
            self.train = None;
            return None;
        }
        let Some(train) = &mut self.train else {
            if now >= self.next && !aggregate.seen.idle {
                self.train = Some(Train::begin(aggregate, rate));
            }
            return None;
        };
        let outcome = train.update(aggregate)?;
        self.train = None;
        self.next = now;
        match outcome {
            Outcome::Carried(went, came) if went >= self.full(rate, capacity) => {
                self.on_full_train(aggregate, capacity, outcome, came.min(went))
            }
            Outcome::Carried(went, came) if !self.is_shared(capacity) && !outcome.is_stretched() => {
                Self::by_slow_train(aggregate, capacity, went, came, are_joining)
            }
            Outcome::Carried(..) | Outcome::Nothing => None,
        }
    }

    /// Higher capacity by a train that left more slowly than intended: the rate at which it `went`
    /// is known all the same. Where it went no faster than what is held, the windows may be too
    /// small, and they grow only while they limit the rate. Where it went faster and did not arrive
    /// as fast, the path limits. `None` if the capacity is not higher.
    fn by_slow_train(aggregate: &Aggregate, capacity: Rate, went: Rate, came: Rate, are_joining: bool) -> Option<Rate> {
        let least = capacity + capacity * LEAST_GAIN;
        let found = match went.min(came) {
            shown if shown > least => shown,
            _ if went <= least && aggregate.windows_limit() && !are_joining => {
                aggregate.windows().min(capacity + capacity * WINDOW_HEADROOM)
            }
            _ => return None,
        };
        Some(found.min(aggregate.carried * MOST_GAIN)).filter(|found| *found > least)
    }

    /// Higher capacity by the last trains, of which the latest one left at its full rate and showed
    /// `came`; `None` as long as they show none.
    fn on_full_train(&mut self, aggregate: &Aggregate, capacity: Rate, outcome: Outcome, came: Rate) -> Option<Rate> {
        let is_shared = self.is_shared(capacity);
        let is_more = came > capacity + capacity * LEAST_GAIN && !(is_shared && outcome.is_stretched());
        if is_shared && !is_more {
            self.carried_before = self.carried_before - self.carried_before * FAILED_TRAIN_PENALTY;
        }
        self.shown.rotate_right(1);
        self.shown[0] = if is_more { came } else { Rate::ZERO };
        let mut shown = self.shown;
        shown.sort_unstable();
        let found = shown[TRAINS - 2];
        if found.is_zero() {
            let is_open = shown[TRAINS - 1] > Rate::ZERO;
            if !is_open {
                let is_shared = self.is_shared(capacity);
                let pause = if is_shared { Span::ZERO } else { aggregate.seen.least_rtt * ROUNDS_BETWEEN_TRAINS };
                (self.next, self.divisor) = (aggregate.seen.at + pause, FIRST_STEP_DIVISOR);
            }
            return None;
        }
        self.shown = [Rate::ZERO; TRAINS];
        self.divisor =
            if outcome.is_stretched() { FIRST_STEP_DIVISOR } else { (self.divisor / 2).max(LAST_STEP_DIVISOR) };
        Some(found.min(aggregate.carried * MOST_GAIN)).filter(|found| *found > capacity)
    }

    /// Least rate at which a train intended for `rate` must have left to show whether the path
    /// carries that.
    fn full(&self, rate: Rate, capacity: Rate) -> Rate {
        let full = rate * FULL_RATE;
        if self.is_shared(capacity) { full.min(capacity * FULL_SHARED_RATE) } else { full }
    }

    /// Rate of the next train, above the capacity known so far.
    fn rate(&self, capacity: Rate) -> Rate {
        if self.is_shared(capacity) {
            return (capacity * SHARED_TRAIN_FACTOR).min(self.carried_before - self.carried_before * RETURN_MARGIN);
        }
        capacity + capacity / self.divisor
    }

    /// Whether other traffic seems to have a good part of what the path carries.
    fn is_shared(&self, capacity: Rate) -> bool {
        capacity < self.carried_before * SHARED_THRESHOLD
    }
}
