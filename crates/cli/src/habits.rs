//! Options and commands that people know from `rsync`, `scp` and other copiers: what does it here,
//! or that nothing is needed.
//!
//! Options whose meaning is the same are hidden aliases (`arguments/`): `-n`, `-e`, `--delete-after`.

/// Options or commands of other copiers that mean one thing, and the advice on what does it here.
type Habit = (&'static [&'static str], &'static str);

/// Options that people know from other copiers, and what does it in `icdc copy` and `icdc sync`.
const COPY: &[Habit] = &[
    (
        &["-a", "--archive"],
        "not needed: directories are copied whole, with modes, times and links; --preserve all adds owners and extended attributes",
    ),
    (&["-r", "-R", "--recursive"], "not needed: directories are copied with all that is in them"),
    (
        &[
            "-C",
            "--compress-level",
            "--zl",
            "--compress-choice",
            "--zc",
            "--compress-threads",
            "--zt",
            "--skip-compress",
        ],
        "rarely needed: data is compressed by zstd where that saves time; --compress LEVEL does so always, --compress never does not",
    ),
    (
        &["-P", "--partial", "--partial-dir", "--no-partial"],
        "not needed: what has arrived is kept, and progress is shown on a terminal; for a port of ssh write --ssh 'ssh -p PORT'",
    ),
    (&["--rsync-path"], "write --remote-icdc PATH for the program on the other host, or --send-self to bring it along"),
    (
        &["-i", "--itemize-changes"],
        "for a key of ssh write --ssh 'ssh -i FILE', for one of a daemon --identity FILE; -v names every item",
    ),
    (
        &["-J", "--omit-link-times"],
        "for a host to jump by write --ssh 'ssh -J HOST'; times of links are set with all others",
    ),
    (&["-F"], "write --ssh 'ssh -F FILE'"),
    (&["-o"], "for an option of ssh write --ssh 'ssh -o OPTION'; for owners --preserve all"),
    (
        &["-p", "--perms"],
        "not needed: modes and times are preserved; for a port of ssh write --ssh 'ssh -p PORT', for the data port --port",
    ),
    (
        &["-t", "--times", "--links", "-S", "--sparse"],
        "not needed: modes, times, links and holes are preserved; see --preserve",
    ),
    (&["-l"], "not needed: links are preserved; for a limit of the rate write --rate RATE"),
    (&["--progress"], "takes auto, always or never here; not needed on a terminal, where progress is shown"),
    (&["-g", "--group", "--owner"], "write --preserve all, or a list with owner"),
    (
        &[
            "--no-perms",
            "--no-p",
            "--no-times",
            "--no-t",
            "--no-links",
            "--no-l",
            "--no-owner",
            "--no-o",
            "--no-group",
            "--no-g",
        ],
        "write --preserve with a list of what is to be kept, such as --preserve mode,times",
    ),
    (&["--chown"], "write --preserve all --usermap '*:USER' --groupmap '*:GROUP', where root receives"),
    (
        &["--super", "--fake-super", "--copy-as"],
        "there is none: owners are set by --preserve owner, where root receives, and otherwise are who receives",
    ),
    (&["-E", "--executability"], "not needed: modes are preserved"),
    (&["-U", "--atimes", "-N", "--crtimes"], "there is none: of the times, that of the modification is preserved"),
    (
        &["-O", "--omit-dir-times"],
        "there is none: directories keep their times with files; write --preserve without times",
    ),
    (&["-H", "--hard-links"], "not needed: hard links are preserved"),
    (&["-A", "--acls"], "write --preserve all, or a list with acl"),
    (
        &["-X", "--xattrs"],
        "write --preserve all, or a list with xattr; security labels are kept by a list with security",
    ),
    (
        &["-D", "--devices", "--specials"],
        "write --preserve all, or a list with specials: pipes and sockets, and with owner devices, which root makes",
    ),
    (
        &["--safe-links", "--copy-unsafe-links", "--munge-links", "--insecure-links"],
        "not needed: links are copied as links, and nothing is written through one; leave them out by --preserve mode,times",
    ),
    (
        &["-k", "--copy-dirlinks", "-L", "--copy-links", "--dereference"],
        "links are copied as links; name what they point to, or write LINK/ for a directory",
    ),
    (
        &["--delete-before", "--delete-during", "--del", "--mirror"],
        "write --delete: what the sources do not have is deleted at the destination, always after everything else",
    ),
    (
        &["--remove-source-files"],
        "write --move: what the destination has durably is removed at the source, and directories that become empty by that; what \
         was only found equal by size and time stays",
    ),
    (
        &["--resume", "--continue", "--restart"],
        "not needed: the same command goes on where it stopped; --no-resume begins anew",
    ),
    (
        &["--append", "--append-verify"],
        "there is none: data is never added to a file that is there; of one that has grown only what is new is sent, into a new \
         file that replaces it; a copy of icdc that was interrupted goes on by the same command",
    ),
    (
        &["--ignore-times", "-I"],
        "not needed: every file is sent, unless --skip-equal or --update skips those of equal size and modification time",
    ),
    (
        &["--modify-window"],
        "not needed: --skip-equal and --update compare times as exactly as the file system of the destination keeps them",
    ),
    (&["--ignore-non-existing"], "write --existing"),
    (
        &["--backup", "-b"],
        "write --backup-dir DIR, which keeps what is replaced or deleted in a directory beside the destination, or --suffix '~', \
         which keeps it beside what replaces it",
    ),
    (
        &["--bwlimit", "--limit-rate", "--max-rate"],
        "write --rate RATE, such as --rate 900mbit or --rate 10MiB/s (rsync's --bwlimit=10m)",
    ),
    (
        &["-j", "--jobs", "--parallel", "--threads", "--transfers", "--checkers", "--multi-thread-streams"],
        "rarely needed: files are sent side by side anyway; --streams N sets the number of connections",
    ),
    (&["--cvs-exclude"], "write the patterns to a file and name it with --exclude-from FILE"),
    (
        &["--compare-dest", "--copy-dest"],
        "write --link-dest DIR: what is unchanged in DIR is linked from there, and what has other attributes is copied there",
    ),
    (&["-s", "--secluded-args", "--protect-args"], "not needed: no shell sees the names; for silence write --quiet"),
    (&["--old-args"], "there is none: no shell sees the names, so write them as they are"),
    (&["--trust-sender"], "there is none: names that the other end sends are always checked"),
    (
        &[
            "--info",
            "--debug",
            "--stats",
            "--human-readable",
            "--stderr",
            "--outbuf",
            "--no-motd",
            "-8",
            "--8-bit-output",
        ],
        "not needed: a summary is always told; --json, --report and -v have more",
    ),
    (&["--out-format", "--log-format"], "write --json, which prints an event for each item, or -v, which names each"),
    (
        &["--log-file", "--log-file-format"],
        "write --json >FILE for a line about each item, or -v 2>FILE; --report FILE.html has plots",
    ),
    (
        &["--timeout", "--contimeout", "--low-level-retries", "--retries"],
        "write --retry-for TIME: how long to reconnect after the last progress",
    ),
    (&["--fsync"], "not needed: a file gets its name only when its data is durable"),
    (&["--preallocate", "-B", "--block-size", "-y", "--fuzzy"], "not needed: leave it out, the result is the same"),
    (
        &["-T", "--temp-dir", "--delay-updates"],
        "there is none: each file is completed beside its place, and then gets its name",
    ),
    (
        &["--no-whole-file", "--no-W"],
        "not needed: of a large file that has changed only what differs is sent to another host; --whole-file sends all of it",
    ),
    (
        &["-d", "--dirs", "--old-dirs", "--no-recursive", "--no-r"],
        "there is none: leave directories out by --exclude '*/'",
    ),
    (
        &["--relative", "--parents", "--no-implied-dirs"],
        "there is none: name the directory that the paths begin in, and choose by --include and --exclude",
    ),
    (
        &["--ignore-errors"],
        "there is none: nothing is deleted after an error, because what could not be read would count as gone",
    ),
    (&["--force"], "write --delete: what has the name of something of another kind is then replaced, last of all"),
    (
        &["--ignore-missing-args", "--delete-missing-args"],
        "there is none: a source that is missing is named, the others are copied, and the exit code is 1",
    ),
    (
        &["--daemon", "--server", "--sender", "--config", "--password-file", "--address", "--dparam", "--early-input"],
        "that is for rsync's daemon; icdc serve is the one here, with keys made by icdc keygen",
    ),
    (
        &["--sockopts", "--blocking-io"],
        "not needed: buffers and congestion control are set by themselves; see icdc doctor",
    ),
    (&["-M", "--remote-option"], "there is none: both ends run with the options of this command"),
    (&["--iconv"], "there is none: names are bytes and stay as they are"),
    (
        &["--write-batch", "--only-write-batch", "--read-batch"],
        "there is none: copy to each place by a command of its own",
    ),
    (
        &["--stop-after", "--stop-at", "--max-duration"],
        "write timeout 2h icdc copy ...: the same command goes on where it stopped",
    ),
    (&["--list-only"], "write icdc ls [HOST:]PATH; --dry-run shows what would be copied"),
    (
        &["--sync-level", "--checksum-choice", "--checksum-seed", "--verify-checksum"],
        "not needed: every block and file is checked by BLAKE3; --skip-equal skips equal size and modification time, --verify also \
         reads back from the medium",
    ),
    (&["--preserve-timestamp", "--preserve-mtime"], "not needed: times are preserved"),
    (&["--encrypt", "--encrypt-data"], "not needed: all data is encrypted"),
    (
        &["--fast-list", "--use-mmap", "--buffer-size", "--no-traverse"],
        "not needed: leave it out; --ring sets the receiver's buffer",
    ),
    (
        &["--notify", "--label", "--deadline"],
        "write --on-finish CMD or --webhook URL, which tell that the copy has ended",
    ),
    (&["--batch"], "name the sources on the command line"),
    (&["--interactive"], "there is no question for each file: write --dry-run first"),
    (
        &["--confine-root", "--drop-D"],
        "not needed: nothing is written outside of the destination, and devices are made only with specials in --preserve",
    ),
    (&["--open-noatime"], "there is none: mount the source's file system with noatime, or leave it out"),
    (&["--from0", "-0"], "write --files-from0 FILE for a list whose names end in NULs"),
    (&["--reflink"], "there is none: data is read and written, so that it can be checked"),
];

/// Commands that people know from other programs, and what does it here.
const COMMANDS: &[Habit] = &[
    (
        &["cp", "scp", "push", "pull", "get", "put", "upload", "download"],
        "write icdc copy SRC... DST; a remote path is HOST:PATH",
    ),
    (
        &["rclone"],
        "write icdc copy for rclone copy, and icdc sync --delete for rclone sync, which deletes; a remote is a host that ssh reaches, \
         or icdc://HOST",
    ),
    (&["mirror"], "write icdc sync --delete SRC/ DST"),
    (
        &["globus", "transfer", "globus-url-copy"],
        "write icdc copy HOST:PATH HOST:PATH: no service stands between, ssh or a key of icdc serve lets you in; --on-finish and \
         --webhook tell that it has ended",
    ),
    (
        &["endpoint", "collection", "gcp", "daemon", "server"],
        "write icdc serve: the daemon that others copy from and to",
    ),
    (&["login"], "write icdc keygen: it makes the key by which daemons know you; ssh needs nothing"),
    (
        &["move"],
        "write icdc copy --move SRC... DST, which removes what has arrived; icdc mv renames an item on one host",
    ),
    (&["rmdir", "delete", "purge", "deletefile"], "write icdc rm, with -r for directories"),
    (&["check", "diff", "cmp"], "write icdc verify A B: it compares two trees by digests, at both ends"),
    (&["bisync"], "there is none: icdc sync goes one way; run it once for each direction with --update"),
    (&["resume", "continue"], "not needed: the same command goes on where it stopped"),
];

/// Advice on an option of another copier (`-z`, `--append`, without its value); `None` for an
/// option that is not known.
pub(crate) fn option(name: &str) -> Option<&'static str> {
    find(COPY, name)
}

/// Advice on another program's command; `None` for a command that is not known.
pub(crate) fn command(name: &str) -> Option<&'static str> {
    find(COMMANDS, name)
}

/// The advice on an option or command of this name.
fn find(habits: &[Habit], name: &str) -> Option<&'static str> {
    habits.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::arguments;

    #[test]
    fn no_habit_is_listed_twice_or_hides_an_option_of_ours() {
        let root = arguments::command();
        let copy = root.find_subcommand("copy").unwrap();
        let ours: HashSet<String> = copy
            .get_arguments()
            .flat_map(|argument| {
                let short = argument.get_short_and_visible_aliases().unwrap_or_default();
                let short = short.into_iter().chain(argument.get_all_short_aliases().unwrap_or_default());
                let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                let long = long.into_iter().chain(argument.get_all_aliases().unwrap_or_default());
                let long: Vec<String> = long.map(|name| format!("--{name}")).collect();
                short.map(|letter| format!("-{letter}")).chain(long).collect::<Vec<_>>()
            })
            .collect();
        let mut seen = HashSet::new();
        for name in COPY.iter().flat_map(|(names, _)| *names) {
            assert!(seen.insert(name), "{name} is listed twice");
            // It takes a value here.
            assert!(!ours.contains(*name) || *name == "--progress", "{name} is an option here");
        }
        let mut seen = HashSet::new();
        for name in COMMANDS.iter().flat_map(|(names, _)| *names) {
            assert!(seen.insert(name), "{name} is listed twice");
            assert!(root.find_subcommand(name).is_none(), "{name} is a command here");
        }
    }
}
