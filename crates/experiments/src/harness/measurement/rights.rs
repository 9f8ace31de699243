//! What measured programs may do.

/// What the processes of both ends may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// All that the scenario may.
    All,
    /// Neither load eBPF nor set what only an administrator of the network may.
    Few,
}

impl Rights {
    pub(crate) const BOTH: [Self; 2] = [Self::All, Self::Few];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "privileged",
            Self::Few => "unprivileged",
        }
    }

    /// The command that gives another one these rights; it stands before it.
    pub(crate) fn prefix(self) -> &'static [&'static str] {
        match self {
            Self::All => &[],
            Self::Few => &WITHOUT_RIGHTS,
        }
    }
}

/// Takes from a command and from what it starts what [`Rights::Few`] do not have.
const WITHOUT_RIGHTS: [&str; 5] =
    ["setpriv", "--bounding-set", "-net_admin,-bpf,-perfmon", "--inh-caps", "-net_admin,-bpf,-perfmon"];
