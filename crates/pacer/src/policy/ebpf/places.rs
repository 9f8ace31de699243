//! Paths of pinned policies in the BPF file system.

use std::path::{Path, PathBuf};

use icdc_tcp::congestion::PINS;

/// Directory in which all policies are pinned.
pub(super) fn directory() -> PathBuf {
    Path::new(PINS).join("policy")
}

/// Directory of the policies of a cgroup.
pub(super) fn home(id: u64) -> PathBuf {
    directory().join(id.to_string())
}

/// Path of the map of notes in sockets.
pub(super) fn notes() -> PathBuf {
    directory().join("governed")
}

/// Directories of the policies of all cgroups.
pub(super) fn homes() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).into_iter().flatten().flatten();
    // A symbolic link leads elsewhere: nothing there is ours to remove.
    let homes = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    homes.map(|entry| entry.path()).collect()
}
