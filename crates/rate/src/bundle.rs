//! One rate for a bundle of connections of one transfer, where the kernel's own congestion control
//! must do: a total that is found from `TCP_INFO` of all of them, shared out as ceilings
//! (`SO_MAX_PACING_RATE`).
//!
//! ```text
//!            three trains in a row were stretched,          trains above the capacity
//!            losses in two round trips, or no growth        were carried
//!   CLIMB ───────────────────────────────────────► STEERED ────────────────────────────┐
//!   the total doubles with each round trip,        just under the capacity, as         │
//!   as long as its trains are carried              `path_ceiling` holds it  ◄──────────┘
//!                                                    │ reductions do not shorten      ▲ the others have gone,
//!                                                    ▼ the queue, or others return    │ or do not fill the queue,
//!                                                  COMPETE ───────────────────────────┘ or the path has become longer
//!                                                  half of the path
//! ```
//!
//! | part | file |
//! |---|---|
//! | how the total is found: a train at twice the rate begins each round trip | `climb.rs` |
//! | just under what the path carries | [`crate::path_ceiling`] |
//! | whether there is more | `search.rs` |
//! | half of the path, beside others that fill every queue | `compete.rs` |
//! | what a train is, and what it tells | `train.rs` |
//! | which member may send how much of the total | `shares.rs` |
//! | whether more members would carry more | `scarcity.rs` |
//! | who carries the last blocks | `last_blocks.rs` |
//!
//! To others on the path a bundle is one flow: what is seen of it is the sum over its members, and
//! their ceilings add up to one total. Members may join and leave; what one that has left had
//! delivered stays in the sum.

mod climb;
mod compete;
mod last_blocks;
mod scarcity;
mod search;
mod shares;
mod train;
mod whole;

use std::collections::BTreeMap;

use icdc_units::{ByteCount, Rate, Span, Time};

use crate::path_ceiling::{Decision, Observation, Reason, State, Steering};
use climb::{Climb, Verdict};
use compete::{Compete, Turn};
pub use last_blocks::Owed;
use scarcity::Scarcity;
use search::Search;
use shares::Demand;
use whole::Whole;

/// Time between two looks while nothing is measured that asks for more.
const LOOK: Span = Span::from_millis(10);
/// Packets that a member must have delivered in a round trip to be heard about the queue.
const HEARD: u64 = 8;

/// Round trips of which the best tells what is carried.
const ROUNDS: usize = 4;

/// Round trips that count where it is asked how fast a member is.
const LATELY: u64 = 8;

/// Members that carry this share of what they are allowed are held by that, not by their windows.
const REACHED: (u64, u64) = (15, 16);

/// Reductions in a row that do not shorten a queue: others may fill it.
const FUTILE: u32 = 4;
/// Minimum round-trip times for which the capacity is kept that was measured beside others that fill
/// queues.
const REMEMBERED: u64 = 256;
/// A bundle that a queue would make reduce to less than this share of that capacity competes instead.
const KEEPS: (u64, u64) = (7, 16);

/// Which connection of the bundle.
pub type Number = u16;

/// What the kernel tells of a member.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// As for a connection that is steered alone.
    pub seen: Observation,
    /// Bytes of payload that were sent, each once.
    pub sent: ByteCount,
}

/// Sums over all members since the bundle began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    sent: ByteCount,
    delivered: ByteCount,
    retransmitted: u64,
}

/// What is known of one member.
#[derive(Debug)]
struct Known {
    last: Member,
    /// Delivered at the beginning of the round trip under way.
    from: ByteCount,
    demand: Demand,
    /// What it is allowed.
    ceiling: Rate,
    /// What it has carried in the mean of about [`LATELY`] round trips.
    carries: Rate,
}

impl Known {
    /// What its congestion window allows on the idle path.
    fn window(&self) -> Rate {
        let Observation { window, least_rtt, .. } = self.last.seen;
        if least_rtt.is_zero() { Rate::MAX } else { window / least_rtt }
    }

    /// What it sends at most: what it is allowed, or what its window lets it.
    fn most(&self) -> Rate {
        self.window().min(self.ceiling)
    }
}

#[derive(Debug)]
enum Phase {
    Climb(Climb),
    Steered {
        steering: Steering,
        search: Search,
    },
    /// The steering waits as it was.
    Compete {
        steering: Steering,
        compete: Compete,
        /// What the search knew the path to have carried.
        had: Rate,
    },
}

/// What to do after a look.
#[derive(Debug)]
pub struct Plan {
    /// The total has become another one, and why.
    pub decision: Option<Decision>,
    /// Ceilings of members, of those whose ceiling is another one than before.
    pub ceilings: Vec<(Number, Rate)>,
    /// So many members there should be, where these are more than there are.
    pub wanted: Option<u64>,
}

/// See the module's description.
#[derive(Debug)]
pub struct Bundle {
    phase: Phase,
    totals: Totals,
    members: BTreeMap<Number, Known>,
    /// When the round trip began in which members' demands are measured, and what had been delivered.
    round: (Time, ByteCount),
    /// Rates of the last round trips.
    carried: [Rate; ROUNDS],
    scarcity: Scarcity,
    /// Capacity that was measured beside others that fill queues, and until when it counts if they
    /// come back.
    shared: Option<(Rate, Time)>,
    next: Time,
}

impl Default for Bundle {
    fn default() -> Self {
        Self::with(Phase::Climb(Climb::default()))
    }
}

impl Bundle {
    fn with(phase: Phase) -> Self {
        Self {
            phase,
            totals: Totals::default(),
            members: BTreeMap::new(),
            round: (Time::ORIGIN, ByteCount::ZERO),
            carried: [Rate::ZERO; ROUNDS],
            scarcity: Scarcity::default(),
            shared: None,
            next: Time::ORIGIN,
        }
    }

    /// For a path that carried `known` before: the windows may grow to that at once.
    #[must_use]
    pub fn resuming(known: Rate) -> Self {
        let steering = Steering::resuming(known).without_search();
        Self::with(Phase::Steered { steering, search: Search::new(Time::ORIGIN, known) })
    }

    /// What the path is known to carry; `None` while that is being found.
    #[must_use]
    pub fn capacity(&self) -> Option<Rate> {
        match &self.phase {
            Phase::Steered { steering, .. } if steering.state() != State::Climb => Some(steering.capacity()),
            Phase::Climb(_) | Phase::Steered { .. } | Phase::Compete { .. } => None,
        }
    }

    /// What is held between two trains; [`Rate::MAX`] for anything.
    #[must_use]
    pub fn level(&self) -> Rate {
        match &self.phase {
            Phase::Climb(_) => Rate::MAX,
            Phase::Steered { steering, .. } => steering.ceiling(),
            Phase::Compete { compete, .. } => compete.ceiling(),
        }
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Climb(_) => State::Climb,
            Phase::Steered { steering, .. } => steering.state(),
            Phase::Compete { compete, .. } if compete.is_sure() => State::Compete,
            Phase::Compete { .. } => State::Hold,
        }
    }

    /// What all members together are allowed now; [`Rate::MAX`] for anything.
    fn total(&self) -> Rate {
        match &self.phase {
            Phase::Climb(climb) => climb.ceiling(),
            Phase::Steered { steering, search } => search.ceiling(steering.capacity()).unwrap_or(steering.ceiling()),
            Phase::Compete { compete, .. } => compete.ceiling(),
        }
    }

    /// When the next look is wanted.
    #[must_use]
    pub fn next_look(&self) -> Time {
        self.next
    }

    /// Takes note of what the kernel tells of all members that there are. Together they get `most`,
    /// whatever the path has.
    pub fn look(&mut self, now: Time, members: &[(Number, Member)], most: Rate) -> Plan {
        let is_round = self.note(now, members);
        let whole = self.whole(now);
        let wanted = whole.as_ref().filter(|_| is_round).and_then(|whole| self.wanted(whole, most));
        let decision = whole.as_ref().and_then(|whole| self.decide(whole, most));
        self.next = match &self.phase {
            Phase::Climb(climb) if whole.is_some() => climb.next_look(now),
            Phase::Steered { search, .. } if whole.is_some() => search.next_look(now).unwrap_or(now + LOOK),
            Phase::Climb(_) | Phase::Steered { .. } | Phase::Compete { .. } => now + LOOK,
        };
        Plan { decision, ceilings: self.share_out(most), wanted }
    }

    /// So many members there should be after a round trip, if these are more than there are.
    fn wanted(&mut self, whole: &Whole, most: Rate) -> Option<u64> {
        if matches!(self.phase, Phase::Climb(_)) {
            return None;
        }
        let level = self.level().min(most);
        let is_held = self.carried[0] >= level.scaled(REACHED.0, REACHED.1);
        let is_others = matches!(&self.phase, Phase::Compete { compete, .. } if compete.is_sure());
        self.scarcity.look(whole, level, is_held, is_others)
    }

    fn decide(&mut self, whole: &Whole, most: Rate) -> Option<Decision> {
        match &mut self.phase {
            Phase::Climb(climb) => {
                let Verdict { capacity, reason } = climb.look(whole)?;
                let steering = Steering::holding(capacity);
                let decision = Decision { state: State::Hold, ceiling: steering.ceiling(), reason };
                self.phase = Phase::Steered { steering, search: Search::new(whole.settled(), capacity) };
                Some(decision)
            }
            Phase::Steered { steering, search } => {
                let held = if steering.is_level() { steering.capacity() } else { Rate::ZERO };
                if let Some(decision) = steering.observe(&whole.seen) {
                    *search = search.anew(whole, held, steering.capacity());
                    if decision.reason != Reason::QueueGrew {
                        return Some(decision);
                    }
                    let yields = |(capacity, until): &mut (Rate, Time)| {
                        whole.seen.at < *until && decision.ceiling < capacity.scaled(KEEPS.0, KEEPS.1)
                    };
                    let compete = match self.shared.take_if(yields) {
                        Some((capacity, _)) => Compete::remembering(decision.ceiling, capacity),
                        None if steering.reductions() >= FUTILE => {
                            Compete::new(decision.ceiling, steering.carried_alone())
                        }
                        None => return Some(decision),
                    };
                    let (steering, had) = (std::mem::take(steering), search.had());
                    self.phase = Phase::Compete { steering, compete, had };
                    return Some(Decision { state: self.state(), ..decision });
                }
                if !steering.is_level() {
                    return None;
                }
                let more = search.look(whole, steering.capacity(), most, self.scarcity.has_asked())?;
                Some(steering.raise(more))
            }
            Phase::Compete { steering, compete, had } => {
                let turn = compete.look(whole)?;
                let (steering, reason) = match turn {
                    Turn::On(reason) => {
                        return Some(Decision { state: State::Compete, ceiling: compete.ceiling(), reason });
                    }
                    Turn::Inelastic => (std::mem::take(steering).resumed(Span::ZERO), Reason::QueueGrew),
                    Turn::Doubtful => (std::mem::take(steering).resumed(Span::ZERO), Reason::Losses),
                    Turn::Longer(queue) => (std::mem::take(steering).resumed(queue), Reason::NoQueue),
                    Turn::Alone(carried) => {
                        let until = whole.seen.at + whole.seen.least_rtt * REMEMBERED;
                        self.shared = compete.capacity().map(|capacity| (capacity, until));
                        (Steering::holding(carried), Reason::QueueGone)
                    }
                };
                let decision = Decision { state: steering.state(), ceiling: steering.ceiling(), reason };
                let search = Search::new(whole.settled(), *had);
                self.phase = Phase::Steered { steering, search };
                Some(decision)
            }
        }
    }

    /// Brings sums and members up to date; whether a round trip is over.
    fn note(&mut self, now: Time, members: &[(Number, Member)]) -> bool {
        self.members.retain(|number, _| members.iter().any(|(other, _)| other == number));
        let round_trip = members.iter().map(|(_, member)| member.seen.rtt).min().unwrap_or(Span::ZERO);
        let (begin, from) = self.round;
        let span = now - begin;
        let is_round = span >= round_trip.max(LOOK * 2);
        for (number, member) in members {
            let known = self.members.entry(*number).or_insert_with(|| Known {
                last: Member {
                    seen: Observation { delivered: ByteCount::ZERO, retransmitted: 0, ..member.seen },
                    sent: ByteCount::ZERO,
                },
                from: member.seen.delivered,
                demand: Demand::default(),
                ceiling: Rate::MAX,
                carries: Rate::ZERO,
            });
            self.totals.sent += member.sent - known.last.sent;
            self.totals.delivered += member.seen.delivered - known.last.seen.delivered;
            self.totals.retransmitted += member.seen.retransmitted.saturating_sub(known.last.seen.retransmitted);
            known.last = *member;
            if is_round {
                let delivered = member.seen.delivered - known.from;
                known.demand.note(delivered, span, known.ceiling, member.seen.packet);
                known.carries = known.carries - known.carries / LATELY + delivered / span / LATELY;
                known.from = member.seen.delivered;
            }
        }
        if is_round {
            self.carried.rotate_right(1);
            self.carried[0] = (self.totals.delivered - from) / span;
            self.round = (now, self.totals.delivered);
        }
        is_round
    }

    /// The bundle as one connection; `None` before anything is known of a round trip.
    fn whole(&self, now: Time) -> Option<Whole> {
        let all = || self.members.values().map(|known| &known.last.seen);
        let least_rtt = all().map(|seen| seen.least_rtt).filter(|rtt| !rtt.is_zero()).min()?;
        let is_heard = |known: &&Known| {
            let seen = &known.last.seen;
            !seen.least_rtt.is_zero() && seen.delivered - known.from >= seen.packet * HEARD
        };
        let queue = |known: &Known| known.last.seen.rtt - known.last.seen.least_rtt;
        let mut heard: Vec<Span> = self.members.values().filter(is_heard).map(queue).collect();
        if heard.is_empty() {
            heard.extend(self.members.values().map(queue));
        }
        heard.sort_unstable();
        let queue = *heard.first()?;
        let usual_rtt = least_rtt + heard[heard.len() / 2];
        let seen = Observation {
            at: now,
            rtt: least_rtt + queue,
            least_rtt,
            delivered: self.totals.delivered,
            retransmitted: self.totals.retransmitted,
            packet: all().map(|seen| seen.packet).max()?,
            window: all().map(|seen| seen.window).sum(),
            idle: all().all(|seen| seen.idle),
        };
        let carried = self.carried.into_iter().max().unwrap_or_default();
        Some(Whole { seen, usual_rtt, sent: self.totals.sent, carried, members: self.members.len() as u64 })
    }

    /// New ceilings where they differ by more than a hundredth from those that are set.
    fn share_out(&mut self, most: Rate) -> Vec<(Number, Rate)> {
        let total = self.total().min(most);
        let is_climb = matches!(self.phase, Phase::Climb(_));
        let usable = |known: &Known| Some(known.demand.most(known.window())).filter(|_| !is_climb);
        let demands: Vec<Option<Rate>> = self.members.values().map(usable).collect();
        let shares = shares::of(total, &demands);
        let mut changed = Vec::new();
        for ((number, known), share) in self.members.iter_mut().zip(shares) {
            let set = known.ceiling;
            let differs = set != share
                && (share == Rate::MAX || set == Rate::MAX || set.max(share) - set.min(share) > share / 100);
            if differs {
                known.ceiling = share;
                changed.push((*number, share));
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests;
