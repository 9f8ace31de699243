//! How a far end is reached, as typed: the same for all commands that reach one.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use icdc_protocol::Ports;
use icdc_tcp::Egresses;

use crate::route::Route;
use crate::values::{egresses, port_range};

#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectionArguments {
    /// Command that reaches a host; run as CMD HOST COMMAND...
    #[arg(long, alias = "rsh", short_alias = 'e', value_name = "CMD", default_value = "ssh", help_heading = "Reaching hosts", value_hint = ValueHint::CommandString)]
    pub(crate) ssh: String,

    /// The icdc program on the remote host; `icdc` is looked for in PATH, ~/.local/bin and
    /// /usr/local/bin there
    #[arg(long, value_name = "PATH", default_value = "icdc", help_heading = "Reaching hosts")]
    pub(crate) remote_icdc: String,

    /// Copy this program to the remote host and run it there; for hosts without icdc or with
    /// another version. To a host with another processor, the build of this release for that one is
    /// copied: icdc-ARCH beside this program, ~/.local/share/icdc/ARCH/icdc or
    /// /usr/lib/icdc/ARCH/icdc, where ARCH is what `uname -m` prints there
    #[arg(long, conflicts_with = "remote_icdc", help_heading = "Reaching hosts")]
    pub(crate) send_self: bool,

    /// Data port at the listening end, one or a range [default: the system chooses]
    #[arg(long, value_name = "LO-HI", value_parser = port_range, help_heading = "Reaching hosts")]
    pub(crate) port: Option<Ports>,

    /// How data reaches the remote host: direct (to its data port), udp (QUIC to the UDP port of that
    /// number, for paths that lose packets), back (the remote host connects to a port here), ssh
    /// (through ssh connections, for firewalls that pass only ssh), socks5://HOST:PORT (by way of a
    /// SOCKS 5 proxy) or relay:HOST:PORT (by way of an `icdc relay --peer` without keys). auto is
    /// the first of direct, back and ssh that works
    #[arg(long, value_name = "ROUTE", default_value = "auto", help_heading = "Reaching hosts")]
    pub(crate) via: Route,

    /// Network devices of this host by which the data connections that it makes leave, in turn; or
    /// addresses of this host from which they come. All share one rate. Not for datagrams, connections
    /// through ssh, nor for those that the remote host makes [default: by the routing table]
    #[arg(long, value_name = "DEV[,DEV...]", value_parser = egresses, help_heading = "Reaching hosts")]
    pub(crate) bind: Option<Egresses>,

    /// File with USER:PASSWORD for a SOCKS 5 proxy, which only its owner may read [default: the
    /// environment variable ICDC_PROXY_LOGIN, if it is set]
    #[arg(long, value_name = "FILE", help_heading = "Reaching hosts", value_hint = ValueHint::FilePath)]
    pub(crate) proxy_login: Option<PathBuf>,

    /// Address family of the connections
    #[arg(long, value_name = "FAMILY", default_value = "any", conflicts_with_all = ["ipv4", "ipv6"], help_heading = "Reaching hosts")]
    pub(crate) family: AddressFamily,

    /// Use IPv4 only
    #[arg(short = '4', alias = "ipv4", conflicts_with = "ipv6", help_heading = "Reaching hosts")]
    pub(crate) ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', alias = "ipv6", help_heading = "Reaching hosts")]
    pub(crate) ipv6: bool,

    /// Private key for daemons, of icdc or OpenSSH (Ed25519). For a public key, or a private key with
    /// a passphrase, ssh-agent signs [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", help_heading = "Reaching hosts", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,

    /// File with the public keys of known daemons [default: ~/.config/icdc/known_hosts]
    #[arg(long, value_name = "FILE", help_heading = "Reaching hosts", value_hint = ValueHint::FilePath)]
    pub(crate) known_hosts: Option<PathBuf>,
}

/// Value of `--family`: address family of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AddressFamily {
    /// What the name resolves to
    Any,
    /// As -4
    Ipv4,
    /// As -6
    Ipv6,
}
