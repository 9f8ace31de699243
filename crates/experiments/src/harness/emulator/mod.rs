//! How honest the emulator is: what a lab does to packets beside what it was asked to do.
//!
//! | checks | file |
//! |---|---|
//! | delay, bottleneck, loss: what happens to each packet | `crossing.rs` |
//! | highest rates, sleeping processors, a wire that is stopped, a long run: how late packets are | `punctuality.rs` |
//!
//! Here nothing is repeated because the machine spoilt it: how it does so is what is looked at.

mod crossing;
mod punctuality;

use icdc_report::{Report, Table};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::scenario::Scenario;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "emulator",
    about: "what the emulator does to packets beside what it was asked to do: delay, rate, loss, highest rates, lateness",
    has_rows: false,
    is_parallel: false,
    run,
};

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let mut rows = crossing::rows(bench)?;
    rows.extend(punctuality::rows(bench)?);
    Ok(Report {
        tables: vec![Table {
            caption: "What was asked of the emulator, and what was found".to_owned(),
            header: ["check", "asked for", "found"].map(str::to_owned).to_vec(),
            rows,
        }],
        ..Report::default()
    })
}
