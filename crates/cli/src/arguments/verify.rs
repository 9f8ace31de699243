//! `icdc verify` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use icdc_protocol::message::ListDigest;
use icdc_session::listing::compare::Aspect;

use super::{ConnectionArguments, RuleArguments};

#[derive(Args, Debug)]
#[command(
    override_usage = "icdc verify [OPTIONS] <A> <B>\n       \
                      icdc verify [OPTIONS] --list <FILE> <A>",
    about = "Compare two trees, of this host or of others, by digests of their contents",
    long_about = "Compare two trees, or two files. Each end reads and digests its own files (BLAKE3), at the rate of its disk and its \
        processors; no contents travel. What differs is named on standard output. Nothing is changed, unless --repair copies it.\n\n\
        A and B are paths, [USER@]HOST:PATH, which ssh reaches, or icdc://HOST[:PORT]/PATH, daemons whose keys for this user \
        have the right to read. A directory is compared with what is in the other one: after `icdc copy run7 far:/srv/`, \
        compare run7 with far:/srv/run7.\n\n\
        With --list, the files of A are compared with a list of digests, as b3sum, sha256sum and md5sum write them.",
    after_long_help = concat!(
        "Output:\n",
        "  One line for each item that differs: how, and its path from A and B on.\n",
        "  content  the bytes of a file       type     file, directory, link, ...     mode   permissions\n",
        "  size     the length of a file      missing  in A, not in B                 mtime  time of modification\n",
        "  target   of a symbolic link        extra    in B, not in A                 owner  owner or group, as numbers\n",
        "  unreadable: the item could not be read, and is not compared.\n\n",
        "Exit codes:\n",
        "  0  both are equal; with --repair, they are now\n",
        "  1  something differs, or could not be read; with --repair, also where something is extra or a copy failed\n",
        "  2  the command line is invalid, there is no such path, or the list has a line that is none\n",
        "  3  could not connect, was cut off, or access was refused\n",
        "  4  interrupted\n\n",
        "Examples:\n",
        "  icdc verify run7 far.example.org:/srv/run7\n",
        "  icdc verify --quick --ignore mtime,owner run7 icdc://dtn.example.org/run7\n",
        "  icdc verify --exclude '*.tmp' host1:data host2:data\n",
        "  icdc verify --repair run7 far.example.org:/srv/run7\n",
        "  icdc verify --list SHA256SUMS /archive/run7\n",
    )
)]
pub(crate) struct VerifyArguments {
    /// Compare metadata only: type, size, target, and what is not ignored
    #[arg(long, conflicts_with = "list", help_heading = "What to compare")]
    pub(crate) quick: bool,

    /// What is not compared; none compares everything
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "owner", help_heading = "What to compare")]
    pub(crate) ignore: Vec<IgnoredAspect>,

    /// Then copy what differs or is missing from A to B. What is extra stays
    #[arg(long, conflicts_with = "list", help_heading = "What to compare")]
    pub(crate) repair: bool,

    /// Compare the files of A with a list of digests; - for standard input. Files that are not in
    /// the list are counted only
    #[arg(long, value_name = "FILE", help_heading = "What to compare", value_hint = ValueHint::FilePath)]
    pub(crate) list: Option<PathBuf>,

    /// Digest of the list [default: by its lines and the file's name]
    #[arg(long, value_name = "NAME", requires = "list", help_heading = "What to compare")]
    pub(crate) digest: Option<DigestName>,

    #[command(flatten)]
    pub(crate) rules: RuleArguments,

    /// Print one JSON object per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// The trees to compare
    #[arg(required = true, num_args = 1..=2, value_names = ["A", "B"], value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<OsString>,
}

/// Value of `--ignore`: what is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IgnoredAspect {
    /// Permissions
    Mode,
    /// Time of modification
    Mtime,
    /// Owner and group
    Owner,
    /// Target of a symbolic link
    Target,
    /// What is in A only
    Missing,
    /// What is in B only
    Extra,
    /// Nothing
    None,
}

impl IgnoredAspect {
    /// The aspect of an item that is not compared; `None` for the word `none`.
    pub(crate) fn aspect(self) -> Option<Aspect> {
        match self {
            Self::Mode => Some(Aspect::Mode),
            Self::Mtime => Some(Aspect::Mtime),
            Self::Owner => Some(Aspect::Owner),
            Self::Target => Some(Aspect::Target),
            Self::Missing => Some(Aspect::Missing),
            Self::Extra => Some(Aspect::Extra),
            Self::None => None,
        }
    }
}

/// Value of `--digest`: the kind of the digests in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DigestName {
    /// As b3sum
    Blake3,
    /// As sha256sum
    Sha256,
    /// As md5sum
    Md5,
}

impl From<DigestName> for ListDigest {
    fn from(name: DigestName) -> Self {
        match name {
            DigestName::Blake3 => Self::Blake3,
            DigestName::Sha256 => Self::Sha256,
            DigestName::Md5 => Self::Md5,
        }
    }
}
