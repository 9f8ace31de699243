//! A simulation that is through, and how long it took.

use icdc_sim::{Outcome, Recorder, Simulation};
use icdc_units::Span;

/// A completed simulation with its settings, result and recorded course.
pub(super) struct Run {
    pub(super) simulation: Simulation,
    pub(super) outcome: Outcome,
    pub(super) record: Recorder,
    /// Wall-clock time that the simulation took.
    pub(super) took: Span,
}

impl Run {
    /// Simulated packets per second of wall-clock time.
    pub(super) fn packets_per_second(&self) -> u64 {
        (self.outcome.packets() as f64 / self.took.as_secs_f64().max(1e-9)) as u64
    }
}
