//! The disk-to-disk copy of the ICDC paper (Tanida, Inaba, Hiraki) over a long path: 1 Gbit/s, 300
//! ms, one stream, at a rate that icdc finds.
//!
//! The paper shows (figure 11, 302 ms) 86 % of the bottleneck from disk to disk, paced by hand.
//! Here the rate is found, with and without privileges, before a queue of 25 MB or of 2.5 MB,
//! without loss and with two loss ratios. Each run has a seed of its own and begins on an unknown
//! path. `TMPDIR` selects the disk.

use icdc_lab::Settings;
use icdc_path::loss::Model;
use icdc_report::{Plot, Report, Table};
use icdc_units::{ByteCount, Rate, Span};

use crate::copy::copying::{self, Copied, Copying, SteadyCopy};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::cells::ratio;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::rate_control::RateControl;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::scratch::Scratch;
use crate::harness::repetition::attempts;
use crate::harness::scenario::Scenario;

/// Scenario `icdc-disk` of `icdc lab run`: copies from disk to disk over 1 Gbit/s and 300 ms (ICDC,
/// figure 11).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "icdc-disk",
    about: "disk to disk over 1 Gbit/s and 300 ms, the rate found by itself: queue, loss, with and without privileges (ICDC, figure 11)",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(300);
/// Sizes of the path's queue that are measured.
const QUEUES: [ByteCount; 2] = [ByteCount::new(25_000_000), ByteCount::new(2_500_000)];
/// Loss ratio, and the required goodput in Mbit/s, with privileges and without.
const LOSSES: [(f64, [Option<u32>; 2]); 3] =
    [(0.0, [Some(915), Some(880)]), (1e-6, [Some(900), Some(800)]), (1e-4, [Some(850), None])];
/// Required ratio of drops, with privileges and without.
const DROPS: [&str; 2] = ["0", "less than 1e-5"];
/// Greatest permitted variation of windows of 1 ms in per cent, with privileges and without.
const VARIATIONS: [u32; 2] = [10, 25];
/// Size of the file: 26 s at TCP's full payload rate, of which 20 s are after start-up.
const SIZE: ByteCount = ByteCount::new(3_000_000_000);
/// Size of the file in a quick run of the scenario.
const QUICK_SIZE: ByteCount = ByteCount::new(700_000_000);
const RUNS: u64 = 5;

/// Row of the table: queue, random loss ratio and privileges, with the required goodput in Mbit/s
/// (`wanted`), and its runs.
struct DiskRuns {
    queue: ByteCount,
    loss: f64,
    rights: Rights,
    wanted: Option<u32>,
    runs: Vec<Copied>,
}

impl DiskRuns {
    fn name(&self) -> String {
        format!("{}, queue {}, loss {}", self.rights.name(), self.queue, ratio(self.loss))
    }

    /// Settings of the lab; `seed` is that of the random loss.
    fn settings(&self, seed: u64) -> Settings {
        let forward =
            icdc_path::Settings { loss: Model::Random(self.loss), seed, ..path(RATE, ROUND_TRIP, self.queue) };
        Settings::symmetric(forward)
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let size = if bench.quick { QUICK_SIZE } else { SIZE };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let mut cells = Vec::new();
    for queue in QUEUES {
        for (loss, wanted) in LOSSES {
            for (rights, wanted) in Rights::BOTH.into_iter().zip(wanted) {
                cells.push(DiskRuns { queue, loss, rights, wanted, runs: Vec::new() });
            }
        }
    }
    if bench.quick {
        cells.truncate(2);
    }
    let scratch = Scratch::on_disk(size * 2)?;
    let source = scratch.file("data", size)?;
    for seed in 1..=runs {
        for cell in &mut cells {
            (bench.say)(&format!("{}, run {seed} of {runs}", cell.name()));
            let mut copied = copying::run(
                bench,
                &Copying {
                    settings: cell.settings(seed),
                    scratch: &scratch,
                    source: &source,
                    rights: cell.rights,
                    options: Vec::new(),
                    receiver: None,
                    limit: Span::from_secs(600),
                },
            )?;
            let control = RateControl::Automatic(cell.rights);
            copied.spoilt = copied.spoilt.or_else(|| control.unlike(&copied.summary.congestion));
            let SteadyCopy { goodput, drops, .. } = SteadyCopy::of(&copied.recording, &cell.settings(seed));
            (bench.say)(&format!("  steady at {:.1} Mbit/s, where the queue dropped {drops}", goodput / 1e6));
            cell.runs.push(copied);
        }
    }
    Ok(Report {
        tables: vec![table(&cells)],
        plots: cells.iter().flat_map(plots).collect(),
        failures: cells.iter().flat_map(failures).collect(),
        ..Report::default()
    })
}

/// Messages about invalid runs of a row, for the report.
fn failures(cell: &DiskRuns) -> Vec<String> {
    attempts::failures(cell.runs.iter().map(|copied| (cell.name(), &copied.spoilt)))
}

/// Table with a row for each queue, loss ratio and set of privileges, beside the requirements.
fn table(cells: &[DiskRuns]) -> Table {
    let row = |cell: &DiskRuns| {
        let settings = cell.settings(1);
        let steady: Vec<SteadyCopy> = cell.runs.iter().map(|run| SteadyCopy::of(&run.recording, &settings)).collect();
        let spread = |value: fn(&SteadyCopy) -> f64| Spread::of(steady.iter().map(value));
        let of_runs = |value: fn(&Copied) -> f64| Spread::of(cell.runs.iter().map(value));
        let index = usize::from(cell.rights == Rights::Few);
        let spoilt = cell.runs.iter().any(|run| run.spoilt.is_some());
        vec![
            format!("{}{}", cell.name(), if spoilt { " (invalid)" } else { "" }),
            cell.wanted.map_or_else(String::new, |wanted| format!("at least {wanted}")),
            spread(|steady| steady.goodput).megabits(),
            of_runs(|run| run.summary.bytes as f64 * 8.0 / run.took.as_secs_f64()).megabits(),
            spread(|steady| steady.early_drops as f64).whole(),
            DROPS[index].to_owned(),
            spread(|steady| steady.drops as f64).whole(),
            format!("{:.1e}", spread(|steady| steady.drop_ratio).median),
            format!("at most {}", VARIATIONS[index]),
            spread(|steady| steady.variation).percent(),
            of_runs(|run| run.summary.retransmitted_segments as f64).whole(),
            format!("{}", cell.runs.iter().map(|run| run.lateness).max().unwrap_or_default()),
        ]
    };
    Table {
        caption: "1 Gbit/s, 300 ms, MTU 1500, disk to disk: median (least to greatest); the most that TCP's payload can reach is 941 Mbit/s"
            .to_owned(),
        header: [
            "",
            "wanted",
            "steady goodput, Mbit/s",
            "whole command, Mbit/s",
            "drops at the queue, start-up",
            "wanted",
            "steady",
            "as a share",
            "wanted",
            "variation of 1 ms windows, %",
            "segments retransmitted",
            "99.9 % late by at most",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: cells.iter().map(row).collect(),
    }
}

/// Throughput and queue of the first run.
fn plots(cell: &DiskRuns) -> Vec<Plot> {
    let Some(first) = cell.runs.first() else { return Vec::new() };
    let mut plots = first.recording.plots(&cell.settings(1).forward);
    plots.truncate(2);
    for plot in &mut plots {
        plot.title = format!("{}, {}", plot.title, cell.name());
    }
    plots
}
