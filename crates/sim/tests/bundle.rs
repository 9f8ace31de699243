//! A bundle of connections under one controller, with the kernels' own limits of socket buffers and
//! CUBIC: how soon it is at the rate of the path and with what drops, how steadily it stays there,
//! what it leaves to others.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use icdc_path::loss::Model;
use icdc_path::{Fate, Settings};
use icdc_sim::{
    Acknowledgements, Flow, Observer, Outcome, Pause, Pausing, ReceiveWindow, Simulation, payload_rate, simulate,
};
use icdc_units::{ByteCount, Rate, Span, Time};

/// What `tcp_rmem` of 6 MiB lets a connection have under way.
const STOCK: ByteCount = ByteCount::from_mib(3);

struct Path {
    mbit: u64,
    rtt: Span,
    queue: u64,
    loss: f64,
    /// Bytes of the whole bundle.
    bytes: u64,
    seconds: u64,
}

/// 1 Gbit/s, 300 ms, a queue of 20 ms, 2 GB.
const LONG: Path =
    Path { mbit: 1000, rtt: Span::from_millis(300), queue: 2_500_000, loss: 0.0, bytes: 2_000_000_000, seconds: 40 };

/// Packets that arrived for the first time and were dropped at the queue, by tenths of a second.
#[derive(Default)]
struct Watch {
    arrived: Vec<u64>,
    dropped: u64,
    flows: usize,
}

impl Observer for Watch {
    fn sent(&mut self, _at: Time, _flow: usize, _number: u64, _again: bool, fate: Fate) {
        self.dropped += u64::from(fate == Fate::QueueFull);
    }

    fn arrived(&mut self, at: Time, flow: usize, is_new: bool, _read: u64) {
        if is_new && flow < self.flows {
            let bin = ((at - Time::ORIGIN).as_millis() / 100) as usize;
            self.arrived.resize(self.arrived.len().max(bin + 1), 0);
            self.arrived[bin] += 1;
        }
    }
}

struct Seen {
    /// Time in which the bytes of the bundle arrived, against what the line takes for them.
    slower: f64,
    dropped: u64,
    /// Share of the path's rate in the second half of that time.
    steady: f64,
    outcome: Outcome,
}

impl Path {
    /// `members` of bundle 0 with windows of `most` each, and others.
    fn run(&self, members: usize, most: ByteCount, pauses: &[Pause], others: Vec<Flow>) -> Seen {
        let way = Settings {
            rate: Rate::from_bits_per_second(self.mbit * 1_000_000),
            delay: self.rtt / 2,
            queue: ByteCount::new(self.queue),
            ..Settings::default()
        };
        let flow = Flow { bundle: Some(0), pauses: pauses.to_vec(), ..cubic(most) };
        let simulation = Simulation {
            forward: Settings { loss: Model::Random(self.loss), seed: 7, ..way.clone() },
            backward: way,
            flows: vec![flow; members].into_iter().chain(others).collect(),
            duration: Span::from_secs(self.seconds),
            acknowledgements: Acknowledgements::EverySecond,
            segmentation: true,
        };
        let mut watch = Watch { flows: members, ..Watch::default() };
        let outcome = simulate(&simulation, &mut watch).unwrap();
        let packets = self.bytes / simulation.segment().as_u64();
        let each_bin = (payload_rate(&simulation.forward) * Span::from_millis(100)).ratio(simulation.segment());
        let mut sum = 0;
        let done = watch.arrived.iter().position(|bin| {
            sum += bin;
            sum >= packets
        });
        let done = done.unwrap_or(watch.arrived.len() * 2);
        let half = &watch.arrived[done.min(watch.arrived.len()) / 2..done.min(watch.arrived.len())];
        let steady = half.iter().sum::<u64>() as f64 / half.len() as f64 / each_bin;
        Seen { slower: done as f64 / (packets as f64 / each_bin), dropped: watch.dropped, steady, outcome }
    }
}

fn cubic(most: ByteCount) -> Flow {
    Flow::bulk(icdc_cc::find("cubic").unwrap(), ReceiveWindow::Tuned { most })
}

fn pauses(of: Pausing, length_ms: u64, every_ms: u64) -> Vec<Pause> {
    let at = |number: u64| every_ms * number + 37 + number * number * 7 % 50;
    let pause = |number| Pause { of, after: Span::from_millis(at(number)), length: Span::from_millis(length_ms) };
    (0..30_000 / every_ms).map(pause).collect()
}

#[test]
fn stock_hosts_fill_a_long_path_without_a_drop() {
    // Fewer begin with less.
    for (members, most, slower) in
        [(16, STOCK, 1.2), (32, STOCK, 1.2), (64, STOCK, 1.25), (4, ByteCount::from_mib(24), 1.3)]
    {
        let seen = LONG.run(members, most, &[], Vec::new());
        assert!(seen.slower < slower, "{members}: {}", seen.slower);
        assert!(seen.steady > 0.955, "{members}: {}", seen.steady);
        assert!(seen.dropped < 300, "{members}: {}", seen.dropped);
    }
    let deep = Path { queue: 25_000_000, ..LONG }.run(16, STOCK, &[], Vec::new());
    assert!(deep.slower < 1.25 && deep.dropped == 0, "{} {}", deep.slower, deep.dropped);
}

#[test]
fn other_paths_are_filled_as_well() {
    let satellite = Path { mbit: 300, rtt: Span::from_millis(500), queue: 1_000_000, bytes: 1_000_000_000, ..LONG };
    let slow = Path { mbit: 100, rtt: Span::from_millis(80), queue: 50_000, bytes: 200_000_000, ..LONG };
    let near = Path { rtt: Span::from_millis(50), queue: 6_000_000, ..LONG };
    for (path, members, slower) in [(&satellite, 16, 1.35), (&slow, 1, 1.2), (&slow, 4, 1.25), (&near, 3, 1.2)] {
        let seen = path.run(members, STOCK, &[], Vec::new());
        assert!(seen.slower < slower, "{} Mbit/s, {members}: {}", path.mbit, seen.slower);
        assert!(seen.dropped < 300, "{} Mbit/s, {members}: {}", path.mbit, seen.dropped);
    }
}

#[test]
fn random_losses_are_borne_by_enough_members() {
    for (loss, members) in [(1e-6, 16), (1e-4, 64)] {
        let seen = Path { loss, ..LONG }.run(members, STOCK, &[], Vec::new());
        assert!(seen.slower < 1.25 && seen.steady > 0.9, "{loss}: {} {}", seen.slower, seen.steady);
    }
}

#[test]
fn hosts_that_pause_find_the_rate_all_the_same() {
    for of in [Pausing::Sender, Pausing::Receiver] {
        for (length, every) in [(10, 125), (30, 1000), (20, 250)] {
            let seen = LONG.run(16, STOCK, &pauses(of, length, every), Vec::new());
            // A host that stands still sends nothing.
            let runs = 1.0 - length as f64 / every as f64;
            assert!(seen.slower < 1.4, "{of:?} {length} of {every}: {}", seen.slower);
            assert!(seen.steady > 0.9 * runs, "{of:?} {length} of {every}: {}", seen.steady);
            assert!(seen.dropped < 300, "{of:?} {length} of {every}: {}", seen.dropped);
        }
    }
}

#[test]
fn two_bundles_share_a_path_whatever_the_number_of_their_members() {
    let path = Path { rtt: Span::from_millis(50), queue: 6_250_000, ..LONG };
    for (ours, theirs) in [(16, 16), (4, 16)] {
        let most = ByteCount::from_mib(12);
        let other = Flow { bundle: Some(1), start: Span::from_secs(5), ..cubic(most) };
        let seen = path.run(ours, most, &[], vec![other; theirs]);
        let bytes = |flows: &[icdc_sim::FlowOutcome]| flows.iter().map(|flow| flow.bytes.as_u64()).sum::<u64>();
        let (our, all) = (bytes(&seen.outcome.flows[..ours]), bytes(&seen.outcome.flows));
        let share = our as f64 / all as f64;
        assert!((0.4..0.65).contains(&share), "{ours} beside {theirs}: {share}");
        assert!(seen.dropped < 300, "{ours} beside {theirs}: {}", seen.dropped);
    }
}

#[test]
fn a_member_that_ends_and_one_that_comes_later_change_nothing() {
    let ends = Flow { bundle: Some(0), stop: Some(Span::from_secs(8)), ..cubic(STOCK) };
    let comes = Flow { bundle: Some(0), start: Span::from_secs(8), ..cubic(STOCK) };
    let seen = LONG.run(14, STOCK, &[], vec![ends.clone(), ends, comes.clone(), comes]);
    let sent: u64 = seen.outcome.flows.iter().map(|flow| flow.bytes.as_u64()).sum();
    let possible = Rate::from_bits_per_second(941_000_000) * Span::from_secs(LONG.seconds);
    assert!(ByteCount::new(sent).ratio(possible) > 0.85, "{sent}");
    assert!(seen.dropped < 300, "{}", seen.dropped);
}
