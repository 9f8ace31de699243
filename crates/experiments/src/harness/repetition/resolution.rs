//! Time resolution of a measurement's evaluation, and the lateness of the emulator that it
//! tolerates.

use icdc_lab::verdict;
use icdc_units::Span;

/// Time resolution at which a result is evaluated, which decides how late the emulator may deliver
/// packets (99.9 % quantile).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resolution {
    /// Windows of a millisecond; tolerates a hundredth of the round trip, or 1 ms.
    Milliseconds,
    /// Means of a second and longer; tolerates a twentieth of the round trip, or 5 ms. They change
    /// by less than the share of time in which packets were late.
    Means,
}

impl Resolution {
    /// Tolerated lateness of the emulator (99.9 % quantile over packets) on a path with this round
    /// trip.
    pub(crate) fn tolerance(self, round_trip: Span) -> Span {
        match self {
            Self::Milliseconds => verdict::tolerance_of_milliseconds(round_trip),
            Self::Means => verdict::tolerance_of_means(round_trip),
        }
    }
}
