//! What applying changes, or taking them back, has led to.

use super::error::RemedyError;

/// What was applied.
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
    /// Its name.
    pub name: &'static str,
    /// What it was.
    pub before: String,
    /// What it is.
    pub now: String,
}

/// What was taken back.
#[derive(Debug, Default)]
pub struct Undone {
    /// Settings that are again what they were.
    pub restored: Vec<Set>,
    /// Settings that somebody else has changed since; they stay.
    pub left: Vec<Set>,
}
