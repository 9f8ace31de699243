//! Throughput of the algorithms on a long fat path, live beside simulated, with the paper's
//! Table 1 (Yamamoto).
//!
//! The paper: 1 Gbit/s, 300 ms by netem, ten minutes, five runs, socket buffers that do not limit,
//! on a kernel of the year 2008. It does not give the queue; here it is 3.75 MB, a tenth of the
//! bandwidth-delay product. Live runs are shorter, so both durations are simulated: the short one
//! shows how far simulation and kernel agree, the long one stands beside the paper. A live run and
//! its simulation lose the same packets: both draw by the same seed; and the simulated host sends
//! as fast as the live one did.

use icdc_lab::Settings;
use icdc_path::loss::Model;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::{Outcome, Recorder};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::cells::ratio;
use crate::harness::error::ExperimentError;
use crate::harness::measured::{self, Measured, failures};
use crate::harness::paths::path;
use crate::harness::rate_control::algorithm;
use crate::harness::scenario::Scenario;
use crate::harness::simulated::{self, like};
use crate::harness::trial::{self, Trial};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "cc-table",
    about: "throughput of eight algorithms at 1 Gbit/s, 300 ms, live and simulated (algorithm bench, table 1)",
    has_rows: false,
    run,
};

/// Algorithm, and the paper's Mbit/s without loss and with a loss ratio of 1e-6.
const ALGORITHMS: [(&str, [Option<u32>; 2]); 8] = [
    ("reno", [Some(320), Some(150)]),
    ("bic", [Some(710), Some(490)]),
    ("cubic", [Some(690), Some(610)]),
    ("htcp", [Some(840), Some(610)]),
    ("highspeed", [Some(460), Some(160)]),
    ("scalable", [Some(870), Some(740)]),
    ("ghstcp", [None, None]),
    ("bbr", [None, None]),
];
const LOSSES: [f64; 2] = [0.0, 1e-6];
const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(300);
const QUEUE: ByteCount = ByteCount::new(3_750_000);

/// How much is measured.
struct TableExtent {
    algorithms: usize,
    live_seconds: u64,
    live_seeds: u64,
    long_seconds: u64,
    long_seeds: u64,
}

const WHOLE: TableExtent =
    TableExtent { algorithms: ALGORITHMS.len(), live_seconds: 60, live_seeds: 3, long_seconds: 600, long_seeds: 5 };
const QUICK: TableExtent =
    TableExtent { algorithms: 1, live_seconds: 5, live_seeds: 1, long_seconds: 10, long_seeds: 1 };

/// An algorithm at a loss ratio.
struct AlgorithmRuns {
    name: &'static str,
    loss: f64,
    paper: Option<u32>,
    live: Vec<Measured>,
    short: Vec<Outcome>,
    long: Vec<Outcome>,
    /// The window of the first of the short simulations.
    windows: Vec<(f64, f64)>,
}

fn settings(loss: f64, seed: u64) -> Settings {
    Settings::symmetric(icdc_path::Settings { loss: Model::Random(loss), seed, ..path(RATE, ROUND_TRIP, QUEUE) })
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let extent = if bench.quick { QUICK } else { WHOLE };
    let extent = TableExtent { live_seeds: bench.runs.unwrap_or(extent.live_seeds), ..extent };
    let mut cells = Vec::new();
    for (name, papers) in &ALGORITHMS[..extent.algorithms] {
        for (&loss, &paper) in LOSSES.iter().zip(papers) {
            cells.push(AlgorithmRuns {
                name,
                loss,
                paper,
                live: Vec::new(),
                short: Vec::new(),
                long: Vec::new(),
                windows: Vec::new(),
            });
        }
    }
    for cell in &mut cells {
        for seed in 1..=extent.live_seeds {
            (bench.say)(&format!("{}, loss {}, run {seed} of {}", cell.name, ratio(cell.loss), extent.live_seeds));
            let trial = Trial::new(settings(cell.loss, seed), extent.live_seconds, cell.name);
            cell.live.push(trial::run(bench, &trial)?);
        }
    }
    for cell in &mut cells {
        simulate(bench, &extent, cell)?;
    }
    Ok(report(&extent, &cells))
}

/// The short runs as the live ones were, the long ones by as many seeds as it takes.
fn simulate(bench: &Bench<'_>, extent: &TableExtent, cell: &mut AlgorithmRuns) -> Result<(), ExperimentError> {
    let simulations = |seconds, seeds| -> Vec<_> {
        let each = cell.live.iter().cycle().zip(1..=seeds);
        let simulation =
            |(live, seed)| like(&settings(cell.loss, seed), algorithm(cell.name), Span::from_secs(seconds), live);
        each.map(simulation).collect()
    };
    let (short, long) =
        (simulations(extent.live_seconds, extent.live_seeds), simulations(extent.long_seconds, extent.long_seeds));
    let watched = simulated::run_all_watched(bench, &short, Recorder::new)?;
    cell.windows = simulated::windows(&short[0], &watched[0].1);
    cell.short = watched.into_iter().map(|(outcome, _)| outcome).collect();
    cell.long = simulated::run_all(bench, &long)?;
    Ok(())
}

fn report(extent: &TableExtent, cells: &[AlgorithmRuns]) -> Report {
    // Beside less time than the paper's its values would mislead.
    let paper = |cell: &AlgorithmRuns| cell.paper.filter(|_| extent.long_seconds == WHOLE.long_seconds);
    let row = |cell: &AlgorithmRuns| {
        let (live, short, long) =
            (measured::goodput(&cell.live), simulated::goodput(&cell.short), simulated::goodput(&cell.long));
        let against = |paper: u32| format!("{:+.0} %", (long.median / 1e6 / f64::from(paper) - 1.0) * 100.0);
        vec![
            cell.name.to_owned(),
            ratio(cell.loss),
            paper(cell).map_or_else(String::new, |paper| paper.to_string()),
            long.megabits(),
            paper(cell).map_or_else(String::new, against),
            live.megabits(),
            short.megabits(),
            format!("{:.2}", live.median / short.median),
        ]
    };
    let live = cells.iter().flat_map(|cell| {
        cell.live.iter().map(|measured| (format!("{}, loss {}", cell.name, ratio(cell.loss)), measured))
    });
    Report {
        tables: vec![Table {
            caption: format!(
                "Goodput in Mbit/s, median (least to greatest): {} s simulated, {} s live and simulated",
                extent.long_seconds, extent.live_seconds
            ),
            header: [
                "algorithm",
                "loss",
                "paper, 600 s",
                "simulated, long",
                "against the paper",
                "live",
                "simulated, short",
                "live / simulated",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: cells.iter().map(row).collect(),
        }],
        plots: cells.iter().map(plot).collect(),
        failures: failures(live),
        ..Report::default()
    }
}

/// The window of the first live run, and of its simulation.
fn plot(cell: &AlgorithmRuns) -> Plot {
    let live = cell.live.first().map(Measured::windows).unwrap_or_default();
    let both = [("simulated", Stroke::Faint, cell.windows.clone()), ("live", Stroke::Strong, live)];
    let series = both.map(|(name, stroke, points)| {
        Series::new(name, stroke, points).column(&format!("cwnd_{}_{}_{name}", cell.name, ratio(cell.loss)))
    });
    let title = format!("Congestion window, {}, loss {}", cell.name, ratio(cell.loss));
    Plot::new(&title, Unit::Bytes, series.into())
}
