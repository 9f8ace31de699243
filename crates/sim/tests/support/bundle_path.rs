//! A bundle over a path: how soon it is at the rate of the path, with what drops, and how steadily it
//! stays there.

use icdc_path::loss::Model;
use icdc_path::{Fate, Settings};
use icdc_sim::{
    Acknowledgements, Flow, Observer, Outcome, Pause, Pausing, ReceiveWindow, Simulation, Transmission, payload_rate,
    simulate,
};
use icdc_units::{ByteCount, Rate, Span, Time};

pub struct Path {
    pub mbit: u64,
    pub rtt: Span,
    pub queue: u64,
    pub loss: f64,
    /// Bytes of the whole bundle.
    pub bytes: u64,
    pub seconds: u64,
}

/// 1 Gbit/s, 300 ms, a queue of 20 ms, 2 GB.
pub const LONG: Path =
    Path { mbit: 1000, rtt: Span::from_millis(300), queue: 2_500_000, loss: 0.0, bytes: 2_000_000_000, seconds: 40 };

/// The same with a queue of 200 ms, for [`comes_and_goes`].
pub const COMING_AND_GOING: Path = Path { queue: 25_000_000, bytes: 9_000_000_000, seconds: 57, ..LONG };

/// Traffic of `mbit` that others send for five seconds of ten, from the fifth on.
pub fn comes_and_goes(mbit: u64) -> Flow {
    let rest = |turn: u64| Pause { of: Pausing::Sender, after: Span::from_secs(10 * turn), length: Span::from_secs(5) };
    Flow {
        start: Span::from_secs(5),
        rate: Some(Rate::from_bits_per_second(mbit * 1_000_000)),
        pauses: (1..6).map(rest).collect(),
        ..Flow::bulk(icdc_cc::find("scalable").unwrap(), ReceiveWindow::Fixed(ByteCount::from_mib(1024)))
    }
}

/// Packets that arrived for the first time, by tenths of a second, and those dropped at the queue.
#[derive(Default)]
struct Watch {
    /// Of the bundle's.
    arrived: Vec<u64>,
    /// Of all.
    arrived_of_all: Vec<u64>,
    dropped: u64,
    flows: usize,
}

impl Observer for Watch {
    fn sent(&mut self, _at: Time, _: Transmission, fate: Fate) {
        self.dropped += u64::from(fate == Fate::Dropped);
    }

    fn arrived(&mut self, at: Time, flow: usize, is_new: bool, _read: u64) {
        let bin = ((at - Time::ORIGIN).as_millis() / 100) as usize;
        let count = |bins: &mut Vec<u64>| {
            bins.resize(bins.len().max(bin + 1), 0);
            bins[bin] += 1;
        };
        if is_new {
            count(&mut self.arrived_of_all);
        }
        if is_new && flow < self.flows {
            count(&mut self.arrived);
        }
    }
}

pub struct Seen {
    /// Time in which the bytes of the bundle arrived, against what the line takes for them.
    pub slower: f64,
    pub dropped: u64,
    /// Share of the path's rate in the second half of that time.
    pub steady: f64,
    pub outcome: Outcome,
    watch: Watch,
    each_bin: f64,
}

impl Seen {
    /// What the bundle had of the path's rate, and what all others had, from one second to another.
    pub fn between(&self, from: usize, to: usize) -> (f64, f64) {
        let rate = |bins: &[u64]| {
            let bins = &bins[(from * 10).min(bins.len())..(to * 10).min(bins.len())];
            bins.iter().sum::<u64>() as f64 / ((to - from) * 10) as f64 / self.each_bin
        };
        let ours = rate(&self.watch.arrived);
        (ours, rate(&self.watch.arrived_of_all) - ours)
    }
}

impl Path {
    /// The flows of bundle 0, and others.
    pub fn run(&self, members: Vec<Flow>, others: Vec<Flow>) -> Seen {
        let way = Settings {
            rate: Rate::from_bits_per_second(self.mbit * 1_000_000),
            delay: self.rtt / 2,
            queue: ByteCount::new(self.queue),
            ..Settings::default()
        };
        let count = members.len();
        let simulation = Simulation {
            forward: Settings { loss: Model::Random(self.loss), seed: 7, ..way.clone() },
            backward: way,
            flows: members.into_iter().chain(others).collect(),
            duration: Span::from_secs(self.seconds),
            acknowledgements: Acknowledgements::EverySecond,
            segmentation: true,
        };
        let mut watch = Watch { flows: count, ..Watch::default() };
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
        let slower = done as f64 / (packets as f64 / each_bin);
        Seen { slower, dropped: watch.dropped, steady, outcome, watch, each_bin }
    }
}
