//! A bundle as one connection.

use icdc_units::{ByteCount, Rate, Span, Time};

use crate::path_ceiling::Observation;

/// Share of the windows that is under way where they are what limits.
const FULL_WINDOWS: (u64, u64) = (3, 4);

/// What is seen of all members at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// Sums, and what the members see alike.
    pub(super) seen: Observation,
    /// The round-trip time that half of the members see: one that has sent nothing for a while does
    /// not count for all, as it does in the least one.
    pub(super) usual_rtt: Span,
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

    /// What was sent and has not been delivered.
    pub(super) fn under_way(&self) -> ByteCount {
        self.sent - self.seen.delivered
    }

    /// Whether the windows are what limits.
    pub(super) fn windows_limit(&self) -> bool {
        self.under_way() >= self.seen.window.scaled(FULL_WINDOWS.0, FULL_WINDOWS.1)
    }

    /// When nothing is seen any more of the rate that was held before.
    pub(super) fn settled(&self) -> Time {
        self.seen.at + self.seen.least_rtt * 2
    }
}
