//! Opens the regular files of a directory, and nothing else: an opened descriptor is checked before
//! it is returned, and nothing blocks or has side effects on the way.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::beneath;
use super::directory::{DIRECTORY, Directory};
use super::error::{Result, TreeError};
use super::kind::Kind;
use super::lock::try_lock;
use super::metadata::{Stat, permissions};
use super::names::Name;
use super::scope::Scope;
use crate::user::file_user;

/// Result of following a name's symbolic links.
#[derive(Debug)]
pub enum Followed {
    /// A directory.
    Directory(Directory),
    /// A regular file, opened for reading.
    File(File, Stat),
}

impl Directory {
    /// Opens the regular file `name` for reading; the [`Stat`] is that of the opened file.
    /// The access time is left alone where this user may do so.
    ///
    /// # Errors
    /// [`TreeError::NotAFile`] for anything but a regular file. Named pipes do not block.
    pub fn open_file(&self, name: &Name) -> Result<(File, Stat)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
        let (file, stat) =
            open_reading(|extra| rustix::fs::openat(self, name.as_c_str(), flags | extra, Mode::empty()))
                .map_err(|errno| self.unopened(name, errno))?;
        self.require_regular(name, &stat)?;
        Ok((file, stat))
    }

    /// Makes the file `name` and opens it for reading and writing. It must not exist. It gets the
    /// permissions `mode & 0o777` less the umask; whoever needs others sets them with
    /// [`set_metadata`](Self::set_metadata), which asks first.
    ///
    /// # Errors
    /// [`TreeError::Exists`] when anything has that name, a dangling link included.
    pub fn create_file(&self, name: &Name, mode: u16) -> Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::openat(self, name.as_c_str(), flags, permissions(mode & 0o777))
            .map(File::from)
            .map_err(|errno| self.failed("openat", name, errno))
    }

    /// Opens the regular file `name`, left by an earlier run, for reading and writing. A read-only
    /// file of this user is made writable: the earlier run may have set its final mode already. A
    /// locked one keeps its mode: it is about to get its final name.
    ///
    /// # Errors
    /// [`TreeError::NotAFile`] for anything but a regular file; [`TreeError::NotOurs`] when it has
    /// further names, or belongs to another user in a directory where others may make files: such a
    /// file may be planted so that the data go elsewhere or stay accessible to its owner.
    pub fn reopen_file(&self, name: &Name) -> Result<(File, Stat)> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OPENING;
        let open = || {
            rustix::fs::openat(self, name.as_c_str(), flags, Mode::empty())
                .and_then(|descriptor| settled(descriptor, OFlags::empty()))
        };
        let opened = match open() {
            Err(Errno::ACCESS) if self.make_writable(name) => open(),
            opened => opened,
        };
        let (file, stat) = opened.map_err(|errno| self.unopened(name, errno))?;
        self.require_regular(name, &stat)?;
        if stat.nlink > 1 || self.is_anothers(&stat)? {
            return Err(TreeError::NotOurs { path: self.path_of(name), call: "openat" });
        }
        Ok((file, stat))
    }

    /// Opens the existing regular file `name` for reading and writing, as it is: its contents are to be
    /// changed where they are. Symbolic links are not followed.
    ///
    /// # Errors
    /// [`TreeError::NotAFile`] for anything but a regular file, [`TreeError::Denied`], [`TreeError::InUse`]
    /// for a program that is running.
    pub fn open_to_change(&self, name: &Name) -> Result<(File, Stat)> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OPENING;
        let opened = rustix::fs::openat(self, name.as_c_str(), flags, Mode::empty())
            .and_then(|descriptor| settled(descriptor, OFlags::empty()));
        let (file, stat) = opened.map_err(|errno| self.unopened(name, errno))?;
        self.require_regular(name, &stat)?;
        Ok((file, stat))
    }

    /// Makes a file of this user with a single name writable for this user; returns whether that
    /// was done.
    fn make_writable(&self, name: &Name) -> bool {
        self.open_file(name).is_ok_and(|(file, stat)| {
            stat.uid == file_user()
                && stat.nlink == 1
                // Where a lock needs a file that may be written to, its state is unknown.
                && try_lock(&file).unwrap_or(true)
                && rustix::fs::fchmod(file, permissions(stat.mode | 0o600)).is_ok()
        })
    }

    /// Whether the item in this directory that `stat` describes may have been made by another user:
    /// it belongs to another user, and others may make files here, even if only the directory's
    /// owner. Root could have made it in any case.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn is_anothers(&self, stat: &Stat) -> Result<bool> {
        let user = file_user();
        if stat.uid == user {
            return Ok(false);
        }
        let directory = self.own_stat()?;
        Ok(directory.mode & 0o022 != 0 || (directory.uid != user && directory.uid != 0))
    }

    /// Opens the target of `name`, after following symbolic links, for reading. In a confined tree
    /// they must stay beneath its root, by relative targets.
    ///
    /// # Errors
    /// [`TreeError::Escapes`], [`TreeError::Missing`] for a dangling link, [`TreeError::NotAFile`]
    /// when it is neither file nor directory.
    pub fn follow(&self, name: &Name) -> Result<Followed> {
        match self.open_followed(name, DIRECTORY.difference(OFlags::NOFOLLOW)) {
            Ok(descriptor) => return Ok(Followed::Directory(self.child(descriptor, name))),
            Err(Errno::NOTDIR) => {}
            Err(errno) => return Err(self.unfollowed(name, errno)),
        }
        // Checked by O_PATH first: opening a device can have side effects.
        let looked = self
            .open_followed(name, OFlags::PATH | OFlags::CLOEXEC)
            .and_then(rustix::fs::fstat)
            .map_err(|errno| self.unfollowed(name, errno))?;
        self.require_regular(name, &looked.into())?;
        let (file, stat) = open_reading(|extra| self.open_followed(name, OFlags::RDONLY | extra))
            .map_err(|errno| self.unfollowed(name, errno))?;
        self.require_regular(name, &stat)?;
        Ok(Followed::File(file, stat))
    }

    /// Opens the directory to which the symbolic link `name` leads, by as many links as there are; in
    /// a confined tree as [`follow`](Self::follow). Nothing but a directory is opened.
    ///
    /// # Errors
    /// [`TreeError::Missing`] for a dangling link, [`TreeError::NotADirectory`],
    /// [`TreeError::Escapes`].
    pub fn open_linked(&self, name: &Name) -> Result<Self> {
        match self.open_followed(name, DIRECTORY.difference(OFlags::NOFOLLOW)) {
            Ok(descriptor) => Ok(self.linked_child(descriptor, name)),
            Err(Errno::NOTDIR) => {
                let found = "a symbolic link to something that is no directory";
                Err(TreeError::NotADirectory { path: self.path_of(name), found, call: "openat2" })
            }
            Err(errno) => Err(self.unfollowed(name, errno)),
        }
    }
}

/// Flags for opening files, so that opening neither waits for a pipe's other end nor takes a
/// terminal.
const OPENING: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl Directory {
    /// Opens the item `name`, through symbolic links too; in a confined tree only beneath its root.
    pub(super) fn open_followed(&self, name: &Name, flags: OFlags) -> std::result::Result<OwnedFd, Errno> {
        match self.scope() {
            Scope::Unconfined => rustix::fs::openat(self, name.as_c_str(), flags, Mode::empty()),
            Scope::Confined { root } => {
                let path = self.trail_of(name);
                beneath::open(root.as_fd(), beneath::relative(&path), flags)
            }
        }
    }

    /// Returns an error unless `stat`, that of the item `name`, describes a regular file.
    fn require_regular(&self, name: &Name, stat: &Stat) -> Result<()> {
        match stat.kind {
            Kind::File => Ok(()),
            other => {
                let (path, found) = (self.path_of(name), other.described());
                Err(TreeError::NotAFile { path, found, call: "openat" })
            }
        }
    }

    /// Error that describes an existing item when opening it failed because it is not a regular
    /// file: a link (`ELOOP`), a socket (`ENXIO`), a device without driver, a directory.
    fn unopened(&self, name: &Name, errno: Errno) -> TreeError {
        let suspicious = matches!(errno, Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::ISDIR);
        match self.stat(name) {
            Ok(stat) if suspicious && stat.kind != Kind::File => {
                let (path, found) = (self.path_of(name), stat.kind.described());
                TreeError::NotAFile { path, found, call: "openat" }
            }
            _ => self.failed("openat", name, errno),
        }
    }

    /// Error of opening `name` through symbolic links. In a confined tree `EXDEV` means that they
    /// lead out of it.
    pub(super) fn unfollowed(&self, name: &Name, errno: Errno) -> TreeError {
        match (self.scope(), errno) {
            (Scope::Confined { .. }, Errno::XDEV) => TreeError::Escapes { path: self.path_of(name), call: "openat2" },
            _ => self.failed("openat2", name, errno),
        }
    }
}

/// Opens a file by `open`, which takes flags to add; leaves the access time alone if this user
/// may.
fn open_reading(
    open: impl Fn(OFlags) -> std::result::Result<OwnedFd, Errno>,
) -> std::result::Result<(File, Stat), Errno> {
    match open(OPENING | OFlags::NOATIME) {
        Ok(descriptor) => settled(descriptor, OFlags::NOATIME),
        Err(Errno::PERM) => settled(open(OPENING)?, OFlags::empty()),
        Err(errno) => Err(errno),
    }
}

/// Clears the flags that were good for opening only; io_uring would refuse to wait on such a file.
fn settled(descriptor: OwnedFd, flags: OFlags) -> std::result::Result<(File, Stat), Errno> {
    let stat = rustix::fs::fstat(&descriptor)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        rustix::fs::fcntl_setfl(&descriptor, flags)?;
    }
    Ok((File::from(descriptor), stat.into()))
}
