//! Why there is no link to a far end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitStatus;

use icdc_limits::thread::NoThread;
use icdc_link::LinkError;
use icdc_tcp::{Egress, Family};
use icdc_trust::TrustError;
use icdc_units::Span;
use thiserror::Error;

/// Why there is no link to a far end. Each text says what, where and what to do.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The far side has started something, and nothing of it is to be seen.
    #[error(
        "{host} did not get to `{program}` within {patience}: a start-up file of the shell there may wait for something; see what `{command} {host} true` does"
    )]
    NoGreeting {
        /// `[USER@]HOST`.
        host: String,
        /// What was called there.
        program: String,
        /// The command of `--ssh`.
        command: String,
        /// The time it had.
        patience: Span,
    },
    /// The host could be taken for an option, or is none.
    #[error("{host:?} is not a host name; write [USER@]HOST:PATH")]
    BadHost {
        /// As written.
        host: String,
    },
    /// No shell to run the ssh command with.
    #[error("cannot start `sh` to run the ssh command `{command}`: {cause}")]
    Start {
        /// The command of `--ssh`.
        command: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// The ssh program is not there.
    #[error(
        "the ssh command `{command}` was not found on this host; install it (Debian: apt install openssh-client) or name another with --ssh"
    )]
    SshMissing {
        /// The command of `--ssh`.
        command: String,
    },
    /// ssh could not reach the host or did not get in.
    #[error("ssh to {host} failed{}; try `{command} {host} true`", quoted(.said))]
    SshFailed {
        /// `[USER@]HOST`.
        host: String,
        /// The command of `--ssh`.
        command: String,
        /// Last lines of its standard error.
        said: String,
    },
    /// The connection that ssh has made is of the family of addresses that the user does not want.
    #[error(
        "ssh goes to {host} by way of {address}, and only {family} is to be used; leave -4 or -6 out, or have ssh use \
         that family for its jump hosts, too (AddressFamily in ~/.ssh/config)"
    )]
    OtherFamily {
        /// `[USER@]HOST`.
        host: String,
        /// Of the first host that ssh connects to.
        address: IpAddr,
        /// The one that is wanted.
        family: Family,
    },
    /// Another login has failed before, and this one would as well.
    #[error("{reason}")]
    NoMoreLogins {
        /// Why the other one failed.
        reason: String,
    },
    /// The far side has no icdc.
    #[error("{host} has no `{program}`{searched}{}; install icdc there, name its place with --remote-icdc PATH, or use --send-self", quoted(.said))]
    NoIcdc {
        /// `[USER@]HOST`.
        host: String,
        /// What was called there.
        program: String,
        /// The places that were searched, where none was named.
        searched: &'static str,
        /// Last lines of its standard error.
        said: String,
    },
    /// The other end's icdc speaks no version of the protocol that this one speaks.
    #[error("{place} speaks another protocol ({theirs}; this is {ours}); {remedy}")]
    OtherVersion {
        /// What was called on which host, or host and port.
        place: String,
        /// Its versions.
        theirs: String,
        /// Ours.
        ours: String,
        /// What to do.
        remedy: String,
    },
    /// Something else than icdc answered, or it broke off.
    #[error("`{program}` on {host} did not start as expected ({how}){}; try `{command} {host} {program} --version`", quoted(.said))]
    FarEndFailed {
        /// `[USER@]HOST`.
        host: String,
        /// The command of `--ssh`.
        command: String,
        /// What was called there.
        program: String,
        /// What happened.
        how: String,
        /// Last lines of its standard error.
        said: String,
    },
    /// The program exited before its greeting, for example because it needs a newer C library.
    #[error("`{program}` on {host} did not start as expected ({how}){}; try `{command} {host} {program} --version`, or use --send-self", quoted(.said))]
    EndedAtOnce {
        /// `[USER@]HOST`.
        host: String,
        /// The command of `--ssh`.
        command: String,
        /// What was called there.
        program: String,
        /// With which status.
        how: ExitStatus,
        /// What it said, or the shell there.
        said: String,
    },
    /// The far side says that it cannot serve.
    #[error("{host}: {reason}")]
    FarEndRefused {
        /// Host.
        host: String,
        /// Its words.
        reason: String,
    },
    /// This program could not be put on the far side.
    #[error("cannot send icdc to {host}: {reason}")]
    SendSelf {
        /// `[USER@]HOST`.
        host: String,
        /// What, and what to do.
        reason: String,
    },
    /// The data port of a far side that ssh started does not answer.
    #[error(
        "{host} was reached by ssh, but not its data port {port}: {reason}; let a firewall pass a port or a few and name them with --port LO-HI, or leave --via out"
    )]
    DataPort {
        /// Host.
        host: String,
        /// Port.
        port: u16,
        /// What happened.
        reason: String,
    },
    /// A far side that ssh started cannot connect to this host.
    #[error(
        "{host} was reached by ssh, but cannot connect to this host: {reason}; let a firewall here pass a port or a few and name them with --port LO-HI, or leave --via out"
    )]
    NotBack {
        /// Host.
        host: String,
        /// What happened.
        reason: String,
    },
    /// No route for data to a far side that ssh started.
    #[error(
        "{host} was reached by ssh, but no data gets there: {reasons}; let a firewall pass port {port}, or a few that --port LO-HI names"
    )]
    NoRoute {
        /// Host.
        host: String,
        /// Data port.
        port: u16,
        /// Why not by each of the routes.
        reasons: String,
    },
    /// A proxy does not lead to the far side.
    #[error("no connection to {host} port {port} by way of {proxy}: {reason}")]
    Proxy {
        /// What it is and where.
        proxy: String,
        /// Host.
        host: String,
        /// Port.
        port: u16,
        /// What happened.
        reason: String,
    },
    /// A far end does not get through to the one that it shall send to.
    #[error(
        "{host} port {port}: {reason}; the hosts must reach each other: a firewall may stand between (--port LO-HI chooses the ports), or {host} has another name there"
    )]
    Unreachable {
        /// Host.
        host: String,
        /// Port.
        port: u16,
        /// What happened.
        reason: String,
    },
    /// Two far ends do not get through to each other.
    #[error(
        "no route between this host and {host}: {reasons}; let a firewall at one of them pass a port or a few, and name them with --port LO-HI"
    )]
    NeitherWay {
        /// The other host.
        host: String,
        /// Why not by each of the routes.
        reasons: String,
    },
    /// No TCP connection to a daemon.
    #[error(
        "cannot connect to the daemon at {host} port {port}: {reason}; is `icdc serve` running there, and does a firewall let its port pass?"
    )]
    DaemonPort {
        /// Host.
        host: String,
        /// Port.
        port: u16,
        /// What happened.
        reason: String,
    },
    /// Somebody else answers on the data port.
    #[error(
        "{host} port {port} answered with another key ({fingerprint}) than was announced: something stands between, or --port leads elsewhere; nothing was sent"
    )]
    WrongKey {
        /// Host.
        host: String,
        /// Port.
        port: u16,
        /// Fingerprint of the key that answered.
        fingerprint: String,
    },
    /// The handshake failed.
    #[error("{host} port {port}: the encrypted connection failed: {reason}")]
    Handshake {
        /// Host.
        host: String,
        /// Port.
        port: u16,
        /// What happened.
        reason: String,
    },
    /// A daemon that was never seen.
    #[error(
        "the daemon at {place} is not known; its key is {fingerprint}. If its operator confirms that fingerprint, run: {remedy}"
    )]
    HostUnknown {
        /// Host and port.
        place: String,
        /// Fingerprint of its key.
        fingerprint: String,
        /// The command that makes it known.
        remedy: String,
    },
    /// A daemon whose key is not the one of last time.
    #[error(
        "THE KEY OF THE DAEMON AT {place} HAS CHANGED: {known_hosts}:{line} names another than {fingerprint}. Somebody may stand between. If its operator confirms the new key, remove that line and run: {remedy}"
    )]
    HostChanged {
        /// Host and port.
        place: String,
        /// Fingerprint of its key.
        fingerprint: String,
        /// File of known hosts.
        known_hosts: String,
        /// Its line.
        line: usize,
        /// The command that makes the new key known.
        remedy: String,
    },
    /// This user has no identity for daemons.
    #[error(
        "{reason}; a daemon knows you by a key: make one with `icdc keygen` and have its public part added to the daemon's authorized keys"
    )]
    Identity {
        /// What is wrong with it.
        reason: String,
    },
    /// The host's name has no address, or this host cannot make a connection.
    #[error(transparent)]
    Resolve(icdc_tcp::ConnectError),
    /// Files of keys cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The connection was lost before it could be used.
    #[error("{host}: the connection was lost: {cause}")]
    Lost {
        /// Host.
        host: String,
        /// What happened.
        cause: LinkError,
    },
    /// The thread for a route cannot be had.
    #[error(transparent)]
    NoThread(#[from] NoThread),
    /// A far end cannot reach the other one.
    #[error("{from} cannot reach {to}: {reason}")]
    Between {
        /// The sending far end.
        from: String,
        /// The receiving far end.
        to: String,
        /// What it said.
        reason: String,
    },
}

impl ConnectError {
    /// Whether trying again later cannot help: somebody has to change something first.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::BadHost { .. }
                | Self::SshMissing { .. }
                | Self::OtherVersion { .. }
                | Self::HostUnknown { .. }
                | Self::HostChanged { .. }
                | Self::Identity { .. }
                | Self::Trust(_)
        )
    }

    /// Whether the far side's data port did not do what it should.
    pub(crate) fn is_of_data_port(&self) -> bool {
        // What forwards on the far side refuses where nothing listens there.
        matches!(
            self,
            Self::DataPort { .. }
                | Self::NotBack { .. }
                | Self::Proxy { .. }
                | Self::Handshake { .. }
                | Self::NoRoute { .. }
                | Self::FarEndRefused { .. }
        )
    }

    /// What happened, without what to do, where that is kept apart.
    pub fn in_short(&self) -> String {
        match self {
            Self::DataPort { reason, .. } | Self::NotBack { reason, .. } | Self::Unreachable { reason, .. } => {
                reason.clone()
            }
            Self::Handshake { reason, .. } => format!("the encrypted connection failed: {reason}"),
            other => other.to_string(),
        }
    }

    /// Sorts why a handshake with `port` of `host` failed.
    pub(crate) fn of_handshake(error: LinkError, host: &str, port: u16) -> Self {
        match error {
            LinkError::OtherVersions { theirs, ours, .. } => Self::OtherVersion {
                place: format!("{host} port {port}"),
                theirs: theirs.to_string(),
                ours: ours.to_string(),
                remedy: ours.remedy(theirs).to_owned(),
            },
            other => Self::Handshake { host: host.to_owned(), port, reason: other.to_string() },
        }
    }

    /// Sorts what TCP says: a name that has no address, or a port that `unanswered` tells about.
    pub(crate) fn no_answer(error: icdc_tcp::ConnectError, unanswered: impl FnOnce(String) -> Self) -> Self {
        use icdc_tcp::ConnectError as Tcp;
        match error {
            Tcp::Refused { address, .. } => unanswered(format!("{address} refused the connection")),
            Tcp::TimedOut { address, timeout, egress, .. } => {
                let by = Egress::told(egress.as_ref());
                unanswered(format!("no answer from {address}{by} within {timeout}{}", query(egress.as_ref(), address)))
            }
            Tcp::Unreachable { address, egress, cause, .. } => {
                let by = Egress::told(egress.as_ref());
                unanswered(format!("{address}{by}: {cause}{}", query(egress.as_ref(), address)))
            }
            Tcp::Cancelled { .. } => Self::Interrupted,
            other => Self::Resolve(other),
        }
    }
}

/// Where an egress was named: how to see the route by it.
fn query(egress: Option<&Egress>, address: SocketAddr) -> String {
    let query = |egress| format!(" (see `{}`)", Egress::route_query(Some(egress), address.ip()));
    egress.map(query).unwrap_or_default()
}

/// Words of the far side as the end of a sentence, if there are any.
pub(super) fn quoted(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}
