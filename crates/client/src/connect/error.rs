//! Errors of connecting to a far end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitStatus;

use icdc_limits::thread::NoThread;
use icdc_link::LinkError;
use icdc_tcp::{Egress, Family};
use icdc_trust::TrustError;
use icdc_units::Span;
use thiserror::Error;

/// Reasons why there is no link to a far end. Each message says what, where and what to do.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The far side's shell has started, but no far end has sent its greeting in time.
    #[error(
        "{host} did not get to `{program}` within {patience}: a start-up file of the shell there may wait for something; see what `{command} {host} true` does"
    )]
    NoGreeting {
        /// `[USER@]HOST`.
        host: String,
        /// The program that was started on the far side.
        program: String,
        /// The command of `--ssh`.
        command: String,
        /// Time limit for the greeting.
        patience: Span,
    },
    /// The host's name could be taken for an option, or is no host name.
    #[error("{host:?} is not a host name; write [USER@]HOST:PATH")]
    BadHost {
        /// The name as written.
        host: String,
    },
    /// There is no shell to run the ssh command with.
    #[error("cannot start `sh` to run the ssh command `{command}`: {cause}")]
    Start {
        /// The command of `--ssh`.
        command: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// The ssh program is missing.
    #[error(
        "the ssh command `{command}` was not found on this host; install it (Debian: apt install openssh-client) or name another with --ssh"
    )]
    SshMissing {
        /// The command of `--ssh`.
        command: String,
    },
    /// ssh could not reach the host or could not log in.
    #[error("ssh to {host} failed{}; try `{command} {host} true`", quoted(.said))]
    SshFailed {
        /// `[USER@]HOST`.
        host: String,
        /// The command of `--ssh`.
        command: String,
        /// Last lines of ssh's standard error.
        said: String,
    },
    /// ssh's connection is of the address family that the user has excluded.
    #[error(
        "ssh goes to {host} by way of {address}, and only {family} is to be used; leave -4 or -6 out, or have ssh use \
         that family for its jump hosts, too (AddressFamily in ~/.ssh/config)"
    )]
    OtherFamily {
        /// `[USER@]HOST`.
        host: String,
        /// Address of the first host that ssh connects to.
        address: IpAddr,
        /// Address family that is wanted.
        family: Family,
    },
    /// An earlier login has failed permanently, so this one was not tried.
    #[error("{reason}")]
    NoMoreLogins {
        /// Error of the earlier login.
        reason: String,
    },
    /// icdc is not installed on the far side.
    #[error("{host} has no `{program}`{searched}{}; install icdc there, name its place with --remote-icdc PATH, or use --send-self", quoted(.said))]
    NoIcdc {
        /// `[USER@]HOST`.
        host: String,
        /// The program that was started there.
        program: String,
        /// The places that were searched, where none was named.
        searched: &'static str,
        /// Last lines of the command's standard error.
        said: String,
    },
    /// The other end's icdc speaks no version of the protocol that this one speaks.
    #[error("{place} speaks another protocol ({theirs}; this is {ours}); {remedy}")]
    OtherVersion {
        /// The program and its host, or host and port.
        place: String,
        /// Protocol versions of the other end.
        theirs: String,
        /// Protocol versions of this end.
        ours: String,
        /// Remedy for the user.
        remedy: String,
    },
    /// Another program than icdc answered, or icdc ended early.
    #[error("`{program}` on {host} did not start as expected ({how}){}; try `{command} {host} {program} --version`", quoted(.said))]
    FarEndFailed {
        /// `[USER@]HOST`.
        host: String,
        /// The command of `--ssh`.
        command: String,
        /// The program that was started there.
        program: String,
        /// The cause.
        how: String,
        /// Last lines of the command's standard error.
        said: String,
    },
    /// The program exited before its greeting, for example because it needs a newer C library.
    #[error("`{program}` on {host} did not start as expected ({how}){}; try `{command} {host} {program} --version`, or use --send-self", quoted(.said))]
    EndedAtOnce {
        /// `[USER@]HOST`.
        host: String,
        /// The command of `--ssh`.
        command: String,
        /// The program that was started there.
        program: String,
        /// Exit status of the program.
        how: ExitStatus,
        /// Last lines of output of the program or of the shell there.
        said: String,
    },
    /// The far side reports that it cannot serve.
    #[error("{host}: {reason}")]
    FarEndRefused {
        /// Name of the host.
        host: String,
        /// The reason that the far side gives.
        reason: String,
    },
    /// This program could not be copied to the far side (`--send-self`).
    #[error("cannot send icdc to {host}: {reason}")]
    SendSelf {
        /// `[USER@]HOST`.
        host: String,
        /// The cause, and what the user can do.
        reason: String,
    },
    /// The data port of a far side that ssh started does not answer.
    #[error(
        "{host} was reached by ssh, but not its data port {port}: {reason}; let a firewall pass a port or a few and name them with --port LO-HI, or leave --via out"
    )]
    DataPort {
        /// Name of the host.
        host: String,
        /// TCP port that does not answer.
        port: u16,
        /// The cause.
        reason: String,
    },
    /// A far side that ssh started cannot connect to this host.
    #[error(
        "{host} was reached by ssh, but cannot connect to this host: {reason}; let a firewall here pass a port or a few and name them with --port LO-HI, or leave --via out"
    )]
    NotBack {
        /// Name of the host.
        host: String,
        /// The cause.
        reason: String,
    },
    /// No route for data works to a far side that ssh started.
    #[error(
        "{host} was reached by ssh, but no data gets there: {reasons}; let a firewall pass port {port}, or a few that --port LO-HI names"
    )]
    NoRoute {
        /// Name of the host.
        host: String,
        /// Data port.
        port: u16,
        /// The error of each route.
        reasons: String,
    },
    /// The connection through a proxy to the far side failed.
    #[error("no connection to {host} port {port} by way of {proxy}: {reason}")]
    Proxy {
        /// Kind and address of the proxy.
        proxy: String,
        /// Name of the host behind the proxy.
        host: String,
        /// TCP port of the host behind the proxy.
        port: u16,
        /// The cause.
        reason: String,
    },
    /// A far end cannot connect to the far end that it sends to.
    #[error(
        "{host} port {port}: {reason}; the hosts must reach each other: a firewall may stand between (--port LO-HI chooses the ports), or {host} has another name there"
    )]
    Unreachable {
        /// Name of the receiving host.
        host: String,
        /// TCP port of the receiving far end.
        port: u16,
        /// The cause.
        reason: String,
    },
    /// Two far ends cannot connect to each other in either direction.
    #[error(
        "no route between this host and {host}: {reasons}; let a firewall at one of them pass a port or a few, and name them with --port LO-HI"
    )]
    NeitherWay {
        /// The other host.
        host: String,
        /// The error of each route.
        reasons: String,
    },
    /// The TCP connection to a daemon failed.
    #[error(
        "cannot connect to the daemon at {host} port {port}: {reason}; is `icdc serve` running there, and does a firewall let its port pass?"
    )]
    DaemonPort {
        /// Name of the daemon's host.
        host: String,
        /// TCP port of the daemon.
        port: u16,
        /// The cause.
        reason: String,
    },
    /// The host that answers on the data port has another key than the announced one.
    #[error(
        "{host} port {port} answered with another key ({fingerprint}) than was announced: something stands between, or --port leads elsewhere; nothing was sent"
    )]
    WrongKey {
        /// Name of the host.
        host: String,
        /// TCP data port.
        port: u16,
        /// Fingerprint of the key that answered.
        fingerprint: String,
    },
    /// The TLS handshake failed.
    #[error("{host} port {port}: the encrypted connection failed: {reason}")]
    Handshake {
        /// Name of the host.
        host: String,
        /// TCP port.
        port: u16,
        /// The cause.
        reason: String,
    },
    /// The daemon is not in `known_hosts`.
    #[error(
        "the daemon at {place} is not known; its key is {fingerprint}. If its operator confirms that fingerprint, run: {remedy}"
    )]
    HostUnknown {
        /// Host and port.
        place: String,
        /// Fingerprint of the daemon's key.
        fingerprint: String,
        /// Command that adds the daemon to the known hosts.
        remedy: String,
    },
    /// The daemon's key differs from the one in `known_hosts`.
    #[error(
        "THE KEY OF THE DAEMON AT {place} HAS CHANGED: {known_hosts}:{line} names another than {fingerprint}. Somebody may stand between. If its operator confirms the new key, remove that line and run: {remedy}"
    )]
    HostChanged {
        /// Host and port.
        place: String,
        /// Fingerprint of the daemon's key.
        fingerprint: String,
        /// Path of the file of known hosts.
        known_hosts: String,
        /// Number of the daemon's line in the file.
        line: usize,
        /// Command that replaces the known key by the new one.
        remedy: String,
    },
    /// This user has no identity for daemons.
    #[error(
        "{reason}; a daemon knows you by a key: make one with `icdc keygen` and have its public part added to the daemon's authorized keys"
    )]
    Identity {
        /// The cause.
        reason: String,
    },
    /// The host's name has no address, or this host cannot make a connection.
    #[error(transparent)]
    Resolve(icdc_tcp::ConnectError),
    /// Key files cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The connection was lost before it could be used.
    #[error("{host}: the connection was lost: {cause}")]
    Lost {
        /// Name of the host.
        host: String,
        /// The cause.
        cause: LinkError,
    },
    /// The thread for a route cannot be started.
    #[error(transparent)]
    NoThread(#[from] NoThread),
    /// A far end cannot reach the other one.
    #[error("{from} cannot reach {to}: {reason}")]
    Between {
        /// Name of the sending far end.
        from: String,
        /// Name of the receiving far end.
        to: String,
        /// Error of the sending far end.
        reason: String,
    },
}

impl ConnectError {
    /// Whether a retry is pointless until a configuration, here or there, is changed.
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

    /// Whether the error is about the route to the far side's data port, not about starting the far
    /// end.
    pub(crate) fn is_of_data_port(&self) -> bool {
        // A forwarding far end refuses if nothing listens on the port.
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

    /// Short text of the error: the cause, without the remedy where the two are separate.
    pub fn in_short(&self) -> String {
        match self {
            Self::DataPort { reason, .. } | Self::NotBack { reason, .. } | Self::Unreachable { reason, .. } => {
                reason.clone()
            }
            Self::Handshake { reason, .. } => format!("the encrypted connection failed: {reason}"),
            other => other.to_string(),
        }
    }

    /// Error for a failed TLS handshake with `port` of `host`.
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

    /// Error for a failed TCP connection. `unanswered` makes it from the reason if the port
    /// refused, could not be reached or did not answer.
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

/// Command that shows the kernel's route to `address` by `egress`, in parentheses for an error
/// message; empty if the user named no egress.
fn query(egress: Option<&Egress>, address: SocketAddr) -> String {
    let query = |egress| format!(" (see `{}`)", Egress::route_query(Some(egress), address.ip()));
    egress.map(query).unwrap_or_default()
}

/// Text of the far side, prepared to follow a sentence behind a colon; empty if there is none.
pub(super) fn quoted(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}
