//! `icdc lab run` and `icdc lab list`.

use std::fs;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use icdc_experiments::{ALL, Bench, ExperimentError, Scenario};
use icdc_report::{Report, Table};

use crate::arguments::run::RunArguments;
use crate::console::Console;
use crate::{config, exit};

/// Runs `icdc lab list`: prints the scenarios. Returns the exit code.
pub(super) fn list(_console: &Console) -> u8 {
    for Scenario { name, about, .. } in &ALL {
        println!("{name:<17}{about}");
    }
    0
}

/// Runs `icdc lab run` and returns the exit code.
pub(super) fn run(arguments: &RunArguments, console: &Console) -> u8 {
    match measure(arguments, console) {
        Ok(report) if report.failures.is_empty() => 0,
        Ok(_) => exit::FAILED,
        Err(error) => {
            let code = match error.downcast_ref() {
                Some(ExperimentError::NoRows { .. } | ExperimentError::OneAtATime) => exit::USAGE,
                _ => exit::FAILED,
            };
            console.give_up(&error, code)
        }
    }
}

/// Runs a scenario, prints its tables, and writes its report to a directory.
fn measure(arguments: &RunArguments, console: &Console) -> Result<Report> {
    let scenario = arguments.scenario;
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("lab-{}", scenario.name)));
    config::switch_off().context("cannot run without the settings of files and variables")?;
    let is_new = !out.exists();
    // Before an hour is spent on what cannot be kept.
    fs::create_dir_all(&out).with_context(|| format!("cannot make the directory {}", out.display()))?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let say = |line: &str| console.complain(line);
    let bench = Bench {
        quick: arguments.quick,
        runs: arguments.runs,
        only: &arguments.only,
        at_once: arguments.at_once.into(),
        attempts: arguments.attempts,
        ..Bench::of(&program, arguments.patience, &say)
    };
    let mut report = scenario.run(&bench).inspect_err(|_| {
        // With results in it, it stays.
        let _ = if is_new { fs::remove_dir(&out) } else { Ok(()) };
    })?;
    let quick = if arguments.quick { " --quick" } else { "" };
    let runs = arguments.runs.map_or_else(String::new, |runs| format!(" --runs {runs}"));
    let only: String = arguments.only.iter().map(|only| format!(" --only '{only}'")).collect();
    let several = arguments.at_once > NonZeroU8::MIN;
    let at_once = if several { format!(" --at-once {}", arguments.at_once) } else { String::new() };
    let (attempts, patience) = (arguments.attempts, arguments.patience);
    report.command = format!(
        "icdc lab run{quick}{runs}{only}{at_once} --attempts {attempts} --patience {patience} {}",
        scenario.name
    );
    report.summary.extend(machine());
    for table in &report.tables {
        print_table(table);
    }
    for failure in &report.failures {
        println!("invalid: {failure}");
    }
    write(&out, &report)?;
    println!("{}", out.join("report.html").display());
    Ok(report)
}

/// Properties of the machine on which a scenario ran, as pairs of name and value.
fn machine() -> Vec<(String, String)> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("kernel".to_owned(), kernel.trim().to_owned()),
        ("processors".to_owned(), processors.to_string()),
        ("icdc".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

/// Writes a scenario's report to the directory `out`: HTML, JSON, and CSV files.
fn write(out: &Path, report: &Report) -> Result<()> {
    let files = [("report.html".to_owned(), report.to_html()), ("report.json".to_owned(), report.to_json())];
    for (name, text) in files.into_iter().chain(report.to_csv()) {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn print_table(table: &Table) {
    let rows: Vec<&Vec<String>> = std::iter::once(&table.header).chain(&table.rows).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    println!("{}", table.caption);
    for row in &rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column).unwrap_or(0);
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}
