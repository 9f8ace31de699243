//! Groups of the options of `icdc copy` and `icdc sync`, by what a user wants to do, in the order
//! in which help and man pages show them.

use clap::Command;

use super::choosing;

/// Headings, and the ids of the options under each, in their order. An option that is not listed
/// keeps its place and its heading.
const GROUPS: [(&str, &[&str]); 9] = [
    (
        "What to copy and how",
        &[
            "to",
            "preserve",
            "moves",
            "dry_run",
            "verify",
            "mkpath",
            "copy_devices",
            "write_device",
            "in_place",
            "no_resume",
            "resume_stream",
            "if_running",
            "name",
            "plan",
            "shard",
        ],
    ),
    (choosing::HEADING, &choosing::CHOOSING),
    (choosing::HEADING, &["files_from", "files_from0", "prune_empty_dirs"]),
    (
        "Mirroring",
        &[
            "skip_equal",
            "update",
            "size_only",
            "checksum",
            "no_digest_cache",
            "existing",
            "ignore_existing",
            "delete",
            "max_delete",
            "delete_excluded",
            "yes",
            "yes_empty",
            "backup_dir",
            "suffix",
            "keep_dirlinks",
            "dirlinks_into",
            "link_dest",
            "snapshot",
            "keep",
        ],
    ),
    ("Following", &["follow", "settle", "marker", "until", "idle", "scan_interval"]),
    (
        "Data path",
        &["rate", "cc", "background", "streams", "compress", "whole_file", "delta", "basis", "ring", "buffered"],
    ),
    (
        "Reaching hosts",
        &[
            "ssh",
            "remote_icdc",
            "send_self",
            "via",
            "port",
            "bind",
            "proxy_login",
            "family",
            "ipv4",
            "ipv6",
            "retry_for",
            "identity",
            "known_hosts",
        ],
    ),
    (
        "Output",
        &["verbose", "quiet", "progress", "json", "report", "receipt", "metrics", "metrics_push", "metrics_interval"],
    ),
    (
        "Hooks and flow marking",
        &[
            "on_finish",
            "on_finish_timeout",
            "webhook",
            "webhook_secret",
            "webhook_timeout",
            "scitags",
            "scitags_registry",
            "scitags_collector",
            "scitags_interval",
        ],
    ),
];

/// The definition of a command, with its options under the headings of [`GROUPS`].
pub(super) fn grouped(command: Command) -> Command {
    let ids = GROUPS.iter().flat_map(|(heading, ids)| ids.iter().map(move |id| (*heading, *id)));
    ids.enumerate().fold(command, |command, (order, (heading, id))| {
        // Headings come in the order of their first options, and this makes each the last one.
        command.mut_arg(id, |argument| argument.help_heading(heading).display_order(order))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments;

    #[test]
    fn headings_are_in_order_and_every_option_has_one() {
        let root = arguments::command();
        for name in ["copy", "sync"] {
            let command = root.find_subcommand(name).unwrap();
            let options =
                command.get_arguments().filter(|argument| !argument.is_hide_set() && !argument.is_positional());
            let mut headings: Vec<&str> = options
                .map(|option| option.get_help_heading().unwrap_or_else(|| panic!("{option} is in no group")))
                .collect();
            headings.dedup();
            let mut expected: Vec<&str> = GROUPS.iter().map(|(heading, _)| *heading).collect();
            expected.dedup();
            assert_eq!(headings, expected, "icdc {name}");
        }
    }
}
