//! A bundle beside flows that fill every queue: half of the path, instead of what they leave, which
//! is nothing.
//!
//! ```text
//!            the queue stays while           the queue's answer           no queue any more
//!            the rate does                   shows the capacity C         ─────────────────► alone
//!   WAITING ─────────────────────► RISING ────────────────────────► SHARING ◄──── again
//!      │     it drains, or grows   the rate doubles                 C/2; less after losses
//!      └────────────────────► not beside such others
//! ```
//!
//! A flow that fills queues keeps `W` bytes in flight, and `W` changes slowly: what this bundle
//! does not send, that flow sends at once, and the queue stays. Traffic that has a rate of its own
//! leaves what it does not use: the queue drains as soon as the bundle sends less. WAITING
//! distinguishes the two. A route that has become longer looks like the first, until the path
//! carries again what it carried before without the queue growing, or the delivery rate is all that
//! the queue's growth allows for.
//!
//! Beside `W`, a bundle that has `F` in flight sees the round-trip time `(F + W)/C`. So RISING
//! measures the capacity by two of its rates: `C = ΔF/ΔRTT`. This needs no base round-trip time,
//! which a bundle that comes late never sees. If packets are lost or the round-trip time falls, `W`
//! has changed, and the measurement begins again. While the bundle's own windows limit it, it waits
//! until they have grown or more members have joined.
//!
//! SHARING holds half of C. Once in a round trip, with the rate `r` and the share `s` of C that is
//! delivered:
//!
//! ```text
//!   r := r (1 - 3/5 s)            packets were lost, and not in the round trip before
//!   r := r (1 + (1/2 - s)/4)      else, with a queue or s > 1/2
//!   r := r (1 + (1/2 - s))        else, unless r is twice what is delivered already
//! ```
//!
//! At `s = 1/2` losses take 0.3 of the rate, as CUBIC's of its window (RFC 9438, section 4.6). When
//! they hit all flows, the queue may be empty for long: the others grow slowly, and take what a
//! flow that yields leaves them. So a bundle counts as alone after three round trips without a
//! queue only where it delivers 7/16 of C, or where its windows limit it. If a queue makes it
//! reduce to less than that soon after, it competes [again](Compete::remembering), with the C
//! measured before, until losses below 3/8 of that make C doubtful.
//!
//! C is measured best while the bundle's share is small, so a later measurement, after a reduction
//! to half of the rate, is averaged with the earlier one.

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

use super::aggregate::Aggregate;
use crate::path_ceiling::{Reason, standing};

/// Shortest round trip that is judged. Chosen: no test fails and transfer `cubic` does not differ
/// at 10 ms and 40 ms.
const SHORTEST_ROUND: Span = Span::from_millis(20);
/// Round trips of WAITING. The second is the reference; those after it show whether the queue
/// drains, and the last one whether it grows. Chosen: no test fails and transfer `cubic` does not
/// differ at 2 and 8.
const WAITING_ROUNDS: u32 = 4;
/// Least length of a queue that stays, as a part of its length in the reference round trip. Chosen:
/// no test fails and transfer `cubic` does not differ at 7/8 and 1/2.
const LEAST_STANDING_QUEUE: Ratio = Ratio::new(3, 4);
/// Greatest length of a queue that stays, as a multiple of its length in the reference round trip.
/// Chosen: no test fails and transfer `cubic` does not differ at 9/8 and 3/2.
const MOST_STANDING_QUEUE: Ratio = Ratio::new(5, 4);
/// Round trips at one rate in RISING; the last one is measured. Chosen: at 2 transfer `cubic`
/// carries 58 %, not 63 %; at 6 transfer `cubic` carries 51 %, not 63 %.
const RISING_ROUNDS: u32 = 3;
/// Factor of the rate from one step of RISING to the next. Chosen: at 1 test
/// `a_longer_route_is_told_by_what_it_carries` fails (and 3 more tests), transfer `cubic` carries
/// 11 %, not 63 %; at 4 test `a_longer_route_is_told_by_what_it_carries` fails.
const RATE_FACTOR: u64 = 2;
/// Least growth of the round-trip time, as a part of it, from which the capacity is computed.
/// Chosen: at 1/3 transfer `cubic` carries 76 %, not 63 %; at 1/12 no test fails and transfer
/// `cubic` does not differ.
const ANSWER_THRESHOLD: Ratio = Ratio::new(1, 6);
/// Steps of RISING after which the measurement at a lower rate, the reference, is replaced. Chosen:
/// no test fails and transfer `cubic` does not differ at 3 and 12.
const MOST_REFERENCE_AGE: u32 = 6;
/// Times that RISING begins again before it is given up. Chosen: no test fails and transfer `cubic`
/// does not differ at 3 and 12.
const MOST_ATTEMPTS: u32 = 6;
/// Part of its set rate below which what a bundle delivers shows that the members' congestion
/// windows limit it. Chosen: at 7/8 transfer `cubic` carries 70 %, not 63 %; at 1/2 no test fails
/// and transfer `cubic` does not differ.
const CEILING_USE_THRESHOLD: Ratio = Ratio::new(3, 4);
/// Round trips without a queue, in a row in SHARING, after which the other flows count as gone.
/// Chosen: no test fails and transfer `cubic` does not differ at 2 and 6.
const ALONE_ROUNDS: u32 = 3;
/// Round trips after which the capacity is measured again. Chosen: at 192 transfer `cubic` carries
/// 75 %, not 63 %; at 768 no test fails and transfer `cubic` does not differ.
const REMEASURE_ROUNDS: u32 = 384;
/// Part of the capacity, or of what the path carried before the queue came, from which a bundle
/// that carries it is alone: the path has become longer. Chosen: no test fails and transfer `cubic`
/// does not differ at 15/16 and 3/4.
const ALL_OF_CAPACITY: Ratio = Ratio::new(7, 8);
/// A path that carries more than this multiple of what it carried before has a larger capacity than
/// was known: a bundle that came while others filled the queue has never measured it. Chosen: no
/// test fails and transfer `cubic` does not differ at 9/8 and 3/2.
const MOST_OF_BEFORE: Ratio = Ratio::new(5, 4);
/// Greatest change of the round-trip time that counts as none, as a part of the time that the bytes
/// added to those in flight take at the rate carried before the queue came. Chosen: no test fails
/// and transfer `cubic` does not differ at 1/32 and 1/8.
const SILENT_ANSWER: Ratio = Ratio::new(1, 16);
/// Fixed-point unit of shares of the capacity: they are counted in 256ths.
const SHARE_UNIT: u64 = 256;
/// Share of the capacity that SHARING holds, in 256ths: an equal one beside one other flow.
const TARGET_SHARE: u64 = SHARE_UNIT / 2;
/// Part of the rate by which losses reduce it at a share of 1: at a share of a half 0.3, as CUBIC's
/// window (RFC 9438, section 4.6).
const LOSS_REDUCTION: Ratio = Ratio::new(3, 5);
/// Part of the distance to half by which the rate changes in a round trip. Chosen: no test fails
/// and transfer `cubic` does not differ at 1/8 and 1/2.
const CONVERGENCE: Ratio = Ratio::new(1, 4);
/// Part of the distance to half by which the rate changes in a round trip without a queue, where
/// the rest is free. Chosen; not varied.
const FAST_CONVERGENCE: Ratio = Ratio::new(1, 1);
/// Least delay that counts as a queue in SHARING, as a part of the round-trip time. Chosen: no test
/// fails and transfer `cubic` does not differ at 1/32 and 1/8.
const QUEUE_THRESHOLD: Ratio = Ratio::new(1, 16);
/// Share of the capacity from which a bundle may be alone
/// (`one_that_is_again_beside_others_takes_its_half_before_it_is_alone`). Chosen: at 7/32 and 7/8
/// test `one_that_is_again_beside_others_takes_its_half_before_it_is_alone` fails.
const ALONE_SHARE: Ratio = Ratio::new(7, 16);
/// Losses below this share of a remembered capacity make it doubtful
/// (`losses_far_below_half_of_a_remembered_capacity_make_it_doubtful`). Chosen: no test fails and
/// no transfer differs at 3/16 and 3/4.
const DOUBTFUL_SHARE: Ratio = Ratio::new(3, 8);

/// State of COMPETE: the bundle beside flows that fill every queue.
#[derive(Debug)]
pub(super) struct Compete {
    rate: Rate,
    /// Capacity before the queue came, if it is known.
    before: Option<Rate>,
    /// Capacity of the path by the last measurement; `None` before the first.
    capacity: Option<Rate>,
    step: Step,
    round: Option<Round>,
}

/// Step of COMPETE: WAITING shows whether others fill the queue, RISING measures the capacity,
/// SHARING holds half of it.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// WAITING: the rate is held to see whether the queue drains.
    Waiting {
        rounds: u32,
        /// Queue in the reference round trip.
        queue: Span,
    },
    /// RISING: the rate is raised to measure the capacity by the growth of the queue.
    Rising {
        /// Number of round trips at this rate.
        rounds: u32,
        /// Measurement at a lower rate, against which the capacity is computed.
        reference: Option<Reference>,
        /// Times that the measurement began again.
        attempts: u32,
    },
    /// SHARING: half of the measured capacity is held.
    Sharing(Sharing),
}

/// State of SHARING, in which the bundle holds half of the capacity.
#[derive(Clone, Copy, Debug)]
struct Sharing {
    capacity: Rate,
    /// The capacity was measured before the bundle was alone for a while.
    is_remembered: bool,
    rounds: u32,
    /// Losses reduced the rate in the round trip before.
    was_reduced: bool,
    /// Round trips in a row without a queue.
    gone: u32,
}

impl Sharing {
    /// The state at the beginning of SHARING a path of this capacity.
    fn of(capacity: Rate, is_remembered: bool) -> Self {
        Self { capacity, is_remembered, rounds: 0, was_reduced: false, gone: 0 }
    }
}

/// A round trip in progress.
#[derive(Clone, Copy, Debug)]
struct Round {
    begin: Time,
    delivered: ByteCount,
    retransmitted: u64,
    /// Number of updates; `in_flight` and `rtt` are sums over them.
    updates: u64,
    in_flight: ByteCount,
    rtt: Span,
    least_rtt: Span,
}

/// Values of a complete round trip: means of bytes in flight and round-trip time, the least queue,
/// and the delivery rate.
#[derive(Clone, Copy, Debug)]
struct Sample {
    in_flight: ByteCount,
    rtt: Span,
    queue: Span,
    delivered: Rate,
    has_lost: bool,
    /// Least round-trip time of the path.
    base: Span,
}

/// A measurement at a lower rate, and how many steps ago it was.
#[derive(Clone, Copy, Debug)]
struct Reference {
    seen: Sample,
    age: u32,
}

/// Change that a complete round trip of COMPETE brings: another rate, or the end of COMPETE for one
/// of these reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// COMPETE continues at another rate, for this reason.
    Continue(Reason),
    /// The others do not fill the queue: the rate that they leave is to be found.
    Inelastic,
    /// Losses contradict the measured capacity, or prevent its measurement: the rate that others
    /// leave is to be found.
    Doubtful,
    /// The others have gone; this rate was delivered last.
    Alone(Rate),
    /// The path has become longer by this time, and carries what it carried before.
    Longer(Span),
}

impl Compete {
    /// Begins COMPETE with its first step, WAITING, at `rate`; `before` is the capacity that was
    /// known until now.
    pub(super) fn new(rate: Rate, before: Option<Rate>) -> Self {
        let step = Step::Waiting { rounds: 0, queue: Span::ZERO };
        Self { rate, before, capacity: None, step, round: None }
    }

    /// COMPETE from SHARING on, at `rate`, on a path whose `capacity` was measured before.
    pub(super) fn remembering(rate: Rate, capacity: Rate) -> Self {
        let step = Step::Sharing(Sharing::of(capacity, true));
        Self { rate, before: None, capacity: Some(capacity), step, round: None }
    }

    /// Capacity of the path; `None` while it has not been measured.
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    /// Ceiling of the bundle's total rate at present.
    pub(super) fn ceiling(&self) -> Rate {
        self.rate
    }

    /// Whether it is certain that other flows fill the queue; not in WAITING.
    pub(super) fn is_sure(&self) -> bool {
        !matches!(self.step, Step::Waiting { .. })
    }

    /// Processes the sum over the bundle; returns the change that a complete round trip brings,
    /// `None` if it brings none or is not complete.
    pub(super) fn update(&mut self, aggregate: &Aggregate) -> Option<Transition> {
        let seen = self.note(aggregate)?;
        match self.step {
            Step::Waiting { rounds, queue } => self.on_waiting_round(&seen, rounds + 1, queue),
            Step::Rising { rounds, reference, attempts } => {
                self.on_rising_round(&seen, rounds + 1, reference, attempts)
            }
            Step::Sharing(sharing) => self.on_sharing_round(&seen, sharing),
        }
    }

    /// Adds an update to the round trip in progress; returns its values when it ends, `None`
    /// before, and if the sender then has nothing to send.
    fn note(&mut self, aggregate: &Aggregate) -> Option<Sample> {
        let Aggregate { seen: sum, usual_rtt, .. } = *aggregate;
        let fresh = Round {
            begin: sum.at,
            delivered: sum.delivered,
            retransmitted: sum.retransmitted,
            updates: 0,
            in_flight: ByteCount::ZERO,
            rtt: Span::ZERO,
            least_rtt: Span::MAX,
        };
        let round = self.round.get_or_insert(fresh);
        round.updates += 1;
        round.in_flight += aggregate.in_flight();
        round.rtt += usual_rtt;
        round.least_rtt = round.least_rtt.min(usual_rtt);
        let span = sum.at - round.begin;
        if span < usual_rtt.max(SHORTEST_ROUND) {
            return None;
        }
        let round = *round;
        self.round = Some(fresh);
        // A sender that has nothing to send measures nothing.
        (!sum.idle).then(|| Sample {
            in_flight: round.in_flight / round.updates,
            rtt: round.rtt / round.updates,
            queue: round.least_rtt - sum.least_rtt,
            delivered: (sum.delivered - round.delivered) / span,
            has_lost: sum.retransmitted > round.retransmitted,
            base: sum.least_rtt,
        })
    }

    /// Step of WAITING after a round trip: ends COMPETE if the queue drains or grows while the rate
    /// is held, begins RISING if it stays; `None` while neither is known.
    fn on_waiting_round(&mut self, seen: &Sample, rounds: u32, queue: Span) -> Option<Transition> {
        let queue = if rounds <= WAITING_ROUNDS / 2 { seen.queue } else { queue };
        self.step = Step::Waiting { rounds, queue };
        let drains = seen.queue < queue * LEAST_STANDING_QUEUE || seen.queue < standing(seen.base);
        let is_over = rounds >= WAITING_ROUNDS;
        if drains || (is_over && seen.queue > queue * MOST_STANDING_QUEUE) {
            return Some(Transition::Inelastic);
        }
        if !is_over {
            return None;
        }
        self.next_rate(Reference { seen: *seen, age: 0 }, false, 0)
    }

    /// Step of RISING after a round trip: computes the capacity from the growth of the round-trip
    /// time with the bytes in flight, and begins SHARING, or goes on. `None` if there is no change
    /// to report.
    fn on_rising_round(
        &mut self,
        seen: &Sample,
        rounds: u32,
        reference: Option<Reference>,
        attempts: u32,
    ) -> Option<Transition> {
        if seen.has_lost {
            // Losses of one burst are detected over two round trips.
            let attempts = attempts + u32::from(reference.is_some());
            self.rate = self.rate.min(seen.delivered * RATE_FACTOR);
            self.step = Step::Rising { rounds: 0, reference: None, attempts };
            return (attempts > MOST_ATTEMPTS).then_some(Transition::Doubtful);
        }
        self.step = Step::Rising { rounds, reference, attempts };
        if rounds < RISING_ROUNDS {
            return None;
        }
        let fresh = Reference { seen: *seen, age: 0 };
        let is_held = seen.delivered < self.rate * CEILING_USE_THRESHOLD;
        let Some(Reference { seen: before, age }) = reference else { return self.next_rate(fresh, is_held, attempts) };
        if self.is_as_before(seen, &before) {
            return Some(Transition::Longer(seen.queue));
        }
        if seen.rtt <= before.rtt || seen.in_flight <= before.in_flight || age >= MOST_REFERENCE_AGE {
            return self.next_rate(fresh, is_held, attempts);
        }
        let answer = seen.rtt - before.rtt;
        if answer >= before.rtt * ANSWER_THRESHOLD {
            let capacity = (seen.in_flight - before.in_flight) / answer;
            if seen.delivered >= capacity * ALL_OF_CAPACITY {
                return Some(Transition::Longer(before.queue));
            }
            return Some(self.settle(capacity));
        }
        if seen.queue < standing(seen.base) {
            return Some(Transition::Alone(seen.delivered));
        }
        self.next_rate(Reference { seen: before, age: age + 1 }, is_held, attempts)
    }

    /// Whether the path carries what it carried before the queue came, and the queue does not grow
    /// with the bytes in flight; false if the former is unknown.
    fn is_as_before(&self, seen: &Sample, before: &Sample) -> bool {
        let Some(carried) = self.before else { return false };
        let added = seen.in_flight - before.in_flight;
        let change = seen.rtt.max(before.rtt) - seen.rtt.min(before.rtt);
        let is_as_much = carried * ALL_OF_CAPACITY <= seen.delivered && seen.delivered <= carried * MOST_OF_BEFORE;
        is_as_much && change < added / carried * SILENT_ANSWER
    }

    /// Keeps `reference` to compare with, and doubles the rate of RISING; `None`, and the rate
    /// stays, if `is_held`: the members' windows keep the bundle below the present rate.
    fn next_rate(&mut self, reference: Reference, is_held: bool, attempts: u32) -> Option<Transition> {
        self.step = Step::Rising { rounds: 0, reference: Some(reference), attempts };
        if is_held {
            return None;
        }
        self.rate = self.rate * RATE_FACTOR;
        Some(Transition::Continue(Reason::QueueStays))
    }

    /// Begins SHARING with the measured capacity.
    fn settle(&mut self, measured: Rate) -> Transition {
        let capacity = self.capacity.map_or(measured, |known| (known + measured) / 2);
        self.capacity = Some(capacity);
        self.rate = capacity / 2;
        self.step = Step::Sharing(Sharing::of(capacity, false));
        Transition::Continue(Reason::ShareFound)
    }

    /// Step of SHARING after a round trip: sets the rate to hold half of the capacity. Returns only
    /// changes for losses, a new measurement, or the end of SHARING; `None` for all others.
    fn on_sharing_round(&mut self, seen: &Sample, sharing: Sharing) -> Option<Transition> {
        let Sharing { capacity, is_remembered, rounds, was_reduced, gone } = sharing;
        let has_queue = seen.queue >= standing(seen.base).max(seen.base * QUEUE_THRESHOLD);
        let share =
            (seen.delivered.as_bits_per_second() * SHARE_UNIT / capacity.as_bits_per_second().max(1)).min(SHARE_UNIT);
        let is_held = seen.delivered < self.rate * CEILING_USE_THRESHOLD;
        let gone = if !has_queue && (share >= SHARE_UNIT * ALONE_SHARE || is_held) { gone + 1 } else { 0 };
        if gone >= ALONE_ROUNDS {
            return Some(Transition::Alone(seen.delivered));
        }
        let is_reduced = seen.has_lost && !was_reduced;
        if is_reduced && is_remembered && share < SHARE_UNIT * DOUBTFUL_SHARE {
            return Some(Transition::Doubtful);
        }
        if is_reduced {
            self.rate -= self.rate * LOSS_REDUCTION.times(share, SHARE_UNIT);
        } else if share > TARGET_SHARE {
            self.rate -= self.rate * CONVERGENCE.times(share - TARGET_SHARE, SHARE_UNIT);
        } else if self.rate < seen.delivered * RATE_FACTOR {
            let speed = if has_queue { CONVERGENCE } else { FAST_CONVERGENCE };
            self.rate += self.rate * speed.times(TARGET_SHARE - share, SHARE_UNIT);
        }
        let rounds = rounds + 1;
        self.step = Step::Sharing(Sharing { rounds, was_reduced: is_reduced, gone, ..sharing });
        if rounds >= REMEASURE_ROUNDS && !seen.has_lost {
            self.rate = self.rate / RATE_FACTOR;
            self.step = Step::Rising { rounds: 0, reference: None, attempts: 0 };
            return Some(Transition::Continue(Reason::QueueStays));
        }
        is_reduced.then_some(Transition::Continue(Reason::Losses))
    }
}

#[cfg(test)]
mod tests;
