//! The control group of this process and those above it: of the second version, or of the first,
//! which has a tree of groups for each controller.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of nested groups that are examined.
const MOST: usize = 64;

/// Directories of the control groups that limit this process by `controller` (`memory`, `pids`),
/// its own group first, then those above it; empty if control groups cannot be seen.
pub(crate) fn own_and_above(controller: &str) -> Vec<PathBuf> {
    let (Ok(mounts), Ok(own)) = (fs::read_to_string("/proc/self/mounts"), fs::read_to_string("/proc/self/cgroup"))
    else {
        return Vec::new();
    };
    let (second, first) = (second_version(&mounts, &own), first_version(&mounts, &own, controller));
    second.into_iter().chain(first).flat_map(|(root, own)| upwards(&root, &own)).collect()
}

/// Mount point of a tree of control groups, and this process's group as a path relative to it.
type Place = (PathBuf, PathBuf);

/// Finds this process's group in the tree of cgroup v2 from the texts of `/proc/self/mounts` and
/// `/proc/self/cgroup`; `None` if that is not mounted or the process is not in it.
fn second_version(mounts: &str, own: &str) -> Option<Place> {
    let root = mounted(mounts, |kind, _| kind == "cgroup2")?;
    Some((root, own.lines().find_map(|line| line.strip_prefix("0::/"))?.into()))
}

/// Finds this process's group in the tree that cgroup v1 has for `controller`, from the texts of
/// `/proc/self/mounts` and `/proc/self/cgroup`; `None` if there is no such tree.
fn first_version(mounts: &str, own: &str, controller: &str) -> Option<Place> {
    let lists = |list: &str| list.split(',').any(|name| name == controller);
    let root = mounted(mounts, |kind, options| kind == "cgroup" && lists(options))?;
    let mut groups = own.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
    let own = groups.find(|fields| fields.get(1).is_some_and(|list| lists(list)))?;
    Some((root, own.get(2)?.trim_start_matches('/').into()))
}

/// Mount point, in the text of `/proc/self/mounts`, of the first file system whose type and options
/// `fits` accepts; `None` if none does.
fn mounted(mounts: &str, fits: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|fields| fields.len() > 3 && fits(fields[2], fields[3])).map(|fields| PathBuf::from(fields[1]))
}

/// Directories of the group `own` and of the groups above it up to the mount point `root`, at most
/// [`MOST`].
fn upwards(root: &Path, own: &Path) -> Vec<PathBuf> {
    let path = root.join(own);
    path.ancestors().take_while(|group| group.starts_with(root)).take(MOST).map(Path::to_owned).collect()
}

/// Reads a limit or a count from a file of the control group; `None` for "max", or if there is no
/// such file.
pub(crate) fn number(group: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()
}

/// Reads the number behind `key` from a file of the control group that has one key per line, such
/// as `memory.stat`; `None` if there is none.
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
        let (root, own) = second_version(mounts, "1:name=systemd:/x\n0::/user.slice/a.scope\n").unwrap();
        let found = upwards(&root, &own);
        let expected = ["/sys/fs/cgroup/user.slice/a.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(second_version("proc /proc proc rw 0 0\n", "0::/\n"), None);
        assert_eq!(second_version(mounts, "3:cpu:/a\n"), None);
    }

    #[test]
    fn the_first_version_has_a_tree_for_each_controller() {
        let mounts = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup /sys/fs/cgroup/pids cgroup rw,nosuid,pids 0 0\n";
        let own = "4:pids:/user.slice\n3:cpu,cpuacct:/a:b\n";
        let place = |root: &str, own: &str| Some((PathBuf::from(root), PathBuf::from(own)));
        assert_eq!(first_version(mounts, own, "pids"), place("/sys/fs/cgroup/pids", "user.slice"));
        assert_eq!(first_version(mounts, own, "cpuacct"), place("/sys/fs/cgroup/cpu,cpuacct", "a:b"));
        assert_eq!(first_version(mounts, own, "memory"), None);
    }
}
