//! Data rates in bits per second.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::notation::{Notation, ParseQuantityError, Scale};

/// A data rate in bits per second, 0 to 18 Ebit/s.
///
/// Text is bits with an SI prefix, in any case (`8kbit`, `930mbit`, `10Gbit/s`), or bytes per
/// second with a capital B (`125MB/s`, `1.2GB/s`, `100MiB/s`). A number without a unit is refused:
/// it would be guesswork whether bits or bytes are meant. It is printed as `934.2 Mbit/s`, which is
/// accepted as well, and serialised as an integer of bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub(crate) u64);

impl Rate {
    /// A rate of zero.
    pub const ZERO: Self = Self(0);
    /// The greatest rate that can be expressed. It does not stand for "no limit": that is `None` of an
    /// `Option<Rate>`.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate of `bits` per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `bytes` per second, saturating at [`Rate::MAX`].
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes.saturating_mul(8))
    }

    /// The rate in bits per second.
    pub const fn as_bits_per_second(self) -> u64 {
        self.0
    }

    /// The rate in bytes per second, rounded down.
    pub const fn as_bytes_per_second(self) -> u64 {
        self.0 / 8
    }

    /// The rate as one word of a command line, to four significant digits: `934.2mbit`.
    #[must_use]
    pub fn to_argument(self) -> String {
        Scale::rounded(self.0, &BIT_SCALES)
    }
}

/// Words about rates for the messages about texts that are none.
const NOTATION: Notation = Notation {
    quantity: "rate",
    units: "bit, kbit, mbit, gbit, tbit (per second), or B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s",
    example: "900mbit",
};

/// Units of bits per second for parsing, after lower-casing and without a trailing `/s`, and for
/// exact printing.
const BIT_SCALES: [Scale; 5] = [
    Scale::new("bit", 1),
    Scale::new("kbit", 1_000),
    Scale::new("mbit", 1_000_000),
    Scale::new("gbit", 1_000_000_000),
    Scale::new("tbit", 1_000_000_000_000),
];

/// Units in which rates are printed for people.
const PRINTED_SCALES: [Scale; 5] = [
    Scale::new(" bit/s", 1),
    Scale::new(" kbit/s", 1_000),
    Scale::new(" Mbit/s", 1_000_000),
    Scale::new(" Gbit/s", 1_000_000_000),
    Scale::new(" Tbit/s", 1_000_000_000_000),
];

/// Prefixes of `B/s` for parsing, after lower-casing, each with its worth in bits per second.
const BYTE_PREFIXES: [Scale; 9] = [
    Scale::new("", 8),
    Scale::new("k", 8_000),
    Scale::new("m", 8_000_000),
    Scale::new("g", 8_000_000_000),
    Scale::new("t", 8_000_000_000_000),
    Scale::new("ki", 8 << 10),
    Scale::new("mi", 8 << 20),
    Scale::new("gi", 8 << 30),
    Scale::new("ti", 8 << 40),
];

/// Bits per second of a unit of rate; `None` for an unknown one, and for none at all.
fn bits_of_unit(unit: &str) -> Option<u64> {
    // `Mb/s` beside `MB/s` would be a trap, so bits are always spelled out and bytes need their
    // capital.
    if let Some(prefix) = unit.strip_suffix("B/s") {
        return Scale::find(&BYTE_PREFIXES, &prefix.to_ascii_lowercase());
    }
    let word = unit.to_ascii_lowercase();
    Scale::find(&BIT_SCALES, word.strip_suffix("/s").unwrap_or(&word))
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        NOTATION.parse(text, bits_of_unit).map(Self)
    }
}

impl fmt::Display for Rate {
    /// `{}`: for people, four significant digits (`934.2 Mbit/s`); `{:#}`: for programs, one exact
    /// word (`934217kbit`).
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Scale::write(self.0, if out.alternate() { &BIT_SCALES } else { &PRINTED_SCALES }, out)
    }
}
