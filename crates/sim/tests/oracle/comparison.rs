//! A connection of the kernel's and the same in the simulator, side by side: means, reductions of the window, and growth
//! between them.
//!
//! ```text
//! window   ╱│          before ─ highest since the reduction before
//!         ╱ │   ╱      after  ─ where the window stands a round trip after it stopped falling
//!        ╱  ╰──╱       growth ─ packets added from there, in as many steps on both sides
//! ```

use icdc_path::Settings;
use icdc_path::loss::Model;
use icdc_sim::{Acknowledgements, Flow, ReceiveWindow, Recorder, Simulation, simulate};
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::traces::{Path, Trace};

/// Between two windows of a trace.
const STEP: Span = Span::from_millis(100);
/// What netem counts of a frame beside its IP packet, and what the wire carries.
const COUNTED: u64 = 14;
const ON_WIRE: u64 = 38;

/// What the virtual kernel's hosts add to a round trip: it decides which tick a round trip of whole ticks falls in.
const HOSTS: Span = Span::from_micros(200);

/// What the simulator makes of a path.
pub(crate) struct Simulated {
    /// Bits per second.
    pub(crate) goodput: f64,
    pub(crate) windows: Vec<u32>,
}

/// The same connection over the virtual kernel's path, seen at the same times.
pub(crate) fn run(path: &Path, algorithm: &str) -> Simulated {
    let algorithm = icdc_cc::find(algorithm).expect("an algorithm");
    let simulation = simulation(path, algorithm);
    let mut record = Recorder::new(&simulation);
    let outcome = simulate(&simulation, &mut record).expect("a possible path");
    let states = &record.flows[0].states;
    let windows = (1..=path.seconds * 10).map(|step| {
        let at = STEP * step;
        let after = states.partition_point(|(time, _)| *time - Time::ORIGIN < at);
        states[after.min(states.len() - 1)].1.window
    });
    Simulated { goodput: outcome.goodput().as_bits_per_second() as f64, windows: windows.collect() }
}

fn simulation(path: &Path, algorithm: &'static icdc_cc::Algorithm) -> Simulation {
    let (counted, on_wire) = (path.mtu + COUNTED, path.mtu + ON_WIRE);
    let rate = Rate::from_bits_per_second(path.megabits * 1_000_000).scaled(on_wire, counted);
    let mtu = ByteCount::new(path.mtu);
    let delay = Span::from_millis(path.rtt_ms) / 2 + HOSTS / 2;
    let queue = ByteCount::new(path.queue * on_wire);
    // As in guest.sh.
    let window = ByteCount::new(2 * (path.megabits * path.rtt_ms * 125 + path.queue * counted));
    let loss = if path.drops.is_empty() { Model::None } else { Model::Listed(path.drops.clone()) };
    let backward = Settings { rate: Rate::from_bits_per_second(100_000_000_000), delay, mtu, ..Settings::default() };
    let window = ReceiveWindow::Tuned { most: window };
    // Ticks of the virtual kernel.
    let parameters = if algorithm.name == "htcp" { vec![("hz".to_owned(), 100)] } else { Vec::new() };
    Simulation {
        forward: Settings { rate, delay, queue, loss, mtu, ..Settings::default() },
        backward,
        flows: vec![Flow { parameters, ..Flow::bulk(algorithm, window) }],
        duration: Span::from_secs(path.seconds),
        acknowledgements: match path.acks {
            1 => Acknowledgements::EveryPacket,
            _ => Acknowledgements::EverySecond,
        },
        segmentation: false,
    }
}

/// A reduction, and the growth that follows until the next.
#[derive(Clone, Debug)]
struct Phase {
    /// The highest window before, packets.
    before: u32,
    /// The window after each step, from the end of the reduction on.
    windows: Vec<u32>,
}

impl Phase {
    /// Share of the window kept.
    fn kept(&self) -> f64 {
        f64::from(self.windows[0]) / f64::from(self.before)
    }
}

/// The phases of a connection whose round trip takes `round` steps.
fn phases(windows: &[u32], round: usize) -> Vec<Phase> {
    let is_as_high = |window: u32, before: u32| f64::from(window) >= 0.985 * f64::from(before);
    let (mut found, mut highest, mut index) = (Vec::new(), windows[0], 1);
    while index < windows.len() {
        if is_as_high(windows[index], highest) {
            highest = highest.max(windows[index]);
            index += 1;
            continue;
        }
        // A recovery lasts a round trip and more, and the window may fall far below where it ends.
        let settles = |at: &usize| {
            let (now, later) = (windows[*at], windows[*at + round]);
            is_as_high(later, now) && f64::from(later) <= 1.12 * f64::from(now)
        };
        let Some(begin) = (index + round..windows.len().saturating_sub(round)).find(settles) else { break };
        let before = std::mem::replace(&mut highest, windows[begin]);
        index = begin;
        while index < windows.len() && is_as_high(windows[index], highest) {
            highest = highest.max(windows[index]);
            index += 1;
        }
        found.push(Phase { before, windows: windows[begin..index].to_vec() });
    }
    found
}

/// How the simulator's phase stands to the kernel's.
#[derive(Clone, Copy, Debug)]
struct Agreement {
    /// Ratio of the shares kept, but after slow start filled the queue: what that leaves depends on whether a
    /// retransmission is lost as well.
    kept: Option<f64>,
    /// Ratio of what was added in as many steps, where that is enough to tell.
    growth: Option<f64>,
}

/// How the means stand to each other, and the phases that began alike: chance makes one connection lose where another does
/// not, and what follows is another story.
pub(crate) struct Comparison {
    pub(crate) mean: f64,
    phases: Vec<Agreement>,
}

impl Comparison {
    pub(crate) fn kept(&self) -> Vec<f64> {
        self.phases.iter().filter_map(|phase| phase.kept).collect()
    }

    pub(crate) fn growth(&self) -> Vec<f64> {
        self.phases.iter().filter_map(|phase| phase.growth).collect()
    }
}

/// Windows that are alike.
const ALIKE: f64 = 0.03;
/// Packets of growth that tell.
const ENOUGH: f64 = 30.0;

pub(crate) fn compare(trace: &Trace, simulated: &Simulated) -> Comparison {
    let round = (trace.path.rtt_ms as usize).div_ceil(100).max(2);
    let (real, ours) = (phases(&trace.windows, round), phases(&simulated.windows, round));
    let (mut agreements, mut next) = (Vec::new(), 0);
    for index in 0..real.len() {
        let Some(found) = (next..ours.len()).find(|found| began_alike(&real, index, &ours, *found)) else { continue };
        next = found + 1;
        let (real, ours) = (&real[index], &ours[found]);
        let last = real.windows.len().min(ours.windows.len()) - 1;
        let added = |phase: &Phase| f64::from(phase.windows[last]) - f64::from(phase.windows[0]);
        let growth = (added(real) >= ENOUGH).then(|| added(ours) / added(real));
        let is_overflow = index == 0 && trace.path.drops.is_empty();
        agreements.push(Agreement { kept: (!is_overflow).then(|| ours.kept() / real.kept()), growth });
    }
    Comparison { mean: simulated.goodput / trace.goodput, phases: agreements }
}

/// Whether the windows before two reductions are alike, and those before the reductions before, and whether the window had
/// come beyond the one before: some keep less where it had not.
fn began_alike(real: &[Phase], index: usize, ours: &[Phase], found: usize) -> bool {
    let alike = |a: u32, b: u32| (f64::from(a) / f64::from(b) - 1.0).abs() <= ALIKE;
    let (a, b) = (real[index].before, ours[found].before);
    match (index.checked_sub(1), found.checked_sub(1)) {
        (None, None) => alike(a, b),
        (Some(index), Some(found)) => {
            let (before_a, before_b) = (real[index].before, ours[found].before);
            alike(a, b) && alike(before_a, before_b) && (a > before_a) == (b > before_b)
        }
        _ => false,
    }
}
