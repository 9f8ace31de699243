//! Scenarios for tests, and an observer that keeps what it sees.

#![allow(dead_code, unreachable_pub, reason = "not every test needs everything")]

pub mod bundle_path;

use icdc_path::loss::Model;
use icdc_path::{Fate, Settings};
use icdc_sim::{
    Acknowledgements, Flow, Observer, Outcome, ReceiveWindow, SenderState, Simulation, Transmission, simulate,
};
use icdc_units::{ByteCount, Rate, Span, Time};

/// Wire length of a full packet.
pub const WIRE: u64 = 1538;
/// Its payload.
pub const PAYLOAD: u64 = 1448;

pub fn reno() -> Flow {
    let window = ReceiveWindow::Fixed(ByteCount::from_mib(1 << 20));
    Flow::bulk(icdc_cc::find("reno").unwrap(), window)
}

/// A path without loss, with `queue` packets before the bottleneck.
pub fn path(mbit: u64, rtt: Span, queue: u64, seconds: u64) -> Simulation {
    let rate = Rate::from_bits_per_second(mbit * 1_000_000);
    let direction = Settings { rate, delay: rtt / 2, queue: ByteCount::new(WIRE * queue), ..Settings::default() };
    Simulation {
        forward: direction.clone(),
        backward: Settings { seed: 2, ..direction },
        flows: vec![reno()],
        duration: Span::from_secs(seconds),
        acknowledgements: Acknowledgements::EverySecond,
        segmentation: false,
    }
}

/// The same, and the packets with these numbers (from 1, retransmissions counted) are lost.
pub fn losing(simulation: Simulation, numbers: &[u64]) -> Simulation {
    let forward = Settings { loss: Model::Listed(numbers.to_vec()), ..simulation.forward };
    Simulation { forward, ..simulation }
}

/// The same for a transfer of so many packets.
pub fn packets(mut simulation: Simulation, count: u64) -> Simulation {
    simulation.flows[0].bytes = Some(ByteCount::new(PAYLOAD * count));
    simulation
}

/// One packet that left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub at: Time,
    pub flow: usize,
    pub number: u64,
    pub again: bool,
    pub fate: Fate,
}

/// Keeps everything.
pub struct Diary {
    pub every: Span,
    pub sent: Vec<Sent>,
    pub states: Vec<(Time, usize, SenderState)>,
    pub read: u64,
    pub longest_queue: ByteCount,
}

impl Default for Diary {
    fn default() -> Self {
        let every = Span::from_millis(1);
        Self { every, sent: Vec::new(), states: Vec::new(), read: 0, longest_queue: ByteCount::ZERO }
    }
}

impl Observer for Diary {
    fn interval(&self) -> Span {
        self.every
    }

    fn sent(&mut self, at: Time, Transmission { flow, number, again }: Transmission, fate: Fate) {
        self.sent.push(Sent { at, flow, number, again, fate });
    }

    fn arrived(&mut self, _at: Time, _flow: usize, _is_new: bool, read: u64) {
        self.read += read;
    }

    fn queue(&mut self, _at: Time, waiting: ByteCount) {
        self.longest_queue = self.longest_queue.max(waiting);
    }

    fn wants_states(&self, _at: Time) -> bool {
        true
    }

    fn state(&mut self, at: Time, flow: usize, state: &SenderState) {
        self.states.push((at, flow, *state));
    }
}

pub fn watched(simulation: &Simulation) -> (Outcome, Diary) {
    let mut diary = Diary::default();
    let outcome = simulate(simulation, &mut diary).unwrap();
    (outcome, diary)
}

pub fn unwatched(simulation: &Simulation) -> Outcome {
    simulate(simulation, &mut ()).unwrap()
}
