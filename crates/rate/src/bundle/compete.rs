//! Beside others that fill every queue: half of the path instead of what they leave, which is nothing.
//!
//! ```text
//!            the queue stays while           the queue's answer           no queue any more
//!            the rate does                   tells the capacity C         ─────────────────► alone
//!   WAITING ─────────────────────► RISING ────────────────────────► SHARING ◄──── again
//!      │     it drains, or grows   the rate doubles                 C/2; less after losses
//!      └────────────────────► not beside such others
//! ```
//!
//! A connection that fills queues keeps `W` bytes under way, which change slowly: less sent by us is
//! more sent by it, at once, and the queue stays. Traffic of a rate of its own leaves what it does
//! not use: the queue drains as soon as less is sent. That is what WAITING tells apart. A route that
//! has become longer looks the same, until what the path carried before is carried again without an
//! answer of the queue, or what is delivered is all that the queue's answer tells the path to have.
//!
//! Beside `W`, a bundle that has `F` under way sees the round-trip time `(F + W)/C`. So RISING takes
//! the capacity from two of its rates: `C = ΔF/ΔRTT`. No base round-trip time enters, which one that
//! comes late never sees. Where packets are lost, or the round-trip time falls, `W` has changed, and
//! it begins anew from there. Where its windows hold the bundle, it waits until they have grown, or
//! until more members have come.
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
//! At `s = 1/2` losses take 0.3 of the rate, as of CUBIC's window (RFC 9438, section 4.6). When they
//! hit everybody, the queue may be empty for long: those others grow slowly, and take what one that
//! yields leaves them. So a bundle is alone after three round trips without a queue only where it
//! delivers 7/16 of C, or where its windows hold it. If a queue makes one that was alone reduce to
//! less than that soon after, it is beside them [again](Compete::remembering), with the C of before,
//! until losses below 3/8 of that make it doubtful.
//!
//! C is measured best while the bundle's share is small, so one that is measured later, after a dip
//! to half of the rate, only counts as much as what was known.

use icdc_units::{ByteCount, Rate, Span, Time};

use super::whole::Whole;
use crate::path_ceiling::{Reason, standing};

/// Shortest round trip that is looked at.
const SHORTEST: Span = Span::from_millis(20);
/// Round trips of WAITING: the first shows what was before; those after the second are compared with
/// it, and whether the queue grows only the last one tells.
const WAITS: u32 = 4;
/// A queue that stays is between these shares of what it was.
const STAYS: ((u64, u64), (u64, u64)) = ((3, 4), (5, 4));
/// Round trips of one rate in RISING; the last one is measured.
const STEP: u32 = 3;
/// What the rate becomes with each step.
const FACTOR: u64 = 2;
/// Growth of the round-trip time that tells the capacity: one in so many.
const ANSWER: u64 = 6;
/// Steps of RISING after which what was seen first is too old to be compared with.
const AGE: u32 = 6;
/// Times that RISING begins anew before it is given up.
const ATTEMPTS: u32 = 6;
/// A bundle that carries less than this share of its rate is held by its windows.
const HELD: (u64, u64) = (3, 4);
/// Round trips without a queue after which the others have gone.
const GONE: u32 = 3;
/// Round trips after which the capacity is measured anew.
const LONGEST: u32 = 384;
/// A path that carries this share of its capacity, or of what it carried before the queue came, has
/// nobody else on it.
const NEARLY_ALL: (u64, u64) = (7, 8);
/// A path that carries more than this multiple of what it carried before has more than it seemed to
/// have: one that came while others filled the queue has never seen what it carries.
const AS_MUCH: (u64, u64) = (5, 4);
/// A queue whose answer is less than it would be on a path of so many times what it carried before
/// does not answer.
const SILENT: u64 = 16;
/// Shares of the capacity are counted in 256ths.
const WHOLE: u64 = 256;
/// The share that is held, in 256ths.
const HALF: u64 = WHOLE / 2;
/// What losses take of the rate, for each 256th of the share.
const LOST: (u64, u64) = (3, 5 * WHOLE);
/// Speed at which the rate follows: one in so many for each round trip.
const FOLLOWS: u64 = 4;
/// A queue in SHARING is at least one in so many of the round trip.
const QUEUE: u64 = 16;
/// Share of the capacity from which a bundle may be alone, in 256ths.
const DUE: u64 = WHOLE * 7 / 16;
/// Losses below this share of a remembered capacity make that doubtful, in 256ths.
const DOUBTFUL: u64 = WHOLE * 3 / 8;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Compete {
    rate: Rate,
    /// What the path carried before the queue came, if that is known.
    before: Option<Rate>,
    /// As measured last.
    capacity: Option<Rate>,
    stage: Stage,
    round: Option<Round>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Waiting {
        rounds: u32,
        /// The queue in the first round trip that counts.
        queue: Span,
    },
    Rising {
        /// Round trips of this rate.
        rounds: u32,
        /// What a lower rate has shown.
        reference: Option<Reference>,
        /// How often it began anew.
        attempts: u32,
    },
    Sharing(Sharing),
}

#[derive(Clone, Copy, Debug)]
struct Sharing {
    capacity: Rate,
    /// The capacity was measured before the bundle was alone.
    is_remembered: bool,
    rounds: u32,
    /// Losses have reduced the rate in the round trip before.
    was_reduced: bool,
    /// Round trips in a row without a queue.
    gone: u32,
}

impl Sharing {
    /// Begins.
    fn of(capacity: Rate, is_remembered: bool) -> Self {
        Self { capacity, is_remembered, rounds: 0, was_reduced: false, gone: 0 }
    }
}

/// A round trip under way.
#[derive(Clone, Copy, Debug)]
struct Round {
    begin: Time,
    delivered: ByteCount,
    retransmitted: u64,
    looks: u64,
    under_way: ByteCount,
    rtt: Span,
    /// The shortest.
    least: Span,
}

/// What a round trip has shown, in the mean.
#[derive(Clone, Copy, Debug)]
struct Seen {
    under_way: ByteCount,
    rtt: Span,
    queue: Span,
    delivered: Rate,
    has_lost: bool,
    base: Span,
}

/// What was seen at a lower rate, and how many steps ago.
#[derive(Clone, Copy, Debug)]
struct Reference {
    seen: Seen,
    age: u32,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It goes on, for this reason at another rate.
    On(Reason),
    /// The others do not fill the queue: what they leave is to be found.
    Inelastic,
    /// Losses contradict what was measured, or let nothing be measured: what others leave is to be
    /// found.
    Doubtful,
    /// The others have gone; the path has carried this rate beside them.
    Alone(Rate),
    /// The queue is none: the path carries what it carried before.
    Longer(Span),
}

impl Compete {
    /// Begins with WAITING, at `rate`, on a path that carried `before`, if that is known.
    pub(super) fn new(rate: Rate, before: Option<Rate>) -> Self {
        let stage = Stage::Waiting { rounds: 0, queue: Span::ZERO };
        Self { rate, before, capacity: None, stage, round: None }
    }

    /// Begins with SHARING, at `rate`, on a path of which the `capacity` was measured.
    pub(super) fn remembering(rate: Rate, capacity: Rate) -> Self {
        let stage = Stage::Sharing(Sharing::of(capacity, true));
        Self { rate, before: None, capacity: Some(capacity), stage, round: None }
    }

    /// What the path carries, if that was measured.
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    pub(super) fn ceiling(&self) -> Rate {
        self.rate
    }

    /// Whether there are others that fill the queue.
    pub(super) fn is_sure(&self) -> bool {
        !matches!(self.stage, Stage::Waiting { .. })
    }

    /// Takes note of the bundle.
    pub(super) fn look(&mut self, whole: &Whole) -> Option<Turn> {
        let seen = self.note(whole)?;
        match self.stage {
            Stage::Waiting { rounds, queue } => self.wait(&seen, rounds + 1, queue),
            Stage::Rising { rounds, reference, attempts } => self.rise(&seen, rounds + 1, reference, attempts),
            Stage::Sharing(sharing) => self.share(&seen, sharing),
        }
    }

    /// Counts; what a round trip has shown once it is over.
    fn note(&mut self, whole: &Whole) -> Option<Seen> {
        let Whole { seen: sum, usual_rtt, .. } = *whole;
        let fresh = Round {
            begin: sum.at,
            delivered: sum.delivered,
            retransmitted: sum.retransmitted,
            looks: 0,
            under_way: ByteCount::ZERO,
            rtt: Span::ZERO,
            least: Span::MAX,
        };
        let round = self.round.get_or_insert(fresh);
        round.looks += 1;
        round.under_way += whole.under_way();
        round.rtt += usual_rtt;
        round.least = round.least.min(usual_rtt);
        let span = sum.at - round.begin;
        if span < usual_rtt.max(SHORTEST) {
            return None;
        }
        let round = *round;
        self.round = Some(fresh);
        // A sender that has nothing to send learns nothing.
        (!sum.idle).then(|| Seen {
            under_way: round.under_way / round.looks,
            rtt: round.rtt / round.looks,
            queue: round.least - sum.least_rtt,
            delivered: (sum.delivered - round.delivered) / span,
            has_lost: sum.retransmitted > round.retransmitted,
            base: sum.least_rtt,
        })
    }

    fn wait(&mut self, seen: &Seen, rounds: u32, queue: Span) -> Option<Turn> {
        let queue = if rounds <= WAITS / 2 { seen.queue } else { queue };
        self.stage = Stage::Waiting { rounds, queue };
        let (least, most) = STAYS;
        let drains = seen.queue < queue.scaled(least.0, least.1) || seen.queue < standing(seen.base);
        let is_over = rounds >= WAITS;
        if drains || (is_over && seen.queue > queue.scaled(most.0, most.1)) {
            return Some(Turn::Inelastic);
        }
        if !is_over {
            return None;
        }
        self.step(Reference { seen: *seen, age: 0 }, false, 0)
    }

    fn rise(&mut self, seen: &Seen, rounds: u32, reference: Option<Reference>, attempts: u32) -> Option<Turn> {
        if seen.has_lost {
            // A burst of losses is found in two round trips.
            let attempts = attempts + u32::from(reference.is_some());
            self.rate = self.rate.min(seen.delivered * FACTOR);
            self.stage = Stage::Rising { rounds: 0, reference: None, attempts };
            return (attempts > ATTEMPTS).then_some(Turn::Doubtful);
        }
        self.stage = Stage::Rising { rounds, reference, attempts };
        if rounds < STEP {
            return None;
        }
        let fresh = Reference { seen: *seen, age: 0 };
        let is_held = seen.delivered < self.rate.scaled(HELD.0, HELD.1);
        let Some(Reference { seen: before, age }) = reference else { return self.step(fresh, is_held, attempts) };
        if self.is_as_before(seen, &before) {
            return Some(Turn::Longer(seen.queue));
        }
        if seen.rtt <= before.rtt || seen.under_way <= before.under_way || age >= AGE {
            return self.step(fresh, is_held, attempts);
        }
        let answer = seen.rtt - before.rtt;
        if answer >= before.rtt / ANSWER {
            let capacity = (seen.under_way - before.under_way) / answer;
            if seen.delivered >= capacity.scaled(NEARLY_ALL.0, NEARLY_ALL.1) {
                return Some(Turn::Longer(before.queue));
            }
            return Some(self.settle(capacity));
        }
        if seen.queue < standing(seen.base) {
            return Some(Turn::Alone(seen.delivered));
        }
        self.step(Reference { seen: before, age: age + 1 }, is_held, attempts)
    }

    /// Whether the path carries what it carried before the queue came, and that does not answer to
    /// what is added.
    fn is_as_before(&self, seen: &Seen, before: &Seen) -> bool {
        let Some(carried) = self.before else { return false };
        let added = seen.under_way - before.under_way;
        let change = seen.rtt.max(before.rtt) - seen.rtt.min(before.rtt);
        let is_as_much = carried.scaled(NEARLY_ALL.0, NEARLY_ALL.1) <= seen.delivered
            && seen.delivered <= carried.scaled(AS_MUCH.0, AS_MUCH.1);
        is_as_much && change < added / carried / SILENT
    }

    /// The next rate of RISING, unless the windows hold the bundle below the present one.
    fn step(&mut self, reference: Reference, is_held: bool, attempts: u32) -> Option<Turn> {
        self.stage = Stage::Rising { rounds: 0, reference: Some(reference), attempts };
        if is_held {
            return None;
        }
        self.rate = self.rate * FACTOR;
        Some(Turn::On(Reason::QueueStays))
    }

    fn settle(&mut self, measured: Rate) -> Turn {
        let capacity = self.capacity.map_or(measured, |known| (known + measured) / 2);
        self.capacity = Some(capacity);
        self.rate = capacity / 2;
        self.stage = Stage::Sharing(Sharing::of(capacity, false));
        Turn::On(Reason::ShareFound)
    }

    fn share(&mut self, seen: &Seen, sharing: Sharing) -> Option<Turn> {
        let Sharing { capacity, is_remembered, rounds, was_reduced, gone } = sharing;
        let has_queue = seen.queue >= standing(seen.base).max(seen.base / QUEUE);
        let share = (seen.delivered.as_bits_per_second() * WHOLE / capacity.as_bits_per_second().max(1)).min(WHOLE);
        let is_held = seen.delivered < self.rate.scaled(HELD.0, HELD.1);
        let gone = if !has_queue && (share >= DUE || is_held) { gone + 1 } else { 0 };
        if gone >= GONE {
            return Some(Turn::Alone(seen.delivered));
        }
        let is_reduced = seen.has_lost && !was_reduced;
        if is_reduced && is_remembered && share < DOUBTFUL {
            return Some(Turn::Doubtful);
        }
        if is_reduced {
            self.rate -= self.rate.scaled(share * LOST.0, LOST.1);
        } else if share > HALF {
            self.rate -= self.rate.scaled(share - HALF, WHOLE * FOLLOWS);
        } else if self.rate < seen.delivered * FACTOR {
            self.rate += self.rate.scaled(HALF - share, if has_queue { WHOLE * FOLLOWS } else { WHOLE });
        }
        let rounds = rounds + 1;
        self.stage = Stage::Sharing(Sharing { rounds, was_reduced: is_reduced, gone, ..sharing });
        if rounds >= LONGEST && !seen.has_lost {
            self.rate = self.rate / FACTOR;
            self.stage = Stage::Rising { rounds: 0, reference: None, attempts: 0 };
            return Some(Turn::On(Reason::QueueStays));
        }
        is_reduced.then_some(Turn::On(Reason::Losses))
    }
}

#[cfg(test)]
mod tests;
