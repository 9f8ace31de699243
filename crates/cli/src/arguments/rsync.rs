//! Help of `icdc rsync`, whose command line is read by [`crate::rsync`] before all others.

use clap::{Arg, Command, ValueHint};

/// Definition of `icdc rsync` for help, man pages and completions; its command line is not read by
/// it.
pub(crate) fn rsync() -> Command {
    Command::new("rsync")
        .about("Run a command line of rsync as the icdc sync that means the same")
        .long_about(
            "Runs a command line of rsync as the icdc sync that means the same. The command is printed on standard error, and what \
             differs from rsync; with -q neither is. Options that have no counterpart, or are not sound, are refused with what does \
             it here, and nothing is run.\n\n\
             Both ends need icdc: rsync on the other host is not spoken to. alias rsync='icdc rsync' in a shell's start-up file \
             makes it the usual one; \\rsync is then the other.",
        )
        .after_long_help(concat!(
            "Taken:\n",
            "  -a -r -l -p -t -o -g -H -A -X -S -u -n -x -z -P -v -q -i -h -4 -6 -e -f, --no-OPTION,\n",
            "  --delete and its times, --max-delete, --exclude, --include, --filter, --exclude-from,\n",
            "  --include-from, --max-size, --min-size, --bwlimit, --timeout, --progress, --partial,\n",
            "  --stats, --info, --numeric-ids, --mkpath, and others that change nothing here;\n",
            "  of icdc's own options --remote-icdc and --send-self\n\n",
            "Exit codes: as of icdc copy; 2 if the command line cannot be translated\n\n",
            "Environment:\n",
            "  RSYNC_RSH               the remote shell, if -e is not given\n\n",
            "Examples:\n",
            "  icdc rsync -avz --delete results/ far.example.org:results/\n",
            "  icdc rsync -aP -e 'ssh -p 2222' --bwlimit=10m far.example.org:run7 .\n",
        ))
        // Beside sync.
        .display_order(1)
        .override_usage("icdc rsync [OPTION]... <SRC>... <DST>")
        .arg(
            Arg::new("words")
                .value_name("OPTION|PATH")
                .num_args(1..)
                .allow_hyphen_values(true)
                .value_hint(ValueHint::AnyPath)
                .help("Options of rsync, sources and destination"),
        )
}
