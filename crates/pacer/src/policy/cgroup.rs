//! The cgroup that is meant: a directory of the unified hierarchy (cgroups(7), version 2).

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::PolicyError;

/// File system type of cgroup v2 (`CGROUP2_SUPER_MAGIC` of linux/magic.h).
const MAGIC: u32 = 0x6367_7270;

/// A cgroup (version 2) to whose connections a policy applies: its directory, and the kernel's
/// number for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Directory of the cgroup.
    pub path: PathBuf,
    /// The kernel's number of the cgroup: that of the directory's inode.
    pub id: u64,
}

impl Cgroup {
    /// Finds the cgroup at `path`; without a path, the root of the hierarchy, to which all
    /// processes of the host belong.
    ///
    /// # Errors
    /// No hierarchy is mounted, or the path is no cgroup of it.
    pub fn at(path: Option<&Path>) -> Result<Self, PolicyError> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => mounted()?,
        };
        let failed = |reason: String| PolicyError::Cgroup { path: path.clone(), reason };
        let real = path.canonicalize().map_err(|error| failed(error.to_string()))?;
        let id = id(&real).map_err(failed)?;
        Ok(Self { path: real, id })
    }

    /// Whether the path still leads to this cgroup: it may have been removed, and another made
    /// there.
    #[cfg(feature = "ebpf")]
    pub(super) fn is_there(&self) -> bool {
        id(&self.path) == Ok(self.id)
    }
}

/// The kernel's number of the cgroup at this path; an error, as a sentence, if it is no directory
/// of the cgroup v2 file system.
fn id(path: &Path) -> Result<u64, String> {
    let system = rustix::fs::statfs(path).map_err(|errno| errno.to_string())?;
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if system.f_type as u32 != MAGIC || !found.is_dir() {
        return Err("not a cgroup: name a directory of the cgroup v2 file system".to_owned());
    }
    Ok(found.ino())
}

/// Mount point of the cgroup v2 hierarchy of this host.
fn mounted() -> Result<PathBuf, PolicyError> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mount_point(&table).ok_or(PolicyError::NoCgroups)
}

/// Mount point of the first mount of the whole cgroup v2 hierarchy in `table`, the text of a
/// `/proc/PID/mountinfo` (proc(5)); `None` if there is none.
fn mount_point(table: &str) -> Option<PathBuf> {
    table.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (after.starts_with("cgroup2 ") && root == "/").then(|| point.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_where_it_is_mounted() {
        let table = "24 29 0:22 / /proc rw,nosuid - proc proc rw\n\
            31 24 0:27 /init.scope /elsewhere rw - cgroup2 cgroup2 rw\n\
            32 24 0:28 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n\
            33 24 0:29 / /sys/fs/cgroup/unified rw shared:10 master:3 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(mount_point(table), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mount_point("24 29 0:22 / /proc rw - proc proc rw\n\nnonsense\n"), None);
    }

    #[test]
    fn another_directory_is_no_cgroup() {
        for path in ["/tmp", "/no/such/place", "/proc/self/status"] {
            let error = Cgroup::at(Some(Path::new(path))).unwrap_err().to_string();
            assert!(error.starts_with(path), "{error}");
        }
    }
}
