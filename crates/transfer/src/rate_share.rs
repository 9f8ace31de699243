//! A ceiling of the sending rate that changes while a session runs: the share that one of several
//! runs has of what all of them may send.

use std::sync::atomic::{AtomicU64, Ordering};

use icdc_units::Rate;

/// A share of a common rate, in bits per second, that can change during a run.
#[derive(Debug)]
pub struct RateShare(AtomicU64);

impl RateShare {
    /// A share that begins at `rate`; [`Rate::MAX`] for no ceiling.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self(AtomicU64::new(rate.as_bits_per_second()))
    }

    /// Changes the rate to `rate`.
    pub fn set(&self, rate: Rate) {
        self.0.store(rate.as_bits_per_second(), Ordering::Relaxed);
    }

    /// Present rate; `None` for no ceiling.
    #[must_use]
    pub fn get(&self) -> Option<Rate> {
        let rate = Rate::from_bits_per_second(self.0.load(Ordering::Relaxed));
        (rate < Rate::MAX).then_some(rate)
    }
}
