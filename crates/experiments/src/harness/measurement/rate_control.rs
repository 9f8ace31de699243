//! Who finds the rate of a measured flow.

use std::fmt;

use crate::harness::measurement::rights::Rights;

/// Who finds the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateControl {
    /// This algorithm.
    Named(&'static str),
    /// icdc by the best that it is allowed, `--cc auto`: as root its own algorithm.
    Automatic(Rights),
}

impl RateControl {
    /// Whether this, as the kernel calls it, is what was to be used. Of icdc's own algorithms none
    /// counts that the kernel may have under the same name.
    pub(crate) fn admits(self, used: &str) -> bool {
        match self {
            Self::Named(name) => used == algorithm(name).kernel_name(),
            Self::Automatic(Rights::All) => used == algorithm("icdc").kernel_name(),
            Self::Automatic(Rights::Few) => !used.starts_with("icdc_"),
        }
    }

    /// That another algorithm was used, if so.
    pub(crate) fn unlike(self, used: &str) -> Option<String> {
        (!self.admits(used)).then(|| format!("{used} was used in place of {self}"))
    }

    /// What the kernel calls the algorithm that is named.
    pub(crate) fn kernel_name(self) -> Option<String> {
        match self {
            Self::Named(name) => Some(algorithm(name).kernel_name()),
            Self::Automatic(_) => None,
        }
    }
}

impl fmt::Display for RateControl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => out.write_str(name),
            Self::Automatic(rights) => write!(out, "icdc, {}", rights.name()),
        }
    }
}

/// The algorithm of this name.
pub(crate) fn algorithm(name: &str) -> &'static icdc_cc::Algorithm {
    icdc_cc::find(name).expect("scenarios name algorithms that there are")
}
