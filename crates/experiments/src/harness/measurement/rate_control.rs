//! Congestion control of a measured flow.

use std::fmt;

use crate::harness::measurement::rights::Rights;

/// Choice of the congestion control for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateControl {
    /// The congestion control of this name.
    Named(&'static str),
    /// `--cc auto`: the best that icdc's privileges allow, as root its own algorithm.
    Automatic(Rights),
}

impl RateControl {
    /// Whether `used`, a kernel name, is the algorithm that was requested. For icdc's own
    /// algorithms, the kernel's version under the same name does not count.
    pub(crate) fn admits(self, used: &str) -> bool {
        match self {
            Self::Named(name) => used == algorithm(name).kernel_name(),
            Self::Automatic(Rights::All) => used == algorithm("icdc").kernel_name(),
            Self::Automatic(Rights::Few) => !used.starts_with("icdc_"),
        }
    }

    /// The message that another algorithm was used; `None` if that one is admitted.
    pub(crate) fn unlike(self, used: &str) -> Option<String> {
        (!self.admits(used)).then(|| format!("{used} was used in place of {self}"))
    }

    /// Kernel name of the named algorithm; `None` for automatic control.
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

/// The congestion control of this name among those of `icdc-cc`.
pub(crate) fn algorithm(name: &str) -> &'static icdc_cc::Algorithm {
    icdc_cc::find(name).expect("scenarios name algorithms that there are")
}
