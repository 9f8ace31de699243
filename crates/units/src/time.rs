//! Lengths of time and points in time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::notation::{Notation, ParseQuantityError, Scale};

/// A length of time in nanoseconds, 0 to 584 years.
///
/// Text is a number with a unit (`25us`, `300ms`, `1.5s`, `10min`, `2h`); a number without one is
/// refused. It is serialised as an integer of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub(crate) u64);

impl Span {
    /// A length of zero.
    pub const ZERO: Self = Self(0);
    /// The greatest length that can be expressed; as a deadline it means none.
    pub const MAX: Self = Self(u64::MAX);

    /// A length of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A length of `micros` microseconds, saturating.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A length of `millis` milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A length of `secs` seconds, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The length in microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The length in milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The length in seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Seconds with fraction, for printing and plots.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Duration> for Span {
    /// The duration as a span; one that is too long becomes [`Span::MAX`].
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

/// Words about lengths of time for the messages about texts that are none.
const NOTATION: Notation = Notation { quantity: "time", units: "ns, us, ms, s, min, h, d", example: "300ms" };

/// Units of time in nanoseconds, for parsing and printing.
const SCALES: [Scale; 4] =
    [Scale::new("ns", 1), Scale::new("us", 1_000), Scale::new("ms", 1_000_000), Scale::new("s", 1_000_000_000)];

/// Units of time that are parsed and never printed, in nanoseconds; `µs` with the micro sign and
/// with the Greek letter.
const FURTHER_SCALES: [Scale; 5] = [
    Scale::new("\u{b5}s", 1_000),
    Scale::new("\u{3bc}s", 1_000),
    Scale::new("min", 60_000_000_000),
    Scale::new("h", 3_600_000_000_000),
    Scale::new("d", 86_400_000_000_000),
];

/// Nanoseconds of a unit of time; `None` for an unknown one, and for none at all.
fn nanos_of_unit(unit: &str) -> Option<u64> {
    Scale::find(&SCALES, unit).or_else(|| Scale::find(&FURTHER_SCALES, unit))
}

impl FromStr for Span {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        NOTATION.parse(text, nanos_of_unit).map(Self)
    }
}

impl fmt::Display for Span {
    /// `{}`: four significant digits (`300ms`, `12.35us`, `5400s`); `{:#}`: exact (`12345ns`).
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Scale::write(self.0, &SCALES, out)
    }
}

/// A point in time: nanoseconds since an origin that the clock chose.
///
/// Only differences mean anything, and only between times of one clock; hence there is no text
/// form. It is serialised as an integer of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub(crate) u64);

impl Time {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(0);
    /// The end of time; as a deadline it means none.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The time in nanoseconds since the origin of its clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}
