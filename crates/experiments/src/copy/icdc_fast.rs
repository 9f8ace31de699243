//! The memory-to-disk copy of the ICDC paper (Tanida, Inaba, Hiraki) at a high rate over a short
//! path, held for three minutes.
//!
//! The paper shows (figure 12) 7 Gbit/s for 180 s, 160 GB, on a model of a 10 Gbit/s line, into a
//! RAID-0 of eight SSDs. Here the lab is in fast mode (10 Gbit/s, 1 ms) and only the machine
//! limits: a first copy finds the highest rate, a second one is paced a twentieth below it and has
//! to hold that. Both are done by Direct I/O, and again through the page cache (`--buffered`), held
//! at the rate of the former. Both ends, the path and the disk share the machine's processors.
//!
//! The source is one file in memory under many names, each of which travels (`--preserve` without
//! `links`); what has been published is deleted while the copy goes on, so that the disk need not
//! hold all of it.

use std::fs;

use icdc_lab::{Mode, Settings};
use icdc_report::{Plot, Report, Table};
use icdc_units::{ByteCount, Rate, Span};

use crate::copy::copying::{self, Copied, Copying, DESTINATION, SteadyCopy};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::scratch::Scratch;
use crate::harness::scenario::Scenario;

/// Scenario `icdc-fast` of `icdc lab run`: the highest rate from memory to disk, held for 180 s
/// (ICDC, figure 12).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "icdc-fast",
    about: "memory to disk over a short path of 10 Gbit/s: the highest rate that this machine reaches, held for 180 s (ICDC, figure 12)",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(10_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(1);
/// A hundredth of a second of the path.
const QUEUE: ByteCount = ByteCount::new(12_500_000);
/// Rate of the second copy as a share of that of the first.
const HELD: f64 = 0.95;

/// Method of writing to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    Direct,
    Buffered,
}

impl Writes {
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "Direct I/O",
            Self::Buffered => "buffered",
        }
    }
}

/// Amounts of data that are copied.
struct FastExtent {
    /// Memory that the file takes.
    file: ByteCount,
    /// Number of names in the first copy.
    names: u64,
    /// Length of the second copy beyond start-up.
    hold: Span,
    /// Room for files that are not deleted yet.
    room: ByteCount,
}

/// Extent of a full run of the scenario.
const WHOLE: FastExtent = FastExtent {
    file: ByteCount::from_mib(2048),
    names: 6,
    hold: Span::from_secs(180),
    room: ByteCount::from_mib(20 << 10),
};
/// Extent of a quick run of the scenario.
const QUICK: FastExtent = FastExtent {
    file: ByteCount::from_mib(256),
    names: 10,
    hold: Span::from_secs(5),
    room: ByteCount::from_mib(4 << 10),
};
/// Start-up time, as [`SteadyCopy`] defines it.
const START_UP: Span = Span::from_secs(5);

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let extent = if bench.quick { QUICK } else { WHOLE };
    let memory = Scratch::in_memory(extent.file)?;
    let disk = Scratch::on_disk(extent.room)?;
    let file = memory.file("data", extent.file)?;
    let settings = Settings { mode: Mode::Fast, ..Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE)) };
    let copy = |names: u64, rate: Option<Rate>, writes: Writes| -> Result<Copied, ExperimentError> {
        let source = memory.empty("names")?;
        for number in 0..names {
            let name = source.join(format!("data-{number:05}"));
            fs::hard_link(&file, &name)
                .map_err(|error| ExperimentError::io(format!("make {}", name.display()), error))?;
        }
        let mut options = vec!["--preserve".to_owned(), "mode,times".to_owned()];
        options.extend(rate.iter().flat_map(|rate| ["--rate".to_owned(), format!("{rate:#}")]));
        options.extend((writes == Writes::Buffered).then(|| "--buffered".to_owned()));
        let copying = Copying {
            settings: settings.clone(),
            scratch: &disk,
            source: &source,
            rights: Rights::All,
            options,
            receiver: None,
            limit: Span::from_secs(1200),
        };
        let destination = disk.path(DESTINATION);
        let copied = copying::run_beside(bench, &copying, |lab| {
            let said = copying::copy(bench, lab, &copying, |item| {
                if item.outcome == "published" {
                    // Directories are reported as well, and stay.
                    let _ = fs::remove_file(destination.join(&item.path));
                }
            })?;
            Ok((said, ()))
        });
        Ok(copied?.0)
    };
    let mut runs = Vec::new();
    for writes in [Writes::Direct, Writes::Buffered] {
        (bench.say)(&format!("finding the highest rate, {}", writes.name()));
        runs.push((format!("as fast as it goes, {}", writes.name()), copy(extent.names, None, writes)?));
    }
    let held = Rate::from_bits_per_second((reached(&runs[0].1, &settings) * HELD) as u64);
    let names = (held * (extent.hold + START_UP)).as_u64().div_ceil(extent.file.as_u64());
    for writes in [Writes::Direct, Writes::Buffered] {
        (bench.say)(&format!("holding {held} for {}, {}", extent.hold, writes.name()));
        let name = format!("held at {held}, {}", writes.name());
        runs.push((name, copy(names.max(1), Some(held), writes)?));
    }
    Ok(Report {
        tables: vec![table(&runs, &settings)],
        plots: runs.iter().flat_map(|(name, copied)| plots(name, copied, &settings)).collect(),
        failures: runs
            .iter()
            .filter_map(|(name, copied)| Some(format!("{name}: {}", copied.spoilt.as_ref()?)))
            .collect(),
        ..Report::default()
    })
}

/// Goodput, bits per second, after start-up; of the whole copy if that was shorter.
fn reached(copied: &Copied, settings: &Settings) -> f64 {
    let steady = SteadyCopy::of(&copied.recording, settings).goodput;
    if steady > 0.0 { steady } else { copied.summary.bytes as f64 * 8.0 / copied.took.as_secs_f64() }
}

/// Table with a column for each copy, beside the paper's values.
fn table(runs: &[(String, Copied)], settings: &Settings) -> Table {
    let row = |name: &str, paper: &str, value: &dyn Fn(&Copied) -> String| {
        let mark = |copied: &Copied| if copied.spoilt.is_some() { " (invalid)" } else { "" };
        let values = runs.iter().map(|(_, copied)| format!("{}{}", value(copied), mark(copied)));
        [name.to_owned(), paper.to_owned()].into_iter().chain(values).collect()
    };
    let steady = |copied: &Copied| SteadyCopy::of(&copied.recording, settings);
    let seconds = |copied: &Copied| -> Vec<f64> {
        let from = START_UP.as_millis() as usize;
        let whole = (from..).step_by(1000).take_while(|from| from + 1000 <= copied.recording.bins.len());
        whole.map(|from| copying::payload(copied.recording.mean_rate_between(from, from + 1000), settings)).collect()
    };
    let gigabits = |rate: f64| format!("{:.2}", rate / 1e9);
    let mut header = vec![String::new(), "paper".to_owned()];
    header.extend(runs.iter().map(|(name, _)| name.clone()));
    Table {
        caption: "Memory to disk, 10 Gbit/s, 1 ms, one stream".to_owned(),
        header,
        rows: vec![
            row("command to exit, s", "", &|copied| format!("{:.0}", copied.took.as_secs_f64())),
            row("of all of it, Gbit/s", "", &|copied| {
                gigabits(copied.summary.bytes as f64 * 8.0 / copied.took.as_secs_f64())
            }),
            row("goodput from 5 s on, Gbit/s", "7", &|copied| gigabits(steady(copied).goodput)),
            row("whole seconds from 5 s on", "180", &|copied| seconds(copied).len().to_string()),
            row("slowest of these, Gbit/s", "", &|copied| {
                gigabits(seconds(copied).into_iter().fold(f64::NAN, f64::min))
            }),
            row("fastest, Gbit/s", "", &|copied| gigabits(seconds(copied).into_iter().fold(f64::NAN, f64::max))),
            row("copied in all, GB", "160", &|copied| format!("{:.0}", copied.summary.bytes as f64 / 1e9)),
            row("variation of the 1 ms windows, %", "", &|copied| format!("{:.0}", steady(copied).variation * 100.0)),
            row("drops at the queue, start-up", "", &|copied| steady(copied).early_drops.to_string()),
            row("drops at the queue, since", "", &|copied| steady(copied).drops.to_string()),
            row("segments retransmitted", "", &|copied| copied.summary.retransmitted_segments.to_string()),
            row("limited most by", "", &|copied| copied.summary.limits()),
        ],
    }
}

/// Plot of the throughput of a copy.
fn plots(name: &str, copied: &Copied, settings: &Settings) -> Vec<Plot> {
    let mut plots = copied.recording.plots(&settings.forward);
    plots.truncate(1);
    for plot in &mut plots {
        plot.title = format!("{}, {name}", plot.title);
    }
    plots
}
