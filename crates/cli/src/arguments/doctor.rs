//! `icdc doctor` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use icdc_units::Span;

use super::ConnectionArguments;
use crate::values::{Ceiling, Place, ceiling, place, round_trip};

#[derive(Args, Debug)]
#[command(
    about = "Check this host, and the path to another one, before data is moved",
    long_about = "Check this host, and with TARGET the path to another one, before data is moved: what would make transfers slower than \
        they need to be, why, and the command that changes it.\n\n\
        The host: limits of socket buffers against three times what is in flight on the path that is aimed at, switches of TCP, \
        congestion control, the devices' queueing discipline, MTU, offloads, flow control, rings and interrupts, io_uring, eBPF, \
        the clock, and with --disk a disk.\n\n\
        The path: round-trip time, capacity, loss, the bursts that pass, path MTU, by short runs of `icdc measure` that take 30 s \
        all together at most. TARGET is [USER@]HOST, where ssh starts icdc, or icdc://HOST[:PORT], a daemon that knows this \
        user's key. With --port, name two ports or more when ssh starts icdc there. The runs send as fast as TCP goes for some seconds, which others on the path will notice.\n\n\
        --apply sets what sysctl sets, now and for every start, in /etc/sysctl.d/90-icdc.conf. It raises limits and never lowers \
        one. --undo restores what was before. Commands for devices are shown and left to you.\n\n\
        --paths shows what earlier copies have found out about paths, which later ones begin with: by destination prefix and \
        interface the rate, the least round-trip time, the age, and whether it would still be used.",
    after_long_help = concat!(
        "Output:\n",
        "  A line for everything that was looked at, what matters most first: PROBLEM (the aim cannot be reached),\n",
        "  warning (slower than it needs to be), note (there may be something to gain), ok. With --json one object.\n\n",
        "Exit codes:\n",
        "  0  examined, whatever was found; applied, undone or forgotten as asked\n",
        "  1  something could not be measured, applied, undone or forgotten\n",
        "  2  the command line is not understood or makes no sense\n",
        "  3  could not connect, or was not let in\n",
        "  4  interrupted; what was found until then is told\n\n",
        "Examples:\n",
        "  icdc doctor                                        # this host, for 1 Gbit/s over 300 ms\n",
        "  icdc doctor --rate 10gbit --rtt 150ms --disk /data\n",
        "  icdc doctor far.example.org                        # and the path there, which sets the aim\n",
        "  sudo icdc doctor --rate 10gbit --rtt 150ms --apply\n",
        "  sudo icdc doctor --undo\n",
        "  icdc doctor --paths                                # what is known of paths\n",
        "  icdc doctor --paths --clear far.example.org        # forget what is known of the one there\n",
        "  icdc doctor --json | jq -r '.findings[] | select(.severity != \"ok\") | .fix'\n",
    )
)]
pub(crate) struct DoctorArguments {
    /// The other host
    #[arg(value_name = "TARGET", value_hint = ValueHint::Hostname)]
    pub(crate) target: Option<OsString>,

    /// Rate to aim at, such as 10gbit [auto: what was measured, or 1gbit]
    #[arg(long, value_name = "RATE|auto", default_value = "auto", value_parser = ceiling, help_heading = "Aim")]
    pub(crate) rate: Ceiling,

    /// Round-trip time to aim at, such as 150ms [default: what was measured, or 300ms]
    #[arg(long, value_name = "TIME", value_parser = round_trip, help_heading = "Aim")]
    pub(crate) rtt: Option<Span>,

    /// Measure the disk below this directory by a file of at most 1 GiB, which has no name and
    /// leaves nothing behind
    #[arg(long, value_name = "DIR", help_heading = "What to examine", value_hint = ValueHint::DirPath)]
    pub(crate) disk: Option<PathBuf>,

    /// Set what the findings name and sysctl can set; needs root
    #[arg(long, help_heading = "What to change")]
    pub(crate) apply: bool,

    /// Restore what was before --apply; needs root
    #[arg(long, help_heading = "What to change", conflicts_with_all = ["apply", "target", "rate", "rtt", "disk"])]
    pub(crate) undo: bool,

    /// Show what is known of paths, and examine nothing
    #[arg(long, help_heading = "Known paths", conflicts_with_all = ["apply", "undo", "target", "rate", "rtt", "disk"])]
    pub(crate) paths: bool,

    /// Forget it all, or what concerns a prefix (192.0.2.0/24), an address or a host
    #[arg(long, value_name = "PREFIX|HOST", num_args = 0..=1, value_parser = place, requires = "paths", help_heading = "Known paths")]
    pub(crate) clear: Option<Option<Place>>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// One JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Examine and change the files below this directory in place of those of this system
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub(crate) system_root: PathBuf,
}
