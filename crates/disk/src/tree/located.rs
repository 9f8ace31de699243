//! Result of resolving a path.

use super::directory::Directory;
use super::error::{Result, TreeError};
use super::kind::Kind;
use super::metadata::Stat;
use super::names::Name;
use super::opening::Followed;

/// A resolved path: the item `name` in `directory`, whether it exists or not.
#[derive(Clone, Debug)]
pub struct Located {
    /// The directory that holds the item; the item itself when `name` is `None`.
    pub directory: Directory,
    /// Last component of the path; `None` when the path means a directory as such (`/`, `.`,
    /// `a/..`).
    pub name: Option<Name>,
    /// Description of the item, a symbolic link not followed; `None` if nothing exists there.
    pub stat: Option<Stat>,
    /// Whether the path ended in a slash.
    pub trailing_slash: bool,
}

impl Located {
    /// Opens the item as a directory, through a symbolic link too: in a confined tree only one that
    /// stays beneath the root ([`Directory::follow`]).
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

    /// Path of the item, printable.
    #[must_use]
    pub fn path(&self) -> String {
        match &self.name {
            Some(name) => self.directory.path_of(name),
            None => self.directory.path(),
        }
    }
}
