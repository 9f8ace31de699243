//! Names and directories that are resolved beneath a root and never outside of it.
//!
//! A path as a user or the other end wrote it is resolved once, by [`Tree::resolve`]: the kernel
//! (`openat2`, `RESOLVE_BENEATH`) walks it and a descriptor comes out. From there on everything is
//! done relative to descriptors by single checked [`Name`]s that are not followed. So nobody who
//! swaps directories for links while a transfer runs can lead it elsewhere: a descriptor stays with
//! its directory, and a name that became a link is refused.
//!
//! ```
//! use icdc_disk::tree::{Metadata, Name, StagingKind, StagingName, Tree};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! let tree = Tree::open(temporary.path())?;
//! let directory = tree.root().make_directory(&Name::new(b"data")?, 0o755)?;
//! let staging = StagingName::new(StagingKind::Part, [7; 8]).name();
//! let file = directory.create_file(&staging, 0o640)?;
//! let wanted = Metadata { mode: Some(0o640), ..Metadata::default() };
//! directory.set_metadata(&staging, &file, &wanted)?;
//! directory.rename(&staging, &directory, &Name::new(b"result")?)?;
//! assert!(tree.resolve(b"data/result")?.stat.is_some());
//! assert!(tree.resolve(b"data/../../outside").is_err());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod beneath;
mod directory;
mod error;
mod listing;
mod metadata;
mod names;
mod opening;
mod trail;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

pub use directory::{Directory, Whereabouts};
pub(crate) use error::operation;
pub use error::{Result, TreeError};
pub use listing::{ListedEntry, Listing};
pub use metadata::{CAPABILITY, FileTime, Kind, Metadata, Stat, Xattrs};
pub use names::{MAX_NAME, Name, NameError, StagingKind, StagingName, is_staging, printable};
pub use opening::Followed;

pub use crate::user::file_user;

/// Where paths are resolved: beneath a root, or as in a shell.
#[derive(Clone, Debug)]
pub struct Tree {
    root: Directory,
    scope: Arc<Scope>,
    home: Option<Vec<u8>>,
}

/// A resolved path: the item `name` in `directory`, whether it exists or not.
#[derive(Clone, Debug)]
pub struct Located {
    /// The directory that holds the item; the item itself when `name` is `None`.
    pub directory: Directory,
    /// Last component of the path; `None` when the path means a directory as such (`/`, `.`, `a/..`).
    pub name: Option<Name>,
    /// What is there, a symbolic link not followed; `None` if nothing.
    pub stat: Option<Stat>,
    /// The path ended in a slash.
    pub trailing_slash: bool,
}

impl Tree {
    /// A confined tree: everything is beneath `root`, and absolute paths start there.
    ///
    /// # Errors
    /// When `root` cannot be opened or is no directory.
    pub fn open(root: &Path) -> Result<Self> {
        let held = open_any(CWD, root.as_os_str().as_bytes(), root.as_os_str().as_bytes())?;
        let copy = rustix::io::fcntl_dupfd_cloexec(&held, 0)
            .map_err(|errno| TreeError::new("fcntl", root.display().to_string(), errno))?;
        let scope = Arc::new(Scope::Confined { root: held });
        Ok(Self { root: Directory::start(copy, b"/", Arc::clone(&scope)), scope, home: None })
    }

    /// The whole file system with the rights of this user; relative paths start at `cwd`.
    ///
    /// # Errors
    /// When `cwd` cannot be opened or is no directory.
    pub fn unconfined(cwd: &Path) -> Result<Self> {
        let path = cwd.as_os_str().as_bytes();
        let scope = Arc::new(Scope::Unconfined);
        let root = Directory::start(open_any(CWD, path, path)?, path, Arc::clone(&scope));
        Ok(Self { root, scope, home: None })
    }

    /// Lets `~` and `~/…` mean `home`, as they do on the far side of ssh. Without it, and in a
    /// confined tree, `~` is a name like any other.
    #[must_use]
    pub fn with_home(mut self, home: &Path) -> Self {
        self.home = Some(home.as_os_str().as_bytes().to_vec());
        self
    }

    /// The directory where relative paths start.
    #[must_use]
    pub fn root(&self) -> &Directory {
        &self.root
    }

    /// Finds what `path` means. Symbolic links in the directories above the item are followed, in
    /// a confined tree as long as they stay beneath; the item itself is not. An empty path is the
    /// root. The directory that holds the item must exist, the item need not.
    ///
    /// # Errors
    /// [`TreeError::Escapes`], [`TreeError::Missing`] when a directory above the item is missing,
    /// [`TreeError::NotADirectory`], [`TreeError::Name`].
    pub fn resolve(&self, path: &[u8]) -> Result<Located> {
        if path.contains(&0) {
            return Err(NameError::Byte(printable(path), "a zero byte").into());
        }
        let path = &*self.with_home_put_in(path);
        let trimmed = &path[..path.iter().rposition(|byte| *byte != b'/').map_or(0, |end| end + 1)];
        let start = trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let last = &trimmed[start..];
        let trailing_slash = trimmed.len() < path.len();
        if matches!(last, b"" | b"." | b"..") {
            let directory = self.open_directory(path)?;
            let stat = Some(directory.own_stat()?);
            return Ok(Located { directory, name: None, stat, trailing_slash });
        }
        let name = Name::new(last)?;
        let directory = self.open_directory(&trimmed[..start])?;
        let stat = match directory.stat(&name) {
            Err(error) if error.is_missing() => None,
            outcome => Some(outcome?),
        };
        Ok(Located { directory, name: Some(name), stat, trailing_slash })
    }

    fn open_directory(&self, path: &[u8]) -> Result<Directory> {
        let (descriptor, shown) = match &*self.scope {
            Scope::Unconfined => {
                let target: &[u8] = if path.is_empty() { b"." } else { path };
                (open_any(&self.root, target, path)?, path.to_vec())
            }
            Scope::Confined { root } => {
                let path = beneath::relative(path);
                let shown = if path == b"." { b"/".to_vec() } else { [b"/", path].concat() };
                let flags = directory::DIRECTORY.difference(OFlags::NOFOLLOW);
                let opened = beneath::open(root.as_fd(), path, flags);
                (opened.map_err(|errno| unresolved(&shown, errno))?, shown)
            }
        };
        Ok(Directory::start(descriptor, &shown, Arc::clone(&self.scope)))
    }

    fn with_home_put_in<'a>(&self, path: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        match (&self.home, path.strip_prefix(b"~")) {
            (Some(home), Some(rest)) if rest.is_empty() || rest.starts_with(b"/") => [home, rest].concat().into(),
            _ => path.into(),
        }
    }
}

impl Located {
    /// Opens the item as a directory; a symbolic link is followed as [`Directory::follow`] does.
    ///
    /// # Errors
    /// [`TreeError::NotADirectory`], [`TreeError::Missing`], [`TreeError::Escapes`].
    pub fn open_directory(&self) -> Result<Directory> {
        let Some(name) = &self.name else {
            return Ok(self.directory.clone());
        };
        match self.stat.map(|stat| stat.kind) {
            Some(Kind::Symlink) => match self.directory.follow(name)? {
                Followed::Directory(directory) => Ok(directory),
                Followed::File(..) => Err(TreeError::NotADirectory {
                    path: self.path(),
                    found: "a symbolic link to a regular file",
                    call: "openat2",
                }),
            },
            _ => self.directory.open_directory(name),
        }
    }

    /// Where the item is, printable.
    #[must_use]
    pub fn path(&self) -> String {
        match &self.name {
            Some(name) => self.directory.path_of(name),
            None => self.directory.path(),
        }
    }
}

/// Takes the exclusive advisory lock on `file` if nobody has it; the lock lasts until the last
/// descriptor of this opening is closed.
///
/// # Errors
/// What `flock` says except that somebody has the lock, which is `Ok(false)`.
pub fn try_lock(file: &File) -> std::io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[derive(Debug)]
enum Scope {
    Unconfined,
    Confined { root: OwnedFd },
}

/// Opens a directory by a path that is trusted or meant to go anywhere.
fn open_any(start: impl AsFd, path: &[u8], shown: &[u8]) -> Result<OwnedFd> {
    let flags = directory::DIRECTORY.difference(OFlags::NOFOLLOW);
    rustix::fs::openat(start, path, flags, Mode::empty())
        .map_err(|errno| TreeError::new("openat", printable(shown), errno))
}

fn unresolved(shown: &[u8], errno: Errno) -> TreeError {
    match errno {
        Errno::XDEV => TreeError::Escapes { path: printable(shown), call: "openat2" },
        _ => TreeError::new("openat2", printable(shown), errno),
    }
}
