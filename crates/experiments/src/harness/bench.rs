//! What a scenario is run with.

use std::num::NonZeroUsize;
use std::path::Path;

use icdc_units::Span;

use crate::harness::error::ExperimentError;

/// The program that is measured, and how thoroughly.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// The icdc that is measured.
    pub program: &'a Path,
    /// Fewer and shorter measurements: to see that it works.
    pub quick: bool,
    /// How often each live measurement is made, in place of what the scenario says.
    pub runs: Option<u64>,
    /// Only the rows whose name contains one of these are measured, in scenarios that can leave out
    /// rows; empty: all are.
    pub only: &'a [String],
    /// So many live measurements are made at once, in scenarios whose measurements do not depend on
    /// one another. None of several waits for a calm machine.
    pub at_once: NonZeroUsize,
    /// Most attempts at a live measurement that the machine spoils.
    pub attempts: u32,
    /// How long each live measurement waits at most for a calm machine.
    pub patience: Span,
    /// Gets what happens, a line at a time, from any thread.
    pub say: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Bench<'a> {
    /// All measurements, one after the other, each up to three times.
    #[must_use]
    pub fn of(program: &'a Path, patience: Span, say: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { program, quick: false, runs: None, only: &[], at_once: NonZeroUsize::MIN, attempts: 3, patience, say }
    }

    /// Whether a row of this name is measured.
    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| row.contains(only))
    }

    /// The rows of these that are measured.
    pub(crate) fn wanted<T>(&self, mut rows: Vec<T>, name: impl Fn(&T) -> String) -> Result<Vec<T>, ExperimentError> {
        let names = rows.iter().map(&name).collect();
        rows.retain(|row| self.wants(&name(row)));
        if rows.is_empty() { Err(self.wants_none(names)) } else { Ok(rows) }
    }

    /// Of these rows none is measured.
    pub(crate) fn wants_none(&self, rows: Vec<String>) -> ExperimentError {
        ExperimentError::NoRows { only: self.only.to_vec(), rows }
    }
}
