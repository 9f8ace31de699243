//! `icdc copy` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::message::Preserve;
use icdc_units::{ByteCount, Span};

use super::ConnectionArguments;
use crate::values::{Ceiling, Congestion, ceiling, congestion, preserve, ring};

#[derive(Args, Debug)]
#[command(
    override_usage = "icdc copy [OPTIONS] <SRC>... <DST>",
    about = "Copy files and directories, from and to this host, ssh hosts and daemons",
    long_about = "Copy files and directories.\n\n\
        SRC and DST are PATH, [USER@]HOST:PATH (by ssh) or icdc://HOST[:PORT]/PATH (by a daemon). All sources are on one \
        host. A name with a colon is local if a slash comes before the colon: ./a:b.\n\n\
        SRC/ with a trailing slash means what is in the directory, SRC the directory itself. Into a DST that exists as a \
        directory, or ends in a slash, sources are put under their own names; one source takes the name DST otherwise.\n\n\
        Files appear under their names only when they are complete and durable. A copy that was interrupted goes on \
        where it stopped when the same command is run again.",
    after_long_help = concat!(
        "Output:\n",
        "  Standard output gets a line that sums the run up, or with --json one event per line, the\n",
        "  last of type summary. Everything else, the progress bar included, is on standard error.\n\n",
        "  The first interrupt (Ctrl-C, SIGTERM) stops cleanly, a second one at once.\n\n",
        "Exit codes:\n",
        "  0  all done; all that was written was verified\n",
        "  1  items failed, each is named on standard error, and the others arrived; or the run failed, with the reason\n",
        "  2  nothing was copied: the command line makes no sense, no source is there, or the destination cannot be one\n",
        "  3  could not connect, or was not let in\n",
        "  4  interrupted, or the connection was lost for good; run the same command again to go on from there\n\n",
        "Examples:\n",
        "  icdc copy data.bin user@far.example.org:/srv/in/\n",
        "  icdc copy --rate 900mbit --report run7.html far.example.org:run7/ run7\n",
        "  icdc copy --exclude '*.tmp' --update run7 icdc://dtn.example.org/in/\n",
        "  icdc copy --json a.example.org:run7 b.example.org:/srv/ | tail -n 1\n",
        "  icdc copy --ssh 'ssh -p 2222 -i key' --send-self --port 5000-5010 run7 far.example.org:\n",
    )
)]
pub(crate) struct CopyArguments {
    /// What to copy, and last where to
    // One list: clap would take what begins with `-` after a first of several positions for an
    // option, even behind `--`.
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"], value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<OsString>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// For how long to try to connect again after a cut, counted from the last progress
    #[arg(long, value_name = "TIME", default_value = "10min", help_heading = "Connection")]
    pub(crate) retry_for: Span,

    /// Ceiling of the sending rate, such as 900mbit or 1.2GB/s
    #[arg(long, value_name = "RATE|auto", default_value = "auto", value_parser = ceiling, help_heading = "Speed")]
    pub(crate) rate: Ceiling,

    /// TCP congestion control of the sender: one of the kernel, or one that icdc loads (icdc cc
    /// list)
    #[arg(long, value_name = "NAME|auto", default_value = "auto", value_parser = congestion, help_heading = "Speed")]
    pub(crate) cc: Congestion,

    /// Number of TCP connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_STREAMS)), help_heading = "Speed")]
    pub(crate) streams: u8,

    /// Memory between network and disk at the receiver
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = ring, help_heading = "Speed")]
    pub(crate) ring: ByteCount,

    /// Read and write through the page cache instead of by Direct I/O, at both ends
    #[arg(long, help_heading = "Speed")]
    pub(crate) buffered: bool,

    /// Read every file back from the medium before it is published, and what an interrupted run has
    /// published before it counts
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) verify: bool,

    /// Begin anew instead of using what an interrupted run left
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) no_resume: bool,

    /// Skip files of equal size and modification time, and equal symbolic links
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) update: bool,

    /// Only tell what would be sent
    #[arg(long, conflicts_with = "report", help_heading = "What to copy and how")]
    pub(crate) dry_run: bool,

    /// Leave out names (*.tmp) or paths (build/*.o) that match; may be given several times
    #[arg(long, value_name = "GLOB", help_heading = "What to copy and how")]
    pub(crate) exclude: Vec<String>,

    /// What to carry besides the data: mode, times, links, owner, xattr, sparse; or all, or none
    #[arg(long, value_name = "LIST", default_value = "mode,times,links,sparse", value_parser = preserve, help_heading = "What to copy and how")]
    pub(crate) preserve: Preserve,

    /// One JSON event per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Write a report with plots when the run ends
    #[arg(long, value_name = "FILE.html", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,

    /// Progress on standard error; auto: if that is a terminal
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(crate) progress: ProgressMode,

    /// Name every item and connection on standard error
    #[arg(short, long, action = ArgAction::SetTrue, help_heading = "Output")]
    pub(crate) verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// If standard error is a terminal
    Auto,
    /// Not at all
    Never,
    /// As a bar on a terminal, else as a line each second
    Always,
}
