//! Amounts of data in bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::notation::{Notation, ParseQuantityError, Scale};

/// An amount of data in bytes, 0 to 18 EB.
///
/// Text is a plain number of bytes (`1048576`) or a number with an SI (`4MB`) or binary (`256MiB`)
/// unit, in any case. It is serialised as an integer of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteCount(pub(crate) u64);

impl ByteCount {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);
    /// The greatest amount that can be expressed.
    pub const MAX: Self = Self(u64::MAX);

    /// An amount of `bytes`.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// An amount of `kibibytes` of 1024 bytes, saturating.
    pub const fn from_kib(kibibytes: u64) -> Self {
        Self(kibibytes.saturating_mul(1 << 10))
    }

    /// An amount of `mebibytes` of 1048576 bytes, saturating.
    pub const fn from_mib(mebibytes: u64) -> Self {
        Self(mebibytes.saturating_mul(1 << 20))
    }

    /// The amount as a number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Bytes, for a length in memory; saturates where `usize` has 32 bits.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl From<usize> for ByteCount {
    fn from(bytes: usize) -> Self {
        Self(bytes as u64)
    }
}

/// Words about sizes for the messages about texts that are none.
const NOTATION: Notation = Notation {
    quantity: "size",
    units: "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB, or none for bytes",
    example: "256MiB",
};

/// Decimal units of sizes, in bytes, for parsing and printing.
const SI_SCALES: [Scale; 6] = [
    Scale::new("B", 1),
    Scale::new("kB", 1_000),
    Scale::new("MB", 1_000_000),
    Scale::new("GB", 1_000_000_000),
    Scale::new("TB", 1_000_000_000_000),
    Scale::new("PB", 1_000_000_000_000_000),
];

/// Binary units of sizes, in bytes, for parsing and printing.
const BINARY_SCALES: [Scale; 5] = [
    Scale::new("KiB", 1 << 10),
    Scale::new("MiB", 1 << 20),
    Scale::new("GiB", 1 << 30),
    Scale::new("TiB", 1 << 40),
    Scale::new("PiB", 1 << 50),
];

/// Bytes of a unit of size, in any case of letters; 1 for an empty text, `None` for an unknown
/// unit.
fn bytes_of_unit(unit: &str) -> Option<u64> {
    if unit.is_empty() {
        return Some(1);
    }
    Scale::find(&SI_SCALES, unit).or_else(|| Scale::find(&BINARY_SCALES, unit))
}

impl FromStr for ByteCount {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        NOTATION.parse(text, bytes_of_unit).map(Self)
    }
}

/// An amount of data that was counted and not configured; prints with an SI unit, see
/// [`ByteCount::counted`].
#[derive(Clone, Copy, Debug)]
pub struct Counted(ByteCount);

impl ByteCount {
    /// This amount as one that was counted, not set: printed with an SI unit and four significant
    /// digits (`268.4MB`), as rates are, so that one can be compared with the other.
    #[must_use]
    pub const fn counted(self) -> Counted {
        Counted(self)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Scale::write(self.0.0, &SI_SCALES, out)
    }
}

impl fmt::Display for ByteCount {
    /// `{}`: whole binary units as such (`256MiB`), all else with an SI unit and four significant
    /// digits (`1.234GB`); `{:#}`: exact (`256MiB`, `1234567890B`).
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match BINARY_SCALES.iter().rev().find(|scale| scale.units() <= self.0) {
            Some(scale) if self.0.is_multiple_of(scale.units()) => {
                Scale::write(self.0, std::slice::from_ref(scale), out)
            }
            _ => Scale::write(self.0, &SI_SCALES, out),
        }
    }
}
