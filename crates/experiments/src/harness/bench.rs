//! What a scenario is run with.

use std::path::Path;

use icdc_units::Span;

/// The program that is measured, and how thoroughly.
pub struct Bench<'a> {
    /// The icdc that is measured.
    pub program: &'a Path,
    /// Fewer and shorter measurements: to see that it works.
    pub quick: bool,
    /// How often each live measurement is made, in place of what the scenario says.
    pub runs: Option<u64>,
    /// Only the rows whose name contains this are measured, in scenarios that can leave out rows.
    pub only: Option<&'a str>,
    /// How long each live measurement waits at most for a calm machine.
    pub patience: Span,
    /// Gets what happens, a line at a time, from any thread.
    pub say: &'a (dyn Fn(&str) + Sync),
}
