//! The algorithm `icdc` on simulated paths: how soon it is at the rate of the path, how steadily it
//! stays there, what it leaves to others.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use icdc_path::loss::Model;
use icdc_path::{Change, Fate, Settings};
use icdc_sim::{
    Acknowledgements, Flow, Observer, Outcome, Pause, Pausing, ReceiveWindow, Simulation, Transmission, payload_rate,
    simulate,
};
use icdc_units::{ByteCount, Rate, Span, Time};

const MBIT: u64 = 1_000_000;

/// What arrived new, by round trip and flow; packets dropped at the queue, by round trip.
struct Rounds {
    length: Span,
    arrived: Vec<Vec<u64>>,
    dropped: Vec<u64>,
}

impl Rounds {
    fn new(length: Span, flows: usize) -> Self {
        Self { length, arrived: vec![Vec::new(); flows], dropped: Vec::new() }
    }
}

fn count(bins: &mut Vec<u64>, length: Span, at: Time) {
    let bin = ((at - Time::ORIGIN).as_nanos() / length.as_nanos()) as usize;
    bins.resize(bins.len().max(bin + 1), 0);
    bins[bin] += 1;
}

impl Observer for Rounds {
    fn sent(&mut self, at: Time, _: Transmission, fate: Fate) {
        if fate == Fate::Dropped {
            count(&mut self.dropped, self.length, at);
        }
    }

    fn arrived(&mut self, at: Time, flow: usize, is_new: bool, _read: u64) {
        if is_new {
            count(&mut self.arrived[flow], self.length, at);
        }
    }
}

struct Path {
    rate: u64,
    rtt: Span,
    queue: u64,
    loss: f64,
    /// Of the losses.
    seed: u64,
    /// What the sending host's line carries, in Mbit/s.
    line: Option<u64>,
    seconds: u64,
    changes: Vec<Change>,
}

impl Path {
    fn new(mbit: u64, rtt_ms: u64, queue: u64) -> Self {
        let rtt = Span::from_millis(rtt_ms);
        Self { rate: mbit * MBIT, rtt, queue, loss: 0.0, seed: 7, line: None, seconds: 20, changes: Vec::new() }
    }

    fn run(&self, flows: Vec<Flow>) -> Seen {
        let way = Settings {
            rate: Rate::from_bits_per_second(self.rate),
            delay: self.rtt / 2,
            queue: ByteCount::new(self.queue),
            changes: self.changes.clone(),
            line_rate: self.line.map(|mbit| Rate::from_bits_per_second(mbit * MBIT)),
            ..Settings::default()
        };
        let forward = Settings { loss: Model::Random(self.loss), seed: self.seed, ..way.clone() };
        let mut rounds = Rounds::new(self.rtt, flows.len());
        let simulation = Simulation {
            forward,
            backward: way,
            flows,
            duration: Span::from_secs(self.seconds),
            acknowledgements: Acknowledgements::EverySecond,
            segmentation: false,
        };
        let outcome = simulate(&simulation, &mut rounds).unwrap();
        let packets = payload_rate(&simulation.forward) * self.rtt;
        Seen { rounds, outcome, full: packets.ratio(simulation.segment()) }
    }
}

struct Seen {
    rounds: Rounds,
    outcome: Outcome,
    /// Packets that the path carries in a round trip.
    full: f64,
}

impl Seen {
    fn share(&self, flow: usize, round: usize) -> f64 {
        self.rounds.arrived[flow].get(round).map_or(0.0, |packets| *packets as f64 / self.full)
    }

    /// Of the second half.
    fn steady(&self, flow: usize) -> f64 {
        let bins = &self.rounds.arrived[flow];
        let half = &bins[bins.len() / 2..bins.len() - 1];
        half.iter().sum::<u64>() as f64 / half.len() as f64 / self.full
    }

    fn late_drops(&self) -> u64 {
        let from = self.rounds.arrived[0].len() / 2;
        self.rounds.dropped.iter().skip(from).sum()
    }
}

fn flow(name: &str) -> Flow {
    Flow::bulk(icdc_cc::find(name).unwrap(), ReceiveWindow::Fixed(ByteCount::from_mib(1024)))
}

fn late(name: &str, millis: u64) -> Flow {
    Flow { start: Span::from_millis(millis), ..flow(name) }
}

#[test]
fn an_unknown_path_is_full_after_six_round_trips_without_a_drop() {
    for (mbit, rtt, queue) in
        [(1000, 300, 2_500_000), (1000, 300, 25_000_000), (100, 100, 250_000), (1000, 50, 600_000)]
    {
        let seen = Path::new(mbit, rtt, queue).run(vec![flow("icdc")]);
        // The first packets arrive half a round trip after they were sent.
        let ready = (0..20).find(|round| seen.share(0, *round) > 0.9).unwrap();
        assert!(ready <= 6, "{mbit} Mbit/s, {rtt} ms: {ready} {:?}", seen.rounds.arrived);
        assert!(seen.steady(0) > 0.96, "{mbit} Mbit/s, {rtt} ms: {}", seen.steady(0));
        assert_eq!(seen.outcome.forward.dropped, 0, "{mbit} Mbit/s, {rtt} ms");
    }
}

/// Numbers that look random, from a seed.
struct Numbers(u64);

impl Numbers {
    /// One from `least` up to, not including, `least + range`.
    fn next(&mut self, least: u64, range: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + (self.0 >> 33) % range
    }
}

/// A flow that stands still again and again until a time: for `still` microseconds, after `runs` of
/// them, each half more or less.
fn pausing(of: Pausing, runs: u64, still: u64, until_ms: u64, seed: u64) -> Flow {
    let mut numbers = Numbers(seed);
    let mut pauses = Vec::new();
    let mut at = 0;
    while at < until_ms * 1000 {
        at += numbers.next(runs / 2, runs);
        let length = numbers.next(still / 2, still);
        pauses.push(Pause { of, after: Span::from_micros(at), length: Span::from_micros(length) });
        at += length;
    }
    Flow { pauses, ..flow("icdc") }
}

#[test]
fn a_host_that_shares_its_processor_does_not_overflow_the_queue_while_it_starts() {
    for (runs, still) in [(2_000, 2_000), (4_000, 4_000), (3_000, 1_000)] {
        for seed in 1..=2 {
            let path = Path { line: Some(4_000), seconds: 3, ..Path::new(1000, 300, 2_500_000) };
            let seen = path.run(vec![pausing(Pausing::Sender, runs, still, 2_400, seed)]);
            let dropped: u64 = seen.rounds.dropped.iter().take(8).sum();
            assert!(dropped < 10, "runs {runs} us, stands still {still} us, seed {seed}: {:?}", seen.rounds.dropped);
        }
    }
}

#[test]
fn a_queue_of_four_milliseconds_holds_what_finds_the_rate() {
    let path = Path { line: Some(200), ..Path::new(100, 80, 50_000) };
    let seen = path.run(vec![flow("icdc")]);
    assert_eq!(seen.outcome.forward.dropped, 0);
    assert!(seen.steady(0) > 0.97, "{}", seen.steady(0));
    // Acknowledgements that do not come for up to 50 ms, about once per second.
    let dropped: u64 = (1..=5)
        .map(|seed| path.run(vec![pausing(Pausing::Acknowledgements, 1_000_000, 33_000, 20_000, seed)]))
        .map(|seen| seen.outcome.forward.dropped)
        .sum();
    assert!(dropped < 100, "{dropped} in 100 s");
}

/// From a time on the path carries `mbit`, and a packet takes half of `rtt_ms`.
fn change(seconds: u64, mbit: u64, rtt_ms: u64) -> Change {
    Change {
        after: Span::from_secs(seconds),
        rate: Rate::from_bits_per_second(mbit * MBIT),
        delay: Span::from_millis(rtt_ms) / 2,
        cut: false,
    }
}

#[test]
fn a_path_that_changes_is_followed() {
    let cut = Change { cut: true, ..change(10, 1000, 300) };
    for (name, rtt, changes) in [
        ("nothing for five seconds", 300, vec![cut, change(15, 1000, 300)]),
        ("a tenth of the capacity for ten seconds", 300, vec![change(10, 100, 300), change(20, 1000, 300)]),
        ("a longer route for ten seconds", 50, vec![change(10, 1000, 300), change(20, 1000, 50)]),
    ] {
        let path = Path { seconds: 50, changes, ..Path::new(1000, rtt, 2_500_000) };
        let seen = path.run(vec![flow("icdc")]);
        let bins = &seen.rounds.arrived[0];
        let last = bins.len() - 1 - bins.len() / 10;
        let end = bins[last..bins.len() - 1].iter().sum::<u64>() as f64 / (bins.len() - 1 - last) as f64 / seen.full;
        let seconds: Vec<u64> = bins.chunks((1000 / rtt) as usize).map(|bins| bins.iter().sum()).collect();
        assert!(end > 0.9, "{name}: {end} {seconds:?}");
        assert_eq!(seen.late_drops(), 0, "{name}");
    }
}

#[test]
fn a_known_path_is_full_after_three_round_trips() {
    let known =
        [("known_rate", 115_000), ("known_rtt", 300_000)].map(|(name, value)| (name.to_owned(), value)).to_vec();
    for bundle in [None, Some(0)] {
        let flow = Flow { parameters: known.clone(), bundle, ..flow("icdc") };
        let seen = Path::new(1000, 300, 2_500_000).run(vec![flow]);
        assert!(seen.share(0, 2) > 0.9, "{bundle:?}: {:?}", &seen.rounds.arrived[0][..6]);
        assert_eq!(seen.outcome.forward.dropped, 0, "{bundle:?}");
    }
    // A ceiling below half of it keeps the train from being as fast.
    let ceiling = Some(Rate::from_bits_per_second(200 * MBIT));
    let limited = Flow { parameters: known.clone(), rate: ceiling, ..flow("icdc") };
    let seen = Path::new(1000, 300, 2_500_000).run(vec![limited]);
    assert!(seen.share(0, 3) > 0.19, "{:?}", &seen.rounds.arrived[0][..6]);
    // What is known is not true any more: half of it is more than the path has.
    let path = Path { seconds: 40, ..Path::new(300, 300, 2_500_000) };
    let seen = path.run(vec![Flow { parameters: known, ..flow("icdc") }]);
    assert!(seen.steady(0) > 0.9, "{}", seen.steady(0));
    assert_eq!(seen.late_drops(), 0);
}

#[test]
fn a_known_rate_that_was_too_low_is_exceeded_by_the_first_train() {
    for known in [98_000, 75_000] {
        let parameters = [("known_rate", known), ("known_rtt", 300_000)];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let seen = Path::new(1000, 300, 2_500_000).run(vec![Flow { parameters, ..flow("icdc") }]);
        // What is known counts payload in packets of 1,448 bytes; the third round trip is the first
        // after the train's.
        let of_known = seen.rounds.arrived[0][2] as f64 / (known as f64 * 300.0 / 1448.0);
        assert!(of_known > 1.08, "{known} kB/s: {of_known}, {:?}", &seen.rounds.arrived[0][..12]);
        assert!(seen.share(0, 8) > 0.95, "{known} kB/s: {:?}", &seen.rounds.arrived[0][..12]);
        assert_eq!(seen.outcome.forward.dropped, 0);
    }
}

/// Packets dropped in the first `rounds` round trips of flows that begin where half of what they know is
/// left of the path, with a queue of a tenth of a round trip, alone or beside a flow that fills it; the sum of
/// eight phases of that.
fn drops_at_start(flows: &[Flow], beside: Option<&str>, rounds: usize) -> u64 {
    let path = Path { seconds: 33, ..Path::new(500, 300, 1_875_000) };
    let drops = |phase: u64| -> u64 {
        let begins = 28_000 + 250 * phase;
        let flows = flows.iter().map(|flow| Flow { start: Span::from_millis(begins), ..flow.clone() });
        let seen = path.run(flows.chain(beside.map(flow)).collect());
        seen.rounds.dropped.iter().skip((begins / 300) as usize).take(rounds).sum()
    };
    (0..8).map(drops).sum()
}

#[test]
fn a_known_path_that_has_become_worse_is_not_overrun() {
    let parameters = [("known_rate", 115_000), ("known_rtt", 300_000)];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let known = Flow { parameters, ..flow("icdc") };
    // The slow start of CUBIC takes ten round trips.
    let fresh = drops_at_start(&[flow("cubic")], Some("cubic"), 12);
    for flows in [vec![known.clone()], vec![Flow { bundle: Some(0), ..known }; 4]] {
        assert_eq!(drops_at_start(&flows, None, 6), 0, "{} flows", flows.len());
        let resumed = drops_at_start(&flows, Some("cubic"), 6);
        assert!(resumed <= fresh, "{} flows: {resumed}, {fresh}", flows.len());
    }
}

#[test]
fn random_losses_cost_what_they_take() {
    for loss in [1e-6, 1e-4, 1e-3] {
        let seen = Path { loss, ..Path::new(1000, 300, 2_500_000) }.run(vec![flow("icdc")]);
        assert!(seen.steady(0) > 0.95, "{loss}: {}", seen.steady(0));
        assert_eq!(seen.outcome.forward.dropped, 0, "{loss}");
    }
}

#[test]
fn losses_at_the_start_do_not_hide_the_path() {
    for loss in [0.05, 0.1] {
        for seed in 1..=20 {
            let seen = Path { loss, seed, seconds: 6, ..Path::new(1000, 300, 2_500_000) }.run(vec![flow("icdc")]);
            let share = seen.steady(0) / (1.0 - loss);
            assert!(share > 0.7, "{loss}, seed {seed}: {share}: {:?}", seen.rounds.arrived[0]);
        }
    }
}

#[test]
fn losses_that_do_not_fall_with_the_rate_limit_nothing() {
    for (loss, rtt) in [(0.02, 300), (0.05, 300), (0.1, 300), (0.05, 1000), (0.05, 50)] {
        let seen = Path { loss, seconds: 60, ..Path::new(1000, rtt, 2_500_000) }.run(vec![flow("icdc")]);
        let share = seen.steady(0) / (1.0 - loss);
        assert!(share > 0.9, "{loss}, {rtt} ms: {share}: {:?}", seen.rounds.arrived[0]);
        assert_eq!(seen.late_drops(), 0, "{loss}, {rtt} ms");
    }
}

#[test]
fn a_policer_is_not_taken_for_a_radio_link() {
    // Line, rate of the policer, round trip, losses of the path's own.
    for (rate, rtt, loss, most) in
        [(200, 100, 0.0, 0.01), (200, 20, 0.0, 0.01), (50, 300, 0.0, 0.01), (200, 100, 0.04, 0.02)]
    {
        let path = Path { loss, line: Some(1000), seconds: 60, ..Path::new(rate, rtt, 64_000) };
        let seen = path.run(vec![flow("icdc")]);
        let name = format!("{rate} Mbit/s, {rtt} ms, {loss}");
        let share = seen.steady(0) / (1.0 - loss);
        assert!(share > 0.9, "{name}: {share}: {:?}", seen.rounds.arrived[0]);
        let arrived: u64 = seen.rounds.arrived[0].iter().skip(seen.rounds.arrived[0].len() / 2).sum();
        let dropped = seen.late_drops() as f64 / (arrived + seen.late_drops()) as f64;
        assert!(dropped < most, "{name}: {dropped} dropped: {:?}", seen.rounds.dropped);
    }
}

#[test]
fn it_follows_traffic_that_comes_and_goes() {
    for (megabits, left) in [(450, 0.46..0.56), (700, 0.2..0.3)] {
        let others = Flow {
            rate: Some(Rate::from_bits_per_second(megabits * MBIT)),
            stop: Some(Span::from_secs(12)),
            ..flow("scalable")
        };
        let seen = Path::new(1000, 100, 2_500_000).run(vec![late("icdc", 4_000), others]);
        let mean =
            |from: usize, to: usize| (from..to).map(|round| seen.share(0, round)).sum::<f64>() / (to - from) as f64;
        let beside = mean(60, 115);
        assert!(left.contains(&beside), "beside {megabits} Mbit/s: {beside}");
        // A flow that has taken to competing keeps to it for up to 16 round trips.
        assert!(mean(140, 190) > 0.95, "after {megabits} Mbit/s: {:?}", &seen.rounds.arrived[0][115..140]);
    }
}

#[test]
fn two_of_a_kind_share_equally_and_reno_and_cubic_keep_their_part() {
    let path = |seconds| Path { seconds, ..Path::new(100, 50, 625_000) };
    let seen = path(60).run(vec![flow("icdc"), late("icdc", 3_000)]);
    let (one, other) = (seen.steady(0), seen.steady(1));
    let jain = (one + other).powi(2) / (2.0 * (one * one + other * other));
    assert!(jain > 0.95, "{one} {other}");
    for name in ["reno", "cubic"] {
        let seen = path(120).run(vec![flow("icdc"), late(name, 1_000)]);
        let share = seen.steady(0) / (seen.steady(0) + seen.steady(1));
        assert!((0.3..0.7).contains(&share), "{name}: {share}");
    }
}

#[test]
fn a_step_down_by_half_fits_into_a_queue_of_three_quarters_of_a_round_trip() {
    for (mbit, rtt) in [(1000, 300), (1000, 100), (100, 300)] {
        let queue = mbit * rtt * 125 * 3 / 4;
        let changes = vec![change(10, mbit / 2, rtt), change(15, mbit, rtt)];
        let seen = Path { changes, ..Path::new(mbit, rtt, queue) }.run(vec![flow("icdc")]);
        assert_eq!(seen.outcome.forward.dropped, 0, "{mbit} Mbit/s, {rtt} ms");
    }
}

#[test]
fn in_the_background_it_leaves_the_path_to_others_within_two_round_trips_and_takes_it_back() {
    for (mbit, rtt, queue) in [(1000, 50, 6_250_000), (100, 50, 625_000), (1000, 50, 1_500_000)] {
        let name = format!("{mbit} Mbit/s, {rtt} ms, queue {queue}");
        let path = Path { seconds: 60, ..Path::new(mbit, rtt, queue) };
        let background = || Flow { background: true, ..flow("icdc") };
        let alone = path.run(vec![background()]).steady(0);
        assert!(alone > 0.97, "{name}: alone {alone}");
        let cubic = Flow { start: Span::from_secs(10), stop: Some(Span::from_secs(40)), ..flow("cubic") };
        let (without, beside) = (path.run(vec![cubic.clone()]), path.run(vec![cubic, background()]));
        let mean = |seen: &Seen, flow: usize, seconds: std::ops::Range<u64>| {
            let rounds = seconds.start * 1000 / rtt..seconds.end * 1000 / rtt;
            let count = rounds.clone().count() as f64;
            rounds.map(|round| seen.share(flow, round as usize)).sum::<f64>() / count
        };
        let kept = mean(&beside, 0, 20..40) / mean(&without, 0, 20..40);
        assert!(kept > 0.96, "{name}: CUBIC keeps {kept}");
        // Of the round trip after that in which CUBIC has a tenth comes the first queue.
        let tenth = (10_000 / rtt as usize..).find(|round| beside.share(0, *round) >= 0.1).unwrap();
        let after = beside.share(1, tenth + 3);
        assert!(after < 0.4, "{name}: {after} two round trips after the first queue");
        let back = mean(&beside, 1, 45..59);
        assert!(back > 0.9, "{name}: {back} when CUBIC has ended");
    }
}

#[test]
fn in_the_background_a_host_that_pauses_is_not_taken_for_others() {
    for (of, runs, still) in [(Pausing::Sender, 125_000, 10_000), (Pausing::Acknowledgements, 1_000_000, 33_000)] {
        let path = Path { seconds: 40, ..Path::new(1000, 50, 6_250_000) };
        let share = |background| path.run(vec![Flow { background, ..pausing(of, runs, still, 40_000, 3) }]).steady(0);
        let (usual, background) = (share(false), share(true));
        assert!(background > usual * 0.9, "{background} for {usual}");
    }
}
