//! `icdc mv` as typed.

use std::ffi::OsString;

use clap::{Args, ValueHint};

use super::ConnectionArguments;

#[derive(Args, Debug)]
#[command(
    about = "Rename a file or directory on this host or on another one",
    long_about = "Rename a file or directory on this host or on another one, within one file system: FROM gets the path TO, or its \
        own name in TO if that is an existing directory. Both are paths, [USER@]HOST:PATH, which ssh reaches, or \
        icdc://HOST[:PORT]/PATH, a daemon whose key for this user has the rights to read and to write.\n\n\
        Nothing that exists is replaced without --force. To another host or file system, icdc copy --move does it.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  it is renamed\n",
        "  1  it could not be renamed\n",
        "  2  the command line is invalid\n",
        "  3  could not connect, was cut off, or access was refused\n",
        "  4  interrupted\n\n",
        "Examples:\n",
        "  icdc mv far.example.org:/srv/in/run7 far.example.org:/srv/done/\n",
        "  icdc mv icdc://dtn.example.org/run7 icdc://dtn.example.org/run7.old\n",
    )
)]
pub(crate) struct MvArguments {
    /// Replace what has the new path: a file by a file, or an empty directory by a directory
    #[arg(short, long, help_heading = "What to rename")]
    pub(crate) force: bool,

    /// Print what is renamed
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub(crate) verbose: bool,

    /// Print one JSON object per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// Item to rename
    #[arg(value_name = "FROM", value_hint = ValueHint::AnyPath)]
    pub(crate) from: OsString,

    /// Its new path, or the directory that it goes into
    #[arg(value_name = "TO", value_hint = ValueHint::AnyPath)]
    pub(crate) to: OsString,
}
