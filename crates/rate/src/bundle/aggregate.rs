//! The state of all connections of a bundle, summed up as if they were one connection.

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

use crate::path_ceiling::Observation;

/// Part of the congestion windows from which the bytes in flight show that the windows limit the
/// rate. Chosen: no test fails at 7/8 and 1/2.
const WINDOW_USE_THRESHOLD: Ratio = Ratio::new(3, 4);
/// Round trips until measurements show a new rate only: one until its first acknowledgements, one
/// that they fill. Chosen: no test fails at 1 and 4.
const SETTLING_ROUNDS: u64 = 2;

/// State of all members at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregate {
    /// Sums over the members; times and sizes that they have in common.
    pub(super) seen: Observation,
    /// Round-trip time that half of the members see or less: the least one may be of a member that
    /// has sent nothing for a while.
    pub(super) usual_rtt: Span,
    /// Bytes of payload that were sent, each once.
    pub(super) sent: ByteCount,
    /// Best delivery rate of the last complete round trips (`RATE_ROUNDS` of the bundle).
    pub(super) carried: Rate,
    /// Number of members of the bundle.
    pub(super) members: u64,
}

impl Aggregate {
    /// Rate that all congestion windows together allow on the idle path.
    pub(super) fn windows(&self) -> Rate {
        self.seen.window / self.seen.least_rtt
    }

    /// Bytes in flight: sent and not delivered yet.
    pub(super) fn in_flight(&self) -> ByteCount {
        self.sent - self.seen.delivered
    }

    /// Whether the members' congestion windows limit the bundle's rate.
    pub(super) fn windows_limit(&self) -> bool {
        self.in_flight() >= self.seen.window * WINDOW_USE_THRESHOLD
    }

    /// Time from which measurements no longer show the rate that was held before.
    pub(super) fn settled(&self) -> Time {
        self.seen.at + self.seen.least_rtt * SETTLING_ROUNDS
    }
}
