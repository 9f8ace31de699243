//! How a far end is reached, as typed: the same for all commands that reach one.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::values::{PortRange, port_range};

#[derive(Args, Debug)]
pub(crate) struct ConnectionArguments {
    /// Command that reaches a host; run as CMD HOST COMMAND…
    #[arg(long, value_name = "CMD", default_value = "ssh", help_heading = "Connection", value_hint = ValueHint::CommandString)]
    pub(crate) ssh: String,

    /// The icdc program on the remote host
    #[arg(long, value_name = "PATH", default_value = "icdc", help_heading = "Connection")]
    pub(crate) remote_icdc: String,

    /// Copy this program to the remote host and run it there; for hosts without icdc or with
    /// another version
    #[arg(long, conflicts_with = "remote_icdc", help_heading = "Connection")]
    pub(crate) send_self: bool,

    /// Data port at the listening end, one or a range [default: the system chooses]
    #[arg(long, value_name = "LO-HI", value_parser = port_range, help_heading = "Connection")]
    pub(crate) port: Option<PortRange>,

    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6", help_heading = "Connection")]
    pub(crate) ipv4: bool,

    /// Use IPv6 only
    #[arg(short = '6', help_heading = "Connection")]
    pub(crate) ipv6: bool,

    /// Private key to present to daemons [default: ~/.config/icdc/identity]
    #[arg(long, value_name = "FILE", help_heading = "Connection", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Option<PathBuf>,

    /// File with the public keys of known daemons [default: ~/.config/icdc/known_hosts]
    #[arg(long, value_name = "FILE", help_heading = "Connection", value_hint = ValueHint::FilePath)]
    pub(crate) known_hosts: Option<PathBuf>,
}
