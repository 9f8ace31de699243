//! `icdc ls` as typed.

use std::ffi::OsString;

use clap::{Args, ValueEnum, ValueHint};

use super::ConnectionArguments;

#[derive(Args, Debug)]
#[command(
    about = "List a directory of this host or of another one",
    long_about = "List a directory, or name a file, of this host or of another one: a path, [USER@]HOST:PATH, which ssh reaches, or \
        icdc://HOST[:PORT]/PATH, a daemon whose key for this user has the right to read. Names are sorted by their bytes.\n\n\
        A remote directory is read where it is, and its names travel together: a million of them take the time to read them \
        there, and a few round trips.",
    after_long_help = concat!(
        "Output:\n",
        "  One name per line. Control characters and bytes that are not UTF-8 are escaped; -0 prints names as\n",
        "  they are. With -R, paths from PATH on.\n",
        "  -l: type and permissions, number of names, owner and group (numbers), bytes, time of modification\n",
        "  (UTC), name, and the target of a symbolic link.\n\n",
        "Exit codes:\n",
        "  0  everything is listed\n",
        "  1  a directory could not be read, or an item not be examined\n",
        "  2  the command line is invalid, or there is no such path\n",
        "  3  could not connect, was cut off, or access was refused\n",
        "  4  interrupted\n\n",
        "Examples:\n",
        "  icdc ls far.example.org:/srv/in\n",
        "  icdc ls -l --sort time icdc://dtn.example.org/run7\n",
        "  icdc ls -R -0 far.example.org:run7 | grep -zc '[.]nc$'\n",
    )
)]
pub(crate) struct LsArguments {
    /// Print type, permissions, owner, size and time as well
    #[arg(short, long, conflicts_with = "null", help_heading = "What to list")]
    pub(crate) long: bool,

    /// List all directories below as well
    #[arg(short = 'R', long, help_heading = "What to list")]
    pub(crate) recursive: bool,

    /// Order of the names: name (by their bytes), size (largest first), time (newest first) or none
    /// (as they arrive)
    #[arg(long, value_name = "ORDER", default_value = "name", help_heading = "What to list")]
    pub(crate) sort: ListOrder,

    /// Print one JSON object per line on standard output
    #[arg(long, conflicts_with_all = ["long", "null"], help_heading = "Output")]
    pub(crate) json: bool,

    /// End each name with a NUL instead of a newline, and escape nothing
    #[arg(short = '0', long, help_heading = "Output")]
    pub(crate) null: bool,

    /// Print what a path on another host that is typed in part may become, for a shell
    #[arg(long, hide = true, conflicts_with_all = ["long", "recursive", "json", "null"])]
    pub(crate) complete: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// What to list
    #[arg(value_name = "PATH", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) places: OsString,
}

/// Value of `--sort`: order in which items are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListOrder {
    /// By the bytes of the names
    Name,
    /// The largest first
    Size,
    /// The newest first
    Time,
    /// As they arrive
    None,
}
