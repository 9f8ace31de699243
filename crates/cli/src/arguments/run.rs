//! `icdc lab run` as typed.

use std::num::NonZeroU8;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_experiments::{ALL, Scenario};
use icdc_units::Span;

#[derive(Args, Debug)]
#[command(
    about = "Run a scenario: repeat a paper's measurement, or one of icdc's own",
    long_about = "Run a scenario in labs created for it: repeat a paper's table or figure and print the paper's value beside ours, or \
        measure icdc's own claims. The results go to a directory: report.html with plots, report.json, and CSV files. If the machine \
        delivered packets too late or lost some itself, the measurement is repeated, as often as --attempts allows, and marked as invalid if it stays so.",
    after_long_help = "Exit codes:\n  \
        0  the measurement is complete\n  \
        1  the measurement failed, or parts of it stayed invalid\n  \
        2  the command line is invalid\n\n\
        Examples:\n  icdc lab list\n  icdc lab run startup\n  icdc lab run --quick --out /tmp/window window\n  \
        icdc lab run --runs 1 --only 'port 22' any-host\n  icdc lab run --at-once 4 proxy-fair\n"
)]
pub(crate) struct RunArguments {
    /// The scenario; `icdc lab list` lists them
    #[arg(value_name = "SCENARIO", value_parser = scenario)]
    pub(crate) scenario: &'static Scenario,

    /// Directory for the results [default: lab-SCENARIO]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,

    /// Make fewer and shorter measurements
    #[arg(long)]
    pub(crate) quick: bool,

    /// Number of repetitions, in scenarios that repeat their measurements [default: the scenario's
    /// own number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) runs: Option<u64>,

    /// Measure only the rows of the table whose name contains TEXT, in scenarios that can leave out
    /// rows; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Vec<String>,

    /// Number of live measurements at a time, in scenarios whose measurements do not depend on one
    /// another; a lab of 1 Gbit/s needs about two processors
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) at_once: NonZeroU8,

    /// Most attempts at a measurement that the machine spoils
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) attempts: u32,

    /// Longest time that each live measurement waits for other work to leave the processors free;
    /// several at a time do not wait
    #[arg(long, value_name = "TIME", default_value = "1min")]
    pub(crate) patience: Span,
}

/// Finds the scenario of this name.
fn scenario(text: &str) -> Result<&'static Scenario, String> {
    let names = || ALL.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    icdc_experiments::find(text).ok_or_else(|| format!("there is no such scenario; there are: {}", names()))
}
