//! One large file between two hosts of this machine without a path in between: from disk to disk
//! and from memory to memory, beside other programs and beside what the disk does alone (fio,
//! Direct I/O of 4 MiB at depth 8).
//!
//! Both hosts share the machine's processors and its disk, so a copy on the disk reads and writes
//! it at once.

use std::path::Path;
use std::process::Command;

use icdc_report::{Report, Table};
use icdc_units::{ByteCount, Rate, Span};
use serde_json::Value;

use crate::copy::direct::{Copier, Direct};
use crate::copy::rounds::Rounds;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::processes::bounded;
use crate::harness::processes::programs::installed;
use crate::harness::processes::scratch::Scratch;
use crate::harness::scenario::Scenario;
use crate::harness::traffic::loopback::in_turns;

/// Scenario `copy-file` of `icdc lab run`: one large file between two hosts of this machine, by
/// icdc, rsync and scp, beside the disk alone.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "copy-file",
    about: "a file of 3 GiB between two hosts of this machine, on disk and in memory: rate, processor, memory, beside rsync, scp and fio",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Size of the file.
const SIZE: ByteCount = ByteCount::from_mib(3 << 10);
/// Size of the file in a quick run of the scenario.
const QUICK_SIZE: ByteCount = ByteCount::from_mib(64);
const RUNS: u64 = 5;
/// Time limit of fio.
const LIMIT: Span = Span::from_secs(600);

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let size = if bench.quick { QUICK_SIZE } else { SIZE };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let copiers = Copier::installed();
    let (mut tables, mut failures) = (Vec::new(), Vec::new());
    for (what, scratch) in
        [("disk to disk", Scratch::on_disk(size * 3)?), ("memory to memory", Scratch::in_memory(size * 2)?)]
    {
        let source = scratch.file("data", size)?;
        let direct = Direct::new(&scratch)?;
        let rounds = Rounds::run(bench, &direct, &copiers, (what, &source), runs)?;
        tables.push(rounds.table());
        failures.extend(rounds.failures());
        if what == "disk to disk" && installed("fio").is_some() {
            tables.push(disk_alone(bench, &source, &scratch.path("fio"), size, runs)?);
        }
    }
    Ok(Report { tables, failures, ..Report::default() })
}

/// Measures the rates of the disk alone by fio, reading `source` and writing `aside`; gives the
/// table.
fn disk_alone(
    bench: &Bench<'_>,
    source: &Path,
    aside: &Path,
    size: ByteCount,
    runs: u64,
) -> Result<Table, ExperimentError> {
    let accesses = ["read", "write"];
    let name = |access: &str| format!("fio, {access}");
    let rates = in_turns(bench, &accesses, runs, name, |access| {
        fio(access, if access == "read" { source } else { aside }, size)
    })?;
    let row = |(access, rates): (&str, &Vec<Rate>)| {
        let megabytes = rates.iter().map(|rate| rate.as_bits_per_second() as f64 / 8e6);
        vec![access.to_owned(), Spread::of(megabytes).tenths("")]
    };
    Ok(Table {
        caption: format!(
            "The disk alone, Direct I/O of 4 MiB at depth 8, {size}, median of {runs} (least to greatest)"
        ),
        header: ["", "MB/s"].map(str::to_owned).to_vec(),
        rows: accesses.into_iter().zip(&rates).map(row).collect(),
    })
}

/// Runs fio on a file; returns its rate. `access`: `read` or `write`.
fn fio(access: &'static str, file: &Path, size: ByteCount) -> Result<Rate, ExperimentError> {
    let mut command = Command::new("fio");
    command.args(["--output-format=json", "--direct=1", "--bs=4M", "--iodepth=8", "--ioengine=io_uring"]);
    command.arg(format!("--size={}", size.as_u64())).arg(format!("--name={access}")).arg(format!("--rw={access}"));
    command.arg(format!("--filename={}", file.display())).arg("--end_fsync=1");
    let mut output = String::new();
    let ended = bounded::run(&mut command, LIMIT, |line| output += line)?;
    if !ended.well {
        return Err(ExperimentError::program("fio", ended.errors));
    }
    // Warnings may precede the report.
    let report: Value =
        output.find('{').and_then(|start| serde_json::from_str(&output[start..]).ok()).unwrap_or_default();
    match report["jobs"][0][access]["bw_bytes"].as_u64() {
        Some(bytes) => Ok(Rate::from_bytes_per_second(bytes)),
        None => Err(ExperimentError::program("fio", format!("no bandwidth in its report: {output}"))),
    }
}
