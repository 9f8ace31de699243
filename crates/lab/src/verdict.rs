//! Verdict on the validity of measurements in a lab.

use std::fmt;

use icdc_units::Span;

use crate::faults::spoilt;
use crate::settings::Settings;
use crate::wire::page::Page;

/// Least tolerance for the lateness of one packet in a thousand where windows of a millisecond are
/// shown; otherwise a hundredth of the round trip.
const LEAST_FOR_MILLISECONDS: Span = Span::from_millis(1);
/// Least tolerance where means of a second and longer are shown; otherwise a twentieth of the round
/// trip.
const LEAST_FOR_MEANS: Span = Span::from_millis(5);

/// Tolerance for the lateness of one packet in a thousand in windows of a millisecond.
#[must_use]
pub fn tolerance_of_milliseconds(round_trip: Span) -> Span {
    LEAST_FOR_MILLISECONDS.max(round_trip / 100)
}

/// Tolerance for means of a second and longer, which change by less than the share of time in which
/// packets were late.
#[must_use]
pub fn tolerance_of_means(round_trip: Span) -> Span {
    LEAST_FOR_MEANS.max(round_trip / 20)
}

/// Verdict on measurements, given the emulator's lateness and losses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All results of the run may be used.
    Valid,
    /// Means of a second and longer may be used.
    MeansOnly {
        /// Reason for the restriction.
        because: String,
    },
    /// No result of the run may be used.
    Invalid {
        /// Reason why the run is invalid.
        because: String,
    },
}

impl Verdict {
    /// Verdict on everything that has crossed since the lab was made.
    #[must_use]
    pub fn of(page: &Page, settings: &Settings) -> Self {
        let round_trip = settings.round_trip();
        if let Some(because) = spoilt(page, settings, tolerance_of_means(round_trip)) {
            return Self::Invalid { because };
        }
        match spoilt(page, settings, tolerance_of_milliseconds(round_trip)) {
            Some(because) => Self::MeansOnly { because },
            None => Self::Valid,
        }
    }

    /// Identifier for JSON: `valid`, `means_only`, `invalid`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::MeansOnly { .. } => "means_only",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// Reason for which the measurement is not valid; `None` if it is.
    #[must_use]
    pub fn because(&self) -> Option<&str> {
        match self {
            Self::Valid => None,
            Self::MeansOnly { because } | Self::Invalid { because } => Some(because),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid => out.write_str("valid: packets were delivered in time"),
            Self::MeansOnly { because } => {
                write!(out, "valid for means of a second, not for windows of 1 ms: {because}")
            }
            Self::Invalid { because } => write!(out, "invalid: {because}"),
        }
    }
}
