//! How finely a measurement is looked at, and with it how late the emulator may have delivered.

use icdc_lab::verdict;
use icdc_units::Span;

/// How finely, and how late one packet in a thousand may be for that.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resolution {
    /// Windows of a millisecond: by a hundredth of the round trip, or 1 ms.
    Milliseconds,
    /// Means of a second and longer: by a twentieth of the round trip, or 5 ms. They change by less
    /// than the share of time in which packets were late.
    Means,
}

impl Resolution {
    pub(crate) fn tolerance(self, round_trip: Span) -> Span {
        match self {
            Self::Milliseconds => verdict::tolerance_of_milliseconds(round_trip),
            Self::Means => verdict::tolerance_of_means(round_trip),
        }
    }
}
