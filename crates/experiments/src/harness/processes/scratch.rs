//! Files of a scenario: in a directory that is removed with it, on a disk with enough space.
//!
//! The directory is made below `TMPDIR`, else below `/var/tmp`. Leftovers of a killed run are
//! removed by the next one. Data is random, so that it cannot be compressed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use icdc_lab::Process;
use icdc_units::ByteCount;
use rustix::fs::{Advice, fadvise, statfs, statvfs, syncfs};

use crate::harness::error::ExperimentError;

/// Beginning of the names of all scratch directories.
const PREFIX: &str = "icdc-lab-";
/// File system type of tmpfs, from statfs(2).
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Number of this process's next scratch directory, part of its name.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A directory for a scenario's files, on disk or in memory; removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next scenario tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    /// Makes a directory on a disk with at least `needed` free.
    pub(crate) fn on_disk(needed: ByteCount) -> Result<Self, ExperimentError> {
        let base = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        let kind =
            statfs(&base).map_err(|error| ExperimentError::io(format!("look at {}", base.display()), error.into()))?;
        if kind.f_type == TMPFS_MAGIC {
            return Err(ExperimentError::Scratch { place: base, why: "is memory, not a disk".to_owned() });
        }
        Self::below(&base, needed)
    }

    /// Makes a directory in memory with at least `needed` free.
    pub(crate) fn in_memory(needed: ByteCount) -> Result<Self, ExperimentError> {
        Self::below(Path::new("/dev/shm"), needed)
    }

    /// Makes a directory in `base`, with at least `needed` free, and removes those of scenarios
    /// that no longer run.
    fn below(base: &Path, needed: ByteCount) -> Result<Self, ExperimentError> {
        clear_leftovers(base);
        let free = free(base)?;
        if free < needed {
            return Err(ExperimentError::Scratch {
                place: base.to_owned(),
                why: format!("has {free} free, {needed} are needed"),
            });
        }
        let Process { id, started } = Process::this();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = base.join(format!("{PREFIX}{id}-{started}-{number}"));
        fs::create_dir(&directory)
            .map_err(|error| ExperimentError::io(format!("make {}", directory.display()), error))?;
        Ok(Self(directory))
    }

    /// Path of `name` in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file with this text, and gives its path.
    pub(crate) fn text(&self, name: &str, text: &str) -> Result<PathBuf, ExperimentError> {
        let path = self.path(name);
        fs::write(&path, text).map_err(|error| ExperimentError::io(format!("write {}", path.display()), error))?;
        Ok(path)
    }

    /// Writes an executable shell script, and gives its path.
    pub(crate) fn script(&self, name: &str, body: &str) -> Result<PathBuf, ExperimentError> {
        let path = self.text(name, &format!("#!/bin/sh\n{body}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .map_err(|error| ExperimentError::io(format!("write {}", path.display()), error))?;
        Ok(path)
    }

    /// Makes an empty directory, in place of one that was there, and gives its path.
    pub(crate) fn empty(&self, name: &str) -> Result<PathBuf, ExperimentError> {
        let path = self.path(name);
        self.remove(name);
        fs::create_dir_all(&path).map_err(|error| ExperimentError::io(format!("make {}", path.display()), error))?;
        Ok(path)
    }

    /// Removes a directory of the scratch.
    pub(crate) fn remove(&self, name: &str) {
        // If this fails, it is removed with the rest at the end.
        let _ = fs::remove_dir_all(self.path(name));
    }

    /// Moves `path` away until the end: ext4 is slow to allocate new files right after many were
    /// deleted.
    pub(crate) fn set_aside(&self, path: &Path) -> io::Result<()> {
        static ASIDE: AtomicU32 = AtomicU32::new(0);
        let number = ASIDE.fetch_add(1, Ordering::Relaxed);
        fs::rename(path, self.path(&format!("aside-{number}")))
    }

    /// Makes a file of `size` random bytes; [`Self::settle`] brings it to the medium and out of the
    /// page cache.
    pub(crate) fn file(&self, name: &str, size: ByteCount) -> Result<PathBuf, ExperimentError> {
        let path = self.path(name);
        random(&path, size).map_err(|error| ExperimentError::io(format!("write {}", path.display()), error))?;
        Ok(path)
    }

    /// Makes a tree of this number of folders, with `each` files of `size` random bytes in every
    /// one.
    pub(crate) fn tree(
        &self,
        name: &str,
        folders: u32,
        each: u32,
        size: ByteCount,
    ) -> Result<PathBuf, ExperimentError> {
        let root = self.path(name);
        let write = |error| ExperimentError::io(format!("write {}", root.display()), error);
        for folder in 0..folders {
            let folder = root.join(format!("folder-{folder:03}"));
            fs::create_dir_all(&folder).map_err(write)?;
            for number in 0..each {
                random(&folder.join(format!("file-{number:04}")), size).map_err(write)?;
            }
        }
        Ok(root)
    }

    /// Flushes all writes to the medium, and drops the files below `path` from the page cache.
    pub(crate) fn settle(&self, path: &Path) -> Result<(), ExperimentError> {
        let settle = || -> io::Result<()> {
            syncfs(File::open(&self.0)?)?;
            each_file(path, &mut |file, _| Ok(fadvise(File::open(file)?, 0, None, Advice::DontNeed)?))
        };
        settle().map_err(|error| ExperimentError::io(format!("drop {} from the page cache", path.display()), error))
    }
}

/// Number of the files below a path, and the sum of their sizes.
pub(crate) fn contents(path: &Path) -> (u64, ByteCount) {
    let mut sum = (0, ByteCount::ZERO);
    // Files that disappear meanwhile do not count.
    let _ = each_file(path, &mut |_, size| {
        sum = (sum.0 + 1, sum.1 + size);
        Ok(())
    });
    sum
}

/// Calls `visit` with the path and size of each file below `path`, or of `path` itself.
fn each_file(path: &Path, visit: &mut dyn FnMut(&Path, ByteCount) -> io::Result<()>) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| each_file(&entry?.path(), visit));
    }
    visit(path, ByteCount::new(metadata.len()))
}

/// Free space below a path for this user.
fn free(base: &Path) -> Result<ByteCount, ExperimentError> {
    let system =
        statvfs(base).map_err(|error| ExperimentError::io(format!("look at {}", base.display()), error.into()))?;
    Ok(ByteCount::new(system.f_bavail.saturating_mul(system.f_frsize)))
}

/// Makes a file of `size` random bytes.
fn random(path: &Path, size: ByteCount) -> io::Result<()> {
    let (mut noise, mut file) = (File::open("/dev/urandom")?, File::create_new(path)?);
    let mut left = size.as_usize();
    let mut piece = vec![0; left.min(1 << 20)];
    while left > 0 {
        let length = left.min(piece.len());
        noise.read_exact(&mut piece[..length])?;
        file.write_all(&piece[..length])?;
        left -= length;
    }
    Ok(())
}

/// Removes the directories of scenarios that no longer run.
fn clear_leftovers(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        if owner(&entry.file_name()).is_some_and(|owner| !owner.is_alive()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that made a scratch directory, by the directory's name; `None` if that is not of a
/// scratch.
fn owner(name: &OsStr) -> Option<Process> {
    let mut numbers = name.to_str()?.strip_prefix(PREFIX)?.split('-');
    let id = numbers.next()?.parse().ok()?;
    Some(Process { id, started: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_everything_in_it_and_what_others_have_left_goes_too() {
        let base = tempfile::tempdir().unwrap();
        let left = base.path().join(format!("{PREFIX}{}-1-0", u32::MAX / 2));
        fs::create_dir_all(left.join("in")).unwrap();
        let foreign = base.path().join(format!("{PREFIX}mine"));
        fs::create_dir(&foreign).unwrap();
        let scratch = Scratch::below(base.path(), ByteCount::new(1)).unwrap();
        assert!(!left.exists() && foreign.exists());
        let tree = scratch.tree("tree", 2, 3, ByteCount::new(5)).unwrap();
        assert_eq!(contents(&tree), (6, ByteCount::new(30)));
        scratch.settle(&tree).unwrap();
        let other = Scratch::below(base.path(), ByteCount::new(1)).unwrap();
        assert!(tree.exists(), "its owner is alive");
        drop((scratch, other));
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
        assert!(Scratch::below(base.path(), ByteCount::MAX).is_err());
    }
}
