//! Files in which the processes of a user keep what is to outlast them, each changed by one process
//! at a time.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);
const OTHERS_WRITE: Mode = Mode::WGRP.union(Mode::WOTH);
/// Maximum number of attempts to lock the file: a change takes milliseconds, and a process that
/// waits for longer does without.
const LOCK_ATTEMPTS: u32 = 50;
/// Pause between two attempts to lock the file.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Path of this user's state file of that name, in `$XDG_STATE_HOME/icdc` or `~/.local/state/icdc`; `None` if neither
/// `XDG_STATE_HOME` nor `HOME` is an absolute path.
#[must_use]
pub fn path(name: &str) -> Option<PathBuf> {
    // The XDG base directory specification says to ignore relative paths.
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("icdc").join(name))
}

/// Reads what a state file holds as JSON, of at most `most` bytes; the default if it does not exist.
///
/// # Errors
/// The file cannot be read, or is invalid.
pub fn read<T: DeserializeOwned + Default>(file: &Path, most: u64) -> io::Result<T> {
    let mut bytes = Vec::new();
    match File::open(file) {
        Ok(open) => open.take(most).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(error),
    };
    Ok(serde_json::from_slice(&bytes)?)
}

/// [`read`], with the default also for a file that cannot be read.
pub fn read_or_default<T: DeserializeOwned + Default>(file: &Path, most: u64) -> T {
    read(file, most).unwrap_or_else(|error| {
        tracing::debug!("{}: {error}", file.display());
        T::default()
    })
}

/// Changes what a state file holds as JSON, of at most `most` bytes. The file is made if it is missing, and anew if it is
/// invalid; two processes change it one after the other. Returns the result of `change`.
///
/// # Errors
/// Errors of [`StateFile`].
pub fn change<T: Serialize + DeserializeOwned + Default, R>(
    file: &Path,
    most: u64,
    change: impl FnOnce(&mut T) -> R,
) -> io::Result<R> {
    let locked = StateFile::lock(file)?;
    let mut held = read_or_default(file, most);
    let outcome = change(&mut held);
    locked.replace(&serde_json::to_vec_pretty(&held)?)?;
    Ok(outcome)
}

/// A locked state file, which no other process changes until this is dropped.
pub struct StateFile {
    directory: OwnedFd,
    name: OsString,
    /// Name of the changed file until it replaces the old one.
    aside: OsString,
    _lock: OwnedFd,
}

impl StateFile {
    /// Locks a file for changing. The file may be missing; its directory is made if it is.
    ///
    /// # Errors
    /// The file system fails; the directory is another user's, or one that others may
    /// write to; another process has been changing the file for longer than that takes.
    pub fn lock(path: &Path) -> io::Result<Self> {
        let name_of = |path: &Path| path.file_name().map(OsString::from).ok_or(io::ErrorKind::InvalidInput);
        let (name, aside) = (name_of(path)?, name_of(&path.with_extension("new"))?);
        let directory = own_directory(path.parent().unwrap_or(Path::new("/")))?;
        let lock = lock(&directory, &name_of(&path.with_extension("lock"))?)?;
        Ok(Self { directory, name, aside, _lock: lock })
    }

    /// Reads the file, at most `most` bytes of it; `None` if it does not exist.
    ///
    /// # Errors
    /// The file system fails.
    pub fn read(&self, most: u64) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match fs::openat(&self.directory, &self.name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Replaces the contents of the file by `bytes`, atomically: after a crash of the host it has
    /// the old contents or all of the new ones.
    ///
    /// # Errors
    /// The file system fails.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        // What a process left that was killed.
        match fs::unlinkat(&self.directory, &self.aside, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(fs::openat(&self.directory, &self.aside, flags, OWNER_ONLY)?);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(fs::renameat(&self.directory, &self.aside, &self.directory, &self.name)?)
    }
}

/// Opens a directory, made if it is missing, if it belongs to this user or root and others may not
/// write to it; an error otherwise.
pub(crate) fn own_directory(path: &Path) -> io::Result<OwnedFd> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let directory = fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let found = fs::fstat(&directory)?;
    let owner = found.st_uid;
    let reason = if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        format!("{} belongs to user {owner}; set XDG_STATE_HOME to a directory of your own", path.display())
    } else if Mode::from_raw_mode(found.st_mode).intersects(OTHERS_WRITE) {
        format!("others may write to {}; take that from them: chmod go-w", path.display())
    } else {
        return Ok(directory);
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Locks the state file `name` by a separate file that only its owner can open, not by the
/// directory: whoever may open a directory can lock it for ever.
fn lock(directory: &OwnedFd, name: &OsString) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = fs::openat(directory, name, flags, OWNER_ONLY)?;
    for _ in 0..LOCK_ATTEMPTS {
        match fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                #[expect(clippy::disallowed_methods, reason = "flock(2) has no time limit, and no event tells of it")]
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let reason = format!("another process keeps {} locked; try again", name.display());
    Err(io::Error::new(io::ErrorKind::TimedOut, reason))
}
