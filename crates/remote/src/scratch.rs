//! A directory for the names that a session without disks makes, and for the file that it sends, which holds
//! nothing.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use icdc_disk::tree::Tree;
use icdc_protocol::message::Diskless;
use icdc_transfer::diskless;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// Where the system has memory as a file system.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "icdc-measure-";
/// Of directories that were left: one that is younger may not be locked yet.
const LEAST_AGE: Duration = Duration::from_secs(60);

/// See the module. It is removed when dropped; what a killed process leaves, the next one removes.
pub(crate) struct Scratch {
    tree: Tree,
    _directory: TempDir,
    /// Tells that it is in use.
    _lock: File,
}

impl Scratch {
    /// An empty one, or one with what is `sent` from there.
    ///
    /// # Errors
    /// What cannot be made, and why.
    pub(crate) fn new(sent: Option<Diskless>) -> Result<Self, String> {
        let others = std::env::temp_dir();
        [Path::new(MEMORY), &others].into_iter().for_each(sweep);
        let in_memory = Self::make(Path::new(MEMORY), sent);
        in_memory.or_else(|_| Self::make(&others, sent)).map_err(|error| format!("{}: {error}", others.display()))
    }

    fn make(place: &Path, sent: Option<Diskless>) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
        let directory = builder.tempdir_in(place).map_err(text)?;
        let lock = File::open(directory.path()).map_err(text)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|errno| errno.to_string())?;
        if let Some(sent) = sent {
            diskless::make(directory.path(), sent).map_err(text)?;
        }
        let tree = Tree::open(directory.path()).map_err(|error| error.to_string())?;
        Ok(Self { tree, _directory: directory, _lock: lock })
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }
}

/// Removes directories of this user in `place` that nobody has locked.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_left(directory: &Path) -> bool {
    let Ok(about) = directory.symlink_metadata() else { return false };
    let is_old = about.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= LEAST_AGE));
    about.is_dir()
        && about.uid() == rustix::process::geteuid().as_raw()
        && is_old
        && File::open(directory).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}
