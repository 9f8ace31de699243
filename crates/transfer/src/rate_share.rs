//! A ceiling of the sending rate that changes while a session runs: the share that one of several
//! runs has of what all of them may send.

use std::sync::atomic::{AtomicU64, Ordering};

use icdc_units::Rate;

/// Share that one run has of a rate ceiling common to several runs, which can change while the run
/// is in progress. Each session passes it to its rate controller at every tick.
#[derive(Debug)]
pub struct RateShare {
    bits_per_second: AtomicU64,
}

impl RateShare {
    /// A share that begins at `rate`.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { bits_per_second: AtomicU64::new(rate.as_bits_per_second()) }
    }

    /// Changes the rate to `rate`.
    pub fn set(&self, rate: Rate) {
        self.bits_per_second.store(rate.as_bits_per_second(), Ordering::Relaxed);
    }

    /// Present rate.
    #[must_use]
    pub fn get(&self) -> Rate {
        Rate::from_bits_per_second(self.bits_per_second.load(Ordering::Relaxed))
    }
}
