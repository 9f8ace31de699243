//! The user's ceiling of the sending rate of a run, which may change while the run is in progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use icdc_units::Rate;

/// Stands for no ceiling.
const NONE: u64 = u64::MAX;

/// The user's ceiling of the sending rate of a run: the lower of one for this run and of its share of
/// one for several. The end that sends reads it at every tick of its rate controller; an end that
/// receives tells the sender of changes. Zero pauses the run: nothing is sent, and the connections
/// stay.
#[derive(Debug)]
pub struct UserCeiling {
    /// Ceiling with which the run was planned, as requests to a far end have it.
    first: Option<Rate>,
    /// The ceilings in bits per second, or [`NONE`].
    own: AtomicU64,
    share: AtomicU64,
    is_out_of_reach: AtomicBool,
}

impl UserCeiling {
    /// A ceiling that begins as `rate`, `None` for none, and has no share of another.
    #[must_use]
    pub fn new(rate: Option<Rate>) -> Self {
        let (own, share) = (AtomicU64::new(bits(rate)), AtomicU64::new(NONE));
        Self { first: rate, own, share, is_out_of_reach: AtomicBool::new(false) }
    }

    /// Changes the ceiling of this run.
    pub fn set(&self, rate: Option<Rate>) {
        self.own.store(bits(rate), Ordering::Relaxed);
    }

    /// Changes the share of this run in a ceiling for several.
    pub fn set_share(&self, rate: Option<Rate>) {
        self.share.store(bits(rate), Ordering::Relaxed);
    }

    /// The present ceiling; `None` for none, zero if nothing is to be sent.
    #[must_use]
    pub fn get(&self) -> Option<Rate> {
        let lowest = self.own.load(Ordering::Relaxed).min(self.share.load(Ordering::Relaxed));
        (lowest != NONE).then(|| Rate::from_bits_per_second(lowest))
    }

    /// Ceiling with which the run was planned.
    #[must_use]
    pub fn first(&self) -> Option<Rate> {
        self.first
    }

    /// Notes whether changes do not reach the sender, which is an older program then.
    pub fn set_out_of_reach(&self, is_out_of_reach: bool) {
        self.is_out_of_reach.store(is_out_of_reach, Ordering::Relaxed);
    }

    /// Whether changes do not reach the sender.
    #[must_use]
    pub fn is_out_of_reach(&self) -> bool {
        self.is_out_of_reach.load(Ordering::Relaxed)
    }
}

fn bits(rate: Option<Rate>) -> u64 {
    rate.map_or(NONE, |rate| rate.as_bits_per_second().min(NONE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_both_counts() {
        let rate = |bits| Some(Rate::from_bits_per_second(bits));
        let ceiling = UserCeiling::new(rate(9));
        ceiling.set_share(rate(7));
        assert_eq!((ceiling.get(), ceiling.first()), (rate(7), rate(9)));
        ceiling.set(rate(0));
        assert_eq!(ceiling.get(), rate(0));
        ceiling.set(None);
        assert_eq!(ceiling.get(), rate(7));
        ceiling.set_share(None);
        assert_eq!(ceiling.get(), None);
    }
}
