//! Errors of running a scenario.

use std::io;
use std::path::PathBuf;

use icdc_lab::LabError;
use thiserror::Error;

/// Reasons why a scenario could not be run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// A lab, a program or a file.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The settings of a simulation are invalid.
    #[error(transparent)]
    Simulation(#[from] icdc_sim::SimulationError),
    /// No row matches `--only`.
    #[error("no row has {} in its name: {}", .only.iter().map(|only| format!("{only:?}")).collect::<Vec<_>>().join(" or "), if .rows.is_empty() { "this scenario measures all its rows, leave out --only".to_owned() } else { format!("there are {}", .rows.join("; ")) })]
    NoRows {
        /// Names that `--only` requested.
        only: Vec<String>,
        /// Names of all rows.
        rows: Vec<String>,
    },
    /// The scenario's measurements cannot run at once.
    #[error("this scenario makes one measurement at a time: leave out --at-once")]
    OneAtATime,
    /// No usable directory for a scenario's files.
    #[error("{place} {why}: set TMPDIR to a directory on a disk with room for the scenario's files", place = .place.display())]
    Scratch {
        /// The directory in question.
        place: PathBuf,
        /// Cause of the error.
        why: String,
    },
}

impl ExperimentError {
    /// An operation that the kernel refused: `what` completes "cannot …".
    pub(crate) fn io(what: impl Into<String>, cause: io::Error) -> Self {
        LabError::io(what, cause).into()
    }

    /// A program failed; `output` is what it wrote to its standard error.
    pub(crate) fn program(program: impl Into<String>, output: impl Into<String>) -> Self {
        LabError::Program { program: program.into(), output: output.into() }.into()
    }
}
