//! Results of applying changes, and of undoing them.

use super::error::RemedyError;

/// Result of applying changes.
#[derive(Debug, Default)]
pub struct Applied {
    /// Settings that have changed.
    pub set: Vec<Set>,
    /// Settings that could not be changed, and why.
    pub refused: Vec<RemedyError>,
}

/// A setting that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Name of the setting.
    pub name: &'static str,
    /// Value before the change.
    pub before: String,
    /// Value at present.
    pub now: String,
}

/// Result of undoing changes.
#[derive(Debug, Default)]
pub struct Undone {
    /// Settings that are again what they were.
    pub restored: Vec<Set>,
    /// Settings that another program has changed since; they stay.
    pub left: Vec<Set>,
}
