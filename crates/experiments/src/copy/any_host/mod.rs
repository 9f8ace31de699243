//! Hosts that nobody has tuned, and what stands between them: how long a copy takes from command to
//! exit by icdc's own defaults.
//!
//! A user's copies run as number 1000 with no privilege and homes that are empty, on stock hosts
//! (see [`icdc_lab::Settings::stock`]): TCP buffers up to 6 MiB and 4 MiB, CUBIC. Root's run on
//! hosts that the lab has tuned for the path. Nothing is given but what a row says; `--ssh` names
//! the stand-in, where it has one, and `--remote-icdc` the program that is measured.
//!
//! | what | file |
//! |---|---|
//! | rows of the table of copies | `case.rs` |
//! | one copy | `turn.rs` |
//! | whose copies they are | `accounts.rs` |
//! | stand-in, sshd, firewall, jump host | `far_side.rs` |
//! | pauses of the processors | `pauses.rs` |
//! | rows beside others | `background.rs`, `beside_copy.rs`, `beside_cubic.rs` |
//!
//! A row whose copy fails tells why and has no further turn.

mod accounts;
mod background;
mod beside_copy;
mod beside_cubic;
mod case;
mod far_side;
mod pauses;
mod turn;

use std::collections::BTreeMap;
use std::path::PathBuf;

use icdc_report::{Plot, Report, Table};
use icdc_units::{ByteCount, Span};

use crate::copy::any_host::background::CopyBeside;
use crate::copy::any_host::beside_copy::BothCopies;
use crate::copy::any_host::beside_cubic::BothShares;
use crate::copy::any_host::case::Case;
use crate::copy::any_host::far_side::Access;
use crate::copy::any_host::turn::{Finish, Ground};
use crate::copy::peers::Load;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::programs::installed;
use crate::harness::scenario::Scenario;
use crate::harness::scratch::Scratch;
use crate::harness::spread::Spread;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "any-host",
    about: "copies of an ordinary user on stock hosts, also where only port 22 is open, and beside others: command to exit",
    has_rows: true,
    is_parallel: false,
    run,
};

const RUNS: u64 = 5;
/// Files are so much smaller in a quick run.
const QUICKER: u64 = 10;
const SMALL: ByteCount = ByteCount::from_kib(16);
const FOLDERS: u32 = 50;
const EACH: u32 = 100;
/// What is copied beside another connection, and how long that lasts.
const BESIDE: (ByteCount, Span) = (ByteCount::new(2_000_000_000), Span::from_secs(60));
/// Of a file of 4 GB: itself, what arrives, and the other sizes' files.
const ROOM: u64 = 3;

/// A row and its runs: one per round, until it failed.
struct CaseRuns {
    case: Case,
    finishes: Vec<Finish>,
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let chosen = |name: &str| bench.wants(name);
    let missing: Vec<&str> = ["sshd", "nft"].into_iter().filter(|program| installed(program).is_none()).collect();
    let can_run = |case: &Case| match case.access {
        Access::StandIn => true,
        Access::Ssh => !missing.contains(&"sshd"),
        Access::Port22 | Access::JumpHost => missing.is_empty(),
    };
    let mut cases: Vec<CaseRuns> = case::ALL
        .iter()
        .filter(|case| chosen(case.name) && can_run(case))
        .map(|&case| CaseRuns { case, finishes: Vec::new() })
        .collect();
    let mut background: Vec<_> =
        background::ALL.iter().filter(|row| chosen(row.name)).map(|&row| (row, Vec::new())).collect();
    let mut beside: Vec<_> =
        beside_cubic::ALL.iter().filter(|row| chosen(row.name)).map(|row| (row, Vec::new())).collect();
    let mut two: Vec<_> = beside_copy::ALL.iter().filter(|row| chosen(row.name)).map(|row| (row, Vec::new())).collect();
    if cases.is_empty() && background.is_empty() && beside.is_empty() && two.is_empty() {
        return Err(bench.wants_none(names().map(str::to_owned).collect()));
    }
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let quicker = |size: ByteCount| if bench.quick { size / QUICKER } else { size };
    let scratch = Scratch::on_disk(quicker(background::SIZE) * ROOM)?;
    let ground = Ground::new(&scratch)?;
    let mut sources = Sources { scratch: &scratch, files: BTreeMap::new() };
    for round in 1..=runs {
        let say = |name: &str| (bench.say)(&format!("{name}, run {round} of {runs}"));
        for CaseRuns { case, finishes } in &mut cases {
            if finishes.iter().any(|finish| finish.failure.is_some()) {
                continue;
            }
            say(case.name);
            let source = sources.get(case.load, quicker(case.size), bench.quick)?;
            finishes.push(ground.run(bench, case, &source, round)?);
        }
        for (row, results) in &mut background {
            say(row.name);
            let source = sources.get(Load::File, quicker(background::SIZE), bench.quick)?;
            results.push(row.run(bench, &ground, &source)?);
        }
        for (row, results) in &mut beside {
            say(row.name);
            let source = sources.get(Load::File, quicker(BESIDE.0), bench.quick)?;
            let lasts = if bench.quick { BESIDE.1 / 3 } else { BESIDE.1 };
            results.push(row.run(bench, &ground, &source, lasts)?);
        }
        for (row, results) in &mut two {
            say(row.name);
            let source = sources.get(Load::File, quicker(BESIDE.0), bench.quick)?;
            results.push(row.run(bench, &ground, &source)?);
        }
    }
    let mut tables = Vec::new();
    if !cases.is_empty() {
        tables.push(table(&cases, bench.quick));
    }
    if !background.is_empty() {
        tables.push(background::table(&background, quicker(background::SIZE)));
    }
    if !beside.is_empty() {
        tables.push(beside_cubic::table(&beside, quicker(BESIDE.0)));
    }
    if !two.is_empty() {
        tables.push(beside_copy::table(&two, quicker(BESIDE.0)));
    }
    let mut failures: Vec<String> = cases.iter().flat_map(CaseRuns::failures).collect();
    failures.extend(background.iter().flat_map(|(row, runs)| invalid(row.name, runs.iter().map(CopyBeside::spoilt))));
    failures.extend(beside.iter().flat_map(|(row, runs)| invalid(row.name, runs.iter().map(BothShares::spoilt))));
    failures.extend(two.iter().flat_map(|(row, runs)| invalid(row.name, runs.iter().map(BothCopies::spoilt))));
    Ok(Report {
        tables,
        plots: cases.iter().flat_map(CaseRuns::plots).collect(),
        failures,
        summary: vec![("not installed, so not measured".to_owned(), missing.join(", "))],
        ..Report::default()
    })
}

/// What makes runs of a row invalid.
fn invalid<'a>(name: &str, spoilt: impl Iterator<Item = Option<&'a str>>) -> impl Iterator<Item = String> {
    spoilt.flatten().map(move |why| format!("{name}: {why}"))
}

fn names() -> impl Iterator<Item = &'static str> {
    let copies = case::ALL.iter().map(|case| case.name);
    let beside = beside_cubic::ALL.iter().map(|row| row.name).chain(beside_copy::ALL.iter().map(|row| row.name));
    copies.chain(background::ALL.iter().map(|row| row.name)).chain(beside)
}

/// What is copied, made when it is needed first.
struct Sources<'a> {
    scratch: &'a Scratch,
    files: BTreeMap<ByteCount, PathBuf>,
}

impl Sources<'_> {
    fn get(&mut self, load: Load, size: ByteCount, quick: bool) -> Result<PathBuf, ExperimentError> {
        let size = if load == Load::Tree { ByteCount::ZERO } else { size };
        if let Some(path) = self.files.get(&size) {
            return Ok(path.clone());
        }
        let path = match load {
            Load::File => self.scratch.file(&format!("data-{}", size.as_u64()), size)?,
            Load::Tree => {
                self.scratch.tree("tree", FOLDERS, if quick { EACH / QUICKER as u32 } else { EACH }, SMALL)?
            }
        };
        Ok(self.files.entry(size).or_insert(path).clone())
    }
}

impl CaseRuns {
    /// What a reader has to know.
    fn failures(&self) -> Vec<String> {
        let bad = self.finishes.iter().filter_map(|finish| finish.failure.clone().or_else(|| finish.spoilt.clone()));
        bad.map(|why| format!("{}: {why}", self.case.name)).collect()
    }

    fn row(&self) -> Vec<String> {
        let spread = |value: fn(&Finish) -> f64| Spread::of(self.finishes.iter().map(value));
        let all = |value: &dyn Fn(&Finish) -> String| {
            let mut values: Vec<String> = self.finishes.iter().map(value).collect();
            values.sort();
            values.dedup();
            values.join(" / ")
        };
        let failed = self.finishes.iter().find_map(|finish| finish.failure.as_deref());
        let steady = spread(|finish| finish.steady.goodput);
        let seconds = spread(|finish| finish.took.as_secs_f64()).tenths("none");
        vec![
            self.case.name.to_owned(),
            self.case.required.to_owned(),
            if failed.is_some() { format!("failed after {seconds}") } else { seconds },
            if steady.greatest > 0.0 { steady.megabits() } else { "too short".to_owned() },
            spread(|finish| finish.steady.early_drops as f64).whole(),
            spread(|finish| (finish.steady.early_drops + finish.steady.drops) as f64).whole(),
            spread(|finish| finish.retransmitted * 100.0).thousandths(),
            spread(|finish| finish.data_connections as f64).whole(),
            spread(|finish| finish.opened as f64).whole(),
            all(&|finish| finish.peers.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
            all(&|finish| finish.congestion.clone()),
            all(&|finish| finish.exit.map_or_else(|| "killed".to_owned(), |code| code.to_string())),
            self.finishes.iter().filter(|finish| finish.spoilt.is_some()).count().to_string(),
            failed.unwrap_or_default().to_owned(),
        ]
    }

    /// Throughput and queue of the first run.
    fn plots(&self) -> Vec<Plot> {
        let Some(first) = self.finishes.first() else { return Vec::new() };
        let mut plots = first.recording.plots(&self.case.settings(1).forward);
        plots.truncate(2);
        for plot in &mut plots {
            plot.title = format!("{}, {}", plot.title, self.case.name);
        }
        plots
    }
}

fn table(cases: &[CaseRuns], quick: bool) -> Table {
    let header = [
        "",
        "required",
        "seconds",
        "steady, Mbit/s of payload",
        "drops at the queue, start-up",
        "all",
        "segments retransmitted, %",
        "data connections",
        "connections opened by a, ssh's too",
        "data went to",
        "congestion control",
        "exit code",
        "invalid runs",
        "why it failed",
    ];
    let smaller = if quick {
        format!("; files of a {QUICKER}th of the size, so what is required does not apply")
    } else {
        String::new()
    };
    Table {
        caption: format!(
            "Disk to disk, command to exit, 2 GB over 1 Gbit/s, 300 ms and a queue of 2.5 MB where a row does not tell otherwise: median (least to greatest){smaller}"
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: cases.iter().map(CaseRuns::row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_can_be_named() {
        let mut all: Vec<&str> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "two rows have one name");
    }
}
