//! `icdc rm` as typed.

use std::ffi::OsString;

use clap::{Args, ValueHint};

use super::ConnectionArguments;

#[derive(Args, Debug)]
#[command(
    about = "Remove files and directories on this host or on another one",
    long_about = "Remove files, and with -r directories, on this host or on another one: a path, [USER@]HOST:PATH, which ssh \
        reaches, or icdc://HOST[:PORT]/PATH, a daemon whose key for this user has the rights to read and to write. On another \
        host, *, ? and [...] in a path are patterns as in a shell; quote them.\n\n\
        What is to be removed is counted first, and no more items than that are removed. A symbolic link is removed and not \
        followed; file systems that are mounted below stay, and so do unfinished files of running copies: a directory with such \
        a thing in it, or with one that cannot be read, stays whole.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  all is removed\n",
        "  1  something could not be removed\n",
        "  2  the command line is invalid, or the answer is no\n",
        "  3  could not connect, was cut off, or access was refused\n",
        "  4  interrupted\n\n",
        "Examples:\n",
        "  icdc rm 'far.example.org:/srv/in/*.tmp'\n",
        "  icdc rm -r --dry-run far.example.org:run7            # what would be removed\n",
        "  icdc rm -r --yes icdc://dtn.example.org/run7         # without a question\n",
    )
)]
pub(crate) struct RmArguments {
    /// Remove directories with everything in them
    #[arg(short, long, help_heading = "What to remove")]
    pub(crate) recursive: bool,

    /// List what would be removed; remove nothing
    #[arg(long, short_alias = 'n', help_heading = "What to remove")]
    pub(crate) dry_run: bool,

    /// Remove directories without a question; -r needs this where there is no terminal to ask at
    #[arg(long, help_heading = "What to remove")]
    pub(crate) yes: bool,

    /// Print what is removed, and how much it is
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub(crate) verbose: bool,

    /// Print one JSON object per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// Items to remove
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<OsString>,
}
