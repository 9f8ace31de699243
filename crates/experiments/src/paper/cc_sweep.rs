//! Throughput of each congestion control by rate, round-trip time and random loss: one flow,
//! simulated.
//!
//! An algorithm's window W where a share p of the packets is lost follows its response function: W
//! = √(3/2)·p^-1/2 for Reno (Mathis et al.), about 0.12·p^-0.835 for HighSpeed TCP (RFC 3649),
//! 0.08/p for Scalable TCP, whatever the round trip; for CUBIC (RFC 9438) and H-TCP it is the time
//! since the last loss that counts, so W is larger where the round trip is longer. What is reached
//! is W·payload/RTT, if that is less than what the path carries. BBR goes by the rate of delivery
//! and not by losses. The maps show where that is so.
//!
//! Simulated with:
//! - a queue of a tenth of rate × RTT, drop-tail: shallow, as in switches on long paths; the path
//!   back is the same without random loss;
//! - MTU 1500 at 1 Gbit/s and 9000 above, as hosts of such rates are set up;
//! - 200 s at 1 and 10 Gbit/s and 60 s at 100 Gbit/s: at least 100 round trips, up to 83 million
//!   packets, the same for every algorithm, so that cells compare. No cell is cut short. Start-up
//!   counts, as in any transfer. At a loss of 1e-8 a run loses less than one packet on average, and
//!   at 1e-7 two to eight: these columns show mostly what the queue does;
//! - the same seed everywhere: all algorithms lose the packets of the same numbers;
//! - receivers whose window never limits.

use icdc_cc::Algorithm;
use icdc_lab::Settings;
use icdc_path::loss::Model;
use icdc_report::{Categories, HeatMap, Report, Table, Unit};
use icdc_sim::{Flow, payload_rate};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::cells::ratio;
use crate::harness::figures::shares::ample_window;
use crate::harness::figures::simulated;
use crate::harness::hosts::paths::path;
use crate::harness::scenario::Scenario;

/// Scenario `cc-sweep` of `icdc lab run`: simulated goodput of each algorithm by rate, round trip
/// and random loss.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "cc-sweep",
    about: "simulated: goodput of every algorithm by round trip, loss and rate, up to 100 Gbit/s and 500 ms",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Round-trip times that are simulated.
const ROUND_TRIPS: [Span; 5] = [
    Span::from_millis(10),
    Span::from_millis(50),
    Span::from_millis(100),
    Span::from_millis(300),
    Span::from_millis(500),
];
/// Random loss ratios that are simulated.
const LOSSES: [f64; 5] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4];

/// A rate, and the MTU and simulated time with it.
#[derive(Clone, Copy)]
struct SweepPath {
    rate: Rate,
    mtu: u64,
    duration: Span,
}

/// The rates that are simulated.
const LINES: [SweepPath; 3] = [line(1, 1500, 200), line(10, 9000, 200), line(100, 9000, 60)];

/// A rate in Gbit/s, with its MTU in bytes and simulated time in seconds.
const fn line(gigabits: u64, mtu: u64, seconds: u64) -> SweepPath {
    SweepPath { rate: Rate::from_bits_per_second(gigabits * 1_000_000_000), mtu, duration: Span::from_secs(seconds) }
}

impl SweepPath {
    /// Settings of one direction of the path, at this rate and MTU.
    fn path(&self, round_trip: Span, queue: ByteCount) -> icdc_path::Settings {
        icdc_path::Settings { mtu: ByteCount::new(self.mtu), ..path(self.rate, round_trip, queue) }
    }
}

/// Extent of the sweep: all combinations of rate, round trip and loss ratio.
struct Grid {
    lines: Vec<SweepPath>,
    round_trips: &'static [Span],
    losses: &'static [f64],
}

impl Grid {
    /// The whole extent, or a part of it for a quick run of the scenario.
    fn new(quick: bool) -> Self {
        if quick {
            let lines = vec![SweepPath { duration: Span::from_secs(20), ..LINES[0] }];
            return Self { lines, round_trips: &ROUND_TRIPS[..2], losses: &LOSSES[3..] };
        }
        Self { lines: LINES.to_vec(), round_trips: &ROUND_TRIPS, losses: &LOSSES }
    }

    /// Simulations of an algorithm, ordered by rate, then round trip, then loss ratio.
    fn simulations(&self, algorithm: &'static Algorithm) -> Vec<icdc_sim::Simulation> {
        let mut simulations = Vec::new();
        for line in &self.lines {
            for &round_trip in self.round_trips {
                simulations.extend(self.losses.iter().map(|&loss| simulation(*line, round_trip, loss, algorithm)));
            }
        }
        simulations
    }
}

/// Simulation of one flow by an algorithm, with a queue of a tenth of rate × round trip.
fn simulation(line: SweepPath, round_trip: Span, loss: f64, algorithm: &'static Algorithm) -> icdc_sim::Simulation {
    let queue = line.rate * round_trip / 10;
    let settings =
        Settings::symmetric(icdc_path::Settings { loss: Model::Random(loss), ..line.path(round_trip, queue) });
    let flows = vec![Flow::bulk(algorithm, ample_window(&settings))];
    icdc_sim::Simulation { flows, ..simulated::bulk(&settings, algorithm, line.duration) }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let grid = Grid::new(bench.quick);
    let algorithms = icdc_cc::all();
    // By algorithm, then as the grid orders its simulations: shares of what payload can reach.
    let mut shares: Vec<Vec<f64>> = Vec::new();
    for algorithm in algorithms {
        (bench.say)(algorithm.name);
        let simulations = grid.simulations(algorithm);
        let outcomes = simulated::run_all(bench, &simulations)?;
        let share = |(outcome, simulation): (&icdc_sim::Outcome, &icdc_sim::Simulation)| {
            outcome.goodput().ratio(payload_rate(&simulation.forward))
        };
        shares.push(outcomes.iter().zip(&simulations).map(share).collect());
    }
    let cells = grid.round_trips.len() * grid.losses.len();
    let of_line = |line: usize| line * cells..(line + 1) * cells;
    let mut report = Report { tables: vec![conditions(&grid)], ..Report::default() };
    for (index, line) in grid.lines.iter().enumerate() {
        let of_algorithm: Vec<&[f64]> = shares.iter().map(|shares| &shares[of_line(index)]).collect();
        report.tables.push(table(&grid, *line, algorithms, &of_algorithm));
        let maps = algorithms.iter().zip(of_algorithm);
        report.heat_maps.extend(maps.map(|(algorithm, shares)| heat_map(&grid, *line, algorithm.name, shares)));
    }
    Ok(report)
}

/// Table of the conditions of the simulations at each rate: MTU, time, packets, lost packets.
fn conditions(grid: &Grid) -> Table {
    let row = |line: &SweepPath| {
        let path = line.path(Span::ZERO, ByteCount::ZERO);
        let packets = (line.rate * line.duration).as_u64() / path.largest_frame().as_u64();
        let longest = grid.round_trips.iter().max().copied().unwrap_or_default();
        vec![
            line.rate.to_string(),
            line.mtu.to_string(),
            line.duration.to_string(),
            payload_rate(&path).to_string(),
            format!("{:.1}", packets as f64 / 1e6),
            format!("{:.0}", line.duration.ratio(longest)),
            grid.losses.iter().map(|loss| format!("{:.1}", loss * packets as f64)).collect::<Vec<_>>().join(", "),
        ]
    };
    let losses: Vec<String> = grid.losses.iter().copied().map(ratio).collect();
    let lost = format!("packets lost of these at {}", losses.join(", "));
    Table {
        caption: "How it was simulated: one flow, queue 0.1 × rate × RTT, every run to its end".to_owned(),
        header: ["rate", "MTU", "time", "payload at most", "million packets at most", "round trips at least", &lost]
            .map(str::to_owned)
            .to_vec(),
        rows: grid.lines.iter().map(row).collect(),
    }
}

/// Table for one rate: goodput by round trip and loss (rows) and algorithm (columns). `shares`:
/// results of each algorithm as shares of the path's payload rate.
fn table(grid: &Grid, line: SweepPath, algorithms: &[Algorithm], shares: &[&[f64]]) -> Table {
    let places = grid.round_trips.iter().flat_map(|round_trip| grid.losses.iter().map(move |loss| (round_trip, loss)));
    let rows = places.enumerate().map(|(cell, (round_trip, loss))| {
        let place = [round_trip.to_string(), ratio(*loss)].into_iter();
        place.chain(shares.iter().map(|shares| format!("{:.1}", shares[cell] * 100.0))).collect()
    });
    let names = algorithms.iter().map(|algorithm| algorithm.name);
    Table {
        caption: format!("{}: goodput, % of what payload can reach", line.rate),
        header: ["RTT", "loss"].into_iter().chain(names).map(str::to_owned).collect(),
        rows: rows.collect(),
    }
}

/// Map of one algorithm's goodput by round trip and loss ratio, as a share of the path's payload
/// rate.
fn heat_map(grid: &Grid, line: SweepPath, name: &str, shares: &[f64]) -> HeatMap {
    let values = shares.chunks(grid.losses.len()).map(|row| row.iter().copied().map(Some).collect()).collect();
    let rows = Categories::new("RTT", grid.round_trips.iter().map(Span::to_string));
    let columns = Categories::new("loss", grid.losses.iter().copied().map(ratio));
    HeatMap::new(&format!("{name}, {}", line.rate), Unit::Share, rows, columns, values).between(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_a_hundred_round_trips() {
        let longest = *ROUND_TRIPS.iter().max().expect("there are some");
        assert!(LINES.iter().all(|line| line.duration >= longest * 100));
    }

    #[test]
    fn every_scenario_of_the_grid_can_be() {
        for algorithm in icdc_cc::all() {
            let simulations = Grid::new(false).simulations(algorithm);
            assert_eq!(simulations.len(), LINES.len() * ROUND_TRIPS.len() * LOSSES.len());
            assert!(simulations.iter().all(|simulation| simulation.check().is_ok()));
        }
    }
}
