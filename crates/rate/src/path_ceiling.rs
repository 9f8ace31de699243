//! Ceiling of one connection's rate (`SO_MAX_PACING_RATE`) just under what its path carries, found
//! from `TCP_INFO`, for a kernel whose congestion control does not find that rate.
//!
//! ```text
//!          a queue, losses, or four       eight round trips at the ceiling (the first
//!          round trips without growth     time one) and nothing in the queue
//!   CLIMB ────────────────────────► HOLD ◄──────────────────────────────► PROBE
//!   no ceiling: slow start          39/40 of the capacity,   the queue     a step above the
//!   of the algorithm                less what drains         grew, or      capacity; doubled
//!                                   a queue                  nothing came  while it is carried
//! ```
//!
//! A round trip is judged by three values: the delivery rate, the queue (the least smoothed
//! round-trip time in it less the least of all), and the share of packets retransmitted.
//!
//! - **Capacity.** With a queue, the delivery rate is what the path has left for this connection.
//!   The burst of acknowledgements at the end of slow start shows it within a fraction of the round
//!   trip. While a queue drains, less arrives than the path carries, and nothing is concluded.
//! - **Pauses.** A queue keeps growing for a round trip after the sender slows down, because
//!   packets are still in flight. If there is neither a queue nor a loss one round trip later, it
//!   was none (a host that paused, for example), and the state before is restored. Packets that
//!   arrive in a bunch after such a pause do not count as capacity.
//! - **Cross traffic that begins.** A queue that grows steadily within a round trip shows it, and
//!   how fast it grows shows what is left (`path_ceiling/onset.rs`).
//! - **Losses** without a queue are taken for random up to one packet in a hundred.
//! - **A longer route.** A queue that eight reductions in a row do not shorten is a longer route or
//!   the queue of others (the kernel keeps the least round-trip time for minutes). It is ignored
//!   from then on.
//! - **A known path** has a ceiling during the climb, just above what it carried before. The climb
//!   ends when the connection reaches it.
//! - **No conclusion** is drawn from a round trip in which the sender stayed below its ceiling for
//!   other reasons (the application, a window), in which almost nothing arrived (after a timeout
//!   the algorithm begins slowly), or in which an algorithm closed its window for a few round trips
//!   (BBR does, to measure the least round-trip time, while the smoothed one still contains a
//!   queue).
//! - **Bounds.** One round trip lowers the capacity by at most half, and the ceiling, which also
//!   drains the queue, by at most two thirds.

mod delivery_rate;
mod observation;
mod onset;

use delivery_rate::Delivery;
use icdc_units::{ByteCount, Rate, Ratio, Span, Time};
use onset::Onset;

pub use observation::Observation;

/// Part of the capacity that is left free, as the algorithm `icdc` does (`crates/cc/c/icdc.c`).
/// Chosen: at 1/80 transfer `onoff` carries 70 %, not 66 %, transfer `pauses` takes 2 % less; at
/// 1/20 test `a_queue_that_drains_is_left_to_and_drains_as_fast_as_the_path_is` fails, transfer
/// `cubic` carries 41 %, not 63 %, transfer `stock` takes 3 % longer.
const CAPACITY_MARGIN: Ratio = Ratio::new(1, 40);
/// Shortest time over which anything is judged: pauses of a host and the ticks of its kernel (`HZ`,
/// 1 to 10 ms) are not much shorter. Chosen: no test fails and no transfer differs at 10 ms and 40
/// ms.
const SHORTEST_ROUND: Span = Span::from_millis(20);
/// Round trips at the ceiling before a higher rate is tried. Chosen: no test fails and no transfer
/// differs at 4 and 16.
const ROUNDS_BEFORE_PROBE: u32 = 8;
/// Reductions in a row that do not shorten a queue, after which it is taken for the path's own
/// delay. Chosen: no test fails and no transfer differs at 4 and 16.
const FUTILE_REDUCTIONS: u32 = 8;
/// Divisor of the capacity that gives the first step above it, 2 %. A step lasts a round trip, and
/// the queue grows by that part of one. Chosen: no test fails and no transfer differs at 25 and
/// 100.
const FIRST_PROBE_DIVISOR: u64 = 50;
/// Divisor for the first step after the capacity has fallen to less than [`FALLEN_THRESHOLD`],
/// perhaps for a moment only. Chosen: no test fails and no transfer differs at 4 and 16.
const FALLEN_PROBE_DIVISOR: u64 = 8;
/// Divisor for the largest step. Chosen: no test fails and no transfer differs at 1 and 4.
const LAST_PROBE_DIVISOR: u64 = 2;
/// A probe was carried if the delivery rate exceeds the capacity by this part of the step. Chosen:
/// no test fails at 2 and 8.
const CARRIED_PROBE_DIVISOR: u64 = 4;
/// A round trip with losses that delivered less than this part of the capacity was a timeout or a
/// cut of the path. Chosen: no test fails and no transfer differs at 1/32 and 1/8.
const TIMEOUT_THRESHOLD: Ratio = Ratio::new(1, 16);
/// A window below this part of what the ceiling allows is closed: BBR's is one of 4 packets in
/// PROBE_RTT (`tcp_bbr.c`, `bbr_cwnd_min_target`). Chosen: no test fails at 7/8 and 1/2.
const CLOSED_WINDOW: Ratio = Ratio::new(3, 4);
/// Round trips in a row for which a closed window is ignored: BBR's PROBE_RTT lasts 200 ms or a
/// round trip, whichever is longer (`tcp_bbr.c`, `bbr_probe_rtt_mode_ms`). A longer one counts as
/// the path's. Chosen: no test fails and no transfer differs at 2 and 8.
const CLOSED_WINDOW_ROUNDS: u32 = 4;
/// A queue drains if a round trip shortens it by this part. Chosen: no test fails and no transfer
/// differs at 1/16 and 1/4.
const DRAIN_THRESHOLD: Ratio = Ratio::new(1, 8);
/// Least ceiling, in packets per round trip: the initial window of TCP (RFC 6928).
const LEAST_PACKETS: u64 = 10;
/// A longer round-trip time is a queue if it holds more packets than this: a few delayed
/// acknowledgements (RFC 1122, section 4.2.3.2) make it longer as well. Chosen: no test fails and
/// no transfer differs at 8 and 32.
const QUEUE_PACKETS: u64 = 16;
/// Margin of the ceiling above the known rate of a path. Chosen: at 1/40 test
/// `what_is_known_is_the_ceiling_of_the_climb_and_confirmed_or_not` fails; at 1/10 test
/// `a_path_that_is_known_is_filled_up_to_that_at_once` fails (and 1 more test).
const KNOWN_RATE_MARGIN: Ratio = Ratio::new(1, 20);
/// Cross traffic has begun if it leaves less than this part of the capacity. Chosen: no test fails
/// and no transfer differs at 15/16 and 3/4.
const ONSET_THRESHOLD: Ratio = Ratio::new(7, 8);
/// Part of the capacity that is kept at least beside cross traffic that has just begun. Chosen: no
/// test fails at 1/8 and 1/2.
const LEAST_FREE: Ratio = Ratio::new(1, 4);
/// The capacity has fallen much if a reduction leaves less than this part of it. Chosen: at 1/2
/// test `the_first_probe_after_a_deep_fall_is_a_middling_one` fails; at 7/8 no test fails.
const FALLEN_THRESHOLD: Ratio = Ratio::new(3, 4);
/// Part of the capacity that one reduction leaves at least
/// (`one_round_trip_leaves_a_third_of_the_ceiling`). Without a bound, a copy of 3 GB came down to
/// 37 kbit/s while BBR closed its window (commit 9b371fa2). Chosen: at 1/4 test
/// `one_round_trip_leaves_a_third_of_the_ceiling` fails (and 1 more test); at 1 test
/// `it_follows_what_others_take_and_give_back` fails (and 2 more tests).
const LEAST_KEPT: Ratio = Ratio::new(1, 2);
/// Least queue that is left to others, as a part of the least round-trip time, by one that gives
/// way: hosts and links that pause cause shorter ones, for which a copy alone had 52 to 86 % of the
/// path (`bench/runs/2026-11-29-b299f89f-background`). Chosen: at 1/32 and 1/2 test
/// `one_that_gives_way_leaves_a_long_queue_to_others_and_takes_a_short_one_for_the_paths` fails.
const OTHERS_QUEUE: Ratio = Ratio::new(1, 8);
/// Shortest queue that is left to others: as long as the least one that ends slow start
/// ([`SHORTEST_STEEP_QUEUE`]). Chosen; not varied.
const SHORTEST_OTHERS_QUEUE: Span = SHORTEST_STEEP_QUEUE;
/// Divisor of the greatest capacity that gives the least ceiling of one that gives way: with less, trains that
/// would show that others have gone are too short. Chosen: at 512 test
/// `in_the_background_a_bundle_leaves_the_path_to_others` fails; at 128 no test fails.
const BACKGROUND_DIVISOR: u64 = 64;
/// Round trips in which a queue of one round trip drains at the reduced ceiling. Chosen: at 8 test
/// `a_queue_that_drains_is_left_to_and_drains_as_fast_as_the_path_is` fails; at 2 no test fails.
const DRAIN_ROUNDS: u64 = 4;
/// Greatest part of the ceiling that is taken to drain a queue
/// (`one_round_trip_leaves_a_third_of_the_ceiling`). Chosen: at 3/20 test
/// `a_queue_that_drains_is_left_to_and_drains_as_fast_as_the_path_is` fails; at 3/5 test
/// `one_round_trip_leaves_a_third_of_the_ceiling` fails.
const LARGEST_DRAIN: Ratio = Ratio::new(3, 10);
/// A sender that delivers less than the ceiling by this part does not use it. Chosen: no test fails
/// at 1/20 and 1/5.
const UNUSED_THRESHOLD: Ratio = Ratio::new(1, 10);
/// Growth of the delivery rate in a round trip that continues slow start. Chosen: no test fails and
/// no transfer differs at 1/16 and 1/4.
const GROWTH_THRESHOLD: Ratio = Ratio::new(1, 8);
/// Round trips without such growth that end slow start; BBR ends its STARTUP after 3 (`tcp_bbr.c`,
/// `bbr_full_bw_cnt`). Chosen: no test fails and no transfer differs at 2 and 8.
const FLAT_ROUNDS: u32 = 4;
/// Part of the packets of a round trip whose loss counts as random. Chosen: no test fails at 1/200
/// and 1/50.
const RANDOM_LOSS: Ratio = Ratio::new(1, 100);
/// Lost packets of a round trip that count as random whatever its number of packets. Chosen: no
/// test fails at 2 and 6.
const RANDOM_LOSS_PACKETS: u64 = 3;
/// Queue that ends slow start, as a part of the least round-trip time. Chosen: no test fails at
/// 1/64 and 1/16.
const STEEP_QUEUE: Ratio = Ratio::new(1, 32);
/// Shortest queue that ends slow start: HyStart's least threshold is as long (RFC 9406, section
/// 4.3, `MIN_RTT_THRESH`).
const SHORTEST_STEEP_QUEUE: Span = Span::from_millis(4);
/// Delay of a queue from which on it counts as standing, as a part of the least round-trip time.
/// Chosen: no test fails at 1/128 and 1/32.
const STANDING_QUEUE: Ratio = Ratio::new(1, 64);
/// Shortest standing queue. Chosen: at 1 ms test
/// `a_sender_that_does_not_use_its_ceiling_learns_nothing` fails; at 4 ms no test fails.
const SHORTEST_STANDING_QUEUE: Span = Span::from_millis(2);
/// Window of the greatest delivery rate, as a part of the least round-trip time; at least half of
/// [`SHORTEST_ROUND`]. Chosen: no test fails at 1/8 and 1/2.
const DELIVERY_WINDOW: Ratio = Ratio::new(1, 4);
/// Longest window of the greatest delivery rate. Chosen: no test fails at 50 ms and 200 ms.
const LONGEST_DELIVERY_WINDOW: Span = Span::from_millis(100);

/// State of the search for the path's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The search climbs: the capacity is not known yet.
    Climb,
    /// The rate is just under the capacity.
    Hold,
    /// The rate is a step above the capacity.
    Probe,
    /// The rate is half of the capacity, beside flows that fill every queue.
    Compete,
}

/// Cause for which the search has set a new ceiling, for reports: a queue, losses, a probe, or the
/// like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A queue showed what the path carries.
    QueueGrew,
    /// More packets were lost than by chance.
    Losses,
    /// The delivery rate does not grow any more.
    NoGrowth,
    /// The queue has drained.
    QueueGone,
    /// A higher rate is tried, as is done at intervals.
    ProbeStarted,
    /// The higher rate was carried.
    ProbeSucceeded,
    /// The higher rate was not carried.
    ProbeFailed,
    /// The path carries what it is known to carry.
    CachedRateConfirmed,
    /// The queue that was suspected was none.
    NoQueue,
    /// The queue does not drain whatever is sent: others fill it.
    QueueStays,
    /// The capacity has been measured beside others, and with it this transfer's half.
    ShareFound,
}

/// A new ceiling of the rate, with its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// State of the search after the decision.
    pub state: State,
    /// Ceiling for the socket; `None` for none.
    pub ceiling: Option<Rate>,
    /// Cause of the decision.
    pub reason: Reason,
}

/// State of the search for the capacity, with the numbers of round trips that belong to it.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The ceiling rises; the capacity is not known.
    Climb {
        /// Rate of the best round trip.
        best: Rate,
        /// Number of round trips without growth of the delivery rate.
        flat: u32,
    },
    /// The ceiling is held just under the capacity.
    Hold {
        /// Number of round trips at the ceiling.
        held: u32,
    },
    /// A higher rate is tried.
    Probe {
        /// Number of round trips since the step to the higher rate.
        rounds: u32,
    },
}

/// Estimate of the path's capacity, and how it was found.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    rate: Rate,
    /// Upper bound of `rate` since there was last no queue, as the path has carried no more; `None`
    /// while there is none.
    most: Option<Rate>,
    /// Greatest capacity without a queue: a shared queue drains at that rate.
    greatest: Rate,
    /// Whether the estimate has fallen below [`FALLEN_THRESHOLD`] in one step since there was last
    /// no queue.
    fallen: bool,
}

/// State of the search for a higher capacity: size of the next probe's step, and whether the caller
/// searches in place of probes.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// The rate of the next probe is `capacity / divisor` above the capacity.
    divisor: u64,
    /// A higher rate was tried since the climb.
    tried: bool,
    /// The caller searches, and reports a higher capacity by [`Steering::raise`].
    is_external: bool,
}

/// State of the queue of the path: its delay, what of that counts as the path's own, and the
/// reductions that did not shorten it.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// Number of reductions in a row that did not shorten the queue.
    reductions: u32,
    /// Delay of the queue in the last round trip.
    last: Span,
    /// Part of the queue's delay that is taken for the path's own delay.
    foreign: Span,
    /// Whether traffic that began suddenly caused the queue, and it has not drained since.
    sudden: bool,
    /// State before the queue built up, for the one round trip in which it may turn out to be none.
    doubted: Option<Before>,
}

/// Controller of one connection's ceiling: finds from `TCP_INFO` what the path carries, and holds
/// the rate just under that. See the module's description.
#[derive(Debug)]
pub struct Steering {
    phase: Phase,
    /// Ceiling of the socket; `None` while there is none.
    ceiling: Option<Rate>,
    capacity: Capacity,
    search: Search,
    queue: Queue,
    round: Option<Round>,
    onset: Onset,
    /// Round trips are judged if they begin at this time or later: earlier ones still show what was
    /// sent before the last sudden reduction.
    heeded: Time,
    delivery: Delivery,
    /// Round trips in a row in which the window was too small for the ceiling.
    closed: u32,
    /// Whether a queue that does not drain is left to others.
    gives_way: bool,
}

/// State of the controller before a queue built up, which is restored if the queue turns out to be
/// none.
#[derive(Clone, Copy, Debug)]
struct Before {
    phase: Phase,
    capacity: Rate,
    ceiling: Option<Rate>,
}

/// Measurements of the round trip that is in progress.
#[derive(Clone, Copy, Debug)]
struct Round {
    begin: Observation,
    /// Least smoothed round-trip time in it.
    least_rtt: Span,
    /// Least congestion window in it.
    window: ByteCount,
}

impl Round {
    /// The round trip that begins with this observation.
    fn starting(now: &Observation) -> Self {
        Self { begin: *now, least_rtt: now.rtt, window: now.window }
    }
}

/// Measurement of one complete round trip.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Delivery rate during the round trip.
    rate: Rate,
    queue: Span,
    /// Least round-trip time of the path.
    base: Span,
    /// More packets were lost than by chance.
    losses: bool,
    packet: ByteCount,
}

impl Sample {
    /// Whether the queue is longer than `least` and holds several packets: a few acknowledgements
    /// that the other end delays make a round-trip time longer as well.
    fn has_queue(&self, least: Span) -> bool {
        self.queue > least && self.rate * self.queue > self.packet * QUEUE_PACKETS
    }
}

impl Phase {
    /// The climb at its beginning.
    const CLIMB: Self = Self::Climb { best: Rate::ZERO, flat: 0 };
    /// The phase that holds the rate, at its beginning.
    const HOLD: Self = Self::Hold { held: 0 };
    /// A probe at its beginning.
    const PROBE: Self = Self::Probe { rounds: 0 };

    /// State of the search in this phase, as the caller sees it.
    fn state(self) -> State {
        match self {
            Self::Climb { .. } => State::Climb,
            Self::Hold { .. } => State::Hold,
            Self::Probe { .. } => State::Probe,
        }
    }

    /// This phase of the search with its count of round trips at zero.
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
            ceiling: None,
            capacity: Capacity { rate: Rate::ZERO, most: None, greatest: Rate::ZERO, fallen: false },
            search: Search { divisor: FIRST_PROBE_DIVISOR, tried: false, is_external: false },
            queue: Queue::default(),
            round: None,
            onset: Onset::default(),
            heeded: Time::ORIGIN,
            delivery: Delivery::default(),
            closed: 0,
            gives_way: false,
        }
    }
}

impl Steering {
    /// A controller for a path that carried `known` before; [`Self::ceiling`] is the ceiling to
    /// begin with.
    #[must_use]
    pub fn resuming(known: Rate) -> Self {
        Self { ceiling: Some(known + known * KNOWN_RATE_MARGIN), ..Self::default() }
    }

    /// A controller that holds just under a `capacity` that the caller has found, and leaves the
    /// search for more to the caller.
    pub(crate) fn holding(capacity: Rate) -> Self {
        let fresh = Self::default();
        Self {
            phase: Phase::HOLD,
            ceiling: Some(just_under(capacity)),
            capacity: Capacity { rate: capacity, most: None, greatest: Rate::ZERO, fallen: false },
            search: Search { is_external: true, ..fresh.search },
            ..fresh
        }
    }

    /// This controller; if it `gives_way`, it leaves a long queue that does not drain to others: each reduction leaves them
    /// half of what it had.
    pub(crate) fn giving_way(self, gives_way: bool) -> Self {
        Self { gives_way, ..self }
    }

    /// Present estimate of the path's capacity.
    pub(crate) fn capacity(&self) -> Rate {
        self.capacity.rate
    }

    /// Reductions in a row that have not shortened the queue.
    pub(crate) fn reductions(&self) -> u32 {
        self.queue.reductions
    }

    /// Capacity while there was no queue; `None` if there always was one.
    pub(crate) fn carried_alone(&self) -> Option<Rate> {
        self.capacity.most
    }

    /// This controller after a time in which another one was in charge, which found `foreign` of
    /// the queue to be the path's own delay.
    pub(crate) fn resumed(self, foreign: Span) -> Self {
        let queue = Queue { foreign: self.queue.foreign + foreign, ..Queue::default() };
        Self { queue, round: None, closed: 0, delivery: Delivery::default(), ..self }
    }

    /// Whether the ceiling is held just under the capacity, with no queue to drain.
    pub(crate) fn is_level(&self) -> bool {
        let level = just_under(self.capacity.rate);
        matches!(self.phase, Phase::Hold { .. }) && self.ceiling.is_none_or(|ceiling| ceiling >= level)
    }

    /// Sets a higher `capacity` that the caller's search has found.
    pub(crate) fn raise(&mut self, capacity: Rate) -> Decision {
        (self.capacity.rate, self.capacity.most) = (capacity, None);
        self.set(Phase::HOLD, just_under(capacity), Reason::ProbeSucceeded)
    }

    /// Ceiling of the socket at present; `None` for none.
    #[must_use]
    pub fn ceiling(&self) -> Option<Rate> {
        self.ceiling
    }

    /// State of the search for the capacity.
    #[must_use]
    pub fn state(&self) -> State {
        self.phase.state()
    }

    /// Processes an observation and returns the decision that follows from it, if any. An interval
    /// of ten milliseconds between observations is enough.
    pub fn observe(&mut self, now: &Observation) -> Option<Decision> {
        let base = now.least_rtt;
        if base.is_zero() {
            return None;
        }
        let window = (base * DELIVERY_WINDOW).min(LONGEST_DELIVERY_WINDOW).max(SHORTEST_ROUND / 2);
        self.delivery.note(now.at, now.delivered, window);
        let fresh = Round::starting(now);
        let round = self.round.get_or_insert(fresh);
        round.least_rtt = round.least_rtt.min(now.rtt);
        round.window = round.window.min(now.window);
        let round = *round;
        if let Some(decision) = self.within_round(now) {
            self.round = Some(fresh);
            return Some(decision);
        }
        if now.at - round.begin.at < base.max(SHORTEST_ROUND) {
            return None;
        }
        let seen = self.sample(&round, now);
        self.queue.foreign = self.queue.foreign.min(round.least_rtt - base);
        self.round = Some(fresh);
        let doubted = self.queue.doubted.take();
        if now.idle || seen.rate.is_zero() || self.is_closed(round.window, base) {
            return None;
        }
        if let Some(before) = doubted.filter(|_| !seen.losses && !seen.has_queue(standing(base))) {
            (self.queue.sudden, self.queue.reductions) = (false, 0);
            (self.capacity.rate, self.capacity.fallen) = (before.capacity, false);
            return Some(self.set(before.phase.afresh(), before.ceiling, Reason::NoQueue));
        }
        if round.begin.at < self.heeded {
            return None;
        }
        let before = (self.state(), self.ceiling);
        let decision = match self.phase {
            Phase::Climb { best, flat } => self.climb(&seen, best, flat),
            Phase::Hold { held } => self.hold(&seen, held),
            Phase::Probe { rounds } => self.probe(&seen, rounds),
        };
        decision.filter(|_| (self.state(), self.ceiling) != before)
    }

    /// Decision before a round trip is over: a steep queue ends the climb or a probe, and cross
    /// traffic that begins lowers the ceiling. `None` otherwise.
    fn within_round(&mut self, now: &Observation) -> Option<Decision> {
        let base = now.least_rtt;
        let queue = now.rtt - base - self.queue.foreign;
        let at_peak = Sample { rate: self.delivery.peak(), queue, base, losses: false, packet: now.packet };
        let state = self.phase.state();
        if state != State::Hold && at_peak.has_queue(steep(base)) {
            let is_first = state == State::Climb;
            return Some(if is_first { self.doubtful(&at_peak) } else { self.refused(&at_peak) });
        }
        if state != State::Hold || now.idle {
            self.onset.begin_anew();
            return None;
        }
        let most = self.capacity.greatest.max(self.capacity.rate);
        let free = self.onset.note(now, queue, most, self.ceiling)?;
        let is_onset = queue > steep(base) && free < self.capacity.rate * ONSET_THRESHOLD;
        is_onset.then(|| self.yield_to_onset(&at_peak, free, now.at))
    }

    /// Measurement of the round trip that ends now.
    fn sample(&self, round: &Round, now: &Observation) -> Sample {
        let (base, delivered) = (now.least_rtt, now.delivered - round.begin.delivered);
        let packets = delivered.as_u64() / now.packet.as_u64().max(1);
        let retransmitted = now.retransmitted.saturating_sub(round.begin.retransmitted);
        Sample {
            rate: delivered / (now.at - round.begin.at),
            queue: round.least_rtt - base - self.queue.foreign,
            base,
            losses: exceeds_random_loss(retransmitted, packets),
            packet: now.packet,
        }
    }

    /// Judges a round trip of the climb: ends it where a known rate is confirmed, after losses, or
    /// after [`FLAT_ROUNDS`] without growth beyond the rate `best`; `None` while it goes on.
    fn climb(&mut self, seen: &Sample, best: Rate, flat: u32) -> Option<Decision> {
        let peak = self.delivery.take_peak();
        let is_reached = |ceiling: Rate| seen.rate >= ceiling - ceiling * KNOWN_RATE_MARGIN * 2;
        if !seen.losses && self.ceiling.is_some_and(is_reached) {
            self.capacity.rate = seen.rate;
            return Some(self.set(Phase::HOLD, just_under(seen.rate), Reason::CachedRateConfirmed));
        }
        if seen.losses {
            // The path carries what it has delivered before.
            let carried = Sample { rate: peak.max(seen.rate).max(best), ..*seen };
            return Some(self.found(&carried, Reason::Losses));
        }
        if seen.rate > best + best * GROWTH_THRESHOLD {
            self.phase = Phase::Climb { best: seen.rate, flat: 0 };
            return None;
        }
        let flat = flat + 1;
        self.phase = Phase::Climb { best, flat };
        // Before the first delivery nothing can grow.
        if flat < FLAT_ROUNDS || best.is_zero() {
            return None;
        }
        // Without a queue the path has more; probes find how much.
        self.search.divisor = LAST_PROBE_DIVISOR;
        Some(self.found(&Sample { rate: best, queue: Span::ZERO, ..*seen }, Reason::NoGrowth))
    }

    /// Judges a round trip at the held ceiling: lowers it for a queue or losses, lifts it once the
    /// queue has drained, or begins a probe; `None` if it stays. `held`: round trips at the ceiling
    /// before.
    fn hold(&mut self, seen: &Sample, held: u32) -> Option<Decision> {
        if self.is_cut(seen) {
            return None;
        }
        let last = std::mem::replace(&mut self.queue.last, seen.queue);
        if seen.has_queue(standing(seen.base)) || seen.losses {
            // While it drains, less arrives than the path carries.
            let drains = seen.queue + last * DRAIN_THRESHOLD <= last && !seen.losses;
            return if drains { None } else { self.reduce(seen) };
        }
        if std::mem::take(&mut self.capacity.fallen) {
            self.search.divisor = FALLEN_PROBE_DIVISOR;
        }
        (self.queue.sudden, self.queue.reductions) = (false, 0);
        self.capacity.most = Some(self.capacity.rate);
        self.capacity.greatest = self.capacity.greatest.max(self.capacity.rate);
        let level = just_under(self.capacity.rate);
        if self.ceiling.is_some_and(|ceiling| ceiling < level) {
            return Some(self.set(Phase::HOLD, level, Reason::QueueGone));
        }
        if self.ceiling.is_none_or(|ceiling| seen.rate < ceiling - ceiling * UNUSED_THRESHOLD) {
            return None;
        }
        let held = held + 1;
        self.phase = Phase::Hold { held };
        let is_due = held >= ROUNDS_BEFORE_PROBE || self.search.divisor < FIRST_PROBE_DIVISOR || !self.search.tried;
        (is_due && !self.search.is_external).then(|| self.step_up(Reason::ProbeStarted))
    }

    /// Lowers the ceiling after a queue or losses at it; `None`, and the ceiling stays, where
    /// earlier reductions did not shorten the queue, which is then counted as that of others.
    fn reduce(&mut self, seen: &Sample) -> Option<Decision> {
        self.queue.reductions += 1;
        let others = (seen.base * OTHERS_QUEUE).max(SHORTEST_OTHERS_QUEUE);
        let yields = self.gives_way && (seen.losses || seen.queue + self.queue.foreign > others);
        if self.queue.reductions > FUTILE_REDUCTIONS && !seen.losses && !yields {
            self.queue.reductions = 0;
            self.queue.foreign += seen.queue;
            self.search.divisor = LAST_PROBE_DIVISOR;
            return None;
        }
        let before = self.capacity.rate;
        // From a standing queue more is delivered than others leave free.
        let limited = if self.queue.sudden { Sample { rate: seen.rate.min(before), ..*seen } } else { *seen };
        let limited = if yields { Sample { rate: limited.rate.min(before * LEAST_KEPT), ..limited } } else { limited };
        let decision = match self.queue.reductions {
            1 if seen.losses => self.found(seen, Reason::Losses),
            1 => self.doubtful(seen),
            _ if seen.losses => self.found(&limited, Reason::Losses),
            _ => self.found(&limited, Reason::QueueGrew),
        };
        self.capacity.fallen |= self.capacity.rate < before * FALLEN_THRESHOLD;
        Some(decision)
    }

    /// Lowers the ceiling to the `free` rate that cross traffic leaves which has just begun.
    fn yield_to_onset(&mut self, seen: &Sample, free: Rate, now: Time) -> Decision {
        let before = self.queue.doubted.take();
        let decision = self.doubtful(&Sample { rate: free.max(self.capacity.greatest * LEAST_FREE), ..*seen });
        self.heeded = now + seen.base;
        self.capacity.fallen = true;
        (self.queue.sudden, self.queue.reductions) = (true, self.queue.reductions.max(1));
        self.queue.doubted = before.or(self.queue.doubted);
        decision
    }

    /// Judges a probe by its second round trip: in the first one the faster packets are sent.
    /// `None` in the first one, and where almost nothing arrived.
    fn probe(&mut self, seen: &Sample, rounds: u32) -> Option<Decision> {
        if self.is_cut(seen) {
            return None;
        }
        self.phase = Phase::Probe { rounds: rounds + 1 };
        if rounds == 0 {
            return None;
        }
        let capacity = self.capacity.rate;
        let carried = seen.rate > capacity + capacity / (CARRIED_PROBE_DIVISOR * self.search.divisor);
        if seen.has_queue(standing(seen.base)) || seen.losses {
            return Some(self.refused(seen));
        }
        if carried {
            self.capacity.rate = seen.rate;
            self.search.divisor = (self.search.divisor / 2).max(LAST_PROBE_DIVISOR);
            return Some(self.step_up(Reason::ProbeSucceeded));
        }
        self.search.divisor = FIRST_PROBE_DIVISOR;
        Some(self.set(Phase::HOLD, just_under(capacity), Reason::ProbeFailed))
    }

    /// Whether the algorithm keeps its window closed for the moment, below what the ceiling allows;
    /// false during the climb, and from the fifth such round trip in a row.
    fn is_closed(&mut self, window: ByteCount, base: Span) -> bool {
        let is_small = |ceiling: Rate| window < ceiling * CLOSED_WINDOW * base;
        let is_closed = self.state() != State::Climb && self.ceiling.is_none_or(is_small);
        self.closed = if is_closed { self.closed + 1 } else { 0 };
        is_closed && self.closed <= CLOSED_WINDOW_ROUNDS
    }

    /// Whether almost nothing arrived in the round trip, after a timeout or a cut of the path.
    fn is_cut(&self, seen: &Sample) -> bool {
        seen.losses && seen.rate < self.capacity.rate * TIMEOUT_THRESHOLD
    }

    /// Begins a probe at a step above the capacity.
    fn step_up(&mut self, reason: Reason) -> Decision {
        self.search.tried = true;
        self.set(Phase::PROBE, self.capacity.rate + self.capacity.rate / self.search.divisor, reason)
    }

    /// Reduces for a queue, which the next round trip may show to be none.
    fn doubtful(&mut self, seen: &Sample) -> Decision {
        let before = Before { phase: self.phase, capacity: self.capacity.rate, ceiling: self.ceiling };
        let decision = self.found(seen, Reason::QueueGrew);
        self.queue.doubted = Some(before);
        decision
    }

    /// Ends a probe that the path did not carry; the capacity stays at least what it was.
    fn refused(&mut self, seen: &Sample) -> Decision {
        let is_first = self.search.divisor == FIRST_PROBE_DIVISOR;
        self.capacity.most = if is_first { Some(self.capacity.rate) } else { self.ceiling };
        let rate = seen.rate.max(self.capacity.rate);
        self.found(&Sample { rate, ..*seen }, Reason::ProbeFailed)
    }

    /// Sets the capacity that a round trip has shown, and a ceiling at which the queue drains in
    /// about [`DRAIN_ROUNDS`] round trips.
    fn found(&mut self, seen: &Sample, reason: Reason) -> Decision {
        let base = seen.base;
        let least = self.least(seen);
        let carried = self.capacity.most.map_or(seen.rate, |most| seen.rate.min(most));
        self.capacity.rate = carried.max(self.capacity.rate * LEAST_KEPT).max(least);
        if reason != Reason::NoGrowth {
            self.search.divisor = FIRST_PROBE_DIVISOR;
        }
        let level = just_under(self.capacity.rate);
        let drain = self.capacity.greatest.max(level);
        let drained =
            drain.scaled(seen.queue.min(base).as_nanos(), (base * DRAIN_ROUNDS).as_nanos()).min(level * LARGEST_DRAIN);
        self.set(Phase::HOLD, (level - drained).max(least), reason)
    }

    /// Least ceiling after a reduction.
    fn least(&self, seen: &Sample) -> Rate {
        let least = (seen.packet * LEAST_PACKETS) / seen.base;
        if self.gives_way { least.max(self.capacity.greatest / BACKGROUND_DIVISOR) } else { least }
    }

    /// Enters a phase with this ceiling, `None` for none, and begins to measure the greatest
    /// delivery rate anew.
    fn set(&mut self, phase: Phase, ceiling: impl Into<Option<Rate>>, reason: Reason) -> Decision {
        self.phase = phase;
        self.delivery.take_peak();
        self.ceiling = ceiling.into();
        Decision { state: phase.state(), ceiling: self.ceiling, reason }
    }
}

/// Rate that is held on a path of this capacity: [`CAPACITY_MARGIN`] below it.
pub(crate) fn just_under(capacity: Rate) -> Rate {
    capacity - capacity * CAPACITY_MARGIN
}

/// Whether more packets were retransmitted, of `packets` sent, than random loss explains.
pub(crate) fn exceeds_random_loss(retransmitted: u64, packets: u64) -> bool {
    retransmitted > packets * RANDOM_LOSS + RANDOM_LOSS_PACKETS
}

/// Least delay of a queue that ends the climb or a probe, on a path whose least round-trip time is
/// `base`.
fn steep(base: Span) -> Span {
    (base * STEEP_QUEUE).max(SHORTEST_STEEP_QUEUE)
}

/// Least delay of a queue that counts as standing, on a path whose least round-trip time is `base`:
/// at a ceiling below the capacity none is as long.
pub(crate) fn standing(base: Span) -> Span {
    (base * STANDING_QUEUE).max(SHORTEST_STANDING_QUEUE)
}

#[cfg(test)]
mod tests;
