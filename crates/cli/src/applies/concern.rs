//! Subjects of options.

/// Subject of an option, by which it is found out in which runs the option applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concern {
    /// Any copy, also within this host.
    Copy,
    /// Traffic between hosts.
    Transfer,
    /// Connections to a host that ssh reaches.
    SshTransfer,
    /// Logins by ssh; a value of its own for each host.
    SshHost,
    /// Identities of this user and of a daemon; a value of its own for each daemon.
    DaemonHost,
    /// The route that data takes.
    Route,
    /// Data connections of this host.
    OwnConnections,
    /// Addresses or devices of this host by which its data connections leave (`--bind`).
    Egress,
    /// The login at a SOCKS proxy.
    ProxyLogin,
    /// The daemon on this host.
    Daemon,
}
