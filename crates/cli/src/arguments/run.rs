//! `icdc lab run` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_experiments::{ALL, Scenario};
use icdc_units::Span;

#[derive(Args, Debug)]
#[command(
    about = "Measure a paper's table or figure anew",
    long_about = "Measure a paper's table or figure anew, in labs made for it, and print the paper's value beside ours. What was measured goes \
        to a directory: report.html with plots, report.json, and CSV files. A measurement that the machine spoilt, because it \
        delivered packets too late or lost some itself, is repeated, at most three times, and marked if it stays so.",
    after_long_help = "Exit codes:\n  \
        0  measured\n  \
        1  measured, but some measurements stayed invalid, or it failed\n  \
        2  the command line is not understood\n\n\
        Examples:\n  icdc lab list\n  icdc lab run icdc-pseudo\n  icdc lab run --quick --out /tmp/window window\n"
)]
pub(crate) struct RunArguments {
    /// The scenario; `icdc lab list` lists them
    #[arg(value_name = "SCENARIO", value_parser = scenario)]
    pub(crate) scenario: &'static Scenario,

    /// Where to put what was measured [default: lab-SCENARIO]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,

    /// Fewer and shorter measurements
    #[arg(long)]
    pub(crate) quick: bool,

    /// How often each thing is measured, where a scenario repeats its measurements [default: the
    /// scenario's own number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) runs: Option<u64>,

    /// How long each live measurement waits at most for a machine whose processors are not taken by
    /// others
    #[arg(long, value_name = "TIME", default_value = "1min")]
    pub(crate) patience: Span,
}

fn scenario(text: &str) -> Result<&'static Scenario, String> {
    let names = || ALL.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    icdc_experiments::find(text).ok_or_else(|| format!("there is no such scenario; there are: {}", names()))
}
