//! `icdc doctor` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_units::Span;

use super::ConnectionArguments;
use crate::values::{Ceiling, PathsDestination, ceiling, paths_destination, round_trip};

#[derive(Args, Debug)]
#[command(
    about = "Check this host, and the path to another one, before a transfer",
    long_about = "Check this host before a transfer, and with TARGET also the path to another host. Each finding says what would \
        slow transfers down, why, and which command fixes it.\n\n\
        Checks of the host: socket buffer limits, TCP settings, congestion control, io_uring, eBPF, the clock, and with --disk a \
        disk. For each network device: queueing discipline, MTU, offloads, flow control, rings and interrupts. The socket \
        buffer limits should be at least three times the rate times the round-trip time.\n\n\
        Checks of the path: round-trip time, capacity, loss, the size of bursts that pass without loss, and path MTU. They use \
        short runs of `icdc measure`, which take at most 30 s in total. Some runs send as fast as TCP allows for some seconds; \
        other traffic on the path may slow down. TARGET is [USER@]HOST, where ssh starts icdc, or icdc://HOST[:PORT], a daemon \
        that admits this user's key. Of a host that ssh reaches, the doctor also tells by which routes (--via) data gets there.\n\n\
        --apply changes the settings that sysctl can change, now and after every boot, in /etc/sysctl.d/90-icdc.conf. It raises \
        limits and never lowers one. --undo restores the values from before --apply. Commands for devices are only shown.\n\n\
        --paths shows what earlier copies have learned about paths. Later copies start from these values. For each destination \
        prefix and interface, it shows the rate, the lowest round-trip time, the age, and whether a copy would still use it. For each \
        host that ssh reaches, it shows by which route (--via) the data went.",
    after_long_help = concat!(
        "Output:\n",
        "  One finding per check, the most important first. PROBLEM: the target rate cannot be reached.\n",
        "  warning: transfers are slower than necessary. note: a change may help. ok: nothing to do.\n",
        "  With --json, standard output has one object.\n\n",
        "Exit codes:\n",
        "  0  the checks ran, whatever they found; or --apply, --undo or --clear succeeded\n",
        "  1  a check could not run, or --apply, --undo or --clear failed\n",
        "  2  the command line is invalid\n",
        "  3  could not connect, or access was refused\n",
        "  4  interrupted; the findings up to then are printed\n\n",
        "Examples:\n",
        "  icdc doctor                                        # this host, for 1 Gbit/s over 300 ms\n",
        "  icdc doctor --rate 10gbit --rtt 150ms --disk /data\n",
        "  icdc doctor far.example.org                        # and the path to that host\n",
        "  sudo icdc doctor --rate 10gbit --rtt 150ms --apply\n",
        "  sudo icdc doctor --undo\n",
        "  icdc doctor --paths                                # what is known about paths\n",
        "  icdc doctor --paths --clear far.example.org        # forget the path to that host\n",
        "  icdc doctor --json | jq -r '.findings[] | select(.severity != \"ok\") | .fix'\n",
    )
)]
pub(crate) struct DoctorArguments {
    /// The other host
    #[arg(value_name = "TARGET", value_hint = ValueHint::Hostname)]
    pub(crate) target: Option<OsString>,

    /// Target rate, such as 10gbit [auto: the measured capacity, or 1gbit]
    #[arg(long, value_name = "RATE|auto", default_value = "auto", value_parser = ceiling, help_heading = "Rate and round-trip time")]
    pub(crate) rate: Ceiling,

    /// Round-trip time to tune for, such as 150ms [default: the measured time, or 300ms]
    #[arg(long, value_name = "TIME", value_parser = round_trip, help_heading = "Rate and round-trip time")]
    pub(crate) rtt: Option<Span>,

    /// Measure the disk of this directory with an unnamed file of at most 1 GiB; nothing is left
    /// behind
    #[arg(long, value_name = "DIR", help_heading = "What to check", value_hint = ValueHint::DirPath)]
    pub(crate) disk: Option<PathBuf>,

    /// Apply the fixes that sysctl can make; needs root
    #[arg(long, help_heading = "What to change")]
    pub(crate) apply: bool,

    /// Restore the values from before --apply; needs root
    #[arg(long, help_heading = "What to change", conflicts_with_all = ["apply", "target", "rate", "rtt", "disk"])]
    pub(crate) undo: bool,

    /// Show what is known about paths and routes; check nothing
    #[arg(long, help_heading = "Known paths", conflicts_with_all = ["apply", "undo", "target", "rate", "rtt", "disk"])]
    pub(crate) paths: bool,

    /// Forget all paths and routes, or those to a prefix (192.0.2.0/24), an address or a host
    #[arg(long, value_name = "PREFIX|HOST", num_args = 0..=1, value_parser = paths_destination, requires = "paths", help_heading = "Known paths")]
    pub(crate) clear: Option<Option<PathsDestination>>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// Print one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Examine and change the files below this directory in place of those of this system
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub(crate) system_root: PathBuf,
}
