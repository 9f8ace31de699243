//! Copies between untuned hosts, with obstacles in between: times from command to exit by icdc's
//! own defaults.
//!
//! A user's copies run as number 1000 with no privilege and homes that are empty, on stock hosts
//! (see [`icdc_lab::Settings::stock`]): TCP buffers up to 6 MiB and 4 MiB, CUBIC. Root's run on
//! hosts that the lab has tuned for the path. Only the options of the row are given; `--ssh` names
//! the stand-in, where it has one, and `--remote-icdc` the program that is measured.
//!
//! | what | file |
//! |---|---|
//! | rows and their runs; what is copied | `row.rs` |
//! | rows of the table of copies, and the table | `case.rs`, `copies.rs` |
//! | one copy | `turn.rs` |
//! | accounts that copy | `accounts.rs` |
//! | stand-in, sshd, firewall, jump host | `far_side.rs` |
//! | pauses of the processors | `pauses.rs` |
//! | rows beside others | `background.rs`, `beside_copy.rs`, `beside_cubic.rs` |
//!
//! A row whose copy fails reports the error and is not run again.

mod accounts;
mod background;
mod beside_copy;
mod beside_cubic;
mod case;
mod copies;
mod far_side;
mod pauses;
mod row;
mod turn;

use icdc_report::{Report, Table};

use crate::copy::any_host::case::Case;
use crate::copy::any_host::far_side::Access;
use crate::copy::any_host::row::{Kind, Round, Row, RunContext, Sources, chosen, size_in};
use crate::copy::any_host::turn::Fixture;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::processes::programs::installed;
use crate::harness::processes::scratch::Scratch;
use crate::harness::scenario::Scenario;

/// Scenario `any-host` of `icdc lab run`: copies of a user between stock hosts, also past firewalls
/// and beside others.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "any-host",
    about: "copies of an ordinary user on stock hosts, also where only port 22 is open, and beside others: command to exit",
    has_rows: true,
    is_parallel: false,
    run,
};

/// Scenario `lossy` of `icdc lab run`: the same over paths that lose packets.
pub(crate) const LOSSY: Scenario = Scenario {
    name: "lossy",
    about: "copies over paths that lose packets, by themselves or in bursts: by the route that icdc chooses, over datagrams, by root",
    has_rows: true,
    is_parallel: false,
    run: run_lossy,
};

const RUNS: u64 = 5;
/// Space on the disk in files of 4 GB: the file, its copy, and the files of other sizes.
const ROOM: u64 = 3;

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let missing = missing();
    let can_run = |case: &Case| match case.access {
        Access::StandIn => true,
        Access::Ssh => !missing.contains(&"sshd"),
        Access::Port22 | Access::JumpHost => missing.is_empty(),
    };
    let kinds: [Option<Box<dyn Kind>>; 4] = [
        chosen(&case::ALL, |case| bench.wants(case.name()) && can_run(case)),
        chosen(&background::ALL, |row| bench.wants(row.name())),
        chosen(&beside_cubic::ALL, |row| bench.wants(row.name())),
        chosen(&beside_copy::ALL, |row| bench.wants(row.name())),
    ];
    let kinds: Vec<Box<dyn Kind>> = kinds.into_iter().flatten().collect();
    if kinds.is_empty() {
        return Err(bench.wants_none(names().map(str::to_owned).collect()));
    }
    let summary = vec![("not installed, so not measured".to_owned(), missing.join(", "))];
    Ok(Report { summary, ..run_kinds(bench, kinds)? })
}

fn run_lossy(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    match chosen(&case::ALL_LOSSY, |case| bench.wants(case.name())) {
        Some(kind) => run_kinds(bench, vec![kind]),
        None => Err(bench.wants_none(case::ALL_LOSSY.iter().map(|case| case.name().to_owned()).collect())),
    }
}

/// Programs that some rows need and that are not installed.
fn missing() -> Vec<&'static str> {
    ["sshd", "nft"].into_iter().filter(|program| installed(program).is_none()).collect()
}

/// Runs the rows of all tables, in rounds.
fn run_kinds(bench: &Bench<'_>, mut kinds: Vec<Box<dyn Kind>>) -> Result<Report, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let scratch = Scratch::on_disk(size_in(background::SIZE, bench.quick) * ROOM)?;
    let fixture = Fixture::new(&scratch)?;
    let mut sources = Sources::on(&scratch);
    let context = RunContext { bench, fixture: &fixture };
    for number in 1..=runs {
        for kind in &mut kinds {
            kind.run(&context, &mut sources, Round { number, of: runs })?;
        }
    }
    Ok(Report {
        tables: kinds.iter().map(|kind| kind.table(bench.quick)).collect::<Vec<Table>>(),
        plots: kinds.iter().flat_map(|kind| kind.plots()).collect(),
        failures: kinds.iter().flat_map(|kind| kind.failures()).collect(),
        ..Report::default()
    })
}

/// Names of all rows of all tables of `any-host`.
fn names() -> impl Iterator<Item = &'static str> {
    let copies = case::ALL.iter().map(Row::name);
    let beside = beside_cubic::ALL.iter().map(Row::name).chain(beside_copy::ALL.iter().map(Row::name));
    copies.chain(background::ALL.iter().map(Row::name)).chain(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_can_be_named() {
        let mut all: Vec<&str> = names().chain(case::ALL_LOSSY.iter().map(Row::name)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "two rows have one name");
    }
}
