//! Start of a bundle: from no knowledge to the capacity of the path, without overflowing its queue.
//!
//! ```text
//!  rate                         ┌─┐            the train of a round trip goes at the rate of the
//!                     ┌─┐       │ │            next one
//!            ┌─┐      │ └───────┘ └─ ?
//!    ┌─┐     │ └──────┘
//!    │ └─────┘
//!   ─┘ round trip ►                            its acknowledgements come before the next begins
//! ```
//!
//! Slow start doubles the bytes in flight with each round trip, and learns a round trip later that
//! it was too much: by then it has sent twice what the path carries. Here each round trip begins
//! with a train at the rate of the next one, so short that the queue of a path that does not carry
//! it takes the excess. If its acknowledgements arrive as fast as it was sent, the total doubles;
//! if they arrive more slowly, they arrive at the rate that the path carries.
//!
//! The windows grow by the kernel's slow start: in a round trip by what was in flight when it
//! began. So they double as well, and the first ceiling, which is what they allow then, keeps them
//! one step ahead: that is the room for trains. Before trains have enough packets of each member
//! the ceiling is two to four times what the windows allow: it only keeps them from being sent as one
//! burst. Then the total is held at what they allow until they have grown enough for the first train.
//! A member's share is at most twice what its window allows, and the others send the rest: those that
//! have had data for longer have larger windows.
//!
//! Where a rate is known from an earlier transfer, the windows double without trains up to an eighth of it. From
//! there on trains show whether the path still has it: one that shows about that rate is believed at
//! once, without two more.

use icdc_units::{ByteCount, Rate, Ratio, Time};

use super::aggregate::Aggregate;
use super::train::{CLOSE_INTERVAL, FULL_RATE, Outcome, SHORTEST_TRAIN, TRAIN_LENGTH, Train};
use crate::path_ceiling::{Reason, exceeds_random_loss, just_under};

/// Packets of each member that a train has at least. Chosen: no test fails at 2 and 8.
const PACKETS_PER_MEMBER: u64 = 4;
/// Least growth of the windows, as a part of them, that counts as growth. Chosen: no test fails at
/// 1/16 and 1/4.
const GROWTH_THRESHOLD: Ratio = Ratio::new(1, 8);
/// Part of the windows that is not in flight when the first train begins: without it the train has no room, leaves more
/// slowly than it should, and shows nothing. Chosen: at 1/12 and 1/5 simulated transfers differ by 1 % at most.
const TRAIN_ROOM: Ratio = Ratio::new(1, 6);
/// Round trips without such growth after which trains are sent nevertheless. Chosen: no test fails
/// at 1 and 4.
const FLAT_ROUNDS: u64 = 2;
/// Number of lost packets above which trains are sent nevertheless. Chosen: no test fails at 2 and
/// 6.
const LEAST_LOSSES: u64 = 3;
/// Stretched trains in a row after which the capacity is known: a host that pauses stretches one or
/// two (`hosts_that_pause_find_the_rate_all_the_same` in `crates/sim/tests/bundle.rs`). Chosen: no
/// test fails at 2 and 6.
const STRETCHED_TRAINS: u64 = 3;
/// Part of a known rate up to which windows double without trains. Chosen: at 1/4 a path that has become
/// four times slower drops packets (test `a_known_path_is_filled_sooner_and_never_overrun` in
/// `crates/sim/tests/bundle.rs`).
const UNPROVEN: Ratio = Ratio::new(1, 8);
/// Greatest part of a known rate by which a stretched train may show another one and still confirm
/// it. Chosen: at 1/8 a host's pauses end the climb at less than the path carries.
const KNOWN_TOLERANCE: Ratio = Ratio::new(1, 16);
/// Part of the rate shown by a stretched train that is sent until the next one. Chosen: no test
/// fails at 15/16 and 3/4.
const DOUBTED_LEVEL: Ratio = Ratio::new(7, 8);
/// Step of the second and the third train above that level, as a part of it: if the rate is the
/// path's, a higher train would only fill its queue. Chosen: no test fails at 1/4 and 1.
const DOUBTED_STEP: Ratio = Ratio::new(1, 2);
/// Part of the windows at the end of a round trip that its even part fills. Chosen: no test fails
/// at 31/32 and 7/8.
const WINDOW_FILL: Ratio = Ratio::new(15, 16);

/// Result of the climb: what it found of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) capacity: Rate,
    pub(super) reason: Reason,
}

/// State of CLIMB, the start of a bundle: each round trip begins with a train at up to twice its
/// rate, until the capacity of the path is known.
#[derive(Debug)]
pub(super) struct Climb {
    /// Rate that the path carried before; `None` if that is not known.
    known: Option<Rate>,
    round: Option<Round>,
    /// Ceiling before the first round trip: above what slow start sends, so that windows that open
    /// together are not sent as one burst; `None` until it is known.
    spread: Option<Rate>,
    /// Rate that is held until the windows have room for the first train; `None` as long as they are too small for one.
    held: Option<Rate>,
    /// Time and size of the windows when they were last seen to grow.
    grown: Option<(Time, ByteCount)>,
    /// Delivery rate of the best round trip so far.
    carried: Rate,
    /// More was lost in the round trip before than by chance.
    was_lost: bool,
    /// Least rate that stretched trains in a row have shown, and their number.
    doubted: Option<(Rate, u64)>,
    /// Packets retransmitted by the beginning of the round trip.
    retransmitted: u64,
}

/// A round trip of the climb that is in progress.
#[derive(Clone, Copy, Debug)]
struct Round {
    begin: Time,
    sent: ByteCount,
    delivered: ByteCount,
    window: ByteCount,
    level: Rate,
    train: Train,
    train_rate: Rate,
    /// There was nothing to send for a while.
    starved: bool,
}

impl Default for Climb {
    fn default() -> Self {
        Self {
            known: None,
            round: None,
            spread: None,
            held: None,
            grown: None,
            carried: Rate::ZERO,
            was_lost: false,
            doubted: None,
            retransmitted: 0,
        }
    }
}

impl Climb {
    /// Start of a bundle on a path that carried `known` before.
    pub(super) fn resuming(known: Rate) -> Self {
        Self { known: Some(known), ..Self::default() }
    }

    /// Ceiling of the bundle's total rate at present; `None` for none.
    pub(super) fn ceiling(&self) -> Option<Rate> {
        match &self.round {
            None => self.held.or(self.spread),
            Some(round) if round.train.is_leaving() => Some(round.train_rate),
            Some(round) => Some(round.level),
        }
    }

    /// Time at which the climb is to be updated next.
    pub(super) fn next_update(&self, now: Time) -> Time {
        self.round.as_ref().map_or(now + CLOSE_INTERVAL, |round| round.train.next_update(now))
    }

    /// Processes the sum over the bundle; returns the capacity of the path once it is known, `None`
    /// before.
    pub(super) fn update(&mut self, aggregate: &Aggregate) -> Option<Verdict> {
        let Aggregate { seen: sum, sent, .. } = *aggregate;
        let Some(round) = &mut self.round else {
            self.before_first_round(aggregate);
            return None;
        };
        let outcome = round.train.update(aggregate);
        round.starved |= sum.idle;
        let round = *round;
        let span = (sum.at - round.begin).max(sum.least_rtt);
        let carried = self.carried.max((sum.delivered - round.delivered) / span);
        let packets = (sent - round.sent).as_u64() / sum.packet.as_u64().max(1);
        let outcome = outcome?;
        let was_lost = exceeds_random_loss(sum.retransmitted.saturating_sub(self.retransmitted), packets);
        if was_lost && std::mem::replace(&mut self.was_lost, true) {
            return Some(Verdict { capacity: carried, reason: Reason::Losses });
        }
        self.carried = carried;
        if was_lost {
            // A burst may have overflowed a queue, which says nothing about the rate.
            self.begin(aggregate, round.level / 2);
            return None;
        }
        self.was_lost = false;
        // One that left more slowly than the rate before it, with room in the windows, had too few data.
        if let (true, Outcome::Carried(went, came)) = (outcome.is_stretched(), outcome)
            && (went >= round.level * FULL_RATE || aggregate.windows_limit())
        {
            return self.on_stretched_train(aggregate, came.min(went).min(round.train_rate));
        }
        self.on_carried_train(aggregate, &round, outcome)
    }

    /// Waits for windows that hold trains of enough packets, then begins the first round trip.
    fn before_first_round(&mut self, aggregate: &Aggregate) {
        let Aggregate { seen: sum, members, .. } = *aggregate;
        let length = (sum.least_rtt * TRAIN_LENGTH).max(SHORTEST_TRAIN);
        let enough = sum.packet * (PACKETS_PER_MEMBER * members) / length;
        let enough = enough.max(self.known.unwrap_or(Rate::ZERO) * UNPROVEN);
        let windows = aggregate.windows();
        self.spread = Some(Rate::from_bytes_per_second((windows.as_bytes_per_second() * 2).next_power_of_two()));
        if sum.delivered.is_zero() || sum.idle || aggregate.in_flight().is_zero() {
            // Windows do not grow while there are no data, and may be others afterwards.
            (self.grown, self.held) = (None, None);
            return;
        }
        let (since, before) = *self.grown.get_or_insert((sum.at, sum.window));
        // Nor while the data are fewer than they allow.
        if sum.window > before + before * GROWTH_THRESHOLD || !aggregate.windows_limit() {
            self.grown = Some((sum.at, sum.window));
        }
        let is_late = sum.at - since >= sum.least_rtt * FLAT_ROUNDS || sum.retransmitted > LEAST_LOSSES;
        if windows >= enough {
            self.held.get_or_insert(windows);
        }
        let has_room = sum.window >= aggregate.in_flight() + sum.window * TRAIN_ROOM;
        if is_late || (self.held.is_some() && has_room) {
            self.begin(aggregate, self.held.map_or(windows, |held| held.min(windows)));
        }
    }

    /// Result of a stretched train, which showed the rate `shown`: the capacity after
    /// [`STRETCHED_TRAINS`] in a row, or one that shows what is known; else `None` and another train
    /// just above it.
    fn on_stretched_train(&mut self, aggregate: &Aggregate, shown: Rate) -> Option<Verdict> {
        let capacity = shown.max(self.carried);
        let (least, before) = self.doubted.unwrap_or((capacity, 0));
        let capacity = capacity.min(least).max(self.carried);
        let is_known =
            |known: Rate| capacity >= known - known * KNOWN_TOLERANCE && capacity <= known + known * KNOWN_TOLERANCE;
        if before + 1 == STRETCHED_TRAINS || self.known.is_some_and(is_known) {
            return Some(Verdict { capacity, reason: Reason::QueueGrew });
        }
        self.doubted = Some((capacity, before + 1));
        let level = capacity * DOUBTED_LEVEL;
        self.begin_with(aggregate, level, level + level * DOUBTED_STEP);
        None
    }

    /// Result of a round trip whose train was not stretched, or had too few data to be: the end of the
    /// climb where the windows limit it and do not grow, else `None` and the next round trip, at up to
    /// twice the rate.
    fn on_carried_train(&mut self, aggregate: &Aggregate, round: &Round, outcome: Outcome) -> Option<Verdict> {
        let Aggregate { seen: sum, sent, .. } = *aggregate;
        let full = round.train_rate;
        let most = match outcome {
            Outcome::Carried(went, came) if went < full * FULL_RATE => went.min(came).max(round.level),
            Outcome::Carried(_, came) => {
                self.doubted = None;
                just_under(came).max(round.level).min(full)
            }
            Outcome::Nothing => round.level,
        };
        let grew = sum.window > round.window + round.window * GROWTH_THRESHOLD;
        // Windows that are not used do not grow, which says nothing about the path.
        if !grew && aggregate.windows_limit() && !round.starved {
            return Some(Verdict { capacity: self.carried.max(aggregate.windows()), reason: Reason::NoGrowth });
        }
        let sent_rate = ((sent - round.sent) / (sum.at - round.begin)).min(round.level);
        let filled = (sum.window + aggregate.in_flight()) / sum.least_rtt * WINDOW_FILL;
        self.begin(aggregate, (sent_rate.max(round.level / 2) * 2).min(filled).min(most));
        None
    }

    /// Begins a round trip at `level` whose train goes at twice that.
    fn begin(&mut self, aggregate: &Aggregate, level: Rate) {
        self.begin_with(aggregate, level, level * 2);
    }

    /// Begins a round trip at `level` with a train at `train_rate`.
    fn begin_with(&mut self, aggregate: &Aggregate, level: Rate, train_rate: Rate) {
        let Aggregate { seen, sent, .. } = *aggregate;
        self.retransmitted = seen.retransmitted;
        let train = Train::begin(aggregate, train_rate);
        self.round = Some(Round {
            begin: seen.at,
            sent,
            delivered: seen.delivered,
            window: seen.window,
            level,
            train,
            train_rate,
            starved: false,
        });
    }
}
