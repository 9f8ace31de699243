//! Where policies are pinned, in the BPF file system.

use std::path::{Path, PathBuf};

use icdc_tcp::congestion::PINS;

/// Where all of them are.
pub(super) fn directory() -> PathBuf {
    Path::new(PINS).join("policy")
}

/// Where the policies of a cgroup are.
pub(super) fn home(id: u64) -> PathBuf {
    directory().join(id.to_string())
}

/// Where notes in sockets are kept.
pub(super) fn notes() -> PathBuf {
    directory().join("governed")
}

/// Where the policies of each cgroup are.
pub(super) fn homes() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).into_iter().flatten().flatten();
    // A symbolic link leads elsewhere: nothing there is ours to remove.
    let homes = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    homes.map(|entry| entry.path()).collect()
}
