//! `icdc pace` as typed.

pub(crate) mod policy;
pub(crate) mod wire;

use clap::{Args, Subcommand};

use policy::PolicyArguments;
use wire::WireArguments;

#[derive(Args, Debug)]
#[command(
    about = "Pace other programs' traffic",
    long_about = "Pace the traffic of other programs without changing them.\n\n\
        A policy sets the rate, the congestion control and the windows of every new TCP connection to or from a prefix, for all \
        processes of a cgroup. It adds no work while data flows. The wire pacer sorts everything that this host sends through a device \
        into classes, and spaces the frames of each class.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  the command failed\n",
        "  2  the command line is invalid\n",
        "  3  permission denied\n\n",
        "Examples:\n",
        "  icdc pace policy add --to 192.0.2.0/24 --rate 500mbit    # for every new connection\n",
        "  icdc pace policy watch                                   # the sockets under a policy\n",
        "  icdc pace policy remove --to 192.0.2.0/24\n",
        "  icdc pace wire --dev eth0 --classes classes.toml         # by address, port, protocol, DSCP\n",
    )
)]
pub(crate) struct PaceArguments {
    #[command(subcommand)]
    pub(crate) command: PaceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PaceCommand {
    Policy(PolicyArguments),
    Wire(WireArguments),
}
