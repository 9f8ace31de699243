//! Ports to listen on.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Range of TCP ports of which one is to be listened on. Encoded as the lowest and the highest; two
/// zeros stand for any port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u16, u16)", into = "(u16, u16)")]
pub enum Ports {
    /// Any port that the system chooses.
    #[default]
    Any,
    /// The first free port of a range.
    Range {
        /// The lowest port; not 0.
        low: u16,
        /// The highest port, included.
        high: u16,
    },
}

impl From<(u16, u16)> for Ports {
    fn from((low, high): (u16, u16)) -> Self {
        if (low, high) == (0, 0) { Self::Any } else { Self::Range { low, high } }
    }
}

impl From<Ports> for (u16, u16) {
    fn from(ports: Ports) -> Self {
        match ports {
            Ports::Any => (0, 0),
            Ports::Range { low, high } => (low, high),
        }
    }
}

impl Ports {
    /// The range of ports; `None` for any port.
    #[must_use]
    pub fn range(self) -> Option<RangeInclusive<u16>> {
        match self {
            Self::Any => None,
            Self::Range { low, high } => Some(low..=high),
        }
    }

    /// Whether the range is not empty and does not contain 0, or any port is allowed.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.range().is_none_or(|range| *range.start() > 0 && !range.is_empty())
    }
}
