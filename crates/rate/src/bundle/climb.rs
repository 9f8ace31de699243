//! From nothing to what the path carries, without overflowing its queue.
//!
//! ```text
//!  rate                         ┌─┐            the train of a round trip goes at the rate of the
//!                     ┌─┐       │ │            next one
//!            ┌─┐      │ └───────┘ └─ ?
//!    ┌─┐     │ └──────┘
//!    │ └─────┘
//!   ─┘ round trip ►                            its acknowledgements come before the next one begins
//! ```
//!
//! Slow start doubles what is under way with each round trip, and learns that it was too much a
//! round trip after: by then it has sent twice what the path carries. Here each round trip begins
//! with a train at the rate of the next one, so short that the queue of a path that does not carry
//! it takes the excess. Where its acknowledgements come as fast as it went, the total doubles;
//! where they come slower, they came at the rate that the path carries.
//!
//! The windows grow by the kernel's slow start: in a round trip by what was under way when it began.
//! So they double as well, and the first ceiling, which is what they allow then, keeps them one step
//! ahead: that is the room for trains. Before trains have enough packets of each member the ceiling
//! is far above the windows: it only keeps them from leaving as one burst.

use icdc_units::{ByteCount, Rate, Time};

use super::train::{CLOSE, FULL, Outcome, SHARE, SHORTEST, Train};
use super::whole::Whole;
use crate::path_ceiling::{Reason, just_under};

/// Packets of each member that a train has at least.
const PACKETS_OF_EACH: u64 = 4;
/// Growth of the windows that counts: one in so many.
const GROWTH: u64 = 8;
/// Round trips without such growth after which trains are tried anyway.
const FLAT: u64 = 2;
/// Packets lost after which trains are tried anyway.
const LOST: u64 = 3;
/// Trains in a row that were stretched, after which the path is known: a host that pauses stretches
/// one or two.
const STRETCHED: u64 = 3;
/// Share of what they have shown that is sent meanwhile.
const DOUBTED: (u64, u64) = (7, 8);
/// What the second and the third of them go above the level: one in so many.
const DOUBTED_ABOVE: u64 = 2;
/// Share of what the windows will have grown to that the even part of a round trip fills.
const FILLED: (u64, u64) = (15, 16);

/// What the climb has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) capacity: Rate,
    pub(super) reason: Reason,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Climb {
    round: Option<Round>,
    /// Before the first round trip: enough not to hold slow start up, but windows that open all at
    /// once do not leave all at once.
    spread: Rate,
    /// When the windows were last seen to grow, and to what.
    grown: Option<(Time, ByteCount)>,
    /// Rate of the best round trip so far.
    carried: Rate,
    /// More was lost in the round trip before than chance takes.
    was_lost: bool,
    /// The least that stretched trains in a row have shown, and how many.
    doubted: Option<(Rate, u64)>,
    /// Packets retransmitted by the beginning of the round trip.
    retransmitted: u64,
}

/// A round trip.
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
            round: None,
            spread: Rate::MAX,
            grown: None,
            carried: Rate::ZERO,
            was_lost: false,
            doubted: None,
            retransmitted: 0,
        }
    }
}

impl Climb {
    pub(super) fn ceiling(&self) -> Rate {
        match &self.round {
            None => self.spread,
            Some(round) if round.train.is_leaving() => round.train_rate,
            Some(round) => round.level,
        }
    }

    pub(super) fn next_look(&self, now: Time) -> Time {
        self.round.as_ref().map_or(now + CLOSE, |round| round.train.next_look(now))
    }

    /// Takes note of the bundle; returns what the path carries once that is found.
    pub(super) fn look(&mut self, whole: &Whole) -> Option<Verdict> {
        let Whole { seen: sum, sent, members, .. } = *whole;
        let now = sum.at;
        let Some(round) = &mut self.round else {
            let length = (sum.least_rtt / SHARE).max(SHORTEST);
            let enough = sum.packet * (PACKETS_OF_EACH * members) / length;
            let windows = whole.windows();
            self.spread = Rate::from_bytes_per_second((windows.as_bytes_per_second() * 2).next_power_of_two());
            if sum.delivered.is_zero() || sum.idle {
                // Windows do not grow before there are data.
                self.grown = None;
                return None;
            }
            let (since, before) = *self.grown.get_or_insert((now, sum.window));
            if sum.window > before + before / GROWTH {
                self.grown = Some((now, sum.window));
            }
            if windows >= enough || now - since >= sum.least_rtt * FLAT || sum.retransmitted > LOST {
                self.begin(whole, windows);
            }
            return None;
        };
        let outcome = round.train.look(whole);
        round.starved |= sum.idle;
        let round = *round;
        let span = (now - round.begin).max(sum.least_rtt);
        let carried = self.carried.max((sum.delivered - round.delivered) / span);
        let packets = (sent - round.sent).as_u64() / sum.packet.as_u64().max(1);
        let outcome = outcome?;
        let was_lost = sum.retransmitted.saturating_sub(self.retransmitted) > packets / 100 + 3;
        if was_lost && std::mem::replace(&mut self.was_lost, true) {
            return Some(Verdict { capacity: carried, reason: Reason::Losses });
        }
        self.carried = carried;
        if was_lost {
            // A burst may have been too much for a queue, which says nothing of the rate.
            self.begin(whole, round.level / 2);
            return None;
        }
        self.was_lost = false;
        let grew = sum.window > round.window + round.window / GROWTH;
        if let (true, Outcome::Carried(went, came)) = (outcome.is_stretched(), outcome) {
            let capacity = came.min(went).min(round.train_rate).max(carried);
            let (least, before) = self.doubted.unwrap_or((capacity, 0));
            let capacity = capacity.min(least).max(carried);
            if before + 1 == STRETCHED {
                return Some(Verdict { capacity, reason: Reason::QueueGrew });
            }
            self.doubted = Some((capacity, before + 1));
            // A rate that is the path's takes no harm from a train that goes only a little higher.
            let level = capacity.scaled(DOUBTED.0, DOUBTED.1);
            self.begin_with(whole, level, level + level / DOUBTED_ABOVE);
            return None;
        }
        let full = round.train_rate;
        let most = match outcome {
            Outcome::Carried(went, came) if went < full.scaled(FULL.0, FULL.1) => went.min(came).max(round.level),
            Outcome::Carried(_, came) => {
                self.doubted = None;
                just_under(came).max(round.level).min(full)
            }
            Outcome::Nothing => round.level,
        };
        // Windows that are not used do not grow, which says nothing of the path.
        if !grew && whole.windows_limit() && !round.starved {
            return Some(Verdict { capacity: carried.max(whole.windows()), reason: Reason::NoGrowth });
        }
        let gone = ((sent - round.sent) / (now - round.begin)).min(round.level);
        let filled = ((sum.window + whole.under_way()) / sum.least_rtt).scaled(FILLED.0, FILLED.1);
        self.begin(whole, (gone.max(round.level / 2) * 2).min(filled).min(most));
        None
    }

    fn begin(&mut self, whole: &Whole, level: Rate) {
        self.begin_with(whole, level, level * 2);
    }

    fn begin_with(&mut self, whole: &Whole, level: Rate, train_rate: Rate) {
        let Whole { seen, sent, .. } = *whole;
        self.retransmitted = seen.retransmitted;
        let train = Train::begin(whole, train_rate);
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
