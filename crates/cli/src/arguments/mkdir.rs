//! `icdc mkdir` as typed.

use std::ffi::OsString;

use clap::{Args, ValueHint};

use super::ConnectionArguments;

#[derive(Args, Debug)]
#[command(
    about = "Make directories on this host or on another one",
    long_about = "Make directories on this host or on another one: a path, [USER@]HOST:PATH, which ssh reaches, or \
        icdc://HOST[:PORT]/PATH, a daemon whose key for this user has the right to write.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  all are made\n",
        "  1  one could not be made\n",
        "  2  the command line is invalid\n",
        "  3  could not connect, was cut off, or access was refused\n",
        "  4  interrupted\n\n",
        "Examples:\n",
        "  icdc mkdir far.example.org:/srv/in/run7\n",
        "  icdc mkdir -p icdc://dtn.example.org/2026/11/28\n",
    )
)]
pub(crate) struct MkdirArguments {
    /// Make the directories above that are missing, and take those that exist for made
    #[arg(short, long, help_heading = "What to make")]
    pub(crate) parents: bool,

    /// Print what is made
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub(crate) verbose: bool,

    /// Print one JSON object per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// Directories to make
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<OsString>,
}
