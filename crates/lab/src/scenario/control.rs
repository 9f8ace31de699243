//! Who finds the rate of a measured flow, and what it may use for that.

use std::fmt;

use super::simulated::algorithm;

/// Who finds the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// This algorithm.
    Named(&'static str),
    /// icdc by the best that it is allowed, `--cc auto`: as root its own algorithm.
    Automatic(Rights),
}

/// What the processes of both ends may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// All that the scenario may.
    All,
    /// Neither load eBPF nor set what only an administrator of the network may.
    Few,
}

impl Rights {
    pub(super) const BOTH: [Self; 2] = [Self::All, Self::Few];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::All => "privileged",
            Self::Few => "unprivileged",
        }
    }

    /// Words before a command that let it have these.
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Self::All => &[],
            Self::Few => &WITHOUT_RIGHTS,
        }
    }
}

impl Control {
    /// Whether this, as the kernel calls it, is what was to be used. Of icdc's own algorithms none counts that the kernel may have
    /// under the same name.
    pub(super) fn admits(self, used: &str) -> bool {
        match self {
            Self::Named(name) => used == algorithm(name).kernel_name(),
            Self::Automatic(Rights::All) => used == algorithm("icdc").kernel_name(),
            Self::Automatic(Rights::Few) => !used.starts_with("icdc_"),
        }
    }

    /// What the kernel calls the algorithm that is named.
    pub(super) fn kernel_name(self) -> Option<String> {
        match self {
            Self::Named(name) => Some(algorithm(name).kernel_name()),
            Self::Automatic(_) => None,
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => out.write_str(name),
            Self::Automatic(rights) => write!(out, "icdc, {}", rights.name()),
        }
    }
}

/// Words before a command which take from it and what it starts what [`Rights::Few`] do not have.
const WITHOUT_RIGHTS: [&str; 5] =
    ["setpriv", "--bounding-set", "-net_admin,-bpf,-perfmon", "--inh-caps", "-net_admin,-bpf,-perfmon"];
