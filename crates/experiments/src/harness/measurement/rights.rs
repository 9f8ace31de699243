//! Privileges of measured programs.

/// Privileges of the processes of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// All privileges that the scenario has.
    All,
    /// No loading of eBPF, and none of `CAP_NET_ADMIN`'s settings.
    Few,
}

impl Rights {
    /// Both kinds, privileged first.
    pub(crate) const BOTH: [Self; 2] = [Self::All, Self::Few];

    /// Word for tables and names of cases: `privileged` or `unprivileged`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "privileged",
            Self::Few => "unprivileged",
        }
    }

    /// Words to put before a command that take away the privileges it is not to have; none for
    /// [`Self::All`].
    pub(crate) fn prefix(self) -> &'static [&'static str] {
        match self {
            Self::All => &[],
            Self::Few => &WITHOUT_RIGHTS,
        }
    }
}

/// Command prefix that removes the privileges that [`Rights::Few`] lacks, for a command and its
/// children.
const WITHOUT_RIGHTS: [&str; 5] =
    ["setpriv", "--bounding-set", "-net_admin,-bpf,-perfmon", "--inh-caps", "-net_admin,-bpf,-perfmon"];
