//! The table of runs to which an option applies: within this host, to one remote host, between two.
//!
//! An option on the command line that does not apply is refused (`plan/refusals.rs`,
//! `plan/connection.rs`), as far as leaving it out would surprise; a setting of a file or a variable
//! is not used then (`config/choice.rs`).

mod concern;

use icdc_client::Location;

pub(crate) use self::concern::Concern;
use crate::route::Route;

/// The remote hosts of a run, as far as options depend on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts {
    /// Whether a host that ssh reaches is among them.
    pub(crate) by_ssh: bool,
    /// Whether a daemon is among them.
    pub(crate) by_daemon: bool,
    /// Whether both ends of the copy are remote.
    pub(crate) between_two: bool,
}

/// Reason why an option does not apply to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// All ends are on this host.
    NoRemoteHost,
    /// No host is reached by ssh.
    NoSshHost,
    /// No host is a daemon.
    NoDaemon,
    /// The route is for hosts that ssh reaches, and a daemon is among them.
    RouteForSsh,
    /// The route is not for copies between two remote hosts.
    RouteToOneHost,
    /// Two remote hosts make the data connections.
    OtherHostsConnect,
    /// By this route, ssh or the remote host makes the data connections, or they are none of TCP.
    RouteConnects,
    /// The route is not by way of a SOCKS proxy.
    NoSocksProxy,
}

impl Hosts {
    /// The remote hosts among the sources and the destination of a copy.
    pub(crate) fn of(sources: &[Location], destination: &Location) -> Self {
        let is_local = |place: &Location| matches!(place, Location::Local(_));
        let mut hosts = sources.iter().chain([destination]).fold(Self::default(), |hosts, place| hosts.and(place));
        hosts.between_two = !is_local(destination) && !sources.iter().all(is_local);
        hosts
    }

    /// The remote host of one location; none for a local path.
    pub(crate) fn one(place: &Location) -> Self {
        Self::default().and(place)
    }

    /// These hosts and the one of `place`; a local path adds none.
    fn and(self, place: &Location) -> Self {
        Self {
            by_ssh: self.by_ssh || matches!(place, Location::Ssh { .. }),
            by_daemon: self.by_daemon || matches!(place, Location::Daemon { .. }),
            ..self
        }
    }

    /// Whether no remote host takes part.
    pub(crate) fn is_empty(self) -> bool {
        !self.by_ssh && !self.by_daemon
    }
}

impl Concern {
    /// Reason why an option about this does not apply to a run with these hosts whose data takes
    /// this route; `None` if it applies.
    pub(crate) fn mismatch(self, hosts: Hosts, via: &Route) -> Option<Mismatch> {
        match self {
            Self::Copy | Self::Daemon => None,
            _ if hosts.is_empty() => Some(Mismatch::NoRemoteHost),
            Self::Transfer => None,
            Self::SshTransfer | Self::SshHost => (!hosts.by_ssh).then_some(Mismatch::NoSshHost),
            Self::DaemonHost => (!hosts.by_daemon).then_some(Mismatch::NoDaemon),
            Self::Route => match via {
                Route::Back | Route::Ssh if hosts.by_daemon => Some(Mismatch::RouteForSsh),
                Route::Auto | Route::Direct | Route::Back => None,
                Route::Udp | Route::Ssh | Route::Relay(_) | Route::Socks5(_) => {
                    hosts.between_two.then_some(Mismatch::RouteToOneHost)
                }
            },
            Self::OwnConnections | Self::Egress if hosts.between_two => Some(Mismatch::OtherHostsConnect),
            Self::Egress if matches!(via, Route::Udp | Route::Back | Route::Ssh) => Some(Mismatch::RouteConnects),
            Self::OwnConnections | Self::Egress => None,
            Self::ProxyLogin => (!matches!(via, Route::Socks5(_))).then_some(Mismatch::NoSocksProxy),
        }
    }
}

impl Mismatch {
    /// Reason why a setting is not used, as a sentence's end.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NoRemoteHost => "there is no remote host",
            Self::NoSshHost => "it is for hosts that ssh reaches",
            Self::NoDaemon => "it is for daemons",
            Self::RouteForSsh => "this route is for hosts that ssh reaches",
            Self::RouteToOneHost => "this route is not for copies between two remote hosts",
            Self::OtherHostsConnect => "the data connections are not this host's",
            Self::RouteConnects => "by this route, this host makes no TCP connections for data",
            Self::NoSocksProxy => "it is for --via socks5://HOST:PORT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_apply_where_there_is_what_they_are_about() {
        let local = Hosts::default();
        let (ssh, daemon) = (Hosts { by_ssh: true, ..local }, Hosts { by_daemon: true, ..local });
        let between = Hosts { between_two: true, ..ssh };
        let relay = || Route::Relay("r.example:2634".parse().unwrap());
        for (concern, hosts, via, expected) in [
            (Concern::Copy, local, Route::Auto, None),
            (Concern::Transfer, local, Route::Auto, Some(Mismatch::NoRemoteHost)),
            (Concern::Transfer, daemon, Route::Auto, None),
            (Concern::SshHost, daemon, Route::Auto, Some(Mismatch::NoSshHost)),
            (Concern::DaemonHost, ssh, Route::Auto, Some(Mismatch::NoDaemon)),
            (Concern::Route, local, Route::Direct, Some(Mismatch::NoRemoteHost)),
            (Concern::Route, daemon, Route::Back, Some(Mismatch::RouteForSsh)),
            (Concern::Route, between, Route::Back, None),
            (Concern::Route, between, Route::Ssh, Some(Mismatch::RouteToOneHost)),
            (Concern::Route, between, relay(), Some(Mismatch::RouteToOneHost)),
            (Concern::Route, daemon, relay(), None),
            (Concern::Egress, between, Route::Auto, Some(Mismatch::OtherHostsConnect)),
            (Concern::Egress, ssh, Route::Ssh, Some(Mismatch::RouteConnects)),
            (Concern::Egress, daemon, Route::Udp, Some(Mismatch::RouteConnects)),
            (Concern::Route, daemon, Route::Udp, None),
            (Concern::Route, between, Route::Udp, Some(Mismatch::RouteToOneHost)),
            (Concern::OwnConnections, ssh, Route::Ssh, None),
            (Concern::OwnConnections, between, Route::Auto, Some(Mismatch::OtherHostsConnect)),
            (Concern::ProxyLogin, ssh, Route::Auto, Some(Mismatch::NoSocksProxy)),
        ] {
            assert_eq!(concern.mismatch(hosts, &via), expected, "{concern:?} {hosts:?} {via:?}");
        }
    }
}
