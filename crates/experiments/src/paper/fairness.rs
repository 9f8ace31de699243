//! Fairness of two flows on one path: every algorithm beside Reno, beside CUBIC, and beside itself,
//! simulated.
//!
//! Both have the same round trip. Shares are of the payload that arrives in the second half of the
//! run; Jain's index is (Σx)²/(nΣx²), 1 for equal rates and 1/2 if one of two flows has all (Jain,
//! Chiu, Hawe, DEC-TR-301). Queues are 0.1, 0.5 and 1 × rate × RTT, drop-tail, the only cause of
//! loss.
//!
//! Two paths, because a loss-based flow needs as many round trips as half its window has packets to
//! come back from a loss:
//! - 1 Gbit/s, 100 ms, 400 s: 8,100 packets fill it, so two Reno flows lose every 200 s or so and
//!   have not converged at the end;
//! - 100 Mbit/s, 50 ms, 300 s: 400 packets, a loss every 5 to 10 s: what the long run gives.
//!
//! Each pair runs several times. The flows start a different time apart in each run, and each is
//! first in every other run: tables show the median and, in brackets, the least and the greatest of
//! the runs.

use icdc_cc::Algorithm;
use icdc_lab::Settings;
use icdc_report::{Categories, HeatMap, Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::{Flow, payload_rate};
use icdc_units::{Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::shares::{self, Shares, ample_window};
use crate::harness::figures::simulated;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::rate_control;
use crate::harness::scenario::Scenario;

/// Scenario `fairness` of `icdc lab run`: simulated shares of two flows of different algorithms on
/// one path.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "fairness",
    about: "simulated: every algorithm beside Reno, beside CUBIC and beside itself, by queue: shares and Jain's index",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Sizes of the queues in tenths of rate × RTT.
const QUEUES: [u64; 3] = [1, 5, 10];

/// A path that two flows share, with the simulated time and the number of runs.
#[derive(Clone, Copy)]
struct FairnessPath {
    rate: Rate,
    round_trip: Span,
    duration: Span,
    runs: u64,
}

/// The paths of a full run of the scenario.
const LINES: [FairnessPath; 2] = [line(1000, 100, 400, 4), line(100, 50, 300, 8)];
/// The path of a quick run of the scenario.
const QUICK: [FairnessPath; 1] = [line(20, 50, 40, 2)];

/// A path of this rate, round trip and simulated time, and the number of runs on it.
const fn line(megabits: u64, milliseconds: u64, seconds: u64, runs: u64) -> FairnessPath {
    FairnessPath {
        rate: Rate::from_bits_per_second(megabits * 1_000_000),
        round_trip: Span::from_millis(milliseconds),
        duration: Span::from_secs(seconds),
        runs,
    }
}

impl FairnessPath {
    /// Settings of the path with a queue of `tenths` tenths of rate × round trip.
    fn settings(&self, tenths: u64) -> Settings {
        Settings::symmetric(path(self.rate, self.round_trip, self.rate * self.round_trip * tenths / 10))
    }

    /// Text with rate and round trip of the path.
    fn name(&self) -> String {
        format!("{}, {}", self.rate, self.round_trip)
    }
}

/// The algorithm of the other flow.
#[derive(Clone, Copy)]
enum Rival {
    Named(&'static str),
    Itself,
}

/// The other flows, beside each of which every algorithm is simulated.
const RIVALS: [Rival; 3] = [Rival::Named("reno"), Rival::Named("cubic"), Rival::Itself];

impl Rival {
    /// The rival's algorithm beside a flow of `algorithm`.
    fn of(self, algorithm: &'static Algorithm) -> &'static Algorithm {
        match self {
            Self::Named(name) => rate_control::algorithm(name),
            Self::Itself => algorithm,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Named(name) => name,
            Self::Itself => "itself",
        }
    }
}

/// Results of the runs of an algorithm beside a rival.
struct SharedPath {
    /// The algorithm's share; beside itself, the share of the flow that began first.
    share: Spread,
    fairness: Spread,
    /// Share of the path's payload rate that both use together.
    used: Spread,
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let lines = if bench.quick { &QUICK[..] } else { &LINES[..] };
    let mut report = Report::default();
    for line in lines {
        for rival in RIVALS {
            (bench.say)(&format!("{}, beside {}", line.name(), rival.name()));
            let shared = measure(bench, line, rival)?;
            report.tables.push(table(line, rival, &shared));
            report.heat_maps.push(heat_map(line, rival, &shared));
            if let Rival::Named(name) = rival {
                report.plots.push(plot(line, name, &shared));
            }
        }
    }
    Ok(report)
}

/// Simulates every algorithm beside a rival on one path; returns the results by algorithm, then by
/// size of the queue.
fn measure(bench: &Bench<'_>, line: &FairnessPath, rival: Rival) -> Result<Vec<Vec<SharedPath>>, ExperimentError> {
    let mut simulations = Vec::new();
    for algorithm in icdc_cc::all() {
        for tenths in QUEUES {
            let settings = line.settings(tenths);
            let flow = |algorithm| Flow::bulk(algorithm, ample_window(&settings));
            simulations.extend((0..line.runs).map(|run| icdc_sim::Simulation {
                flows: shares::pair([flow(algorithm), flow(rival.of(algorithm))], run),
                ..simulated::bulk(&settings, algorithm, line.duration)
            }));
        }
    }
    let shares = Shares::of_all(bench, &simulations, line.duration / 2)?;
    let payload = payload_rate(&line.settings(QUEUES[0]).forward);
    let shared = |runs: &[Shares]| {
        let first = |(run, shares): (usize, &Shares)| match rival {
            // Two equal flows only differ in their order.
            Rival::Itself => shares.share(run % 2),
            Rival::Named(_) => shares.share(0),
        };
        SharedPath {
            share: Spread::of(runs.iter().enumerate().map(first)),
            fairness: Spread::of(runs.iter().map(Shares::fairness)),
            used: Spread::of(runs.iter().map(|shares| shares.sum().ratio(payload))),
        }
    };
    let by_queue: Vec<SharedPath> = shares.chunks(line.runs as usize).map(shared).collect();
    let mut by_queue = by_queue.into_iter();
    Ok(icdc_cc::all().iter().map(|_| by_queue.by_ref().take(QUEUES.len()).collect()).collect())
}

/// Text of a queue's size as a multiple of rate × round trip.
fn queue(tenths: u64) -> String {
    format!("{}", tenths as f64 / 10.0)
}

/// Table for one path and rival: shares, Jain's index and use of the path, by algorithm and queue.
fn table(line: &FairnessPath, rival: Rival, shared: &[Vec<SharedPath>]) -> Table {
    let whose = match rival {
        Rival::Itself => "share of who came first",
        Rival::Named(_) => "its share",
    };
    let columns = |tenths: &u64| {
        let queue = queue(*tenths);
        [format!("queue {queue}: {whose}, %"), "Jain".to_owned(), "both, %".to_owned()]
    };
    let cells = |shared: &SharedPath| {
        let Spread { median, least, .. } = shared.fairness;
        [shared.share.percent(), format!("{median:.3} (≥ {least:.3})"), format!("{:.0}", shared.used.median * 100.0)]
    };
    let row = |(algorithm, shared): (&Algorithm, &Vec<SharedPath>)| {
        [algorithm.name.to_owned()].into_iter().chain(shared.iter().flat_map(cells)).collect()
    };
    Table {
        caption: format!(
            "{}, beside {}: median of {} runs (least to greatest), both in % of what payload can reach, queue × rate × RTT",
            line.name(),
            rival.name(),
            line.runs
        ),
        header: ["algorithm".to_owned()].into_iter().chain(QUEUES.iter().flat_map(columns)).collect(),
        rows: icdc_cc::all().iter().zip(shared).map(row).collect(),
    }
}

/// Map of Jain's index by algorithm and queue, for one path and rival.
fn heat_map(line: &FairnessPath, rival: Rival, shared: &[Vec<SharedPath>]) -> HeatMap {
    let values = shared.iter().map(|row| row.iter().map(|shared| Some(shared.fairness.median)).collect()).collect();
    let rows = Categories::new("algorithm", icdc_cc::all().iter().map(|algorithm| algorithm.name));
    let columns = Categories::new("queue", QUEUES.map(queue));
    let title = format!("Jain's index beside {}, {}", rival.name(), line.name());
    HeatMap::new(&title, Unit::Number, rows, columns, values).between(0.5, 1.0)
}

/// Plot of the share of a rival's flow over the queue, a line for each algorithm beside it.
fn plot(line: &FairnessPath, rival: &str, shared: &[Vec<SharedPath>]) -> Plot {
    let series = icdc_cc::all().iter().zip(shared).map(|(algorithm, shared)| {
        let point = |(tenths, shared): (&u64, &SharedPath)| (*tenths as f64 / 10.0, 1.0 - shared.share.median);
        Series::new(algorithm.name, Stroke::Line, QUEUES.iter().zip(shared).map(point).collect::<Vec<_>>())
    });
    Plot::new(&format!("Share of a {rival} flow beside …, {}", line.name()), Unit::Share, series.collect())
        .over("Queue, × rate × RTT", Unit::Number)
}
