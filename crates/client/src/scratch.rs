//! A temporary directory for a session without disks: for the names that it creates, and for the
//! file that it sends, which has no contents.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use icdc_disk::tree::{Tree, is_staging};
use icdc_protocol::message::Diskless;
use icdc_transfer::diskless;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tempfile::TempDir;

/// Directory of the file system in memory, where scratch directories are made if possible.
const MEMORY: &str = "/dev/shm";
/// Beginning of the names of scratch directories.
const PREFIX: &str = "icdc-measure-";
/// Number of random characters in the name of a scratch directory.
const RANDOM: usize = 6;
/// Maximum number of attempts to make a directory that another process sweeps before it is locked.
const ATTEMPTS: u32 = 8;

/// Directories of this host in which a scratch directory may be made, the preferred one first.
pub fn places() -> [PathBuf; 2] {
    [PathBuf::from(MEMORY), std::env::temp_dir()]
}

/// A locked temporary directory for a session without disks. The directory is removed when this is
/// dropped.
pub struct Scratch {
    tree: Tree,
    _directory: TempDir,
    /// Lock of the directory, which protects it from the [`sweep`] of other processes.
    _lock: File,
}

impl Scratch {
    /// Makes a scratch directory, empty or with a file without contents for the session to send.
    ///
    /// # Errors
    /// The directory that cannot be made, and the cause.
    pub fn new(sent: Option<Diskless>) -> Result<Self, String> {
        let [memory, others] = places();
        let in_memory = Self::make(&memory, sent);
        in_memory.or_else(|_| Self::make(&others, sent)).map_err(|error| format!("{}: {error}", others.display()))
    }

    /// Makes a scratch directory in `place`, and removes those that killed processes have left
    /// there.
    fn make(place: &Path, sent: Option<Diskless>) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        sweep(place);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
        // If another process sweeps it before it is locked, a new one is made.
        for _ in 0..ATTEMPTS {
            let directory = builder.tempdir_in(place).map_err(text)?;
            let Some(lock) = lock(directory.path()) else { continue };
            if let Some(sent) = sent {
                diskless::make(directory.path(), sent).map_err(text)?;
            }
            let tree = Tree::open(directory.path()).map_err(|error| error.to_string())?;
            return Ok(Self { tree, _directory: directory, _lock: lock });
        }
        Err("another process removes its directories there".to_owned())
    }

    /// The directory, as a tree for resolving paths.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
}

/// Removes directories that killed processes of this user have left in `place`: those that no
/// process has locked, and that contain only files of such a session. Errors are ignored.
fn sweep(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_scratch(path)) {
        let Some(_lock) = lock(&path) else { continue };
        let Ok(within) = std::fs::read_dir(&path) else { continue };
        let within: Vec<_> = within.flatten().map(|entry| entry.file_name()).collect();
        if within.iter().all(|name| name == diskless::NAME || is_staging(name.as_bytes())) {
            // One that another process sweeps meanwhile is gone as well.
            within.iter().for_each(|name| drop(std::fs::remove_file(path.join(name))));
            let _ = std::fs::remove_dir(&path);
        }
    }
}

/// Whether `path` is a directory of this user, closed to others, with a name of [`tempfile`].
fn is_scratch(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let random = name.strip_prefix(PREFIX.as_bytes());
    let named = random.is_some_and(|random| random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric));
    named
        && std::fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o7777 == 0o700
        })
}

/// Opens the directory and locks it; `None` if another process has locked or removed it.
fn lock(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    (directory.metadata().ok()?.nlink() > 0).then_some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_has_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, mode| {
            let path = place.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let left = make("icdc-measure-aB3xY9", 0o700);
        std::fs::write(left.join(diskless::NAME), "").unwrap();
        std::fs::write(left.join(".icdc-0123456789abcdef.part"), "").unwrap();
        let empty = make("icdc-measure-000000", 0o700);
        let of_user = make("icdc-measure-mine00", 0o700);
        std::fs::write(of_user.join("thesis"), "precious").unwrap();
        let others = [make("icdc-measure-results", 0o700), make("icdc-measure-open00", 0o755), make("other", 0o700)];
        let running = Scratch::make(place.path(), None).unwrap();
        assert!(!left.exists() && !empty.exists());
        sweep(place.path());
        assert!(of_user.join("thesis").exists() && others.iter().all(|path| path.exists()));
        let path = running._directory.path().to_owned();
        assert!(path.exists(), "that of a process that runs stays");
        drop(running);
        assert!(!path.exists());
    }
}
