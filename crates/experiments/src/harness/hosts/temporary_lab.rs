//! A lab for one measurement.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

use icdc_lab::{Lab, Settings};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;

/// Number of this process's next temporary lab, part of its name.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A lab that is removed when dropped.
pub(crate) struct TemporaryLab(Lab);

impl TemporaryLab {
    /// Makes a lab under a name of its own; it ends with this process at the latest.
    pub(crate) fn new(bench: &Bench<'_>, settings: &Settings) -> Result<Self, ExperimentError> {
        let name = format!("run-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Ok(Self(Lab::lent(&name, settings, bench.program)?))
    }
}

impl Deref for TemporaryLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.0
    }
}

impl Drop for TemporaryLab {
    fn drop(&mut self) {
        // A lab that cannot be removed now is shown by `icdc lab status`.
        let _ = icdc_lab::down(&self.0.record.name);
    }
}
