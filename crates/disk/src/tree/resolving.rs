//! Paths, resolved once: from what a user or the other end wrote to a directory and a name in it.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::beneath;
use super::directory::{DIRECTORY, Directory};
use super::error::{Result, TreeError};
use super::located::Located;
use super::names::{Name, NameError, printable};
use super::scope::Scope;

/// Root for resolving paths: beneath a directory, or as in a shell.
#[derive(Clone, Debug)]
pub struct Tree {
    root: Directory,
    scope: Arc<Scope>,
    home: Option<Vec<u8>>,
}

impl Tree {
    /// Opens a confined tree: everything is beneath `root`, and absolute paths start there.
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

    /// Tree of the whole file system with the rights of this user; relative paths start at `cwd`.
    ///
    /// # Errors
    /// When `cwd` cannot be opened or is no directory.
    pub fn unconfined(cwd: &Path) -> Result<Self> {
        let path = cwd.as_os_str().as_bytes();
        let scope = Arc::new(Scope::Unconfined);
        let root = Directory::start(open_any(CWD, path, path)?, path, Arc::clone(&scope));
        Ok(Self { root, scope, home: None })
    }

    /// Makes `~` and `~/…` mean `home`, as on the far side of ssh; without it, `~` is a name like
    /// any other. In a confined tree, `home` would be looked for beneath the root.
    #[must_use]
    pub fn with_home(mut self, home: &Path) -> Self {
        self.home = Some(home.as_os_str().as_bytes().to_vec());
        self
    }

    /// Directory where relative paths start.
    #[must_use]
    pub fn root(&self) -> &Directory {
        &self.root
    }

    /// Resolves `path`. Symbolic links in the directories above the item are followed, in a
    /// confined tree as long as they stay beneath; the item itself is not. An empty path is the
    /// root. The directory that holds the item must exist, the item need not.
    ///
    /// # Errors
    /// [`TreeError::Escapes`], [`TreeError::Missing`] when a directory above the item is missing,
    /// [`TreeError::NotADirectory`], [`TreeError::Name`].
    pub fn resolve(&self, path: &[u8]) -> Result<Located> {
        self.resolve_beside(path, &mut None)
    }

    /// Resolves one of many paths as [`resolve`](Self::resolve): the directory of the previous one
    /// is not opened again, and one descriptor serves all paths in it.
    ///
    /// # Errors
    /// Errors of [`resolve`](Self::resolve).
    pub fn resolve_beside(&self, path: &[u8], before: &mut Option<(Vec<u8>, Directory)>) -> Result<Located> {
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
        let above = &trimmed[..start];
        let directory = match before {
            Some((path, directory)) if path == above => directory.clone(),
            _ => self.open_directory(above)?,
        };
        *before = Some((above.to_vec(), directory.clone()));
        let stat = match directory.stat(&name) {
            Err(error) if error.is_missing() => None,
            outcome => Some(outcome?),
        };
        Ok(Located { directory, name: Some(name), stat, trailing_slash })
    }

    /// Opens the directory at `path`, through symbolic links too; in a confined tree only beneath
    /// its root.
    fn open_directory(&self, path: &[u8]) -> Result<Directory> {
        let (descriptor, shown) = match &*self.scope {
            Scope::Unconfined => {
                let target: &[u8] = if path.is_empty() { b"." } else { path };
                (open_any(&self.root, target, path)?, path.to_vec())
            }
            Scope::Confined { root } => {
                let path = beneath::relative(path);
                let shown = if path == b"." { b"/".to_vec() } else { [b"/", path].concat() };
                let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
                let opened = beneath::open(root.as_fd(), path, flags);
                (opened.map_err(|errno| unresolved(&shown, errno))?, shown)
            }
        };
        Ok(Directory::start(descriptor, &shown, Arc::clone(&self.scope)))
    }

    /// The path with a leading `~` replaced by the home directory, if the tree has one.
    fn with_home_put_in<'a>(&self, path: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        match (&self.home, path.strip_prefix(b"~")) {
            (Some(home), Some(rest)) if rest.is_empty() || rest.starts_with(b"/") => [home, rest].concat().into(),
            _ => path.into(),
        }
    }
}

/// Opens a directory by a path that is trusted or meant to go anywhere.
fn open_any(start: impl AsFd, path: &[u8], shown: &[u8]) -> Result<OwnedFd> {
    let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
    rustix::fs::openat(start, path, flags, Mode::empty())
        .map_err(|errno| TreeError::new("openat", printable(shown), errno))
}

/// Error of resolving the path `shown` in a confined tree.
fn unresolved(shown: &[u8], errno: Errno) -> TreeError {
    match errno {
        Errno::XDEV => TreeError::Escapes { path: printable(shown), call: "openat2" },
        _ => TreeError::new("openat2", printable(shown), errno),
    }
}
