//! icdc beside the programs that people use, each from its command to its exit, in the same rounds.
//!
//! A file of 2 GB and a tree of 5,000 files of 16 KiB in 50 folders, over 1 Gbit/s, 300 ms and a
//! queue of 2.5 MB. Each run has a lab of its own; in each round every program has its turn, and
//! the order rotates. icdc runs by ssh (login included) and by its daemon; with privileges on an
//! unknown and on a known path, and without. Programs that are slow by design move a smaller file
//! and stand beside the others with what they moved: nothing is extrapolated. A program that
//! exceeds the time limit is stopped; one that was stopped or failed is not run again. The peers'
//! TCP is the system's: its algorithm stands with the results. icdc's time includes making durable
//! what arrived; of the others none does that.

use std::fs;
use std::path::PathBuf;

use icdc_lab::Settings;
use icdc_report::{Report, Table};
use icdc_units::{ByteCount, Rate, Span};

use crate::copy::copying::DESTINATION;
use crate::copy::peers::{CommandPaths, Load, Peer};
use crate::copy::race::{Contender, FarEnd, Finish, RaceSetup, Turn};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::scratch::{Scratch, contents};
use crate::harness::scenario::Scenario;

/// Scenario `versus` of `icdc lab run`: time of copies from command to exit, by icdc and the other
/// programs that are installed.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "versus",
    about: "2 GB and 5,000 small files over 1 Gbit/s and 300 ms, command to exit: icdc beside rsync, scp and what else is installed",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(300);
const QUEUE: ByteCount = ByteCount::new(2_500_000);
const RUNS: u64 = 3;
/// Size of each file of the tree.
const SMALL: ByteCount = ByteCount::from_kib(16);

/// Amounts of data, and the time limit of a program.
struct VersusExtent {
    file: ByteCount,
    /// Size of the file for slow programs.
    slow_file: ByteCount,
    folders: u32,
    each: u32,
    file_limit: Span,
    tree_limit: Span,
}

/// Extent of a full run of the scenario.
const WHOLE: VersusExtent = VersusExtent {
    file: ByteCount::new(2_000_000_000),
    slow_file: ByteCount::new(200_000_000),
    folders: 50,
    each: 100,
    file_limit: Span::from_secs(240),
    tree_limit: Span::from_secs(120),
};
/// Extent of a quick run of the scenario.
const QUICK: VersusExtent = VersusExtent {
    file: ByteCount::new(200_000_000),
    slow_file: ByteCount::new(10_000_000),
    folders: 5,
    each: 20,
    file_limit: Span::from_secs(60),
    tree_limit: Span::from_secs(20),
};

/// icdc's variants with the requirement of each: the fastest peer's time over ours with the file,
/// seconds with the tree.
const OURS: [(FarEnd, Rights, bool, f64, f64); 6] = [
    (FarEnd::Ssh, Rights::All, false, 1.15, 7.0),
    (FarEnd::Ssh, Rights::All, true, 1.25, 7.0),
    (FarEnd::Ssh, Rights::Few, false, 1.0, 7.0),
    (FarEnd::Daemon, Rights::All, false, 1.15, 4.5),
    (FarEnd::Daemon, Rights::All, true, 1.25, 4.5),
    (FarEnd::Daemon, Rights::Few, false, 1.0, 4.5),
];

/// Row of a table: a program with its source and requirements, and the results of its runs, one per
/// round until it failed.
struct Contest {
    contender: Contender,
    wanted: Option<(f64, f64)>,
    source: PathBuf,
    finishes: Vec<Finish>,
}

impl Contest {
    /// Time of a round in seconds, if it copied everything and as much as the others.
    fn took(&self, round: usize, full: ByteCount) -> Option<f64> {
        let finish = self.finishes.get(round)?;
        (finish.failure.is_none() && finish.moved.1 >= full).then(|| finish.took.as_secs_f64())
    }

    /// Failures of icdc that the report mentions; those of other programs are in the tables.
    fn failures(&self, load: Load) -> Vec<String> {
        let failure = |finish: &Finish| finish.failure.clone().filter(|_| self.wanted.is_some());
        let bad = self.finishes.iter().filter_map(|finish| finish.spoilt.clone().or_else(|| failure(finish)));
        bad.map(|why| format!("{}, {}: {why}", self.contender.name(), noun(load))).collect()
    }
}

/// Copies a file and a tree by all programs, in rounds; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let extent = if bench.quick { QUICK } else { WHOLE };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let scratch = Scratch::on_disk(extent.file * 3)?;
    let file = scratch.file("data", extent.file)?;
    let slow_file = scratch.file("less-data", extent.slow_file)?;
    let tree = scratch.tree("tree", extent.folders, extent.each, SMALL)?;
    let destination = scratch.path(DESTINATION).join("in");
    let setup = RaceSetup {
        settings: Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE)),
        scratch: &scratch,
        paths: CommandPaths::new(&scratch, &destination)?,
        destination,
    };
    setup.make_keys(bench)?;
    let peers = Peer::installed();
    let mut tables = Vec::new();
    let mut failures = Vec::new();
    for (load, limit) in [(Load::File, extent.file_limit), (Load::Tree, extent.tree_limit)] {
        let source = |is_slow| match load {
            Load::File if is_slow => &slow_file,
            Load::File => &file,
            Load::Tree => &tree,
        };
        let mut entries = entries(&peers, load, source);
        if bench.quick {
            // One by ssh, one by the daemon.
            entries.retain(|entry| !matches!(entry.contender, Contender::Icdc(far_end, rights, known) if known || (far_end == FarEnd::Ssh) != (rights == Rights::Few)));
        }
        if load == Load::File {
            (bench.say)("getting to know the path");
            let contender = Contender::Icdc(FarEnd::Daemon, Rights::All, true);
            setup.run(bench, &Turn { contender: &contender, load, source: &file, limit })?;
        }
        for round in 0..runs as usize {
            let say = |name: &str| (bench.say)(&format!("{name}, {}, round {} of {runs}", noun(load), round + 1));
            for turn in 0..entries.len() {
                let count = entries.len();
                let entry = &mut entries[(turn + round) % count];
                if entry.finishes.iter().any(|finish| finish.failure.is_some()) {
                    continue;
                }
                say(&entry.contender.name());
                let turn = Turn { contender: &entry.contender, load, source: &entry.source, limit };
                entry.finishes.push(setup.run(bench, &turn)?);
            }
        }
        tables.push(table(load, &entries, contents(source(false)), limit));
        failures.extend(entries.iter().flat_map(|entry| entry.failures(load)));
    }
    Ok(Report { tables, failures, summary: summary(), ..Report::default() })
}

/// Facts below the tables, as (name, value).
fn summary() -> Vec<(String, String)> {
    let missing = Peer::missing().join(", ");
    let algorithm = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    vec![
        ("not installed, so not measured".to_owned(), missing),
        ("congestion control of the others".to_owned(), algorithm.trim().to_owned()),
    ]
}

/// Words for the load in tables and messages.
fn noun(load: Load) -> &'static str {
    match load {
        Load::File => "one file",
        Load::Tree => "small files",
    }
}

/// The rows of the table of this load: icdc's variants and the `peers`. `source` gives the path to
/// copy; true asks for that of slow programs.
fn entries<'a>(peers: &[&'static Peer], load: Load, source: impl Fn(bool) -> &'a PathBuf) -> Vec<Contest> {
    let ours = OURS.into_iter().map(|(far_end, rights, known, file, tree)| {
        (Contender::Icdc(far_end, rights, known), Some((file, tree)), load == Load::Tree && known)
    });
    // Small files do not show the path's rate.
    let ours = ours.filter(|(.., is_pointless)| !is_pointless).map(|(contender, wanted, _)| (contender, wanted, false));
    let peers = peers.iter().map(|peer| (Contender::Peer(peer), None, peer.is_slow));
    ours.chain(peers)
        .map(|(contender, wanted, is_slow)| Contest {
            contender,
            wanted,
            source: source(is_slow).clone(),
            finishes: Vec::new(),
        })
        .collect()
}

/// Table of the times of all programs with one load; of the `full` bytes in `files` files a slow
/// program moves less.
fn table(load: Load, entries: &[Contest], (files, full): (u64, ByteCount), limit: Span) -> Table {
    let fastest = |round: usize| {
        let peers = entries.iter().filter(|entry| entry.wanted.is_none());
        peers.filter_map(|entry| entry.took(round, full)).min_by(f64::total_cmp)
    };
    let row = |entry: &Contest| {
        let finishes = &entry.finishes;
        let seconds = Spread::of(finishes.iter().map(|finish| finish.took.as_secs_f64()));
        let ratios = (0..finishes.len()).filter_map(|round| Some(fastest(round)? / entry.took(round, full)?));
        let ratio = Spread::of(ratios);
        let wanted = entry.wanted.map_or_else(String::new, |(file, tree)| match load {
            Load::File => format!("ratio at least {file}"),
            Load::Tree => format!("at most {tree} s"),
        });
        let failed = finishes.iter().find(|finish| finish.failure.is_some());
        let moved = failed.or(finishes.first()).map(|finish| finish.moved).unwrap_or_default();
        let took = match failed {
            Some(finish) if finish.overran => format!("stopped after {limit}"),
            Some(finish) => format!("failed: {}", finish.failure.as_deref().unwrap_or_default()),
            None => seconds.tenths("none"),
        };
        let speed =
            failed.map_or_else(|| format!("{:.1}", moved.1.as_u64() as f64 / 1e6 / seconds.median), |_| String::new());
        let spoilt = finishes.iter().any(|finish| finish.spoilt.is_some());
        vec![
            format!("{}{}", entry.contender.name(), if spoilt { " (invalid)" } else { "" }),
            wanted,
            took,
            format!("{:.0}", moved.1.as_u64() as f64 / 1e6),
            moved.0.to_string(),
            speed,
            if ratio.median.is_nan() { String::new() } else { format!("{:.2}", ratio.median) },
        ]
    };
    Table {
        caption: format!(
            "{}: {full} in {files} files over 1 Gbit/s, 300 ms, queue 2.5 MB, command to exit: median (least to greatest)",
            noun(load)
        ),
        header: ["", "wanted", "seconds", "MB moved", "files moved", "MB/s", "fastest peer's time in the round / this"]
            .map(str::to_owned)
            .to_vec(),
        rows: entries.iter().map(row).collect(),
    }
}
