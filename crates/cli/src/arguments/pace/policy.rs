//! `icdc pace policy` as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use icdc_pacer::Prefix;
use icdc_pacer::policy::{LARGEST_BURST, LARGEST_WINDOW, Policy};
use icdc_units::{Rate, Span};

use crate::values::{Congestion, congestion, pause, prefix};

#[derive(Args, Debug)]
#[command(
    about = "What TCP connections to or from a prefix get, in any program",
    long_about = "What TCP connections to or from a prefix get, in any program: a rate, a congestion control, windows. A policy stays when the \
        command ends, until it is removed or the host restarts. It needs root.\n\n\
        It acts when a connection is established, whichever end began it, in every network namespace. What is connected already keeps what it \
        has, also when the policy goes. Of several prefixes the longest decides; of several cgroups that have a policy, the \
        innermost.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  it could not be done\n",
        "  2  the command line is not understood\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc pace policy add --to 192.0.2.0/24 --rate 500mbit --cc highspeed\n",
        "  icdc pace policy list\n",
        "  icdc pace policy remove --all\n",
    )
)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    Add(AddArguments),
    List(ListArguments),
    Remove(RemoveArguments),
    Watch(WatchArguments),
}

#[derive(Args, Debug)]
#[command(
    about = "Put a policy in force",
    long_about = "Put a policy in force, in place of one for the same prefix and cgroup. What is not given stays as it is.\n\n\
        The rate is that of TCP's payload, by the kernel's own pacing, at most 34.35gbit: each connection gets it for itself. The first ten \
        segments of a connection are not paced. The kernel paces between bursts of a millisecond of the rate; --burst makes them shorter, by the \
        limit on packets of many segments of the device by which the prefix is reached, until the last policy that asks for it is removed. A congestion control of icdc's that is not loaded is loaded and pinned.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  it is in force\n",
        "  1  it could not be done\n",
        "  2  the command line is not understood, or the policy would set nothing\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc pace policy add --to 192.0.2.0/24 --rate 500mbit --burst 2\n",
        "  icdc pace policy add --to 2001:db8::/32 --cc bbr --init-window 32\n",
        "  icdc pace policy add --to 0.0.0.0/0 --rate 50mbit --cgroup /sys/fs/cgroup/system.slice/backup.service\n",
    )
)]
pub(crate) struct AddArguments {
    /// Addresses of the other end: 192.0.2.0/24, 2001:db8::/32, or one address
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub(crate) to: Prefix,

    /// The most that one connection may send: 500mbit, 60MB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,

    /// Congestion control: the kernel's, or one of `icdc cc list`
    #[arg(long, value_name = "NAME", value_parser = congestion)]
    pub(crate) cc: Option<Congestion>,

    /// Segments that may leave before the first acknowledgement
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_WINDOW)))]
    pub(crate) init_window: Option<u32>,

    /// Segments that may ever be on their way unacknowledged
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_WINDOW)))]
    pub(crate) max_window: Option<u32>,

    /// Segments that a connection may send at once, in place of a millisecond of its rate; set at
    /// the device of the route, for all that begins there
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_BURST)))]
    pub(crate) burst: Option<u32>,

    #[command(flatten)]
    pub(crate) cgroup: CgroupArguments,
}

impl AddArguments {
    /// The policy that is meant.
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            to: self.to,
            rate: self.rate,
            congestion: self.cc.as_ref().and_then(|congestion| congestion.0.clone()),
            initial_window: self.init_window,
            largest_window: self.max_window,
            burst: self.burst,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct CgroupArguments {
    /// The processes meant: a directory of the cgroup v2 file system [default: its root, which has
    /// all processes]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub(crate) cgroup: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(
    about = "Tell which policies are in force",
    long_about = "One line for each policy: prefix, rate, congestion control, initial and largest window and burst in segments, the number of connections \
        that have got it so far, and its cgroup. A dash stands for what it leaves as it is.",
    after_long_help = concat!("Examples:\n", "  icdc pace policy list\n", "  icdc pace policy list --json | jq -r '.[].to'\n")
)]
pub(crate) struct ListArguments {
    /// An array of objects on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Take policies out of force",
    long_about = "Take one policy out of force, or all of them. Connections that have got it keep what they have until they are closed. With \
        the last one, everything goes that icdc had put into the kernel for them.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  there is no such policy, or it could not be removed\n",
        "  2  the command line is not understood\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc pace policy remove --to 192.0.2.0/24\n",
        "  icdc pace policy remove --all\n",
    )
)]
pub(crate) struct RemoveArguments {
    /// The prefix, as it was given
    #[arg(long, value_name = "PREFIX", value_parser = prefix, required_unless_present = "all")]
    pub(crate) to: Option<Prefix>,

    /// All policies of all cgroups
    #[arg(long, conflicts_with_all = ["to", "cgroup"])]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) cgroup: CgroupArguments,
}

#[derive(Args, Debug)]
#[command(
    about = "Tell which sockets are under a policy, and how they fare",
    long_about = "The sockets under a policy, once per interval: both ends, the rate at which the other end has acknowledged data since the last \
        time, the rate at which the kernel paces now, congestion control, window, round-trip time, segments retransmitted, and the policy. Runs until Ctrl-C, \
        or --count times.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done, also by Ctrl-C\n",
        "  1  it could not be done\n",
        "  2  the command line is not understood\n",
        "  3  this user may not\n\n",
        "Examples:\n",
        "  icdc pace policy watch\n",
        "  icdc pace policy watch --interval 100ms --count 50 --json\n",
    )
)]
pub(crate) struct WatchArguments {
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    pub(crate) interval: Span,

    /// How often to look
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// One object per look on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
