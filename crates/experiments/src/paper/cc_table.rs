//! Throughput of the algorithms on a long fat path, live beside simulated, with the paper's
//! Table 1 (Yamamoto).
//!
//! The paper: 1 Gbit/s, 300 ms by netem, ten minutes, five runs, socket buffers that do not limit,
//! on a kernel of the year 2008. It does not give the queue; here it is 3.75 MB, a tenth of the
//! bandwidth-delay product. A live run and its simulation lose the same packets: both draw by the
//! same seed; the simulated host sends as fast as the live one did, and the simulated receiver
//! answers as many packets at a time as the live one did in the mean (`cc_acks.rs` has what that
//! decides). More seeds than live runs are simulated.

use icdc_lab::{Buffers, Settings};
use icdc_path::loss::Model;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::{Outcome, Recorder};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::cells::ratio;
use crate::harness::figures::simulated::{self, like};
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::at_once::{self, Repeated};
use crate::harness::measurement::measured::{self, Measured, failures};
use crate::harness::measurement::rate_control::algorithm;
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;

/// Scenario `cc-table` of `icdc lab run`: throughput of eight algorithms at 1 Gbit/s and 300 ms,
/// live and simulated, beside the paper's table 1.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "cc-table",
    about: "throughput of eight algorithms at 1 Gbit/s, 300 ms, live and simulated (algorithm bench, table 1)",
    has_rows: true,
    is_parallel: true,
    run,
};

/// The algorithms, each with the paper's Mbit/s without loss and with a loss ratio of 1e-6; `None`
/// if the paper has no value.
pub(crate) const ALGORITHMS: [(&str, [Option<u32>; 2]); 8] = [
    ("reno", [Some(320), Some(150)]),
    ("bic", [Some(710), Some(490)]),
    ("cubic", [Some(690), Some(610)]),
    ("htcp", [Some(840), Some(610)]),
    ("highspeed", [Some(460), Some(160)]),
    ("scalable", [Some(870), Some(740)]),
    ("ghstcp", [None, None]),
    ("bbr", [None, None]),
];
/// Random loss ratios of the table.
pub(crate) const LOSSES: [f64; 2] = [0.0, 1e-6];
const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(300);
/// Size of the queue: a tenth of the bandwidth-delay product.
const QUEUE: ByteCount = ByteCount::new(3_750_000);

/// Extent of the table's measurements.
struct TableExtent {
    algorithms: usize,
    seconds: u64,
    /// Number of live runs.
    runs: u64,
}

/// Seconds of a run, as in the paper.
pub(crate) const SECONDS: u64 = 600;
/// Extent of a full run of the scenario.
const WHOLE: TableExtent = TableExtent { algorithms: ALGORITHMS.len(), seconds: SECONDS, runs: 5 };
/// Extent of a quick run of the scenario.
const QUICK: TableExtent = TableExtent { algorithms: 1, seconds: 5, runs: 1 };
/// Simulations for each live run: the first with its seed, the others with further seeds.
const SIMULATED: u64 = 4;

/// Row of the table: an algorithm at a loss ratio, with its live and simulated runs.
struct AlgorithmRuns {
    name: &'static str,
    loss: f64,
    paper: Option<u32>,
    live: Vec<Measured>,
    simulated: Vec<Outcome>,
    /// The window of the first of the simulations.
    windows: Vec<(f64, f64)>,
}

impl Repeated for AlgorithmRuns {
    type Run = Measured;

    fn name(&self) -> String {
        format!("{}, loss {}", self.name, ratio(self.loss))
    }

    fn keep(&mut self, run: Measured) {
        self.live.push(run);
    }
}

/// Settings of the lab: the path, and hosts whose socket buffers do not limit. `seed` is that of
/// the random loss.
pub(crate) fn settings(loss: f64, seed: u64) -> Settings {
    let direction = icdc_path::Settings { loss: Model::Random(loss), seed, ..path(RATE, ROUND_TRIP, QUEUE) };
    Settings { buffers: Buffers::AtMost(RATE * ROUND_TRIP * 8), ..Settings::symmetric(direction) }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let extent = if bench.quick { QUICK } else { WHOLE };
    let extent = TableExtent { runs: bench.runs.unwrap_or(extent.runs), ..extent };
    let mut cells = Vec::new();
    for (name, papers) in &ALGORITHMS[..extent.algorithms] {
        for (&loss, &paper) in LOSSES.iter().zip(papers) {
            cells.push(AlgorithmRuns { name, loss, paper, live: vec![], simulated: vec![], windows: vec![] });
        }
    }
    let mut cells = bench.wanted(cells, AlgorithmRuns::name)?;
    let live = |bench: &Bench<'_>, cell: &AlgorithmRuns, run| {
        trial::run(bench, &Trial::new(settings(cell.loss, run + 1), extent.seconds, cell.name))
    };
    at_once::repeat(bench, extent.runs, &mut cells, live)?;
    simulate(bench, &extent, &mut cells)?;
    Ok(report(&extent, &cells))
}

/// Simulates the conditions of the live runs, and adds the results to the rows.
fn simulate(bench: &Bench<'_>, extent: &TableExtent, cells: &mut [AlgorithmRuns]) -> Result<(), ExperimentError> {
    let seeds = extent.runs * SIMULATED;
    let simulations = |cell: &AlgorithmRuns| -> Vec<_> {
        let each = cell.live.iter().cycle().zip(1..=seeds);
        each.map(|(live, seed)| {
            like(&settings(cell.loss, seed), algorithm(cell.name), Span::from_secs(extent.seconds), live)
        })
        .collect()
    };
    let all: Vec<_> = cells.iter().flat_map(simulations).collect();
    let mut watched = simulated::run_all_watched(bench, &all, Recorder::new)?.into_iter().zip(&all);
    for cell in cells {
        for ((outcome, record), simulation) in watched.by_ref().take(seeds as usize) {
            if cell.simulated.is_empty() {
                cell.windows = simulated::windows(simulation, &record);
            }
            cell.simulated.push(outcome);
        }
    }
    Ok(())
}

/// Report with the table, and a plot of the congestion window for each row.
fn report(extent: &TableExtent, cells: &[AlgorithmRuns]) -> Report {
    // The paper's values only compare with runs of the same length.
    let paper = |cell: &AlgorithmRuns| cell.paper.filter(|_| extent.seconds == WHOLE.seconds);
    let row = |cell: &AlgorithmRuns| {
        let (live, simulated) = (measured::goodput(&cell.live), simulated::goodput(&cell.simulated));
        let alike = simulated::goodput(&cell.simulated[..cell.live.len()]);
        let against = |paper: u32| format!("{:+.0} %", (live.median / 1e6 / f64::from(paper) - 1.0) * 100.0);
        vec![
            cell.name.to_owned(),
            ratio(cell.loss),
            paper(cell).map_or_else(String::new, |paper| paper.to_string()),
            live.megabits(),
            paper(cell).map_or_else(String::new, against),
            alike.megabits(),
            format!("{:.2}", live.median / alike.median),
            simulated.megabits(),
            Spread::of(cell.live.iter().map(|measured| measured.answered)).tenths(""),
            cell.live.iter().filter(|measured| measured.spoilt.is_some()).count().to_string(),
        ]
    };
    let live = cells.iter().flat_map(|cell| cell.live.iter().map(|measured| (cell.name(), measured)));
    Report {
        tables: vec![Table {
            caption: format!(
                "Goodput of {} s in Mbit/s, median (least to greatest): {} live, {} simulated",
                extent.seconds,
                extent.runs,
                extent.runs * SIMULATED
            ),
            header: [
                "algorithm",
                "loss",
                "paper",
                "live",
                "live against the paper",
                "simulated, same seeds",
                "live / simulated",
                "simulated, all seeds",
                "packets for each acknowledgement, live",
                "invalid runs",
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

/// Plot of the congestion window over time in the first live run and in its simulation.
fn plot(cell: &AlgorithmRuns) -> Plot {
    let live = cell.live.first().map(Measured::windows).unwrap_or_default();
    let both = [("simulated", Stroke::Faint, cell.windows.clone()), ("live", Stroke::Strong, live)];
    let series = both.map(|(name, stroke, points)| {
        Series::new(name, stroke, points).column(&format!("cwnd_{}_{}_{name}", cell.name, ratio(cell.loss)))
    });
    let title = format!("Congestion window, {}, loss {}", cell.name, ratio(cell.loss));
    Plot::new(&title, Unit::Bytes, series.into())
}
