//! Accuracy of the emulator: effects of a lab on packets beyond its settings.
//!
//! | checks | file |
//! |---|---|
//! | delay, bottleneck, loss of single packets | `crossing.rs` |
//! | lateness of packets: at the highest rates, with sleeping processors, a stopped wire, in a long run | `punctuality.rs` |
//!
//! No measurement is repeated here: the machine's disturbances are what is measured.

mod crossing;
mod punctuality;

use icdc_report::{Report, Table};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::scenario::Scenario;

/// Scenario `emulator` of `icdc lab run`: effects of the emulator on packets beyond its settings.
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
