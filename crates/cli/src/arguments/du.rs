//! `icdc du` as typed.

use std::ffi::OsString;

use clap::{Args, ValueHint};

use super::ConnectionArguments;

#[derive(Args, Debug)]
#[command(
    about = "Count the bytes and items of directories, of this host or of another one",
    long_about = "Count what is in directories and below them, of this host or of another one: bytes in regular files, space in use \
        on the disk, files, directories and other items. A file with several names counts once for each PATH.\n\n\
        PATH is a path, [USER@]HOST:PATH, which ssh reaches, or icdc://HOST[:PORT]/PATH, a daemon whose key for this user has \
        the right to read.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  everything is counted\n",
        "  1  a directory could not be read, or an item not be examined\n",
        "  2  the command line is invalid, or there is no such path\n",
        "  3  could not connect, was cut off, or access was refused\n",
        "  4  interrupted\n\n",
        "Examples:\n",
        "  icdc du far.example.org:/srv/in\n",
        "  icdc du -d 1 icdc://dtn.example.org/run7\n",
    )
)]
pub(crate) struct DuArguments {
    /// Count each directory that is so many levels below PATH, or fewer, as well
    #[arg(short, long, value_name = "N", default_value_t = 0, help_heading = "Output")]
    pub(crate) depth: usize,

    /// Print one JSON object per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// What to count
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<OsString>,
}
