//! `icdc copy` as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use icdc_metrics::Gateway;
use icdc_protocol::message::{Compress, Keep, MaxDelete, Preserve};
use icdc_schedule::{RateSchedule, rate_schedule};
use icdc_units::{ByteCount, Span};

use super::choosing::CHOOSING;
use super::{ChoosingArguments, ConnectionArguments, FollowingArguments, ReportingArguments};
use crate::chmod::{ModeChanges, mode_changes};
use crate::owner_rules::{OwnerRules, owner_rules};
use crate::values::{
    Congestion, CopyName, OneOfSeveral, Shard, Streams, compress, congestion, copy_name, keep, max_delete,
    one_of_several, pause, preserve, ring, shard, stream_place, streams,
};

/// Group of the options after which the destination has nothing that the sources have not.
const EXACT: &str = "exact";

#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "icdc copy [OPTIONS] <SRC>... <DST>\n       icdc copy [OPTIONS] --to <DST> --to <DST> <SRC>...\n       icdc copy [OPTIONS] --plan <DIR> [--shard <N>]",
    about = "Copy files and directories between this host, hosts reached by ssh, and daemons",
    long_about = "Copy files and directories.\n\n\
        SRC and DST are PATH, [USER@]HOST:PATH (by ssh) or icdc://HOST[:PORT]/PATH (a daemon). All sources must be on the \
        same host. A name with a colon is local if a slash comes before the colon: ./a:b.\n\n\
        SRC/ with a trailing slash copies the contents of a directory; SRC copies the directory itself. If DST is an \
        existing directory or ends in a slash, each source keeps its own name in DST. Otherwise, a single source gets \
        the name DST.\n\n\
        SRC - is standard input, DST - is standard output: data goes from or to another program, and no file is between. \
        A file of this name is ./-.\n\n\
        Each file appears under its final name only when it is complete and durable. To resume an interrupted copy, run \
        the same command again.",
    after_long_help = concat!(
        "Output:\n",
        "  Standard output has a summary of the run. With --json, it has one event per line; the last\n",
        "  one has the type summary. Everything else, such as the progress bar, is on standard error.\n\n",
        "  The first interrupt (Ctrl-C, SIGTERM, or SIGHUP unless it is ignored) stops the copy cleanly,\n",
        "  a second one other than SIGHUP immediately. SIGUSR1 prints the progress.\n\n",
        "Exit codes:\n",
        "  0  everything arrived; all files that were written were verified; or another icdc is writing the same copy, and\n",
        "     --if-running skip was given\n",
        "  1  items failed, each is named on standard error, and everything else arrived; or the run failed, with the reason;\n",
        "     or there is no receipt, although everything arrived\n",
        "  2  nothing was copied: invalid command line, no source exists, the destination cannot be used, or another icdc\n",
        "     is writing the same copy (--if-running fail)\n",
        "  3  could not connect, or access was refused\n",
        "  4  interrupted, or the connection was lost and not restored within --retry-for; the same command resumes\n\n",
        "Examples:\n",
        "  icdc copy data.bin user@far.example.org:/srv/in/\n",
        "  icdc copy --rate 900mbit --report run7.html far.example.org:run7/ run7\n",
        "  icdc copy --exclude '*.tmp' --update run7 icdc://dtn.example.org/in/\n",
        "  icdc copy --preserve all --chmod Dg+s,go-w run7 far.example.org:/srv/\n",
        "  icdc copy --include '*.nc' --include '*/' --exclude '*' --newer-than 7d run7 far.example.org:\n",
        "  icdc copy --follow --final shot.done shot7 far.example.org:/srv/shots/\n",
        "  icdc copy --to a.example.org:/srv/ --to icdc://b.example.org/in/ run7\n",
        "  icdc copy --metrics /var/lib/prometheus/node-exporter/run7.prom run7 far.example.org:\n",
        "  tar c run7 | icdc copy - far.example.org:run7.tar\n",
        "  icdc copy far.example.org:run7.tar - | tar x\n",
        "  icdc copy --json a.example.org:run7 b.example.org:/srv/ | tail -n 1\n",
        "  icdc copy --ssh 'ssh -p 2222 -i key' --send-self --port 5000-5010 run7 far.example.org:\n",
    )
)]
pub(crate) struct CopyArguments {
    /// What to copy, and, as the last argument, the destination
    // One list: clap would take what begins with `-` after a first of several positions for an
    // option, even behind `--`.
    #[arg(required_unless_present = "plan", num_args = 1.., value_names = ["SRC", "DST"], value_hint = ValueHint::AnyPath)]
    pub(crate) places: Vec<OsString>,

    /// Copy the sources to this destination, and to those of further --to: one copy for each, which resumes and fails
    /// for itself, at the same time. Every other argument is a source then
    ///
    /// The sources are read through the page cache: the disk is read once for all copies that keep up with each other.
    /// Options hold for each copy; names of files for results and --name get the number of the destination (run7-1.html).
    /// May be given up to 16 times.
    #[arg(
        long,
        value_name = "DST",
        action = ArgAction::Append,
        conflicts_with_all = ["plan", "moves"],
        help_heading = "What to copy and how",
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) to: Vec<OsString>,

    /// Which of the copies of --to this process is, and for whom
    #[arg(long, hide = true, requires = "to", value_parser = one_of_several)]
    pub(crate) one_of_several: Option<OneOfSeveral>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,

    /// How long to try to reconnect after the connection was lost, counted from the last progress
    #[arg(long, value_name = "TIME", default_value = "10min", help_heading = "Connection")]
    pub(crate) retry_for: Span,

    /// Limit of the sending rate, such as 900mbit or 1.2GB/s, or rates over time, such as 'mon-fri 08:00-18:00=200mbit,
    /// else=auto', in this host's time zone
    #[arg(long, value_name = "RATE|auto", default_value = "auto", value_parser = rate_schedule, help_heading = "Speed")]
    pub(crate) rate: RateSchedule,

    /// TCP congestion control of the sender: one that the kernel has, or one that icdc loads
    /// (icdc cc list)
    #[arg(long, value_name = "NAME|auto", default_value = "auto", value_parser = congestion, help_heading = "Speed")]
    pub(crate) cc: Congestion,

    /// Give way to other traffic on the path: take only what others leave, and nearly nothing where they fill it
    #[arg(long, conflicts_with = "cc", help_heading = "Speed")]
    pub(crate) background: bool,

    /// Number of TCP connections. By default, as many as the path needs with the kernels' socket
    /// buffers; all of them share one rate
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = streams, help_heading = "Speed")]
    pub(crate) streams: Streams,

    /// Compress data on its way by zstd: auto while the network limits, a processor is idle and the data
    /// shrinks, never, or always at a level from 1 to 19
    #[arg(long, value_name = "auto|never|LEVEL", default_value = "auto", value_parser = compress, help_heading = "Speed")]
    pub(crate) compress: Compress,

    /// As --compress auto
    #[arg(short = 'z', hide = true, conflicts_with = "compress")]
    pub(crate) compress_auto: bool,

    /// Size of the receiver's buffer between network and disk [default: 256MiB, at most a quarter of the memory that a
    /// control group or `ulimit -v` allows]
    #[arg(long, value_name = "SIZE", value_parser = ring, help_heading = "Speed")]
    pub(crate) ring: Option<ByteCount>,

    /// Use the page cache instead of Direct I/O, at both ends
    #[arg(long, help_heading = "Speed")]
    pub(crate) buffered: bool,

    /// Read every file back from the disk before it gets its final name; also read back files that
    /// an interrupted run has finished
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) verify: bool,

    /// Start over; ignore the data that an interrupted run left
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) no_resume: bool,

    /// Keep standard input (SRC -) unfinished at the destination if the copy is interrupted. Standard input begins at
    /// this byte of it, up to which a copy with this option has left it there: 0 begins, later numbers are those that
    /// its last message and the event stream_durable of --json tell
    #[arg(long, value_name = "OFFSET", value_parser = stream_place, help_heading = "What to copy and how")]
    pub(crate) resume_stream: Option<ByteCount>,

    /// Skip files with equal size and modification time, and equal symbolic links; attributes that
    /// differ are set. Times are compared as exactly as the destination keeps them
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) skip_equal: bool,

    /// As --skip-equal, and keep files that were modified later at the destination than at the source
    #[arg(short, long, help_heading = "What to copy and how")]
    pub(crate) update: bool,

    /// Let --skip-equal, --update or icdc sync take files for equal whose sizes are equal, whatever
    /// their times; a file that was changed and has the size it had is not copied then
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) size_only: bool,

    /// Let --skip-equal, --update or icdc sync take files for equal whose contents are equal, whatever
    /// their times: both ends read the files of equal size and compare their BLAKE3 digests
    #[arg(short = 'c', long, conflicts_with_all = ["size_only", "link_dest", "snapshot"], help_heading = "What to copy and how")]
    pub(crate) checksum: bool,

    /// With --checksum, read all files, also those that have not changed since an earlier run
    ///
    /// Without it, a file is not read that has the size, modification and change time, device and inode that it had when
    /// an earlier run with --checksum read it. The digests are kept in $XDG_CACHE_HOME/icdc/digests, at each end.
    /// --verify uses none.
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) no_digest_cache: bool,

    /// Copy only what is at the destination already: nothing new is made there, no file, no link, no
    /// directory
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) existing: bool,

    /// Keep whatever is at the destination already, and copy only what is not; directories are filled
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) ignore_existing: bool,

    /// If another icdc is writing the same copy: wait for its end and take over what it has
    /// published, skip (nothing is copied, exit code 0), or fail (exit code 2)
    #[arg(long, value_name = "WHAT", default_value = "wait", help_heading = "What to copy and how")]
    pub(crate) if_running: IfRunningMode,

    /// Name by which `icdc ctl` finds this copy while it runs: up to 64 printable ASCII characters without /, not only
    /// digits. Refused while another copy of this user on this host has it
    #[arg(long, value_name = "NAME", value_parser = copy_name, help_heading = "What to copy and how")]
    pub(crate) name: Option<CopyName>,

    /// Make the directories above the destination that are missing
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) mkpath: bool,

    /// After everything is copied, delete what the destination has in the directories of the sources and
    /// the sources have not. Nothing is deleted if any item failed; with --dry-run it is listed only
    #[arg(long, aliases = ["delete-after", "delete-delay"], group = EXACT, help_heading = "What to copy and how")]
    pub(crate) delete: bool,

    /// Delete nothing if more than this many items would go, or this part of all at the destination
    #[arg(long, value_name = "N|N%", requires = "delete", value_parser = max_delete, help_heading = "What to copy and how")]
    pub(crate) max_delete: Option<MaxDelete>,

    /// With --delete, delete what the rules exclude as well. On a terminal, icdc lists first what would
    /// go, and asks; elsewhere this needs --yes, or --dry-run
    #[arg(long, requires = "delete", help_heading = "What to copy and how")]
    pub(crate) delete_excluded: bool,

    /// Delete what the rules exclude without asking
    #[arg(long, requires = "delete_excluded", help_heading = "What to copy and how")]
    pub(crate) yes: bool,

    /// Let an empty source directory empty the destination with --delete, or become an empty snapshot.
    /// Without it nothing is deleted or made then, as the source may be a file system that is not mounted
    #[arg(long, requires = EXACT, help_heading = "What to copy and how")]
    pub(crate) yes_empty: bool,

    /// Where the source has a directory and the destination a symbolic link to a directory of that name,
    /// keep the link and fill the directory that it leads to
    ///
    /// That must lie in the destination, or in a directory of --dirlinks-into.
    #[arg(short = 'K', long, conflicts_with_all = ["snapshot", "receipt"], help_heading = "What to copy and how")]
    pub(crate) keep_dirlinks: bool,

    /// Let links of --keep-dirlinks lead into DIR, at the destination's host, as well
    ///
    /// A DIR that is not absolute lies beside DST. May be given up to 20 times.
    #[arg(long, value_name = "DIR", action = ArgAction::Append, requires = "keep_dirlinks", help_heading = "What to copy and how", value_hint = ValueHint::DirPath)]
    pub(crate) dirlinks_into: Vec<OsString>,

    /// Link a file that is unchanged in DIR, another copy at the destination's host, from there instead
    /// of sending it; one whose attributes differ is copied there. Nothing in DIR is changed. A DIR that
    /// is not absolute lies beside DST. May be given up to 20 times; with --verify, files are sent
    #[arg(long, value_name = "DIR", action = ArgAction::Append, help_heading = "What to copy and how", value_hint = ValueHint::DirPath)]
    pub(crate) link_dest: Vec<OsString>,

    /// Keep what is replaced or deleted at the destination: it is moved to DIR, under its path there. DIR
    /// must lie beside DST, on the same file system, and is made if it is missing; one that is not absolute
    /// begins beside DST. An older file of the same name in DIR is replaced
    #[arg(long, value_name = "DIR", conflicts_with = "snapshot", help_heading = "What to copy and how", value_hint = ValueHint::DirPath)]
    pub(crate) backup_dir: Option<OsString>,

    /// Add SUFFIX to the names of files in --backup-dir. Without --backup-dir, keep what is replaced or
    /// deleted in its own directory, under its name with SUFFIX; --delete leaves such names alone
    #[arg(long, value_name = "SUFFIX", conflicts_with = "snapshot", help_heading = "What to copy and how")]
    pub(crate) suffix: Option<OsString>,

    /// Make a snapshot: a copy of the sources in a directory of DST that is named by the time in UTC, such
    /// as DST/2026-11-27T02:00:00Z. What is unchanged since the newest snapshot is linked from there. The
    /// snapshot gets its name when it is complete and durable, then the symbolic link DST/latest leads
    /// to it; the next run goes on with one that was interrupted
    #[arg(
        long,
        group = EXACT,
        conflicts_with_all = ["moves", "update", "existing", "ignore_existing", "files_from", "files_from0"],
        help_heading = "What to copy and how"
    )]
    pub(crate) snapshot: bool,

    /// After a snapshot is made, remove those that are neither the newest of one of the last N days with
    /// snapshots (Nd), nor of the last weeks (w), months (m) or years (y), such as 7d,4w,12m
    #[arg(long, value_name = "Nd,Nw,Nm,Ny", requires = "snapshot", value_parser = keep, help_heading = "What to copy and how")]
    pub(crate) keep: Option<Keep>,

    /// Move: remove each file and link at the source once the destination has it durably, and directories
    /// that become empty by that. What has changed meanwhile stays, and so does what is equal by
    /// --skip-equal and --update
    #[arg(long = "move", conflicts_with_all = ["delete", "plan"], help_heading = "What to copy and how")]
    pub(crate) moves: bool,

    /// List what would be sent; send nothing
    #[arg(long, short_alias = 'n', conflicts_with = "report", help_heading = "What to copy and how")]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) following: FollowingArguments,

    #[command(flatten)]
    pub(crate) choosing: ChoosingArguments,

    /// Copy only the names that this file lists, one on each line, as they are: paths below SRC, of
    /// which there is one and which may lack its slash. A listed directory is copied with everything in
    /// it. - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "files_from0", help_heading = "Choosing what is copied", value_hint = ValueHint::FilePath)]
    pub(crate) files_from: Option<PathBuf>,

    /// As --files-from, for names that each end in a NUL, as find -print0 writes them
    #[arg(long, value_name = "FILE", help_heading = "Choosing what is copied", value_hint = ValueHint::FilePath)]
    pub(crate) files_from0: Option<PathBuf>,

    /// Leave out directories in which nothing is copied but directories
    #[arg(short = 'm', long, help_heading = "Choosing what is copied")]
    pub(crate) prune_empty_dirs: bool,

    /// What to preserve besides the data: mode, times, links, owner, xattr, acl, specials, sparse, security;
    /// or all (but security), or none
    #[arg(long, value_name = "LIST", default_value = "mode,times,links,sparse", value_parser = preserve, help_heading = "What to copy and how")]
    pub(crate) preserve: Preserve,

    /// Copy the contents of each SRC that is a block device, or a link to one, as a regular file: an image of the
    /// device. Devices in directories are not read
    #[arg(long, conflicts_with_all = ["moves", "plan", "follow", "link_dest", "snapshot"], help_heading = "What to copy and how")]
    pub(crate) copy_devices: bool,

    /// Write the only SRC, a file, into DST, which must be a block device, or a link to one, that nothing else uses
    ///
    /// What the device has behind the end of the file stays. Success means that the device was read back and has the
    /// digest of the source; until then its contents are inconsistent.
    #[arg(
        long,
        alias = "write-devices",
        conflicts_with_all = ["moves", "plan", "follow", "files_from", "files_from0", "size_only", "checksum", "update", "existing",
                              "ignore_existing", "mkpath", "keep_dirlinks", "link_dest", "backup_dir", "suffix", "chmod", "delete", "snapshot"],
        help_heading = "What to copy and how"
    )]
    pub(crate) write_device: bool,

    /// Write large files that exist at the destination where they are, instead of a new one beside each that replaces it
    ///
    /// For disks without room for a second copy, and for what must stay the same file, such as the image of a running
    /// host. Only what differs travels and is written. From its first change until it is complete such a file is
    /// inconsistent: a run that is interrupted leaves it so, and the same command completes it. Files of 256 KiB or less
    /// are replaced as ever; files with several names (hard links) or of other users are refused.
    #[arg(
        long,
        alias = "inplace",
        conflicts_with_all = ["moves", "plan", "follow", "write_device", "delta", "basis", "ignore_existing", "link_dest", "backup_dir", "suffix", "snapshot"],
        help_heading = "What to copy and how"
    )]
    pub(crate) in_place: bool,

    /// Send files whole that have changed, instead of what differs from the file at the destination
    #[arg(short = 'W', long, help_heading = "Data path")]
    pub(crate) whole_file: bool,

    /// Find what has moved within a large file that is replaced, such as behind an insertion, and send only what
    /// is new. By default, only what is equal at the same place is not sent
    ///
    /// The old file is read ahead of the copy, and the chunks that it is cut into are described to the sender: 1.2 MB
    /// for each GiB.
    #[arg(long, conflicts_with_all = ["whole_file", "write_device"], help_heading = "Data path")]
    pub(crate) delta: bool,

    /// Find content of large files also in PATH, at the destination's host, and do not send it: a file, such as
    /// yesterday's dump, for all of them; of a directory, the file of the same path in it. Implies --delta
    ///
    /// A PATH that is not absolute lies beside DST. It is read, never changed, and may be on another file system. May be
    /// given up to 20 times.
    #[arg(long, value_name = "PATH", action = ArgAction::Append, conflicts_with_all = ["whole_file", "write_device"], help_heading = "Data path", value_hint = ValueHint::AnyPath)]
    pub(crate) basis: Vec<OsString>,

    /// Change the modes that the source has: D2755,F644 for directories and others, or letters as for
    /// chmod, such as Du=rwx,go=rX. May be given several times
    #[arg(long, value_name = "CHANGES", action = ArgAction::Append, allow_hyphen_values = true, value_parser = mode_changes, help_heading = "What to copy and how")]
    pub(crate) chmod: Vec<ModeChanges>,

    /// Keep owners and groups by number. By default the name decides, where both hosts have it
    #[arg(long, help_heading = "What to copy and how")]
    pub(crate) numeric_ids: bool,

    /// Give files of some users to others at the destination: rules FROM:TO between commas, of which
    /// the first that matches decides. FROM is a name, a pattern ('*'), a number, a range (1000-1999) or empty
    /// for those without a name; TO is a name or a number there. Needs owner or acl in --preserve
    #[arg(long, value_name = "FROM:TO,...", value_parser = owner_rules, help_heading = "What to copy and how")]
    pub(crate) usermap: Option<OwnerRules>,

    /// As --usermap, for groups
    #[arg(long, value_name = "FROM:TO,...", value_parser = owner_rules, help_heading = "What to copy and how")]
    pub(crate) groupmap: Option<OwnerRules>,

    /// Copy a shard of this plan, made by icdc plan; sources and destination are those of the plan
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["places", "preserve", "chmod", "numeric_ids", "usermap", "groupmap", "skip_equal", "update", "size_only", "checksum", "existing", "ignore_existing", "files_from", "files_from0", "prune_empty_dirs", "delete", "keep_dirlinks", "link_dest", "backup_dir", "suffix", "snapshot", "dry_run"],
        conflicts_with_all = CHOOSING,
        help_heading = "What to copy and how",
        value_hint = ValueHint::DirPath
    )]
    pub(crate) plan: Option<PathBuf>,

    /// Which shard. By default, the one whose number Slurm's array or Kubernetes' indexed job has
    /// given this process; of N processes that srun or mpirun has started, each copies every Nth
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = shard, requires = "plan", help_heading = "What to copy and how")]
    pub(crate) shard: Shard,

    /// Print one JSON event per line on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Write a report with plots when the run ends
    #[arg(long, value_name = "FILE.html", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,

    /// Leave a receipt when everything has arrived: each item with size, time and digest, from whom, to
    /// whom, when. The key of the end that has the data signs it; the signature is FILE.sig, which
    /// ssh-keygen -Y verify checks. Nothing is overwritten
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "existing"], help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) receipt: Option<PathBuf>,

    /// Write metrics for the textfile collector of the Prometheus node exporter, while the copy runs
    /// and when it ends. The collector reads only names that end in .prom
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) metrics: Option<PathBuf>,

    /// Push the same metrics to a Prometheus Pushgateway: http://HOST:PORT, or
    /// http://HOST:PORT/metrics/job/JOB for a group of your own. TLS is not supported
    #[arg(long, value_name = "URL", conflicts_with = "dry_run", help_heading = "Output", value_hint = ValueHint::Url)]
    pub(crate) metrics_push: Option<Gateway>,

    /// Time between two writes or pushes of metrics
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = pause, help_heading = "Output")]
    pub(crate) metrics_interval: Span,

    /// When to show progress on standard error
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(crate) progress: ProgressMode,

    #[command(flatten)]
    pub(crate) reporting: ReportingArguments,

    /// Print errors only: no progress, no notices, no summary. What --json, --report and --dry-run print
    /// stays
    #[arg(short, long, alias = "silent", conflicts_with_all = ["verbose", "progress"], help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Print every item and connection on standard error
    #[arg(short, long, action = ArgAction::SetTrue, help_heading = "Output")]
    pub(crate) verbose: bool,
}

impl CopyArguments {
    /// These arguments without files and other places for results.
    pub(crate) fn without_results(self) -> Self {
        Self { report: None, receipt: None, metrics: None, metrics_push: None, ..self }
    }
}

/// Value of `--if-running`: what to do while another process is writing the same copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfRunningMode {
    /// Wait for its end, and take over what it has published
    Wait,
    /// Copy nothing, which is no failure
    Skip,
    /// Copy nothing, which is a failure
    Fail,
}

/// Value of `--progress`: when progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// Only if standard error is a terminal
    Auto,
    /// Never
    Never,
    /// As a bar on a terminal, otherwise as a line every second
    Always,
}
