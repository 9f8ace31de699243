//! `icdc pace policy` as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use icdc_pacer::Prefix;
use icdc_pacer::policy::{LARGEST_BURST, LARGEST_WINDOW, Policy};
use icdc_units::{Rate, Span};

use crate::values::{Congestion, congestion, pause, prefix};

#[derive(Args, Debug)]
#[command(
    about = "Set rate, congestion control and windows of any program's TCP connections, by prefix",
    long_about = "Set the rate, the congestion control and the windows of TCP connections to or from a prefix, in any program. A policy stays in \
        force after the command ends, until it is removed or the host restarts. Policies need root.\n\n\
        A policy acts when a connection is established, whichever end opened it, in every network namespace. Existing connections \
        keep their settings, also when a policy is removed. If several prefixes match, the longest decides; if several cgroups have a \
        policy, the innermost decides.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  the command failed\n",
        "  2  the command line is invalid\n",
        "  3  permission denied\n\n",
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
    long_about = "Put a policy in force. It replaces a policy for the same prefix and cgroup. Connections keep the kernel's setting for \
        every option that is not given.\n\n\
        The rate is the TCP payload of each single connection, at most 34.35gbit, paced by the kernel. The first ten \
        segments of a connection are not paced. The kernel paces in bursts of about a millisecond of the rate. --burst makes them shorter: it limits \
        the segments per packet (gso_max_segs) at the device on the route to the prefix, until the last policy with --burst is removed. \
        If --cc names one of icdc's algorithms that is not loaded, the command loads and pins it.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  the policy is in force\n",
        "  1  the command failed\n",
        "  2  the command line is invalid, or the policy sets nothing\n",
        "  3  permission denied\n\n",
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

    /// Congestion control: the kernel's or icdc's (see `icdc cc list`)
    #[arg(long, value_name = "NAME", value_parser = congestion)]
    pub(crate) cc: Option<Congestion>,

    /// Segments that a connection may send before the first acknowledgement
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_WINDOW)))]
    pub(crate) init_window: Option<u32>,

    /// Most segments in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_WINDOW)))]
    pub(crate) max_window: Option<u32>,

    /// Segments that a connection may send at once, instead of a millisecond of its rate. This
    /// changes the device on the route, for all connections that start there
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST_BURST)))]
    pub(crate) burst: Option<u32>,

    #[command(flatten)]
    pub(crate) cgroup: CgroupArguments,
}

impl AddArguments {
    /// The policy that these options describe.
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

/// Option that limits a policy to a cgroup.
#[derive(Args, Debug)]
pub(crate) struct CgroupArguments {
    /// Only processes of this cgroup: a directory of the cgroup v2 file system [default: its root,
    /// all processes]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub(crate) cgroup: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(
    about = "List the policies in force",
    long_about = "List the policies in force, one per line: prefix, rate, congestion control, initial window, largest window and burst in \
        segments, the number of connections to which the policy has been applied, and the cgroup. A dash means that the policy does \
        not set the value.",
    after_long_help = concat!("Examples:\n", "  icdc pace policy list\n", "  icdc pace policy list --json | jq -r '.[].to'\n")
)]
pub(crate) struct ListArguments {
    /// Print an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Remove policies",
    long_about = "Remove one policy, or all of them. Connections under the policy keep their settings until they are closed. With \
        the last policy, everything that icdc put into the kernel for policies is removed.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  there is no such policy, or removing it failed\n",
        "  2  the command line is invalid\n",
        "  3  permission denied\n\n",
        "Examples:\n",
        "  icdc pace policy remove --to 192.0.2.0/24\n",
        "  icdc pace policy remove --all\n",
    )
)]
pub(crate) struct RemoveArguments {
    /// Prefix of the policy, as given to `add`
    #[arg(long, value_name = "PREFIX", value_parser = prefix, required_unless_present = "all")]
    pub(crate) to: Option<Prefix>,

    /// Remove all policies of all cgroups
    #[arg(long, conflicts_with_all = ["to", "cgroup"])]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) cgroup: CgroupArguments,
}

#[derive(Args, Debug)]
#[command(
    about = "Show the sockets under a policy, with rate, window and round-trip time",
    long_about = "Show the sockets under a policy, once per interval: both ends, the rate at which the other end has acknowledged data in the \
        interval, the rate at which the kernel paces now, congestion control, window, round-trip time, segments retransmitted, and \
        the policy. The command runs until Ctrl-C, or for --count intervals.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done, or ended by Ctrl-C\n",
        "  1  the command failed\n",
        "  2  the command line is invalid\n",
        "  3  permission denied\n\n",
        "Examples:\n",
        "  icdc pace policy watch\n",
        "  icdc pace policy watch --interval 100ms --count 50 --json\n",
    )
)]
pub(crate) struct WatchArguments {
    /// Time between two outputs
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    pub(crate) interval: Span,

    /// End after this many outputs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Print one object per interval
    #[arg(long)]
    pub(crate) json: bool,
}
