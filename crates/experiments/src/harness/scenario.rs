//! A scenario: its name, what it shows, and the function that runs it.

use std::num::NonZeroUsize;

use icdc_report::Report;

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;

/// An experiment that `icdc lab run` runs.
#[derive(Debug)]
pub struct Scenario {
    /// Name of the scenario on the command line.
    pub name: &'static str,
    /// Purpose of the scenario, in a line.
    pub about: &'static str,
    /// Whether rows can be left out, by [`Bench::only`].
    pub(crate) has_rows: bool,
    /// Whether the measurements are independent, so that [`Bench::at_once`] counts.
    pub(crate) is_parallel: bool,
    pub(crate) run: fn(&Bench<'_>) -> Result<Report, ExperimentError>,
}

impl Scenario {
    /// Measures or simulates; returns the report. Progress messages go to `bench.say`.
    pub fn run(&self, bench: &Bench<'_>) -> Result<Report, ExperimentError> {
        if !bench.only.is_empty() && !self.has_rows {
            return Err(bench.wants_none(Vec::new()));
        }
        if bench.at_once > NonZeroUsize::MIN && !self.is_parallel {
            return Err(ExperimentError::OneAtATime);
        }
        let mut report = (self.run)(bench)?;
        self.name.clone_into(&mut report.title);
        if report.outcome.is_empty() {
            self.about.clone_into(&mut report.outcome);
        }
        Ok(report)
    }
}
