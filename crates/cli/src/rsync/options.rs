//! Options of rsync that `icdc rsync` takes. All others are refused, with the answer that
//! [`crate::habits`] has for them.

use self::Meaning::{Needless, On, Pass, PassValue, Refused, Value};
use self::Switch::{
    Acls, Backup, Delete, DeleteExcluded, Group, HardLinks, Links, NumericIds, Owner, Perms, Progress, Quiet,
    Recursive, Specials, Times, Verbose, Xattrs,
};

/// An option of rsync that `icdc rsync` takes or refuses, with its translation.
#[derive(Debug)]
pub(super) struct RsyncOption {
    /// Its spellings, with their hyphens.
    pub(super) names: &'static [&'static str],
    pub(super) meaning: Meaning,
    /// Difference from rsync, for whoever uses the option; `None` if there is none.
    pub(super) difference: Option<&'static str>,
}

/// Translation of an option of rsync to icdc.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// Turns switches on.
    On(&'static [Switch]),
    /// Adds this option of icdc.
    Pass(&'static str),
    /// Adds this option of icdc with the same value.
    PassValue(&'static str),
    /// Has a value that is translated.
    Value(Valued),
    /// Nothing: it is so anyway.
    Needless,
    /// Has a value, and does nothing: it is so anyway.
    NeedlessValue,
    /// Nothing is run, for this reason.
    Refused(&'static str),
}

/// Switch that an option of rsync turns on, and `--no-OPTION` off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Switch {
    Recursive,
    Links,
    HardLinks,
    Perms,
    Times,
    Owner,
    Group,
    Acls,
    Xattrs,
    Specials,
    NumericIds,
    Delete,
    DeleteExcluded,
    Backup,
    Verbose,
    Quiet,
    Progress,
}

/// Option of rsync whose value is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Valued {
    /// `--rsh`
    Shell,
    /// `--bwlimit`
    Bandwidth,
    /// A size, for this option of icdc
    Size(&'static str),
    /// `--max-delete`
    MaxDelete,
    /// `--timeout`
    Timeout,
    /// `--modify-window`
    ModifyWindow,
    /// `--info`
    Info,
    /// `--filter`
    Filter,
    /// `--usermap`
    UserMap,
    /// `--groupmap`
    GroupMap,
    /// `--chown`
    Chown,
    /// `--link-dest`
    LinkDest,
    /// `--backup-dir`
    BackupDir,
    /// `--suffix`
    Suffix,
}

/// The option of rsync of this name (`-a`, `--archive`); `None` for an unknown one.
pub(super) fn find(name: &str) -> Option<&'static RsyncOption> {
    OPTIONS.iter().find(|option| option.names.contains(&name))
}

impl Meaning {
    /// Whether the option has a value.
    pub(super) fn has_value(self) -> bool {
        matches!(self, Value(_) | PassValue(_) | Self::NeedlessValue)
    }
}

/// A row of the table: an option that does here what it does in rsync.
const fn option(names: &'static [&'static str], meaning: Meaning) -> RsyncOption {
    RsyncOption { names, meaning, difference: None }
}

impl RsyncOption {
    /// This option, with a sentence on how it differs from rsync's.
    const fn but(self, difference: &'static str) -> Self {
        Self { difference: Some(difference), ..self }
    }
}

/// Sentence on how options of compression differ from rsync's.
const COMPRESSION: &str = "data is compressed by zstd while that saves time, and not otherwise";
/// Sentence on how options that delete early differ from rsync's.
const LAST: &str = "deletes last, after everything else has arrived";

/// The table of rsync's options that are known.
const OPTIONS: &[RsyncOption] = &[
    option(&["-a", "--archive"], On(&[Recursive, Links, Perms, Times, Owner, Group, Specials])),
    option(&["-r", "--recursive"], On(&[Recursive])),
    option(&["-l", "--links"], On(&[Links])),
    option(&["-H", "--hard-links"], On(&[HardLinks])),
    option(&["-p", "--perms"], On(&[Perms])),
    option(&["-t", "--times"], On(&[Times])),
    option(&["-o", "--owner"], On(&[Owner])),
    option(&["-g", "--group"], On(&[Group])),
    option(&["-A", "--acls"], On(&[Acls, Perms])),
    option(&["-X", "--xattrs"], On(&[Xattrs])),
    option(&["--numeric-ids"], On(&[NumericIds])),
    option(&["-D", "--specials"], On(&[Specials])),
    option(&["--devices"], On(&[Specials])).but("named pipes and sockets are copied as well, as with -D"),
    option(&["--chmod"], PassValue("--chmod")),
    option(&["--usermap"], Value(Valued::UserMap)),
    option(&["--groupmap"], Value(Valued::GroupMap)),
    option(&["--chown"], Value(Valued::Chown)),
    option(&["-S", "--sparse", "-E", "--executability"], Needless),
    option(&["-u", "--update"], Pass("--update")),
    option(&["--existing", "--ignore-non-existing"], Pass("--existing")),
    option(&["--ignore-existing"], Pass("--ignore-existing")),
    option(&["--size-only"], Pass("--size-only")),
    option(&["-c", "--checksum"], Pass("--checksum")),
    option(&["--copy-devices"], Pass("--copy-devices"))
        .but("devices that are named as sources are read, and devices in directories are not"),
    option(
        &["--write-devices"],
        Refused("write icdc copy --write-device FILE DEVICE for this: it writes one file into a device that nothing else uses"),
    ),
    option(&["--inplace"], Pass("--in-place"))
        .but("files of 256 KiB or less are replaced, files with several names or of other users are refused, and each file that is \
              written is told and marked as inconsistent until it is complete"),
    option(&["-n", "--dry-run"], Pass("--dry-run")),
    option(&["-x", "--one-file-system"], Pass("--one-file-system")),
    option(&["--mkpath"], Pass("--mkpath")),
    option(&["-4", "--ipv4"], Pass("-4")),
    option(&["-6", "--ipv6"], Pass("-6")),
    option(&["--delete", "--delete-after", "--delete-delay"], On(&[Delete])),
    option(&["--del", "--delete-during", "--delete-before"], On(&[Delete])).but(LAST),
    option(&["--delete-excluded"], On(&[Delete, DeleteExcluded]))
        .but("on a terminal, what would go is listed first, and you are asked; elsewhere add --yes"),
    option(&["--max-delete"], Value(Valued::MaxDelete)),
    option(&["-b", "--backup"], On(&[Backup])),
    option(&["--backup-dir"], Value(Valued::BackupDir)),
    option(&["--suffix"], Value(Valued::Suffix)),
    option(&["--exclude"], PassValue("--exclude")),
    option(&["--include"], PassValue("--include")),
    option(&["--exclude-from"], PassValue("--exclude-from")),
    option(&["--include-from"], PassValue("--include-from")),
    option(&["-m", "--prune-empty-dirs"], Pass("--prune-empty-dirs")),
    option(&["-f", "--filter"], Value(Valued::Filter)),
    option(&["--files-from"], PassValue("--files-from"))
        .but("names are taken as they are, also with # or ; at the start, and a listed directory is copied with everything in it"),
    option(&["--link-dest"], Value(Valued::LinkDest)),
    option(&["--max-size"], Value(Valued::Size("--max-size"))),
    option(&["--min-size"], Value(Valued::Size("--min-size"))),
    option(&["-e", "--rsh"], Value(Valued::Shell)),
    option(&["--bwlimit"], Value(Valued::Bandwidth)),
    option(&["--timeout"], Value(Valued::Timeout)),
    option(&["-@", "--modify-window"], Value(Valued::ModifyWindow)),
    option(&["-v", "--verbose"], On(&[Verbose])),
    option(&["-q", "--quiet"], On(&[Quiet])),
    option(&["-i", "--itemize-changes"], On(&[Verbose])).but("each item is named, without the letters"),
    option(&["-P", "--progress"], On(&[Progress])),
    option(&["--info"], Value(Valued::Info)),
    option(&["--debug", "--stderr", "--outbuf", "--max-alloc"], Meaning::NeedlessValue),
    option(&["-h", "--human-readable", "--stats", "-8", "--8-bit-output", "--no-motd"], Needless),
    option(&["--partial", "-y", "--fuzzy", "--preallocate", "--fsync"], Needless),
    option(&["--inc-recursive", "--i-r", "--no-inc-recursive", "--no-i-r"], Needless),
    option(&["-s", "--secluded-args", "--protect-args", "--blocking-io"], Needless),
    option(&["--partial-dir", "-B", "--block-size"], Meaning::NeedlessValue),
    option(&["-z", "--compress"], Pass("--compress=auto")).but(COMPRESSION),
    option(
        &[
            "--compress-level",
            "--zl",
            "--compress-choice",
            "--zc",
            "--compress-threads",
            "--zt",
            "--skip-compress",
            "--checksum-choice",
            "--cc",
            "--checksum-seed",
            "--sockopts",
        ],
        Meaning::NeedlessValue,
    ),
    option(&["--no-whole-file", "--no-W"], Needless),
    option(&["-W", "--whole-file"], Pass("--whole-file")),
    option(&["-K", "--keep-dirlinks"], Pass("--keep-dirlinks"))
        .but("a link that leads out of the destination is refused; --dirlinks-into DIR lets it lead into DIR"),
    option(&["--dirlinks-into"], PassValue("--dirlinks-into")),
    // Options of icdc that rsync's cannot stand for.
    option(&["--delta"], Pass("--delta")),
    option(&["--basis"], PassValue("--basis")),
    option(&["--remote-icdc"], PassValue("--remote-icdc")),
    option(&["--send-self"], Pass("--send-self")),
    option(&["--yes"], Pass("--yes")),
    // Letters that mean something else where icdc::habits answers them.
    option(
        &["-I", "--ignore-times"],
        Refused("write icdc copy for this: it sends every file, unless --skip-equal or --update is given"),
    ),
    option(
        &["-C", "--cvs-exclude"],
        Refused("there is none: write the patterns to a file and name it with --exclude-from FILE"),
    ),
    option(&["-F"], Refused("there are no files of rules in directories: name one with --filter='merge FILE'")),
    option(&["-J", "--omit-link-times"], Refused("there is none: times of links are set with all others")),
    option(
        &["-R", "--relative"],
        Refused("there is none: name the directory that the paths begin in, and choose by --include and --exclude"),
    ),
    option(
        &["-d", "--dirs", "--old-dirs", "--old-d"],
        Refused("there is none: directories are copied whole with -r; leave what is in them out by --exclude='*/*'"),
    ),
    option(
        &["-0", "--from0"],
        Refused("write icdc sync --files-from0 FILE; rules are one on each line"),
    ),
    option(&["--list-only"], Refused("write icdc ls [HOST:]PATH, or with -l -R")),
    option(&["--version", "-V"], Refused("icdc --version has it")),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_option_is_listed_twice() {
        let mut seen = HashSet::new();
        for name in OPTIONS.iter().flat_map(|option| option.names) {
            assert!(seen.insert(name), "{name} is listed twice");
        }
    }
}
