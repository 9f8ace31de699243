//! The rate where the kernel's own congestion control must do: a ceiling (`SO_MAX_PACING_RATE`)
//! just under what the path carries, found from `TCP_INFO`.
//!
//! ```text
//!          a queue, losses, or four round          eight round trips at the ceiling (the first time
//!          trips without growth                    one) and nothing in the queue
//!   CLIMB ──────────────────────────────► HOLD ◄──────────────────────────────────► PROBE
//!   no ceiling: the algorithm's           39/40 of the capacity,     the queue grew,   a step above the capacity; twice
//!   slow start                            less what drains a queue   or nothing came   the step while that is carried
//! ```
//!
//! A queue goes on growing for a round trip after less is sent, because more is under way. Where a
//! round trip later there is neither a queue nor a loss it was none (a host that paused, say), and all
//! is as it was. Where the queue grows steadily within a round trip, others have begun to send, and how
//! fast it grows tells what they leave (`path_ceiling/onset.rs`). Nor does what arrives at once after
//! such a pause tell that the path carries more than was known.
//!
//! On a path that is known the climb has a ceiling already, just above what the path carried, and
//! ends when that is reached.
//!
//! What is seen in a round trip: the rate of delivery, the least smoothed round-trip time less the
//! least of all (the queue), and the share of packets retransmitted. With a queue the rate of
//! delivery is what the path has left for us; the burst of acknowledgements at the end of slow
//! start shows it within a fraction of the round trip. While a queue drains, however, less arrives than
//! that, and nothing is concluded from it. Losses without a queue are taken for random
//! unless they are more than one packet in a hundred. A queue that eight reductions in a row do not
//! shorten is a longer route, or others' (the kernel's least round-trip time lasts for minutes): it
//! counts for nothing from then on. A sender that is below its ceiling for other reasons (the
//! application, a window) learns nothing and changes nothing. Nor does a round trip of which almost
//! nothing arrived: after a timeout or a cut the algorithm itself begins slowly, and a ceiling of
//! what came then would hold it there. An algorithm that closes its window for a few round trips
//! (BBR does, to look for the least round-trip time, while the smoothed one still tells of a queue)
//! tells nothing of the path either. Whatever is seen, no round trip lowers the capacity by more than
//! half, nor the ceiling, which drains the queue besides, by more than two thirds.

mod delivery_rate;
mod observation;
mod onset;

use delivery_rate::Delivery;
use icdc_units::{ByteCount, Rate, Span, Time};
use onset::Onset;

pub use observation::Observation;

/// Share of the capacity that is left alone: one in so many.
const MARGIN: u64 = 40;
/// Shortest time over which anything is judged: the kernel's ticks and this host's pauses are not
/// much shorter.
const SHORTEST_ROUND: Span = Span::from_millis(20);
/// Round trips at the ceiling before it is tried whether there is more.
const PATIENCE: u32 = 8;
/// Reductions in a row that do not shorten a queue before it is taken for none of ours.
const FUTILE: u32 = 8;
/// The first step above the capacity: one in so many. It lasts a round trip, and the queue grows by
/// that share of it.
const FIRST_STEP: u64 = 50;
/// The first one after the capacity has fallen by more than a quarter, which may have been for a
/// moment only.
const FALLEN_STEP: u64 = 8;
/// The largest step.
const LAST_STEP: u64 = 2;
/// A round trip with losses that delivered less than this share of the capacity was a timeout or a
/// cut: one in so many.
const CUT: u64 = 16;
/// Round trips for which an algorithm may have closed its window before what it sends is taken for
/// what the path carries.
const CLOSED: u32 = 4;
/// A queue drains if a round trip takes one in so many of it.
const DRAINING: u64 = 8;
/// The least ceiling, in packets per round trip: with as many any TCP begins.
const LEAST: u64 = 10;
/// Packets that are a queue.
const QUEUE: u64 = 16;
/// On a known path so much more than is known is tried at first: one in so many.
const KNOWN_STEP: u64 = 20;
/// What is free all of a sudden is less than this share of what was known.
const SUDDENLY: (u64, u64) = (7, 8);
/// Growth that counts, in slow start: one in so many.
const GROWTH: u64 = 8;
/// Round trips without such growth that end slow start.
const FLAT: u32 = 4;

/// Where the controller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The capacity is not known.
    Climb,
    /// Just under the capacity.
    Hold,
    /// A step above it.
    Probe,
    /// At half of it, beside others that fill every queue.
    Compete,
}

/// Why the ceiling is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A queue showed what the path carries.
    QueueGrew,
    /// More was lost than chance takes.
    Losses,
    /// The algorithm does not grow any more.
    NoGrowth,
    /// What stood in the queue has gone.
    QueueGone,
    /// It is time to try a higher rate.
    ProbeStarted,
    /// The higher rate was carried.
    ProbeSucceeded,
    /// It was not.
    ProbeFailed,
    /// The path carries what it is known to carry.
    CachedRateConfirmed,
    /// What was taken for a queue was none.
    NoQueue,
    /// The queue does not drain whatever is sent: others fill it.
    QueueStays,
    /// What half of the path is has been measured.
    ShareFound,
}

/// A new ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The state that the controller is in now.
    pub state: State,
    /// For the socket; [`Rate::MAX`] for none.
    pub ceiling: Rate,
    /// Why.
    pub reason: Reason,
}

/// A state with what belongs to it alone.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Climb {
        /// Rate of the best round trip.
        best: Rate,
        /// Round trips without growth.
        flat: u32,
    },
    Hold {
        /// Round trips at the ceiling.
        held: u32,
    },
    Probe {
        /// Round trips since the step.
        rounds: u32,
    },
}

/// What is known of the path's capacity.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    rate: Rate,
    /// More than that the path has not carried since there was no queue.
    most: Rate,
    /// The most that it was while there was no queue: so fast does one drain that others share.
    greatest: Rate,
    /// It has fallen much since there was no queue.
    fallen: bool,
}

/// How more than the capacity is tried.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// The next step: one in so many of the capacity.
    step: u64,
    /// More was tried since the climb.
    tried: bool,
    /// Somebody else searches, and tells by [`Steering::raise`].
    is_external: bool,
}

/// What is thought of the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// Round trips in a row in which less did not shorten it.
    reductions: u32,
    /// What there was in the last round trip.
    last: Span,
    /// What of it is taken for the path's own by now.
    foreign: Span,
    /// It began suddenly, and has not gone since.
    sudden: bool,
    /// What there was before it, in the round trip after it.
    doubted: Option<Before>,
}

/// See the module's description.
#[derive(Debug)]
pub struct Steering {
    phase: Phase,
    ceiling: Rate,
    capacity: Capacity,
    search: Search,
    queue: Queue,
    round: Option<Round>,
    onset: Onset,
    /// Round trips that began before then are still of what was sent before it was heeded.
    heeded: Time,
    delivery: Delivery,
    /// Round trips in a row in which the window was too small for the ceiling.
    closed: u32,
}

/// What there was before a queue.
#[derive(Clone, Copy, Debug)]
struct Before {
    phase: Phase,
    capacity: Rate,
    ceiling: Rate,
}

/// A round trip under way.
#[derive(Clone, Copy, Debug)]
struct Round {
    begin: Observation,
    least: Span,
    /// Least congestion window.
    window: ByteCount,
}

/// What a round trip has shown.
#[derive(Clone, Copy, Debug)]
struct Seen {
    rate: Rate,
    queue: Span,
    base: Span,
    losses: bool,
    packet: ByteCount,
}

impl Seen {
    /// Whether what was seen is a queue longer than `least`. One acknowledgement that the other end
    /// delays, or a few, make a round-trip time longer as well: a queue is one of several packets.
    fn has_queue(&self, least: Span) -> bool {
        self.queue > least && self.rate * self.queue > self.packet * QUEUE
    }
}

impl Phase {
    const CLIMB: Self = Self::Climb { best: Rate::ZERO, flat: 0 };
    const HOLD: Self = Self::Hold { held: 0 };
    const PROBE: Self = Self::Probe { rounds: 0 };

    fn state(self) -> State {
        match self {
            Self::Climb { .. } => State::Climb,
            Self::Hold { .. } => State::Hold,
            Self::Probe { .. } => State::Probe,
        }
    }

    /// This state, with its round trips counted anew.
    fn afresh(self) -> Self {
        match self {
            Self::Climb { best, .. } => Self::Climb { best, flat: 0 },
            Self::Hold { .. } => Self::HOLD,
            Self::Probe { .. } => Self::PROBE,
        }
    }
}

impl Default for Steering {
    fn default() -> Self {
        Self {
            phase: Phase::CLIMB,
            ceiling: Rate::MAX,
            capacity: Capacity { rate: Rate::ZERO, most: Rate::MAX, greatest: Rate::ZERO, fallen: false },
            search: Search { step: FIRST_STEP, tried: false, is_external: false },
            queue: Queue::default(),
            round: None,
            onset: Onset::default(),
            heeded: Time::ORIGIN,
            delivery: Delivery::default(),
            closed: 0,
        }
    }
}

impl Steering {
    /// For a path that carried `known` before. [`Self::ceiling`] tells what to begin with.
    #[must_use]
    pub fn resuming(known: Rate) -> Self {
        Self { ceiling: known + known / KNOWN_STEP, ..Self::default() }
    }

    /// Just under a capacity that was found otherwise; whether there is more is searched otherwise,
    /// too.
    pub(crate) fn holding(capacity: Rate) -> Self {
        Self {
            phase: Phase::HOLD,
            ceiling: just_under(capacity),
            capacity: Capacity { rate: capacity, most: Rate::MAX, greatest: Rate::ZERO, fallen: false },
            ..Self::default().without_search()
        }
    }

    /// This steering, where whether there is more is searched otherwise.
    pub(crate) fn without_search(self) -> Self {
        Self { search: Search { is_external: true, ..self.search }, ..self }
    }

    /// What the path is thought to carry.
    pub(crate) fn capacity(&self) -> Rate {
        self.capacity.rate
    }

    /// Reductions in a row that have not shortened the queue.
    pub(crate) fn reductions(&self) -> u32 {
        self.queue.reductions
    }

    /// What the path has carried while there was no queue, if there was such a time.
    pub(crate) fn carried_alone(&self) -> Option<Rate> {
        Some(self.capacity.most).filter(|most| *most < Rate::MAX)
    }

    /// This steering, after a time in which somebody else has steered and has found `foreign` to be no
    /// queue of this path.
    pub(crate) fn resumed(self, foreign: Span) -> Self {
        let queue = Queue { foreign: self.queue.foreign + foreign, ..Queue::default() };
        Self { queue, round: None, closed: 0, delivery: Delivery::default(), ..self }
    }

    /// Whether it holds just under the capacity, and nothing has to drain.
    pub(crate) fn is_level(&self) -> bool {
        matches!(self.phase, Phase::Hold { .. }) && self.ceiling >= just_under(self.capacity.rate)
    }

    /// The path has been shown to carry more.
    pub(crate) fn raise(&mut self, capacity: Rate) -> Decision {
        (self.capacity.rate, self.capacity.most) = (capacity, Rate::MAX);
        self.set(Phase::HOLD, just_under(capacity), Reason::ProbeSucceeded)
    }

    /// What the socket is allowed now; [`Rate::MAX`] for anything.
    #[must_use]
    pub fn ceiling(&self) -> Rate {
        self.ceiling
    }

    /// Takes note of an observation; gives a decision if there is one. Ten milliseconds between two
    /// are good.
    pub fn observe(&mut self, now: &Observation) -> Option<Decision> {
        let base = now.least_rtt;
        if base.is_zero() {
            return None;
        }
        let fraction = (base / 4).min(Span::from_millis(100)).max(SHORTEST_ROUND / 2);
        self.delivery.note(now.at, now.delivered, fraction);
        let fresh = Round { begin: *now, least: now.rtt, window: now.window };
        let round = self.round.get_or_insert(fresh);
        round.least = round.least.min(now.rtt);
        round.window = round.window.min(now.window);
        let queue = now.rtt - base - self.queue.foreign;
        let at_peak = Seen { rate: self.delivery.peak(), queue, base, losses: false, packet: now.packet };
        let state = self.phase.state();
        if state != State::Hold && at_peak.has_queue(steep(base)) {
            self.round = Some(fresh);
            let is_first = state == State::Climb;
            return Some(if is_first { self.doubtful(&at_peak) } else { self.refused(&at_peak) });
        }
        let most = self.capacity.greatest.max(self.capacity.rate);
        if state != State::Hold || now.idle {
            self.onset.begin_anew();
        } else if let Some(free) = self.onset.note(now, queue, most, self.ceiling)
            && queue > steep(base)
            && free < self.capacity.rate.scaled(SUDDENLY.0, SUDDENLY.1)
        {
            self.round = Some(fresh);
            return Some(self.beside_sudden_others(&at_peak, free, now.at));
        }
        let is_heeded = round.begin.at >= self.heeded;
        let span = now.at - round.begin.at;
        if span < base.max(SHORTEST_ROUND) {
            return None;
        }
        let packets = (now.delivered - round.begin.delivered).as_u64() / now.packet.as_u64().max(1);
        let retransmitted = now.retransmitted.saturating_sub(round.begin.retransmitted);
        let seen = Seen {
            rate: (now.delivered - round.begin.delivered) / span,
            queue: round.least - base - self.queue.foreign,
            base,
            losses: retransmitted > packets / 100 + 3,
            packet: now.packet,
        };
        self.queue.foreign = self.queue.foreign.min(round.least - base);
        let window = round.window;
        self.round = Some(fresh);
        let doubted = self.queue.doubted.take();
        if now.idle || seen.rate.is_zero() || self.is_closed(window, base) {
            return None;
        }
        if let Some(before) = doubted.filter(|_| !seen.losses && !seen.has_queue(standing(base))) {
            (self.queue.sudden, self.queue.reductions) = (false, 0);
            (self.capacity.rate, self.capacity.fallen) = (before.capacity, false);
            return Some(self.set(before.phase.afresh(), before.ceiling, Reason::NoQueue));
        }
        if !is_heeded {
            return None;
        }
        let before = (self.state(), self.ceiling);
        let decision = match self.phase {
            Phase::Climb { best, flat } => self.climb(&seen, best, flat),
            Phase::Hold { held } => self.hold(&seen, held),
            Phase::Probe { rounds } => self.probe(&seen, rounds),
        };
        decision.filter(|decision| (decision.state, decision.ceiling) != before)
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.phase.state()
    }

    fn climb(&mut self, seen: &Seen, best: Rate, flat: u32) -> Option<Decision> {
        let peak = self.delivery.take_peak();
        if !seen.losses && seen.rate >= self.ceiling - self.ceiling / KNOWN_STEP * 2 {
            self.capacity.rate = seen.rate;
            return Some(self.set(Phase::HOLD, just_under(seen.rate), Reason::CachedRateConfirmed));
        }
        if seen.losses {
            // What the path has delivered before, it carries.
            let carried = Seen { rate: peak.max(seen.rate).max(best), ..*seen };
            return Some(self.found(&carried, Reason::Losses));
        }
        if seen.rate > best + best / GROWTH {
            self.phase = Phase::Climb { best: seen.rate, flat: 0 };
            return None;
        }
        let flat = flat + 1;
        self.phase = Phase::Climb { best, flat };
        // Before anything has been delivered there is nothing that could have grown.
        if flat < FLAT || best.is_zero() {
            return None;
        }
        // Without a queue the path has more; how much, probing finds.
        self.search.step = LAST_STEP;
        Some(self.found(&Seen { rate: best, queue: Span::ZERO, ..*seen }, Reason::NoGrowth))
    }

    fn hold(&mut self, seen: &Seen, held: u32) -> Option<Decision> {
        if self.is_cut(seen) {
            return None;
        }
        let last = std::mem::replace(&mut self.queue.last, seen.queue);
        if seen.has_queue(standing(seen.base)) || seen.losses {
            // While it drains, less arrives than the path carries.
            let drains = seen.queue + last / DRAINING <= last && !seen.losses;
            return if drains { None } else { self.reduce(seen) };
        }
        if std::mem::take(&mut self.capacity.fallen) {
            self.search.step = FALLEN_STEP;
        }
        (self.queue.sudden, self.queue.reductions) = (false, 0);
        self.capacity.most = self.capacity.rate;
        self.capacity.greatest = self.capacity.greatest.max(self.capacity.rate);
        let level = just_under(self.capacity.rate);
        if self.ceiling < level {
            return Some(self.set(Phase::HOLD, level, Reason::QueueGone));
        }
        if seen.rate < self.ceiling - self.ceiling / 10 {
            return None;
        }
        let held = held + 1;
        self.phase = Phase::Hold { held };
        let is_due = held >= PATIENCE || self.search.step < FIRST_STEP || !self.search.tried;
        (is_due && !self.search.is_external).then(|| self.step_up(Reason::ProbeStarted))
    }

    /// A queue or losses at the ceiling.
    fn reduce(&mut self, seen: &Seen) -> Option<Decision> {
        self.queue.reductions += 1;
        if self.queue.reductions > FUTILE && !seen.losses {
            self.queue.reductions = 0;
            self.queue.foreign += seen.queue;
            self.search.step = LAST_STEP;
            return None;
        }
        let before = self.capacity.rate;
        // Of a queue that stands more is delivered than others leave free.
        let limited = if self.queue.sudden { Seen { rate: seen.rate.min(before), ..*seen } } else { *seen };
        let decision = match self.queue.reductions {
            1 if seen.losses => self.found(seen, Reason::Losses),
            1 => self.doubtful(seen),
            _ if seen.losses => self.found(&limited, Reason::Losses),
            _ => self.found(&limited, Reason::QueueGrew),
        };
        self.capacity.fallen |= self.capacity.rate < before.scaled(3, 4);
        Some(decision)
    }

    /// A queue that grows within the round trip tells what others who have begun to send leave.
    fn beside_sudden_others(&mut self, seen: &Seen, free: Rate, now: Time) -> Decision {
        let before = self.queue.doubted.take();
        let decision = self.doubtful(&Seen { rate: free.max(self.capacity.greatest / 4), ..*seen });
        self.heeded = now + seen.base;
        self.capacity.fallen = true;
        (self.queue.sudden, self.queue.reductions) = (true, self.queue.reductions.max(1));
        self.queue.doubted = before.or(self.queue.doubted);
        decision
    }

    /// The first round trip sends, the second one shows.
    fn probe(&mut self, seen: &Seen, rounds: u32) -> Option<Decision> {
        if self.is_cut(seen) {
            return None;
        }
        self.phase = Phase::Probe { rounds: rounds + 1 };
        if rounds == 0 {
            return None;
        }
        let capacity = self.capacity.rate;
        let carried = seen.rate > capacity + capacity / (4 * self.search.step);
        if seen.has_queue(standing(seen.base)) || seen.losses {
            return Some(self.refused(seen));
        }
        if carried {
            self.capacity.rate = seen.rate;
            self.search.step = (self.search.step / 2).max(LAST_STEP);
            return Some(self.step_up(Reason::ProbeSucceeded));
        }
        self.search.step = FIRST_STEP;
        Some(self.set(Phase::HOLD, just_under(capacity), Reason::ProbeFailed))
    }

    /// Whether the algorithm sends less than it may, for now.
    fn is_closed(&mut self, window: ByteCount, base: Span) -> bool {
        let is_closed = self.state() != State::Climb && window < self.ceiling.scaled(3, 4) * base;
        self.closed = if is_closed { self.closed + 1 } else { 0 };
        is_closed && self.closed <= CLOSED
    }

    fn is_cut(&self, seen: &Seen) -> bool {
        seen.losses && seen.rate < self.capacity.rate / CUT
    }

    fn step_up(&mut self, reason: Reason) -> Decision {
        self.search.tried = true;
        self.set(Phase::PROBE, self.capacity.rate + self.capacity.rate / self.search.step, reason)
    }

    /// A queue, which may turn out to be none.
    fn doubtful(&mut self, seen: &Seen) -> Decision {
        let before = Before { phase: self.phase, capacity: self.capacity.rate, ceiling: self.ceiling };
        let decision = self.found(seen, Reason::QueueGrew);
        self.queue.doubted = Some(before);
        decision
    }

    /// The path does not carry what was tried; what it carried before, it does.
    fn refused(&mut self, seen: &Seen) -> Decision {
        self.capacity.most = if self.search.step == FIRST_STEP { self.capacity.rate } else { self.ceiling };
        let rate = seen.rate.max(self.capacity.rate);
        self.found(&Seen { rate, ..*seen }, Reason::ProbeFailed)
    }

    /// The capacity is known; what stands in the queue is to drain within a few round trips.
    fn found(&mut self, seen: &Seen, reason: Reason) -> Decision {
        let base = seen.base;
        let least = (seen.packet * LEAST) / base;
        self.capacity.rate = seen.rate.min(self.capacity.most).max(self.capacity.rate / 2).max(least);
        if reason != Reason::NoGrowth {
            self.search.step = FIRST_STEP;
        }
        let level = just_under(self.capacity.rate);
        let drain = self.capacity.greatest.max(level);
        let drained = drain.scaled(seen.queue.min(base).as_nanos(), (base * 4).as_nanos()).min(level.scaled(3, 10));
        self.set(Phase::HOLD, (level - drained).max(least), reason)
    }

    fn set(&mut self, phase: Phase, ceiling: Rate, reason: Reason) -> Decision {
        self.phase = phase;
        self.delivery.take_peak();
        self.ceiling = ceiling;
        Decision { state: phase.state(), ceiling, reason }
    }
}

/// Just under a capacity.
pub(crate) fn just_under(capacity: Rate) -> Rate {
    capacity - capacity / MARGIN
}

/// A queue that ends slow start.
fn steep(base: Span) -> Span {
    (base / 32).max(Span::from_millis(4))
}

/// A queue that a ceiling below the capacity would not leave.
pub(crate) fn standing(base: Span) -> Span {
    (base / 64).max(Span::from_millis(2))
}

#[cfg(test)]
mod tests;
