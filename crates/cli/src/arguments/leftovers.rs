//! `icdc leftovers` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};

#[derive(Args, Debug)]
#[command(
    about = "List, or remove, what interrupted copies have left at a destination",
    long_about = "List the unfinished files of this user (.icdc-*.part, .icdc-*.blocks, .icdc-*.run), and directories of unfinished \
        snapshots and mirrors (.icdc-*.snapshot, .icdc-*.part), in a directory of this host and below: their space, how long ago they were changed, and whether a running icdc holds them. As root, those of all users.\n\n\
        The same copy goes on from its unfinished files and removes them at its end. Where it is not run again, or its destination \
        was spelled in another way, they stay. --remove removes those that no running icdc holds, except the mark of a file \
        that --in-place has left inconsistent, which only the same copy makes right. A small file \
        that no journal of a run tells of counts as held for ten minutes after its last change: the copy of one small file alone has \
        no lock.",
    after_long_help = concat!(
        "Exit codes:\n",
        "  0  done\n",
        "  1  a directory could not be read, or a file could not be removed, or is such a mark\n",
        "  2  the command line is invalid, or the directory is not there\n\n",
        "Examples:\n",
        "  icdc leftovers /srv/in\n",
        "  icdc leftovers --remove /srv/in\n",
        "  ssh far.example.org icdc leftovers /srv/in    # of the destination on another host\n",
    )
)]
pub(crate) struct LeftoversArguments {
    /// Remove the unfinished files and directories that no running icdc holds, except marks of --in-place
    #[arg(long)]
    pub(crate) remove: bool,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,

    /// Directory that is searched, with all below
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
}
