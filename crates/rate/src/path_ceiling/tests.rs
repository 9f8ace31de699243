use std::collections::VecDeque;

use super::*;

const TICK: Span = Span::from_millis(10);
const PACKET: ByteCount = ByteCount::new(1448);

/// A path of one bottleneck, and a window that doubles with each round trip unless the ceiling
/// holds it.
struct Path {
    steering: Steering,
    base: Span,
    /// Time by which the route is longer than the least round-trip time.
    added: Span,
    capacity: Rate,
    now: Time,
    delivered: ByteCount,
    waiting: ByteCount,
    /// Bytes that have arrived at a host that pauses.
    held: ByteCount,
    pauses: bool,
    wish: Rate,
    ceiling: Rate,
    sent: VecDeque<Rate>,
    decisions: Vec<(Time, Decision)>,
}

impl Path {
    fn new(base_ms: u64, capacity: Rate) -> Self {
        Self {
            steering: Steering::default(),
            base: Span::from_millis(base_ms),
            added: Span::ZERO,
            capacity,
            now: Time::ORIGIN,
            delivered: ByteCount::ZERO,
            waiting: ByteCount::ZERO,
            held: ByteCount::ZERO,
            pauses: false,
            wish: Rate::from_bits_per_second(5_000_000),
            ceiling: Rate::MAX,
            sent: VecDeque::from(vec![Rate::ZERO; (base_ms / 10) as usize]),
            decisions: Vec::new(),
        }
    }

    /// Bytes delivered in this time, as a share of the capacity.
    fn run(&mut self, seconds: u64) -> f64 {
        let before = self.delivered;
        for _ in 0..seconds * 100 {
            self.step();
        }
        (self.delivered - before).ratio(self.capacity * Span::from_secs(seconds))
    }

    fn step(&mut self) {
        self.now += TICK;
        let steps = self.base.as_millis() / 10;
        self.wish = self.wish + self.wish.scaled(1, steps);
        self.wish = self.wish.min(self.ceiling).min(self.capacity * 4);
        let arriving = self.sent.pop_front().unwrap_or_default() * TICK;
        self.sent.push_back(self.wish);
        let all = self.waiting + arriving;
        let carried = all.min(self.capacity * TICK);
        self.waiting = all - carried;
        self.held += carried;
        if self.pauses {
            self.added += TICK;
        } else {
            self.delivered += std::mem::take(&mut self.held);
        }
        let observation = self.observation(self.wish * self.base);
        if let Some(decision) = self.steering.observe(&observation) {
            self.ceiling = decision.ceiling.unwrap_or(Rate::MAX);
            self.decisions.push((self.now, decision));
        }
    }

    /// The other host does nothing for this number of ticks; the smoothed round-trip time shows
    /// that for as long again.
    fn pause(&mut self, ticks: u32) {
        self.pauses = true;
        (0..ticks).for_each(|_| self.step());
        self.pauses = false;
        (0..ticks).for_each(|_| self.step());
        self.added = Span::ZERO;
    }

    fn observation(&self, window: ByteCount) -> Observation {
        Observation {
            at: self.now,
            rtt: self.base + self.added + self.waiting / self.capacity,
            least_rtt: self.base,
            delivered: self.delivered,
            retransmitted: 0,
            packet: PACKET,
            window,
            idle: false,
        }
    }
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

#[test]
fn it_finds_the_capacity_and_stays_just_under_it() {
    for (base, capacity) in [(300, 941), (50, 941), (500, 90), (100, 9000)] {
        let mut path = Path::new(base, mbit(capacity));
        path.run(15);
        let share = path.run(30);
        assert!((0.955..1.0).contains(&share), "{base} ms, {capacity}: {share} {:?}", path.decisions);
        assert!(path.waiting / path.capacity < path.base / 8, "{:?}", path.waiting / path.capacity);
    }
}

#[test]
fn it_follows_what_others_take_and_give_back() {
    let mut path = Path::new(100, mbit(900));
    path.run(20);
    path.capacity = mbit(400);
    path.run(10);
    let share = path.run(20);
    assert!((0.9..=1.0).contains(&share), "{share}");
    path.capacity = mbit(900);
    path.run(10);
    let share = path.run(20);
    assert!((0.9..1.0).contains(&share), "{share} {:?}", path.decisions);
}

#[test]
fn every_decision_has_its_reason() {
    let mut path = Path::new(100, mbit(900));
    path.run(20);
    assert_eq!(path.decisions.first().map(|(_, decision)| decision.reason), Some(Reason::QueueGrew));
    assert!(path.decisions.iter().any(|(_, decision)| decision.state == State::Probe));
    let ceilings: Vec<Rate> = path.decisions.iter().filter_map(|(_, decision)| decision.ceiling).collect();
    assert!(ceilings.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", path.decisions);
}

#[test]
fn a_longer_route_is_no_queue() {
    let mut path = Path::new(50, mbit(900));
    path.run(20);
    // The kernel still reports the least round-trip time of the shorter one.
    path.added = Span::from_millis(30);
    path.run(20);
    let share = path.run(20);
    assert!(share > 0.8, "{share} {:?}", path.decisions);
}

#[test]
fn a_timeout_does_not_tell_what_the_path_carries() {
    for seconds in [0, 20] {
        let mut path = Path::new(100, mbit(900));
        path.run(seconds);
        let mut observation =
            Observation { rtt: path.base, ..path.observation(path.ceiling.min(path.capacity) * path.base) };
        // The rate at which slow start goes, or more.
        for _ in 0..12 {
            observation.at += TICK;
            observation.delivered += mbit(500) * TICK;
            let _ = path.steering.observe(&observation);
        }
        let before = path.steering.ceiling;
        for _ in 0..300 {
            observation.at += TICK;
            observation.retransmitted += 100;
            observation.delivered += PACKET;
            let _ = path.steering.observe(&observation);
        }
        assert!(
            path.steering.ceiling.unwrap() > before.map_or(mbit(400), |before| mbit(400).min(before / 2)),
            "{seconds} s: {:?}",
            path.steering
        );
    }
}

#[test]
fn an_algorithm_that_closes_its_window_does_not_bring_the_ceiling_down() {
    let mut path = Path::new(300, mbit(900));
    path.run(20);
    for _ in 0..3 {
        let (before, wish) = (path.ceiling, path.wish);
        // BBR looks for the least round-trip time; the smoothed one still contains that of a
        // queue.
        path.added = Span::from_millis(20);
        for _ in 0..60 {
            path.wish = mbit(900) / 1000;
            path.step();
        }
        assert!(path.ceiling > before.scaled(9, 10), "{:?}", path.decisions);
        (path.added, path.wish) = (Span::ZERO, wish);
        path.run(10);
    }
    let share = path.run(20);
    assert!(share > 0.9, "{share} {:?}", path.decisions);
}

#[test]
fn acknowledgements_that_are_delayed_are_no_queue() {
    let mut path = Path::new(300, mbit(900));
    path.wish = mbit(1);
    path.added = Span::from_millis(15);
    path.run(1);
    path.added = Span::ZERO;
    path.run(8);
    let share = path.run(10);
    assert!(share > 0.95, "{share} {:?}", path.decisions);
}

#[test]
fn a_host_that_paused_does_not_end_the_climb() {
    for (carried, known) in [(20, None), (300, None), (300, Some(mbit(900)))] {
        let mut path = Path::new(300, mbit(900));
        if let Some(known) = known {
            path.steering = Steering::resuming(known);
            path.ceiling = path.steering.ceiling().unwrap_or(Rate::MAX);
        }
        while path.wish < mbit(carried) {
            path.step();
        }
        path.pause(6);
        path.run(4);
        let reasons: Vec<Reason> = path.decisions.iter().map(|(_, decision)| decision.reason).collect();
        assert_eq!(reasons.get(..2), Some(&[Reason::QueueGrew, Reason::NoQueue][..]), "{:?}", path.decisions);
        let share = path.run(10);
        assert!(share > 0.93, "{carried}: {share} {:?}", path.decisions);
    }
}

#[test]
fn a_host_that_paused_changes_nothing() {
    for ticks in [3, 10, 20, 28] {
        let mut path = Path::new(300, mbit(900));
        path.run(20);
        for offset in [0, 7, 19] {
            (0..offset).for_each(|_| path.step());
            let (before, decisions) = (path.ceiling, path.decisions.len());
            path.pause(ticks);
            path.run(2);
            let shown = &path.decisions[decisions..];
            assert!(path.ceiling > before.scaled(9, 10), "{ticks}: {shown:?}");
            assert!(path.ceiling < mbit(950), "{ticks}: {shown:?}");
            path.run(4);
        }
    }
}

#[test]
fn one_round_trip_leaves_a_third_of_the_ceiling() {
    let mut path = Path::new(300, mbit(900));
    path.run(20);
    let before = path.ceiling;
    let seen = Sample { rate: mbit(1), queue: Span::from_millis(300), base: path.base, losses: false, packet: PACKET };
    let _ = path.steering.found(&seen, Reason::QueueGrew);
    assert!(path.steering.ceiling() > Some(before.scaled(1, 3)), "{:?}", path.steering);
    for _ in 0..40 {
        let _ = path.steering.found(&seen, Reason::QueueGrew);
    }
    assert!(path.steering.ceiling() >= Some(PACKET * LEAST_PACKETS / path.base));
}

#[test]
fn one_that_gives_way_leaves_a_long_queue_to_others_and_takes_a_short_one_for_the_paths() {
    for (queue, least, most) in [(4, 0.7, 1.0), (25, 0.0, 0.1)] {
        let mut path = Path::new(50, mbit(900));
        path.steering = Steering::holding(mbit(900)).giving_way(true);
        path.ceiling = path.steering.ceiling().unwrap();
        path.run(5);
        let alone = path.run(5);
        assert!(alone > 0.95, "{queue} ms: {alone} alone");
        // It stays whatever is sent.
        path.added = Span::from_millis(queue);
        path.run(5);
        let carried = path.run(5);
        assert!((least..most).contains(&carried), "{queue} ms: {carried}");
    }
    // One that grows in short steps is a long one in the end.
    let mut path = Path::new(50, mbit(900));
    path.steering = Steering::holding(mbit(900)).giving_way(true);
    path.ceiling = path.steering.ceiling().unwrap();
    path.run(5);
    for queue in (4..=40).step_by(4) {
        path.added = Span::from_millis(queue);
        path.run(2);
    }
    path.run(5);
    let carried = path.run(5);
    assert!(carried < 0.1, "a queue that has grown slowly: {carried}");
}

#[test]
fn what_is_known_is_the_ceiling_of_the_climb_and_confirmed_or_not() {
    for (capacity, reason) in
        [(900, Reason::CachedRateConfirmed), (2000, Reason::CachedRateConfirmed), (300, Reason::QueueGrew)]
    {
        let mut path = Path::new(100, mbit(capacity));
        path.steering = Steering::resuming(mbit(900));
        path.ceiling = path.steering.ceiling().unwrap_or(Rate::MAX);
        assert!(path.ceiling < mbit(1000));
        path.run(10);
        assert_eq!(path.decisions.first().map(|(_, decision)| decision.reason), Some(reason), "{capacity}");
        path.run(30);
        let share = path.run(20);
        assert!((0.9..1.0).contains(&share), "{capacity}: {share} {:?}", path.decisions);
    }
}

#[test]
fn a_sender_that_does_not_use_its_ceiling_learns_nothing() {
    let mut path = Path::new(100, mbit(900));
    path.run(20);
    let before = path.decisions.len();
    path.steering.phase = Phase::HOLD;
    let idle = path.steering.ceiling;
    path.capacity = mbit(300);
    path.wish = mbit(1);
    let mut observation = Observation { rtt: path.base, ..path.observation(path.ceiling * path.base) };
    assert_eq!(path.steering.state(), State::Hold);
    for _ in 0..1000 {
        observation.at += TICK;
        observation.delivered += mbit(1) * TICK;
        assert_eq!(path.steering.observe(&observation), None);
    }
    assert_eq!((path.steering.ceiling, path.decisions.len()), (idle, before));
}

#[test]
fn the_first_probe_after_the_climb_comes_at_once() {
    let mut path = Path::new(300, mbit(900));
    path.run(20);
    let when = |reason| path.decisions.iter().find(|(_, decision)| decision.reason == reason).map(|(at, _)| *at);
    let (gone, tried) = (when(Reason::QueueGone).unwrap(), when(Reason::ProbeStarted).unwrap());
    assert!(tried - gone <= path.base * 3, "{:?}", path.decisions);
}

#[test]
fn a_probe_that_is_refused_does_not_take_what_was_carried_before() {
    let mut path = Path::new(300, mbit(900));
    path.run(20);
    let before = path.steering.capacity.rate;
    let seen = Sample { rate: mbit(500), queue: Span::from_millis(20), base: path.base, losses: false, packet: PACKET };
    let _ = path.steering.refused(&seen);
    assert_eq!(path.steering.capacity.rate, before);
}

#[test]
fn the_first_probe_after_a_deep_fall_is_a_middling_one() {
    let mut path = Path::new(100, mbit(900));
    path.run(20);
    let fallen = path.decisions.len();
    path.capacity = mbit(400);
    path.run(10);
    let mut later = path.decisions[fallen..].iter().map(|(_, decision)| decision);
    let probe = later.find(|decision| decision.reason == Reason::ProbeStarted).expect("a probe");
    assert_eq!(probe.ceiling, Some(mbit(400) + mbit(400) / FALLEN_PROBE_DIVISOR), "{:?}", &path.decisions[fallen..]);
}

#[test]
fn a_queue_that_drains_is_left_to_and_drains_as_fast_as_the_path_is() {
    let mut steering = Steering::holding(mbit(900));
    let seen = |queue_ms, rate| Sample {
        rate: mbit(rate),
        queue: Span::from_millis(queue_ms),
        base: Span::from_millis(300),
        losses: false,
        packet: PACKET,
    };
    assert!(steering.hold(&seen(0, 880), 0).is_none());
    // Others take four ninths of the path.
    let reduced = steering.hold(&seen(200, 500), 0).unwrap();
    assert!(reduced.ceiling < Some(mbit(360)), "a sixth of the path is left to what waits: {reduced:?}");
    for (queue_ms, rate) in [(140, 300), (80, 250), (30, 250)] {
        assert!(steering.hold(&seen(queue_ms, rate), 0).is_none(), "{queue_ms}");
    }
    let gone = steering.hold(&seen(0, 340), 0).unwrap();
    assert_eq!(gone.reason, Reason::QueueGone);
    assert!(gone.ceiling > Some(mbit(480)), "{gone:?}");
    assert!(steering.hold(&seen(50, 480), 0).is_some() && steering.hold(&seen(50, 460), 0).is_some(), "one that stays");
}
