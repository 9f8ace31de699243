//! `icdc lab sim`: simulates and shows what came of it.
//!
//! | file | what |
//! |---|---|
//! | `run` | a simulation that is through |
//! | `show` | lines for people, JSON |
//! | `page` | the report |

mod page;
mod run;
mod show;

use anyhow::Result;
use icdc_sim::{Recorder, simulate};

use crate::arguments::sim::SimArguments;
use crate::clock::timed;
use crate::console::Console;
use crate::exit;
use crate::plan::output::{ResultFile, result_file};
use run::Run;

/// Runs `icdc lab sim` and returns the exit code.
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

/// Simulates as the arguments say; returns the result, and the file for the report if one is asked
/// for. Every error is one of usage.
fn carry_out(arguments: &SimArguments) -> Result<(Run, Option<ResultFile>)> {
    let simulation = arguments.simulation()?;
    let report = arguments.report.as_deref().map(|path| result_file(path, "--report")).transpose()?;
    let mut record = Recorder::new(&simulation);
    let (outcome, took) = timed(|| simulate(&simulation, &mut record));
    Ok((Run { outcome: outcome?, simulation, record, took }, report))
}
