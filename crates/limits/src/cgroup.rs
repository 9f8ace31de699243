//! The control group of this process and those above it, of the second version.

use std::fs;
use std::path::{Path, PathBuf};

/// Groups above one another that are looked at.
const MOST: usize = 64;

/// Directories of the groups that this process is in, from its own upwards; none where there are
/// none of the second version, or where they cannot be seen.
pub(crate) fn own_and_above() -> Vec<PathBuf> {
    let (Ok(mounts), Ok(own)) = (fs::read_to_string("/proc/self/mounts"), fs::read_to_string("/proc/self/cgroup"))
    else {
        return Vec::new();
    };
    groups(&mounts, &own)
}

fn groups(mounts: &str, own: &str) -> Vec<PathBuf> {
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let root = mounts.find(|fields| fields.get(2) == Some(&"cgroup2")).map(|fields| PathBuf::from(fields[1]));
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let (Some(root), Some(own)) = (root, own) else { return Vec::new() };
    let path = root.join(own);
    path.ancestors().take_while(|group| group.starts_with(&root)).take(MOST).map(Path::to_owned).collect()
}

/// A limit or a count that a file of `group` holds; `None` for "max", and where it has none.
pub(crate) fn number(group: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()
}

/// The number that follows `key` in a file of `group`.
pub(crate) fn keyed(group: &Path, file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_listed_up_to_the_mount() {
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let found = groups(mounts, "1:name=systemd:/x\n0::/user.slice/a.scope\n");
        let expected = ["/sys/fs/cgroup/user.slice/a.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(groups("proc /proc proc rw 0 0\n", "0::/\n").is_empty());
        assert!(groups(mounts, "3:cpu:/a\n").is_empty());
    }
}
