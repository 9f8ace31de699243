//! `icdc lab sim`: simulates and shows what came of it.
//!
//! | file | what |
//! |---|---|
//! | `show` | lines for people, JSON |
//! | `page` | the report |

mod page;
mod show;

use anyhow::Result;
use icdc_sim::{Outcome, Recorder, Scenario, simulate};
use icdc_units::Span;

use crate::arguments::sim::SimArguments;
use crate::clock::timed;
use crate::console::Console;
use crate::exit;
use crate::plan::{ResultFile, result_file};

/// A simulation that is through.
struct Run {
    scenario: Scenario,
    outcome: Outcome,
    record: Recorder,
    /// What it took.
    took: Span,
}

impl Run {
    /// Speed of the simulator.
    fn packets_per_second(&self) -> u64 {
        (self.outcome.packets() as f64 / self.took.as_secs_f64().max(1e-9)) as u64
    }
}

pub(super) fn run(arguments: SimArguments, console: &Console) -> u8 {
    let (run, report) = match carry_out(&arguments) {
        Ok(done) => done,
        Err(error) => {
            return console.give_up(&error, exit::USAGE);
        }
    };
    if arguments.json {
        console.result(&show::summary(&run));
    } else {
        show::lines(&run).iter().for_each(|line| console.result(line));
    }
    console.flush();
    let written = report.map_or(Ok(()), |file| file.write("report", &page::report(&run).to_html()));
    if let Err(error) = &written {
        console.complain(error);
    }
    if written.is_err() || console.has_lost_results() { exit::FAILED } else { 0 }
}

/// Every error is one of usage.
fn carry_out(arguments: &SimArguments) -> Result<(Run, Option<ResultFile>)> {
    let scenario = arguments.scenario()?;
    let report = arguments.report.as_deref().map(|path| result_file(path, "--report")).transpose()?;
    let mut record = Recorder::new(&scenario);
    let (outcome, took) = timed(|| simulate(&scenario, &mut record));
    Ok((Run { outcome: outcome?, scenario, record, took }, report))
}
