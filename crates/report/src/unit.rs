//! Units of axes: how they are written for people and in the names of columns.

use serde::Serialize;

/// Unit of the values of an axis; the prefix is chosen when it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A rate in bits per second.
    BitsPerSecond,
    /// An amount in bytes.
    Bytes,
    /// A time in seconds.
    Seconds,
    /// A number of TCP segments.
    Segments,
    /// A rate in TCP segments per second.
    SegmentsPerSecond,
    /// Packets of the largest size that the link carries (MTU), as a unit of burst sizes.
    Mtu,
    /// A share of a whole, from 0 to 1; shown in per cent.
    Share,
    /// A number without a unit.
    Number,
}

impl Unit {
    /// Symbol of the unit, for axes: `bit/s`.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bit/s",
            Self::Bytes => "B",
            Self::Seconds => "s",
            Self::Segments => "segments",
            Self::SegmentsPerSecond => "segments/s",
            Self::Mtu => "MTU",
            Self::Share => "%",
            Self::Number => "",
        }
    }

    /// Suffix of the name of a CSV column in this unit, such as `seconds`; empty for plain numbers.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::BitsPerSecond => "bps",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Segments => "segments",
            Self::SegmentsPerSecond => "segments_per_second",
            Self::Mtu => "mtu",
            Self::Share => "share",
            Self::Number => "",
        }
    }

    /// SI prefixes of the unit as (factor, text) that make numbers up to `largest` short, the
    /// greatest first.
    pub(crate) fn prefixes(self, largest: f64) -> &'static [(f64, &'static str)] {
        match self {
            Self::Seconds => &[(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")],
            Self::BitsPerSecond | Self::Bytes => &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
            Self::Share => &[(1e-2, "")],
            // Counts keep their digits as long as they fit beside the axis.
            _ if largest < 1e4 => &[(1.0, "")],
            _ => &[(1e6, "million "), (1e3, "thousand ")],
        }
    }
    /// Divisor and prefix, of one letter at most, for one value that stands by itself in a heat
    /// map.
    pub(crate) fn short_prefix(self, value: f64) -> (f64, &'static str) {
        let known: &[(f64, &str)] = match self {
            Self::Seconds | Self::Share => self.prefixes(value),
            _ => &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
        };
        // What rounds to the next prefix's 1 has it.
        let fitting = known.iter().find(|(factor, _)| value >= factor * 0.9995);
        // Nothing needs no prefix, and what is less than the least unit has that.
        *fitting.unwrap_or(if value == 0.0 { &(1.0, "") } else { &known[known.len() - 1] })
    }
}
