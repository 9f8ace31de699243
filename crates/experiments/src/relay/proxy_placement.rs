//! Placement of relays between two ends, simulated, by the split of the round trip.
//!
//! The simulator has single flows, not chains. A chain carries what its slowest leg does, as long
//! as relays have room for what waits; so each leg is simulated by itself, with its part of the
//! round trip and of the losses at random, and the least of them stands for the chain. That is an
//! upper bound: that a leg's bursts meet another's pauses is left out. No relay costs time.
//!
//! - **One relay**, which splits the round trip. The ends are plain hosts: either their windows of
//!   64 KiB limit, or their Reno does. Both legs have an end, so the placement is all that a relay
//!   changes. The TCP-proxy paper (Yamanegi, Hama, Hasegawa, Murata et al.) cites that the middle
//!   is best.
//! - **Two relays**, each so far from its end. The hosts have windows of 64 KiB; between the relays
//!   a window that does not limit, and an algorithm. The nearer they are, the less the hosts'
//!   windows limit, and the longer is the leg in between.

use icdc_lab::Settings;
use icdc_path::loss::Model;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::{Flow, ReceiveWindow, payload_rate};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::cells::ratio;
use crate::harness::figures::shares::ample_window;
use crate::harness::figures::simulated;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::rate_control;
use crate::harness::scenario::Scenario;

/// Scenario `proxy-placement` of `icdc lab run`: simulated rate by the places of one or two relays
/// on a path.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "proxy-placement",
    about: "simulated: where relays stand best between two ends, by the split of the round trip, leg by leg (TCP proxy)",
    has_rows: false,
    is_parallel: false,
    run,
};

/// A path on which relays are placed, so that its round trip and losses are split among legs.
#[derive(Clone, Copy)]
struct SplitPath {
    rate: Rate,
    round_trip: Span,
    queue: ByteCount,
    loss: f64,
    duration: Span,
    runs: u64,
}

/// The paths that are simulated.
const LINES: [SplitPath; 2] = [
    // The paper's bottleneck, with losses as a public line has them.
    SplitPath {
        rate: Rate::from_bits_per_second(70_000_000),
        round_trip: Span::from_millis(68),
        queue: ByteCount::new(100_000),
        loss: 1e-4,
        duration: Span::from_secs(120),
        runs: 5,
    },
    SplitPath {
        rate: Rate::from_bits_per_second(1_000_000_000),
        round_trip: Span::from_millis(300),
        queue: ByteCount::new(2_500_000),
        loss: 1e-6,
        duration: Span::from_secs(120),
        runs: 5,
    },
];

/// Shares of the first leg in the round trip with one relay, in per cent; the other half mirrors
/// it.
const SPLITS: [u64; 6] = [0, 10, 20, 30, 40, 50];
/// Round trips between a host and its relay with two relays, in thousandths of the whole.
const DISTANCES: [u64; 7] = [1, 3, 10, 30, 100, 200, 330];
/// Congestion controls between two relays that are compared.
const BETWEEN: [&str; 4] = ["reno", "highspeed", "ghstcp", "icdc"];
/// Receive window of the plain hosts.
const WINDOW: ByteCount = ByteCount::from_kib(64);

/// A leg of a chain of relays: its share of the path's round trip and loss, in thousandths.
#[derive(Clone, Copy)]
struct LegShare {
    share: u64,
    algorithm: &'static str,
    /// Whether the windows of the plain hosts are small.
    is_small: bool,
}

/// Simulates one and two relays on each path; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let quick = |line: &SplitPath| SplitPath { duration: Span::from_secs(10), runs: 1, ..*line };
    let lines: Vec<SplitPath> = if bench.quick { LINES[..1].iter().map(quick).collect() } else { LINES.to_vec() };
    let mut report = Report::default();
    for line in &lines {
        (bench.say)(&line.name());
        one_relay(bench, line, &mut report)?;
        two_relays(bench, line, &mut report)?;
    }
    Ok(report)
}

impl SplitPath {
    fn name(&self) -> String {
        format!("{}, {}, queue {}, loss {}", self.rate, self.round_trip, self.queue, ratio(self.loss))
    }

    /// Settings of a leg; `seed` is that of the random loss.
    fn settings(&self, leg: LegShare, seed: u64) -> Settings {
        let direction = path(self.rate, self.round_trip.scaled(leg.share, 1000), self.queue);
        let loss = Model::Random(self.loss * leg.share as f64 / 1000.0);
        Settings::symmetric(icdc_path::Settings { loss, seed, ..direction })
    }

    /// Simulation of one flow over a leg.
    fn simulation(&self, leg: LegShare, seed: u64) -> icdc_sim::Simulation {
        let settings = self.settings(leg, seed);
        let algorithm = rate_control::algorithm(leg.algorithm);
        let window = if leg.is_small { ReceiveWindow::Fixed(WINDOW) } else { ample_window(&settings) };
        let flows = vec![Flow::bulk(algorithm, window)];
        icdc_sim::Simulation { flows, ..simulated::bulk(&settings, algorithm, self.duration) }
    }

    /// Simulates chains of legs; returns the rate of each over the runs in bit/s: the least of its
    /// legs. A leg of length zero carries the path's rate.
    fn carried(&self, bench: &Bench<'_>, chains: &[Vec<LegShare>]) -> Result<Vec<Spread>, ExperimentError> {
        let legs = || chains.iter().flatten().filter(|leg| leg.share > 0);
        let seeded = |leg: &LegShare| (1..=self.runs).map(|seed| self.simulation(*leg, seed)).collect::<Vec<_>>();
        let simulations: Vec<_> = legs().flat_map(seeded).collect();
        let outcomes = simulated::run_all(bench, &simulations)?;
        let mut rates = outcomes
            .chunks(self.runs as usize)
            .map(|runs| runs.iter().map(|outcome| outcome.goodput().as_bits_per_second() as f64).collect::<Vec<_>>());
        let full =
            payload_rate(&self.settings(LegShare { share: 1000, algorithm: "reno", is_small: false }, 1).forward);
        let least = |chain: &Vec<LegShare>| {
            let long = chain.iter().filter(|leg| leg.share > 0).count();
            let of_legs: Vec<Vec<f64>> = rates.by_ref().take(long).collect();
            let of_run = |run| of_legs.iter().map(|leg| leg[run]).fold(full.as_bits_per_second() as f64, f64::min);
            Spread::of((0..self.runs as usize).map(of_run))
        };
        Ok(chains.iter().map(least).collect())
    }
}

/// Simulates one relay at each place on a path; adds table and plot to the report.
fn one_relay(bench: &Bench<'_>, line: &SplitPath, report: &mut Report) -> Result<(), ExperimentError> {
    let chain = |split: u64, is_small| {
        let leg = |share| LegShare { share, algorithm: "reno", is_small };
        vec![leg(split * 10), leg(1000 - split * 10)]
    };
    let chains = |is_small| SPLITS.map(|split| chain(split, is_small));
    let (small, ample) = (line.carried(bench, &chains(true))?, line.carried(bench, &chains(false))?);
    let row = |(place, split): (usize, &u64)| {
        vec![format!("{split} : {}", 100 - split), tenths(&small[place]), tenths(&ample[place])]
    };
    report.tables.push(Table {
        caption: format!(
            "One relay between Reno hosts, {}: Mbit/s by the split of the round trip, median of {} (least to greatest); 0 : 100 is no relay",
            line.name(),
            line.runs
        ),
        header: ["split, %", "windows of 64 KiB", "windows that do not limit"].map(str::to_owned).to_vec(),
        rows: SPLITS.iter().enumerate().map(row).collect(),
    });
    let points = |rates: &[Spread]| -> Vec<(f64, f64)> {
        SPLITS.iter().zip(rates).map(|(split, rate)| (*split as f64 / 100.0, rate.median)).collect()
    };
    let series = vec![
        Series::new("windows of 64 KiB", Stroke::Line, points(&small)),
        Series::new("windows that do not limit", Stroke::Line, points(&ample)),
    ];
    report.plots.push(
        Plot::new(&format!("One relay, {}", line.name()), Unit::BitsPerSecond, series)
            .over("The first leg's share of the round trip", Unit::Share),
    );
    Ok(())
}

/// Simulates two relays at each distance from the hosts; adds table and plot to the report.
fn two_relays(bench: &Bench<'_>, line: &SplitPath, report: &mut Report) -> Result<(), ExperimentError> {
    let chain = |distance: u64, algorithm| {
        // One of the two legs to hosts, which are alike.
        let end = LegShare { share: distance, algorithm: "reno", is_small: true };
        vec![end, LegShare { share: 1000 - 2 * distance, algorithm, is_small: false }]
    };
    let mut columns = Vec::new();
    for algorithm in BETWEEN {
        let chains: Vec<_> = DISTANCES.iter().map(|distance| chain(*distance, algorithm)).collect();
        columns.push(line.carried(bench, &chains)?);
    }
    let away = |distance: u64| line.round_trip.scaled(distance, 1000);
    let row = |(place, distance): (usize, &u64)| {
        let window = (WINDOW / away(*distance)).as_bits_per_second() as f64 / 1e6;
        let mut row = vec![away(*distance).to_string(), format!("{window:.1}")];
        row.extend(columns.iter().map(|column| tenths(&column[place])));
        row
    };
    let mut header = vec!["host to relay, round trip".to_owned(), "64 KiB per that round trip, Mbit/s".to_owned()];
    header.extend(BETWEEN.map(|algorithm| format!("{algorithm} between relays")));
    report.tables.push(Table {
        caption: format!(
            "Two relays between hosts with 64 KiB, {}: Mbit/s by the distance of the relays from the hosts, median of {} (least to greatest)",
            line.name(),
            line.runs
        ),
        header,
        rows: DISTANCES.iter().enumerate().map(row).collect(),
    });
    let series = BETWEEN.iter().zip(&columns).map(|(algorithm, column)| {
        let points = DISTANCES.iter().zip(column).map(|(distance, rate)| (away(*distance).as_secs_f64(), rate.median));
        Series::new(algorithm, Stroke::Line, points.collect::<Vec<_>>())
    });
    report.plots.push(
        Plot::new(&format!("Two relays, {}", line.name()), Unit::BitsPerSecond, series.collect())
            .over("Round trip between a host and its relay", Unit::Seconds),
    );
    Ok(())
}

/// Text of rates in bit/s as Mbit/s with one decimal place.
fn tenths(rates: &Spread) -> String {
    let megabits = |rate: f64| rate / 1e6;
    let Spread { median, least, greatest } = *rates;
    Spread { median: megabits(median), least: megabits(least), greatest: megabits(greatest) }.tenths("none")
}
