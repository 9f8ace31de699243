//! Paths of pinned policies in the BPF file system.

use std::path::{Path, PathBuf};

use icdc_tcp::congestion::PINS;

/// Path of the directory in the BPF file system in which everything is pinned: a directory for each
/// cgroup with policies, and the map of the sockets' records.
pub(super) fn directory() -> PathBuf {
    Path::new(PINS).join("policy")
}

/// Path of the directory in which the policies of the cgroup with this number are pinned.
pub(super) fn home(id: u64) -> PathBuf {
    directory().join(id.to_string())
}

/// Path at which the map of the sockets' records (socket-local storage) is pinned.
pub(super) fn notes() -> PathBuf {
    directory().join("governed")
}

/// Paths of the directories of all cgroups that have policies, as found on disk; empty if there are
/// none or if they cannot be listed.
pub(super) fn homes() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).into_iter().flatten().flatten();
    // A symbolic link leads elsewhere: nothing there is ours to remove.
    let homes = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    homes.map(|entry| entry.path()).collect()
}
