//! `icdc pace` as typed.

pub(crate) mod policy;
pub(crate) mod wire;

use clap::{Args, Subcommand};

use policy::PolicyArguments;
use wire::WireArguments;

#[derive(Args, Debug)]
#[command(
    about = "Pace other programs' traffic",
    long_about = "Pace the traffic of programs that cannot be changed, or that nobody wants to change.\n\n\
        A policy gives every new TCP connection to or from a prefix a rate, a congestion control and windows, in any process of a \
        cgroup. It costs nothing while data flows. The wire pacer takes all that this host sends through a device, sorts it into classes, and \
        spaces the frames of each.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  it could not be done\n",
        "  2  the command line is not understood\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc pace policy add --to 192.0.2.0/24 --rate 500mbit    # every connection there, from now on\n",
        "  icdc pace policy watch                                   # which sockets have got it, and how they fare\n",
        "  icdc pace policy remove --to 192.0.2.0/24\n",
        "  icdc pace wire --dev eth0 --classes classes.toml         # classes by address, port, protocol, DSCP\n",
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
