//! The algorithm `icdc`, simulated at rates beyond this machine: 10 and 100 Gbit/s at 300 ms, by
//! loss ratio; and its share beside other algorithms, over two minutes.
//!
//! - Alone: the queue holds 20 ms of the rate; MTU 1500 at 10 Gbit/s and 9000 at 100, as hosts of
//!   such rates are set up. Goodput is that of the second half of the time as share of what payload
//!   can reach, start-up apart, and of all of it.
//! - Beside others: 50 ms, queue 1 × rate × RTT. Shares and Jain's index are of the payload that
//!   arrives in the second half. The flows start a different time apart in each run, and each is
//!   first in every other one.

use icdc_lab::Settings;
use icdc_path::loss::Model;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::{Flow, ReceiveWindow, Recorder, payload_rate};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::cells::ratio;
use crate::harness::figures::shares::{self, Shares, ample_window};
use crate::harness::figures::simulated;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::rate_control;
use crate::harness::scenario::Scenario;

/// Scenario `icdc-sim` of `icdc lab run`: the algorithm `icdc` simulated, alone at 10 and 100
/// Gbit/s and beside other algorithms.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "icdc-sim",
    about: "simulated: icdc at 10 and 100 Gbit/s and 300 ms by loss, and beside CUBIC, Reno and itself",
    has_rows: false,
    is_parallel: false,
    run,
};

const GIGABIT: u64 = 1_000_000_000;
/// Random loss ratios of the paths that icdc uses alone.
const LOSSES: [f64; 3] = [0.0, 1e-7, 1e-6];
/// Queue size, as time at the path's rate.
const QUEUE: Span = Span::from_millis(20);

/// A path that icdc uses alone.
#[derive(Clone, Copy)]
struct SimulatedPath {
    gigabits: u64,
    mtu: u64,
    round_trip: Span,
    duration: Span,
}

/// Paths that icdc uses alone, in a full run of the scenario.
const LINES: [SimulatedPath; 2] = [line(10, 1500, 300, 60), line(100, 9000, 300, 60)];
/// Paths that icdc uses alone, in a quick run of the scenario.
const QUICK_LINES: [SimulatedPath; 1] = [line(1, 9000, 100, 10)];

/// A path of this rate in Gbit/s, MTU in bytes, round trip in ms, and simulated time in seconds.
const fn line(gigabits: u64, mtu: u64, millis: u64, seconds: u64) -> SimulatedPath {
    SimulatedPath { gigabits, mtu, round_trip: Span::from_millis(millis), duration: Span::from_secs(seconds) }
}

impl SimulatedPath {
    /// Settings of the path; `seed` is that of the random loss.
    fn settings(&self, loss: f64, seed: u64) -> Settings {
        let rate = Rate::from_bits_per_second(self.gigabits * GIGABIT);
        Settings::symmetric(icdc_path::Settings {
            mtu: ByteCount::new(self.mtu),
            loss: Model::Random(loss),
            seed,
            ..path(rate, self.round_trip, rate * QUEUE)
        })
    }

    fn name(&self) -> String {
        format!("{} Gbit/s, {}, MTU {}", self.gigabits, self.round_trip, self.mtu)
    }
}

/// A flow of icdc and a rival that share a path, with what is required of them.
#[derive(Clone, Copy)]
struct Pair {
    rival: &'static str,
    rival_round_trip: Span,
    /// Required share of each flow in %, and required index of Jain; empty if it is not required.
    required: (&'static str, &'static str),
}

/// Round-trip time of the shared paths; that of a rival may be longer.
const ROUND_TRIP: Span = Span::from_millis(50);
/// Rivals of icdc on a shared path.
const PAIRS: [Pair; 4] = [
    Pair { rival: "cubic", rival_round_trip: ROUND_TRIP, required: ("35 to 65", "") },
    Pair { rival: "reno", rival_round_trip: ROUND_TRIP, required: ("35 to 65", "") },
    Pair { rival: "icdc", rival_round_trip: ROUND_TRIP, required: ("", "≥ 0.95") },
    Pair { rival: "icdc", rival_round_trip: Span::from_millis(300), required: ("", "≥ 0.8") },
];
/// Rates of the shared paths in Mbit/s, each with its number of runs.
const SHARED: [(u64, u64); 2] = [(100, 8), (1000, 4)];
/// Simulated time of two flows on a shared path, in a full run of the scenario.
const TOGETHER: Span = Span::from_secs(120);

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let mut report = Report::default();
    alone(bench, &mut report)?;
    let (shared, duration) = if bench.quick { (&[(20, 2)][..], TOGETHER / 4) } else { (&SHARED[..], TOGETHER) };
    for &(megabits, runs) in shared {
        let runs = bench.runs.unwrap_or(runs);
        (bench.say)(&format!("pairs at {megabits} Mbit/s"));
        report.tables.push(together(bench, megabits, runs, duration)?);
    }
    Ok(report)
}

/// Simulates icdc alone on each path by loss ratio; adds table and plots to the report.
fn alone(bench: &Bench<'_>, report: &mut Report) -> Result<(), ExperimentError> {
    let lines = if bench.quick { &QUICK_LINES[..] } else { &LINES[..] };
    let icdc = rate_control::algorithm("icdc");
    let mut rows = Vec::new();
    for line in lines {
        (bench.say)(&line.name());
        let simulation = |loss| {
            let settings = line.settings(loss, 1);
            // As with a privileged receiver, the window is open from the first packet on.
            let window = ReceiveWindow::Fixed((settings.bandwidth_delay() + settings.forward.queue) * 4);
            let flows = vec![Flow::bulk(icdc, window)];
            icdc_sim::Simulation { flows, ..simulated::bulk(&settings, icdc, line.duration) }
        };
        let simulations: Vec<_> = LOSSES.iter().map(|&loss| simulation(loss)).collect();
        let watched = simulated::run_all_watched(bench, &simulations, Recorder::new)?;
        let mut series = Vec::new();
        for ((&loss, simulation), (outcome, record)) in LOSSES.iter().zip(&simulations).zip(&watched) {
            let limit = payload_rate(&simulation.forward);
            let arrived = &record.flows[0].arrived;
            let half = arrived.len() / 2;
            let bytes = arrived[half..].iter().map(|&bytes| bytes as u64).sum();
            let steady = ByteCount::new(bytes) / (record.step * (arrived.len() - half).max(1) as u64);
            let share = |rate: Rate| format!("{:.1}", rate.ratio(limit) * 100.0);
            rows.push(vec![
                line.name(),
                ratio(loss),
                share(steady),
                share(outcome.goodput()),
                "≥ 95".to_owned(),
                outcome.forward.dropped.to_string(),
                outcome.forward.lost.to_string(),
                outcome.flows[0].sender.sent.to_string(),
            ]);
            series.push(line_of(loss, record));
        }
        report.plots.push(Plot::new(&line.name(), Unit::BitsPerSecond, series));
    }
    let header = [
        "path",
        "loss",
        "second half, % of what payload can reach",
        "all of it, %",
        "required",
        "dropped at the queue",
        "lost",
        "packets sent",
    ];
    report.tables.push(Table {
        caption: format!("icdc alone, {} simulated", lines[0].duration),
        header: header.map(str::to_owned).to_vec(),
        rows,
    });
    Ok(())
}

/// Series of the rate at the receiver, as means of a tenth of a second.
fn line_of(loss: f64, record: &Recorder) -> Series {
    let steps = (Span::from_millis(100).as_nanos() / record.step.as_nanos()).max(1);
    let span = record.step * steps;
    let tenths = record.flows[0].arrived.chunks_exact(steps as usize).zip(1..);
    let point = |(bytes, number): (&[i64], u64)| {
        let bytes: i64 = bytes.iter().sum();
        ((span * number).as_secs_f64(), (ByteCount::new(bytes as u64) / span).as_bits_per_second() as f64)
    };
    Series::new(&format!("loss {}", ratio(loss)), Stroke::Line, tenths.map(point).collect::<Vec<_>>())
}

/// Simulates icdc beside each rival at one rate; gives the table of their shares.
fn together(bench: &Bench<'_>, megabits: u64, runs: u64, duration: Span) -> Result<Table, ExperimentError> {
    let rate = Rate::from_bits_per_second(megabits * 1_000_000);
    let settings = Settings::symmetric(path(rate, ROUND_TRIP, rate * ROUND_TRIP));
    let icdc = rate_control::algorithm("icdc");
    let mut simulations = Vec::new();
    for pair in PAIRS {
        let rival = Flow {
            extra_delay: pair.rival_round_trip - ROUND_TRIP,
            ..Flow::bulk(rate_control::algorithm(pair.rival), ample_window(&settings))
        };
        let own = Flow::bulk(icdc, ample_window(&settings));
        simulations.extend((0..runs).map(|run| icdc_sim::Simulation {
            flows: shares::pair([own.clone(), rival.clone()], run),
            ..simulated::bulk(&settings, icdc, duration)
        }));
    }
    let all = Shares::of_all(bench, &simulations, duration / 2)?;
    let payload = payload_rate(&settings.forward);
    let row = |(pair, shares): (Pair, &[Shares])| {
        let Spread { median, least, .. } = Spread::of(shares.iter().map(Shares::fairness));
        let (share, index) = pair.required;
        vec![
            if pair.rival == "icdc" { "icdc, 50 ms".to_owned() } else { "icdc".to_owned() },
            format!("{}, {}", pair.rival, pair.rival_round_trip),
            Spread::of(shares.iter().map(|shares| shares.share(0))).percent(),
            share.to_owned(),
            format!("{median:.3} (≥ {least:.3})"),
            index.to_owned(),
            Spread::of(shares.iter().map(|shares| shares.sum().ratio(payload))).percent(),
        ]
    };
    let header =
        ["flow", "beside", "its share, %", "required", "Jain", "required", "both, % of what payload can reach"];
    Ok(Table {
        caption: format!(
            "{megabits} Mbit/s, 50 ms, queue 1 × rate × RTT, second half of {duration}: median of {runs} runs (least to greatest)"
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: PAIRS.into_iter().zip(all.chunks(runs.max(1) as usize)).map(row).collect(),
    })
}
