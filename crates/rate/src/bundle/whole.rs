//! A bundle as one connection.

use icdc_units::{ByteCount, Rate, Time};

use crate::path_ceiling::Observation;

/// What is seen of all members at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// Sums, and what the members see alike.
    pub(super) seen: Observation,
    /// Bytes of payload that were sent, each once.
    pub(super) sent: ByteCount,
    /// The best rate of the last whole round trips.
    pub(super) carried: Rate,
    /// Number of members.
    pub(super) members: u64,
}

impl Whole {
    /// The rate that all windows together allow on the idle path.
    pub(super) fn windows(&self) -> Rate {
        self.seen.window / self.seen.least_rtt
    }

    /// When nothing is seen any more of the rate that was held before.
    pub(super) fn settled(&self) -> Time {
        self.seen.at + self.seen.least_rtt * 2
    }
}
