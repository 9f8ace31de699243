//! Parameters with which a scenario is run.

use std::num::NonZeroUsize;
use std::path::Path;

use icdc_units::Span;

use crate::harness::error::ExperimentError;

/// Parameters of a scenario's run: the measured program, and the number and extent of the
/// measurements.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// Path of the icdc program that is measured.
    pub program: &'a Path,
    /// Fewer and shorter measurements, as a check that the scenario works.
    pub quick: bool,
    /// Runs of each live measurement; `None` for the scenario's default.
    pub runs: Option<u64>,
    /// Texts of which a row's name has to contain one for the row to be measured, in scenarios that
    /// can leave out rows; empty for all rows.
    pub only: &'a [String],
    /// Live measurements that run at once, in scenarios whose measurements are independent. With
    /// more than one, none waits for a calm machine.
    pub at_once: NonZeroUsize,
    /// Most attempts at a live measurement that the machine disturbs.
    pub attempts: u32,
    /// Time limit of each live measurement's wait for a calm machine.
    pub patience: Span,
    /// Receives progress messages, a line at a time, from any thread.
    pub say: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Bench<'a> {
    /// A bench with the defaults: all measurements, one after the other, each attempted up to three
    /// times.
    #[must_use]
    pub fn of(program: &'a Path, patience: Span, say: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { program, quick: false, runs: None, only: &[], at_once: NonZeroUsize::MIN, attempts: 3, patience, say }
    }

    /// Whether a row of this name is to be measured.
    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| row.contains(only))
    }

    /// The rows that are measured; an error if there are none.
    pub(crate) fn wanted<T>(&self, mut rows: Vec<T>, name: impl Fn(&T) -> String) -> Result<Vec<T>, ExperimentError> {
        let names = rows.iter().map(&name).collect();
        rows.retain(|row| self.wants(&name(row)));
        if rows.is_empty() { Err(self.wants_none(names)) } else { Ok(rows) }
    }

    /// The error that none of these rows is measured.
    pub(crate) fn wants_none(&self, rows: Vec<String>) -> ExperimentError {
        ExperimentError::NoRows { only: self.only.to_vec(), rows }
    }
}
