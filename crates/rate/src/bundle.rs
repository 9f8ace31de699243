//! One rate for a bundle of connections of one transfer, for a kernel whose congestion control does
//! not find it: a total found from `TCP_INFO` of all of them and shared out as ceilings
//! (`SO_MAX_PACING_RATE`).
//!
//! ```text
//!        three trains in a row were stretched,      trains above the capacity
//!        losses in two round trips, or no growth    were carried
//!   CLIMB ─────────────────────────────────► STEERED ──────────────────────┐
//!   the total doubles with each round trip,  just under the capacity,      │
//!   as long as its trains are carried        as in `path_ceiling`  ◄───────┘
//!                                               │                  ▲
//!                  reductions do not shorten    │                  │ the others have gone, do not
//!                  the queue, or others return  ▼                  │ fill the queue, or the path
//!                                            COMPETE ──────────────┘ has become longer
//!                                            half of the path
//! ```
//!
//! | part | file |
//! |---|---|
//! | CLIMB: a train at twice the rate begins each round trip | `climb.rs` |
//! | STEERED: just under the capacity | [`crate::path_ceiling`] |
//! | STEERED: search for a higher capacity | `search.rs` |
//! | COMPETE: half of the path, beside flows that fill every queue | `compete.rs` |
//! | trains: how they are sent and measured | `train.rs` |
//! | the sum over all members | `aggregate.rs` |
//! | each member's share of the total | `shares.rs` |
//! | whether more members would carry more | `scarcity.rs` |
//! | whether losses are more than any number of members bears | `losses.rs` |
//! | which members send the last blocks | `last_blocks.rs` |
//!
//! In the background ([`Bundle::giving_way`]) there is no COMPETE: where others fill the queue, they get
//! nearly everything.
//!
//! To other traffic a bundle is one flow: its delivery, losses and bytes in flight are sums over
//! its members, and their ceilings add up to one total. Members may join and leave; what a member
//! delivered before it left stays in the sum.

mod aggregate;
mod climb;
mod compete;
mod last_blocks;
mod losses;
mod scarcity;
mod search;
mod shares;
mod train;

use std::collections::BTreeMap;

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

use crate::path_ceiling::{Decision, Observation, Reason, State, Steering};
use aggregate::Aggregate;
use climb::{Climb, Verdict};
use compete::{Compete, Transition};
pub use last_blocks::Owed;
use losses::Losses;
use scarcity::Scarcity;
use search::Search;
use shares::Demand;

/// Interval of updates while no train asks for shorter ones. Chosen: at 5 ms transfer `cubic`
/// carries 47 %, not 63 %; at 20 ms no test fails and no transfer differs.
const SAMPLE_INTERVAL: Span = Span::from_millis(10);
/// Packets that a member must have delivered in a round trip for its queue to count: the kernel
/// smooths the round-trip time over 8 acknowledgements (RFC 6298, section 2.3). Chosen: no test
/// fails at 4 and 16.
const RTT_SAMPLE_PACKETS: u64 = 8;
/// Round trips of which the best gives the delivery rate of the bundle. Chosen; not varied.
const RATE_ROUNDS: usize = 4;
/// Weight of the latest round trip in the mean rate of a member. Chosen: no test fails at 1/16.
const MEMBER_RATE_WEIGHT: Ratio = Ratio::new(1, 8);
/// Part of its total rate from which what a bundle carries shows that the total limits it, not the
/// congestion windows of its members. Chosen: no test fails at 31/32 and 7/8.
const CEILING_USE_THRESHOLD: Ratio = Ratio::new(15, 16);
/// Least change of a member's ceiling, as a part of it, for which it is set again. Chosen: no test
/// fails at 1/200 and 1/50.
const CEILING_HYSTERESIS: Ratio = Ratio::new(1, 100);
/// Reductions in a row that do not shorten a queue, after which others may fill it. Chosen: no test
/// fails at 2 and 8.
const FUTILE_REDUCTIONS: u32 = 4;
/// Minimum round-trip times for which a capacity that was measured beside others is remembered.
/// Chosen: no test fails at 128 and 512.
const CAPACITY_LIFETIME: u64 = 256;
/// Part of the remembered capacity below which a bundle that a queue makes reduce competes instead.
/// Chosen: no test fails at 7/32 and 7/8.
const COMPETE_THRESHOLD: Ratio = Ratio::new(7, 16);

/// Number of a connection, which no other connection of the transfer has had.
pub type Number = u16;

/// State of one connection of a bundle at an update, from its socket.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// State of the member's connection, as of one that [`crate::path_ceiling`] steers alone.
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

/// State of one member, kept between updates.
#[derive(Debug)]
struct MemberState {
    last: Member,
    /// Bytes delivered at the beginning of the round trip in progress.
    from: ByteCount,
    demand: Demand,
    /// Ceiling that is set; `None` for none.
    ceiling: Option<Rate>,
    /// Delivery rate, as a moving average over the round trips ([`MEMBER_RATE_WEIGHT`]).
    carries: Rate,
}

impl MemberState {
    /// A new member, of whose bytes none is in the sums yet.
    fn joining(member: &Member) -> Self {
        let seen = Observation { delivered: ByteCount::ZERO, retransmitted: 0, ..member.seen };
        Self {
            last: Member { seen, sent: ByteCount::ZERO },
            from: member.seen.delivered,
            demand: Demand::default(),
            ceiling: None,
            carries: Rate::ZERO,
        }
    }

    /// Rate that the member's congestion window allows on the idle path; `None` before a round-trip
    /// time has been measured.
    fn window(&self) -> Option<Rate> {
        let Observation { window, least_rtt, .. } = self.last.seen;
        (!least_rtt.is_zero()).then(|| window / least_rtt)
    }

    /// Greatest rate at which the member can send: the lower one of its ceiling and
    /// [`Self::window`].
    fn most(&self) -> Rate {
        lowest(self.window(), self.ceiling).unwrap_or(Rate::MAX)
    }
}

/// Phase of the search, with the parts that it needs.
#[derive(Debug)]
enum Phase {
    /// The total doubles with each round trip, until the capacity is found.
    Climb(Climb),
    /// The total is held just under the capacity.
    Steered { steering: Steering, search: Search },
    /// The bundle holds half of the path beside flows that fill every queue.
    Compete {
        /// The controller of STEERED, unchanged until COMPETE ends.
        steering: Steering,
        compete: Compete,
        /// Capacity that the search knew before.
        had: Rate,
    },
}

/// Changes that follow from an update of a bundle, for its caller to carry out: new ceilings of
/// connections, and how many connections there should be.
#[derive(Debug)]
pub struct Plan {
    /// Change of the total; `None` if it stays.
    pub decision: Option<Decision>,
    /// New ceilings, of the members whose ceiling changes; `None` for no ceiling.
    pub ceilings: Vec<(Number, Option<Rate>)>,
    /// Number of members that there should be, if that is more than there are.
    pub wanted: Option<u64>,
    /// True once, when losses have shown to be more than any number of members bears.
    pub is_lossy: bool,
}

/// Controller of all connections of a transfer: finds one rate for all, from their `TCP_INFO`, and
/// shares it out as ceilings. See the module's description.
#[derive(Debug)]
pub struct Bundle {
    phase: Phase,
    totals: Totals,
    members: BTreeMap<Number, MemberState>,
    /// Beginning of the round trip in which members' demands are measured, and the bytes delivered
    /// by then.
    round: (Time, ByteCount),
    /// Delivery rates of the last round trips, the latest first.
    carried: [Rate; RATE_ROUNDS],
    scarcity: Scarcity,
    losses: Losses,
    /// Capacity that was measured beside flows that fill queues, and until when it is used if they
    /// return; `None` if none was.
    shared: Option<(Rate, Time)>,
    /// Whether it gives way to others: there is no COMPETE.
    gives_way: bool,
    next: Time,
}

impl Default for Bundle {
    fn default() -> Self {
        Self::with(Phase::Climb(Climb::default()))
    }
}

impl Bundle {
    /// A bundle without members that begins in this phase.
    fn with(phase: Phase) -> Self {
        Self {
            phase,
            totals: Totals::default(),
            members: BTreeMap::new(),
            round: (Time::ORIGIN, ByteCount::ZERO),
            carried: [Rate::ZERO; RATE_ROUNDS],
            scarcity: Scarcity::default(),
            losses: Losses::default(),
            shared: None,
            gives_way: false,
            next: Time::ORIGIN,
        }
    }

    /// A bundle for a path that carried `known` before: its search ends with the first train that
    /// shows about that.
    #[must_use]
    pub fn resuming(known: Rate) -> Self {
        Self::with(Phase::Climb(Climb::resuming(known)))
    }

    /// This bundle, which has not begun; if it `gives_way` to others, a long queue that does not drain makes it leave them nearly
    /// everything, and there is no COMPETE.
    #[must_use]
    pub fn giving_way(self, gives_way: bool) -> Self {
        Self { gives_way, ..self }
    }

    /// Capacity of the path; `None` in CLIMB and COMPETE.
    #[must_use]
    pub fn capacity(&self) -> Option<Rate> {
        match &self.phase {
            Phase::Steered { steering, .. } => Some(steering.capacity()),
            Phase::Climb(_) | Phase::Compete { .. } => None,
        }
    }

    /// Whether losses have shown to be more than any number of members bears: their windows, not the path, limit the rate.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.losses.are_told()
    }

    /// Total rate between two trains; `None` for no ceiling.
    #[must_use]
    pub fn level(&self) -> Option<Rate> {
        match &self.phase {
            Phase::Climb(_) => None,
            Phase::Steered { steering, .. } => steering.ceiling(),
            Phase::Compete { compete, .. } => Some(compete.ceiling()),
        }
    }

    /// State of the search for the path's capacity. COMPETE counts as [`State::Hold`] until it is
    /// certain that other flows fill the queue.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Climb(_) => State::Climb,
            Phase::Steered { steering, .. } => steering.state(),
            Phase::Compete { compete, .. } if compete.is_sure() => State::Compete,
            Phase::Compete { .. } => State::Hold,
        }
    }

    /// Ceiling of all members together at present, trains included; `None` for none.
    fn total(&self) -> Option<Rate> {
        match &self.phase {
            Phase::Climb(climb) => climb.ceiling(),
            Phase::Steered { steering, search } => search.ceiling(steering.capacity()).or(steering.ceiling()),
            Phase::Compete { compete, .. } => Some(compete.ceiling()),
        }
    }

    /// Time at which the bundle is to be updated next.
    #[must_use]
    pub fn next_update(&self) -> Time {
        self.next
    }

    /// Processes the state of all present members. Their ceilings add up to `most` at most,
    /// whatever the path carries; `None` for any sum.
    pub fn update(&mut self, now: Time, members: &[(Number, Member)], most: Option<Rate>) -> Plan {
        let is_round = self.note(now, members);
        let aggregate = self.aggregate(now);
        let wanted = aggregate.as_ref().filter(|_| is_round).and_then(|aggregate| self.wanted(aggregate, most));
        let level = lowest(self.capacity(), most);
        // A connection that carries everything would not give way.
        let may_tell = is_round && !self.gives_way;
        let is_lossy = aggregate.as_ref().is_some_and(|aggregate| may_tell && self.losses.update(aggregate, level));
        let decision = aggregate.as_ref().and_then(|aggregate| self.decide(aggregate, most));
        self.next = match &self.phase {
            Phase::Climb(climb) if aggregate.is_some() => climb.next_update(now),
            Phase::Steered { search, .. } if aggregate.is_some() => {
                search.next_update(now).unwrap_or(now + SAMPLE_INTERVAL)
            }
            Phase::Climb(_) | Phase::Steered { .. } | Phase::Compete { .. } => now + SAMPLE_INTERVAL,
        };
        Plan { decision, ceilings: self.share_out(most), wanted, is_lossy }
    }

    /// Number of members that there should be, by the round trip that has just ended; `None` if
    /// there are enough.
    fn wanted(&mut self, aggregate: &Aggregate, most: Option<Rate>) -> Option<u64> {
        if matches!(self.phase, Phase::Climb(_)) {
            return None;
        }
        let level = lowest(self.level(), most)?;
        let is_held = self.carried[0] >= level * CEILING_USE_THRESHOLD;
        let is_others = matches!(&self.phase, Phase::Compete { compete, .. } if compete.is_sure());
        self.scarcity.update(aggregate, level, is_held, is_others)
    }

    /// Change of the phase or of the total that follows from the sum.
    fn decide(&mut self, aggregate: &Aggregate, most: Option<Rate>) -> Option<Decision> {
        match &mut self.phase {
            Phase::Climb(climb) => {
                let Verdict { capacity, reason } = climb.update(aggregate)?;
                let steering = Steering::holding(capacity).giving_way(self.gives_way);
                let decision = Decision { state: State::Hold, ceiling: steering.ceiling(), reason };
                self.phase = Phase::Steered { steering, search: Search::new(aggregate.settled(), capacity) };
                Some(decision)
            }
            Phase::Steered { steering, search } => {
                let held = if steering.is_level() { steering.capacity() } else { Rate::ZERO };
                if let Some(decision) = steering.observe(&aggregate.seen) {
                    *search = search.anew(aggregate, held, steering.capacity());
                    return Some(self.compete_if_futile(decision, aggregate.seen.at));
                }
                if !steering.is_level() {
                    return None;
                }
                let more = search.update(aggregate, steering.capacity(), most, self.scarcity.has_asked())?;
                Some(steering.raise(more))
            }
            Phase::Compete { .. } => self.update_compete(aggregate),
        }
    }

    /// The `decision` of STEERED, after a change to COMPETE if it reduces for a queue of others:
    /// one that earlier reductions have not shortened, or one of others that have returned.
    fn compete_if_futile(&mut self, decision: Decision, now: Time) -> Decision {
        if self.gives_way {
            return decision;
        }
        let Phase::Steered { steering, search } = &mut self.phase else { return decision };
        let Some(ceiling) = decision.ceiling.filter(|_| decision.reason == Reason::QueueGrew) else { return decision };
        let have_returned =
            |(capacity, until): &mut (Rate, Time)| now < *until && ceiling < *capacity * COMPETE_THRESHOLD;
        let compete = match self.shared.take_if(have_returned) {
            Some((capacity, _)) => Compete::remembering(ceiling, capacity),
            None if steering.reductions() >= FUTILE_REDUCTIONS => Compete::new(ceiling, steering.carried_alone()),
            None => return decision,
        };
        let (steering, had) = (std::mem::take(steering), search.carried_before());
        self.phase = Phase::Compete { steering, compete, had };
        Decision { state: self.state(), ..decision }
    }

    /// Updates COMPETE, which may change its rate or its step, or end: then the bundle is in
    /// STEERED again. `None` if there is no change to report.
    fn update_compete(&mut self, aggregate: &Aggregate) -> Option<Decision> {
        let Phase::Compete { steering, compete, had } = &mut self.phase else { return None };
        let (steering, reason) = match compete.update(aggregate)? {
            Transition::Continue(reason) => {
                return Some(Decision { state: State::Compete, ceiling: Some(compete.ceiling()), reason });
            }
            Transition::Inelastic => (std::mem::take(steering).resumed(Span::ZERO), Reason::QueueGrew),
            Transition::Doubtful => (std::mem::take(steering).resumed(Span::ZERO), Reason::Losses),
            Transition::Longer(queue) => (std::mem::take(steering).resumed(queue), Reason::NoQueue),
            Transition::Alone(carried) => {
                let until = aggregate.seen.at + aggregate.seen.least_rtt * CAPACITY_LIFETIME;
                self.shared = compete.capacity().map(|capacity| (capacity, until));
                (Steering::holding(carried), Reason::QueueGone)
            }
        };
        let decision = Decision { state: steering.state(), ceiling: steering.ceiling(), reason };
        let search = Search::new(aggregate.settled(), *had);
        self.phase = Phase::Steered { steering, search };
        Some(decision)
    }

    /// Updates sums and members; returns whether a round trip has ended.
    fn note(&mut self, now: Time, members: &[(Number, Member)]) -> bool {
        self.members.retain(|number, _| members.iter().any(|(other, _)| other == number));
        let round_trip = members.iter().map(|(_, member)| member.seen.rtt).min().unwrap_or(Span::ZERO);
        let (begin, from) = self.round;
        let span = now - begin;
        let is_round = span >= round_trip.max(SAMPLE_INTERVAL * 2);
        for (number, member) in members {
            let known = self.members.entry(*number).or_insert_with(|| MemberState::joining(member));
            self.totals.sent += member.sent - known.last.sent;
            self.totals.delivered += member.seen.delivered - known.last.seen.delivered;
            self.totals.retransmitted += member.seen.retransmitted.saturating_sub(known.last.seen.retransmitted);
            known.last = *member;
            if is_round {
                let delivered = member.seen.delivered - known.from;
                known.demand.note(delivered, span, known.ceiling, member.seen.packet);
                known.carries =
                    known.carries - known.carries * MEMBER_RATE_WEIGHT + delivered / span * MEMBER_RATE_WEIGHT;
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

    /// The sum over all members; `None` before a round-trip time has been measured.
    fn aggregate(&self, now: Time) -> Option<Aggregate> {
        let all = || self.members.values().map(|known| &known.last.seen);
        let least_rtt = all().map(|seen| seen.least_rtt).filter(|rtt| !rtt.is_zero()).min()?;
        let is_measured = |known: &&MemberState| {
            let seen = &known.last.seen;
            !seen.least_rtt.is_zero() && seen.delivered - known.from >= seen.packet * RTT_SAMPLE_PACKETS
        };
        let queue = |known: &MemberState| known.last.seen.rtt - known.last.seen.least_rtt;
        let mut queues: Vec<Span> = self.members.values().filter(is_measured).map(queue).collect();
        if queues.is_empty() {
            queues.extend(self.members.values().map(queue));
        }
        queues.sort_unstable();
        let queue = *queues.first()?;
        let usual_rtt = least_rtt + queues[queues.len() / 2];
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
        Some(Aggregate { seen, usual_rtt, sent: self.totals.sent, carried, members: self.members.len() as u64 })
    }

    /// New ceilings, where they differ from those that are set by more than [`CEILING_HYSTERESIS`].
    fn share_out(&mut self, most: Option<Rate>) -> Vec<(Number, Option<Rate>)> {
        let total = lowest(self.total(), most);
        let is_climb = matches!(self.phase, Phase::Climb(_));
        // What is carried in CLIMB doubles with each round trip, and shows nothing of what a member can use.
        let usable = |known: &MemberState| match is_climb {
            true => known.window().map(shares::by_window),
            false => known.demand.most(known.window()),
        };
        let demands: Vec<Option<Rate>> = self.members.values().map(usable).collect();
        let shares = match total {
            Some(total) => shares::of(total, &demands).into_iter().map(Some).collect(),
            None => vec![None; demands.len()],
        };
        let mut changed = Vec::new();
        for ((number, known), share) in self.members.iter_mut().zip(shares) {
            let differs = match (known.ceiling, share) {
                (Some(set), Some(share)) => set.max(share) - set.min(share) > share * CEILING_HYSTERESIS,
                (set, share) => set != share,
            };
            if differs {
                known.ceiling = share;
                changed.push((*number, share));
            }
        }
        changed
    }
}

/// The lower one of two ceilings; `None` for none.
fn lowest(one: Option<Rate>, other: Option<Rate>) -> Option<Rate> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
