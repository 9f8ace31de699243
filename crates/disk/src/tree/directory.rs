//! One directory, held by its descriptor. Every operation takes a single [`Name`] and never
//! follows a symbolic link, except [`Directory::follow`], which stays beneath the tree.
//!
//! The descriptor is opened with `O_PATH`: it needs no right to read, has no side effects, and
//! stays with the directory when that is renamed or replaced by a link.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::attributes::{self, AttributeKinds, FoundXattrs};
use super::error::{Result, TreeError};
use super::file_system::FileSystem;
use super::kind::Kind;
use super::listing::{self, Listing};
use super::metadata::{self, Incarnation, Metadata, Stat, permissions};
use super::names::{Name, printable};
use super::scope::Scope;
use super::trail::{Step, Trail};

/// An open directory of a [`Tree`](super::Tree). A clone shares the descriptor.
#[derive(Clone, Debug)]
pub struct Directory {
    inner: Arc<Inner>,
}

/// Path by which a directory was reached, without an open descriptor: for directories that are
/// needed again only much later.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    trail: Arc<Trail>,
}

/// Descriptor of a directory, the path by which it was reached, and the scope of its tree; shared
/// by all clones.
#[derive(Debug)]
struct Inner {
    descriptor: OwnedFd,
    trail: Arc<Trail>,
    scope: Arc<Scope>,
}

impl Directory {
    /// Directory that was opened by `path` as a whole, and not from another directory.
    pub(super) fn start(descriptor: OwnedFd, path: &[u8], scope: Arc<Scope>) -> Self {
        let trail = Trail::start(path);
        Self { inner: Arc::new(Inner { descriptor, trail, scope }) }
    }

    /// Description of the item `name`; a symbolic link is not followed.
    ///
    /// # Errors
    /// [`TreeError::Missing`] when there is nothing of that name.
    pub fn stat(&self, name: &Name) -> Result<Stat> {
        let found = rustix::fs::statat(self, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
        Ok(found.map_err(|errno| self.failed("fstatat", name, errno))?.into())
    }

    /// Description of an item (a symbolic link is not followed), and an identity that tells it
    /// from other items that had its inode.
    ///
    /// # Errors
    /// As [`stat`](Self::stat).
    pub fn incarnation(&self, name: &Name) -> Result<(Stat, Incarnation)> {
        metadata::incarnation(self, name.as_c_str()).map_err(|errno| self.failed("statx", name, errno))
    }

    /// Whether the directory ignores case, as far as the existing item `name` shows it; false if
    /// the name has no ASCII letters or its description cannot be read. The lookup uses one of its
    /// other spellings, chosen by `variant`: the kernel may have a stale cached entry for a
    /// spelling that was looked up before.
    #[must_use]
    pub fn ignores_case_of(&self, name: &Name, variant: u64) -> bool {
        let Some(other) = name.in_other_case(variant) else { return false };
        let (Ok(own), Ok(found)) = (self.stat(name), self.stat(&other)) else { return false };
        let is_one_name =
            (own.dev, own.ino) == (found.dev, found.ino) && (own.nlink == 1 || own.kind == Kind::Directory);
        // Of a file with further names the other spelling may be one.
        is_one_name || self.entries().is_ok_and(|entries| entries.iter().all(|entry| entry.name != other.as_bytes()))
    }

    /// Description of the directory itself.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn own_stat(&self) -> Result<Stat> {
        Ok(rustix::fs::fstat(self).map_err(|errno| self.own_failed("fstat", errno))?.into())
    }

    /// Device and inode numbers of the directory and of those above it, as far as this process can
    /// go up.
    #[must_use]
    pub fn lineage(&self) -> Vec<(u64, u64)> {
        let number = |found: BorrowedFd<'_>| rustix::fs::fstat(found).ok().map(|found| (found.st_dev, found.st_ino));
        let above = |from: BorrowedFd<'_>| rustix::fs::openat(from, c"..", DIRECTORY, Mode::empty()).ok();
        let mut found: Vec<_> = number(self.as_fd()).into_iter().collect();
        let mut next = above(self.as_fd());
        while let Some(directory) = next {
            // The root has itself above it.
            let Some(place) = number(directory.as_fd()).filter(|place| found.last() != Some(place)) else { break };
            found.push(place);
            next = above(directory.as_fd());
        }
        found
    }

    /// Checks that this user may make and remove names in the directory, as far as the system
    /// reports that in advance.
    ///
    /// # Errors
    /// [`TreeError::Denied`], [`TreeError::ReadOnly`], [`TreeError::AppendOnly`].
    pub fn permits_changes(&self) -> Result<()> {
        self.permits_renames()?;
        let wanted = Access::WRITE_OK | Access::EXEC_OK;
        match rustix::fs::accessat(self, ".", wanted, AtFlags::EACCESS) {
            Err(errno @ (Errno::ACCESS | Errno::ROFS)) => Err(self.own_failed("faccessat", errno)),
            _ => Ok(()),
        }
    }

    /// Checks that names in the directory may be changed once they are made, as far as the system
    /// reports that.
    ///
    /// # Errors
    /// [`TreeError::AppendOnly`].
    pub fn permits_renames(&self) -> Result<()> {
        let found = rustix::fs::statx(self, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE);
        if found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::APPEND)) {
            return Err(TreeError::AppendOnly { path: self.path(), call: "statx" });
        }
        Ok(())
    }

    /// Permissions that a new file in this directory gets by default: by this `umask`, or by the
    /// directory's default ACL, which takes its place. The ACL is tried on an unnamed file; where
    /// none can be made, the `umask` counts.
    #[must_use]
    pub fn new_file_mode(&self, umask: u16) -> u16 {
        let by_acl = self.readable().is_ok_and(attributes::has_default_acl);
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = || rustix::fs::openat(self, c".", flags, permissions(0o666)).and_then(rustix::fs::fstat);
        match by_acl.then(made) {
            Some(Ok(stat)) => Stat::from(stat).mode,
            _ => 0o666 & !umask,
        }
    }

    /// All entries of the directory, sorted by bytes.
    ///
    /// # Errors
    /// [`TreeError::Denied`] when the directory must not be read.
    pub fn entries(&self) -> Result<Listing> {
        let readable = self.readable()?;
        Listing::read(readable).map_err(|errno| self.own_failed("getdents64", errno))
    }

    /// Whether an entry has exactly this name, and not only one that the file system takes for the
    /// same.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    pub fn lists(&self, name: &Name) -> Result<bool> {
        let listed = listing::has_name(self.readable()?, name.as_bytes());
        listed.map_err(|errno| self.own_failed("getdents64", errno))
    }

    /// Path by which this directory was reached.
    #[must_use]
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts { trail: Arc::clone(&self.inner.trail) }
    }

    /// Names that lead from `above` down to this directory, as it was reached; `None` if it was not
    /// reached from there.
    #[must_use]
    pub fn names_from(&self, above: &Self) -> Option<Vec<Name>> {
        let steps = self.inner.trail.steps_below(&above.inner.trail)?;
        Some(steps.into_iter().map(|step| step.name().clone()).collect())
    }

    /// Opens a directory again that was reached from this one, by the same links, if any. It is a
    /// different directory if one on the path, or a link, was renamed or replaced in between: a caller
    /// that must not be led elsewhere compares its device and inode.
    ///
    /// # Errors
    /// Errors of [`open_directory`](Self::open_directory) and [`open_linked`](Self::open_linked);
    /// [`TreeError::Escapes`] if it was not reached from here.
    pub fn reopen(&self, place: &Whereabouts) -> Result<Self> {
        self.reopen_part(place, usize::MAX)
    }

    /// Opens again the directory that the first `steps` steps on the way to a directory lead to, as
    /// [`reopen`](Self::reopen).
    ///
    /// # Errors
    /// Errors of [`reopen`](Self::reopen).
    pub fn reopen_part(&self, place: &Whereabouts, steps: usize) -> Result<Self> {
        let all = place.trail.steps_below(&self.inner.trail);
        let all = all.ok_or_else(|| TreeError::Escapes { path: printable(&place.trail.bytes()), call: "openat" })?;
        all.into_iter().take(steps).try_fold(self.clone(), |directory, step| match step {
            Step::Into(name) => directory.open_directory(name),
            Step::Along(name) => directory.open_linked(name),
        })
    }

    /// Opens the item `name`, whatever it is, by a descriptor that refers to it and cannot be read
    /// or written (`O_PATH`). A symbolic link is not followed.
    ///
    /// # Errors
    /// [`TreeError::Missing`], [`TreeError::Denied`].
    pub fn open_reference(&self, name: &Name) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(self, name.as_c_str(), flags, Mode::empty())
            .map_err(|errno| self.failed("openat", name, errno))
    }

    /// Opens the directory `name`.
    ///
    /// # Errors
    /// [`TreeError::NotADirectory`] for anything else, symbolic links to directories included.
    pub fn open_directory(&self, name: &Name) -> Result<Self> {
        match rustix::fs::openat(self, name.as_c_str(), DIRECTORY, Mode::empty()) {
            Ok(descriptor) => Ok(self.child(descriptor, name)),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let (path, found) = (self.path_of(name), self.stat(name)?.kind.described());
                Err(TreeError::NotADirectory { path, found, call: "openat" })
            }
            Err(errno) => Err(self.failed("openat", name, errno)),
        }
    }

    /// Opens the directory `name` unless a file system is mounted there. Kernels before 5.6 notice
    /// only one of another device.
    ///
    /// # Errors
    /// [`TreeError::MountPoint`], and the errors of [`open_directory`](Self::open_directory).
    pub fn open_directory_on_mount(&self, name: &Name) -> Result<Self> {
        const WITHIN: ResolveFlags = ResolveFlags::NO_XDEV.union(ResolveFlags::NO_SYMLINKS);
        match rustix::fs::openat2(self, name.as_c_str(), DIRECTORY, Mode::empty(), WITHIN) {
            Ok(descriptor) => Ok(self.child(descriptor, name)),
            Err(Errno::XDEV) => Err(self.mount_point(name)),
            Err(Errno::NOSYS | Errno::PERM) => {
                let inner = self.open_directory(name)?;
                if inner.own_stat()?.dev == self.own_stat()?.dev { Ok(inner) } else { Err(self.mount_point(name)) }
            }
            Err(_) => self.open_directory(name),
        }
    }

    /// Returns an error if a file system, or a file of another place, is mounted at `name`. Kernels
    /// before 5.8 do not tell.
    ///
    /// # Errors
    /// [`TreeError::MountPoint`].
    pub fn refuse_mount(&self, name: &Name) -> Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match rustix::fs::statx(self, name.as_c_str(), flags, StatxFlags::TYPE) {
            Ok(found) if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) => Err(self.mount_point(name)),
            _ => Ok(()),
        }
    }

    /// Error: something is mounted at `name`.
    fn mount_point(&self, name: &Name) -> TreeError {
        TreeError::MountPoint { path: self.path_of(name), call: "openat2" }
    }

    /// Makes the directory `name` with the permissions `mode` less the umask, and opens it. One
    /// that is there already is opened as it is.
    ///
    /// # Errors
    /// [`TreeError::NotADirectory`] when something else, even a link to a directory, has the name.
    pub fn make_directory(&self, name: &Name, mode: u16) -> Result<Self> {
        self.make_or_open_directory(name, mode).map(|(directory, _)| directory)
    }

    /// Makes a directory as [`make_directory`](Self::make_directory), or opens the existing one;
    /// the bool is true if it was made.
    ///
    /// # Errors
    /// Errors of [`make_directory`](Self::make_directory).
    pub fn make_or_open_directory(&self, name: &Name, mode: u16) -> Result<(Self, bool)> {
        let made = match rustix::fs::mkdirat(self, name.as_c_str(), permissions(mode)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(self.failed("mkdirat", name, errno)),
        };
        Ok((self.open_directory(name)?, made))
    }

    /// Target of the symbolic link `name`, uninterpreted.
    ///
    /// # Errors
    /// `EINVAL` in [`TreeError::System`] when it is no symbolic link.
    pub fn read_link(&self, name: &Name) -> Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(self, name.as_c_str(), Vec::new());
        Ok(target.map_err(|errno| self.failed("readlinkat", name, errno))?.into_bytes())
    }

    /// Makes the symbolic link `name`. The target is not looked at.
    ///
    /// # Errors
    /// [`TreeError::Exists`] when anything has that name.
    pub fn make_symlink(&self, target: &[u8], name: &Name) -> Result<()> {
        rustix::fs::symlinkat(target, self, name.as_c_str()).map_err(|errno| self.failed("symlinkat", name, errno))
    }

    /// Makes a hard link: links the file `from` of `from_directory` under the further name `to`
    /// here. A symbolic link is linked itself.
    ///
    /// # Errors
    /// [`TreeError::Exists`], [`TreeError::OtherFileSystem`].
    pub fn hard_link(&self, from_directory: &Self, from: &Name, to: &Name) -> Result<()> {
        let (old, new) = (from.as_c_str(), to.as_c_str());
        rustix::fs::linkat(from_directory, old, self, new, AtFlags::empty())
            .map_err(|errno| self.failed("linkat", to, errno))
    }

    /// Renames `from` here to `to` in `to_directory`, atomically replacing what has that name. When
    /// both are names of one file nothing happens and both stay, as in POSIX.
    ///
    /// # Errors
    /// [`TreeError::IsADirectory`] when a directory is in the way of a file.
    pub fn rename(&self, from: &Name, to_directory: &Self, to: &Name) -> Result<()> {
        rustix::fs::renameat(self, from.as_c_str(), to_directory, to.as_c_str())
            .map_err(|errno| to_directory.failed("renameat", to, errno))
    }

    /// Renames `from` here to `to` in `to_directory`, atomically, unless anything has that name.
    /// Where the kernel or the file system cannot rename like that, the item gets the new name
    /// before it loses the old one.
    ///
    /// # Errors
    /// [`TreeError::Exists`] when anything has that name, be it one of the same file.
    pub fn rename_new(&self, from: &Name, to_directory: &Self, to: &Name) -> Result<()> {
        let (old, new) = (from.as_c_str(), to.as_c_str());
        match rustix::fs::renameat_with(self, old, to_directory, new, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                to_directory.hard_link(self, from, to)?;
                // It has its name; what stays is an unfinished file's.
                let _ = self.remove_file(from);
                Ok(())
            }
            renamed => renamed.map_err(|errno| to_directory.failed("renameat", to, errno)),
        }
    }

    /// Renames the directory `from` here to `to` in `to_directory`, atomically, unless anything has
    /// that name. Where the kernel or the file system cannot rename like that, the name is looked up
    /// just before.
    ///
    /// # Errors
    /// [`TreeError::Exists`] when anything has that name.
    pub fn rename_directory_new(&self, from: &Name, to_directory: &Self, to: &Name) -> Result<()> {
        let (old, new) = (from.as_c_str(), to.as_c_str());
        match rustix::fs::renameat_with(self, old, to_directory, new, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => match to_directory.stat(to) {
                Ok(_) => Err(to_directory.failed("renameat", to, Errno::EXIST)),
                Err(error) if error.is_missing() => self.rename(from, to_directory, to),
                Err(error) => Err(error),
            },
            renamed => renamed.map_err(|errno| to_directory.failed("renameat", to, errno)),
        }
    }

    /// Exchanges the names of two items here, atomically; false, with nothing done, where the
    /// kernel or the file system cannot do that.
    ///
    /// # Errors
    /// [`TreeError::Missing`].
    pub fn exchange(&self, one: &Name, other: &Name) -> Result<bool> {
        match rustix::fs::renameat_with(self, one.as_c_str(), self, other.as_c_str(), RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::INVAL | Errno::NOSYS) => Ok(false),
            Err(errno) => Err(self.failed("renameat", other, errno)),
        }
    }

    /// Removes the name of an item that is not a directory.
    ///
    /// # Errors
    /// [`TreeError::Missing`], [`TreeError::IsADirectory`].
    pub fn remove_file(&self, name: &Name) -> Result<()> {
        rustix::fs::unlinkat(self, name.as_c_str(), AtFlags::empty())
            .map_err(|errno| self.failed("unlinkat", name, errno))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`TreeError::Exists`] when it is not empty.
    pub fn remove_directory(&self, name: &Name) -> Result<()> {
        rustix::fs::unlinkat(self, name.as_c_str(), AtFlags::REMOVEDIR)
            .map_err(|errno| self.failed("unlinkat", name, errno))
    }

    /// Makes a change of the directory's names, and gives it the modification time back that it had
    /// before, where that is permitted: what is left of a directory that is being moved keeps its
    /// time for a later run.
    pub fn keeping_time<T>(&self, change: impl FnOnce() -> T) -> T {
        let before = rustix::fs::fstat(self);
        let outcome = change();
        if let Ok(before) = before {
            let times = metadata::timestamps(Stat::from(before).mtime);
            let _ = rustix::fs::utimensat(self, c".", &times, AtFlags::empty());
        }
        outcome
    }

    /// Restores metadata of the open file `file`, in the right order and without needless system
    /// calls. All data must be written before. `name` is for the message only.
    ///
    /// # Errors
    /// [`TreeError::NotPermitted`] for an owner that this user cannot give.
    pub fn set_metadata(&self, name: &Name, file: &File, wanted: &Metadata<'_>) -> Result<()> {
        metadata::apply(file, wanted).map_err(|failure| failure.at(self.path_of(name)))
    }

    /// Sets the `wanted` attributes of the existing regular file `file` where one of them is missing
    /// or different. `name` is for the error only. If extended attributes are wanted (`Some`),
    /// existing ones of their kinds are removed unless they are wanted. Returns whether something was
    /// changed.
    ///
    /// # Errors
    /// As [`set_metadata`](Self::set_metadata); some may be set or removed by then.
    pub fn amend(&self, name: &Name, file: &File, wanted: &Metadata<'_>) -> Result<bool> {
        metadata::amend(file, wanted).map_err(|failure| failure.at(self.path_of(name)))
    }

    /// Makes an unnamed file (`O_TMPFILE`) in this directory for probing the file system; closing
    /// it removes it. `None` on any error, most often because the file system has no such files.
    #[must_use]
    pub fn file_for_trying(&self) -> Option<File> {
        self.unnamed_file().ok().map(File::from)
    }

    /// Whether this directory has the `wanted` metadata; false where that cannot be told.
    #[must_use]
    pub fn has_own_metadata(&self, wanted: &Metadata<'_>) -> bool {
        self.readable().is_ok_and(|readable| metadata::holds(readable, wanted))
    }

    /// Restores metadata of this directory, after everything in it is made.
    ///
    /// # Errors
    /// As [`set_metadata`](Self::set_metadata); the directory must be readable.
    pub fn set_own_metadata(&self, wanted: &Metadata<'_>) -> Result<()> {
        let readable = self.readable()?;
        metadata::apply(readable, wanted).map_err(|failure| failure.at(self.path()))
    }

    /// Restores owner and modification time of the symbolic link `name` itself. Links have no
    /// mode, and none of the extended attributes that are copied.
    ///
    /// # Errors
    /// As [`set_metadata`](Self::set_metadata).
    pub fn set_link_metadata(&self, name: &Name, wanted: &Metadata<'_>) -> Result<()> {
        metadata::apply_to_link(self, name.as_c_str(), wanted).map_err(|failure| failure.at(self.path_of(name)))
    }

    /// Extended attributes of the open file `file`: those of these kinds, sorted by name, and
    /// whether there are others. No attributes on a file system that has none; one that is removed
    /// meanwhile is left out. `name` is for the error only.
    ///
    /// # Errors
    /// Other errors of `flistxattr` and `fgetxattr`.
    pub fn xattrs(&self, name: &Name, file: &File, kinds: AttributeKinds) -> Result<FoundXattrs> {
        attributes::found(file, kinds).map_err(|failure| failure.at(self.path_of(name)))
    }

    /// Extended attributes of this directory that are of these kinds.
    ///
    /// # Errors
    /// As [`xattrs`](Self::xattrs); the directory must be readable.
    pub fn own_xattrs(&self, kinds: AttributeKinds) -> Result<FoundXattrs> {
        attributes::found(self.readable()?, kinds).map_err(|failure| failure.at(self.path()))
    }

    /// Makes the names in this directory durable, and its own metadata; flushes its whole file
    /// system where that is needed.
    ///
    /// # Errors
    /// Errors of [`sync_itself`](Self::sync_itself) and [`FileSystem::sync`].
    pub fn sync(&self) -> Result<()> {
        if self.sync_itself()? { Ok(()) } else { self.file_system()?.sync() }
    }

    /// Makes the names in this directory durable, and its own metadata. False where the directory
    /// must not be read or its file system does not flush directories by themselves.
    ///
    /// # Errors
    /// Errors of `fsync`.
    pub fn sync_itself(&self) -> Result<bool> {
        match self.readable().map(rustix::fs::fsync) {
            Ok(Ok(())) => Ok(true),
            Err(_) | Ok(Err(Errno::INVAL)) => Ok(false),
            Ok(Err(errno)) => Err(self.own_failed("fsync", errno)),
        }
    }

    /// Opens the file system of this directory, which must be done before anything is written that
    /// it is to make durable.
    ///
    /// # Errors
    /// [`TreeError::Denied`]: it must be allowed to read the directory, or to make files in it.
    pub fn file_system(&self) -> Result<FileSystem> {
        let descriptor = self.readable().or_else(|unreadable| self.unnamed_file().map_err(|_| unreadable))?;
        Ok(FileSystem::new(descriptor, self.path()))
    }

    /// Path of this directory, printable: as the user wrote it, or from the root of a confined
    /// tree.
    #[must_use]
    pub fn path(&self) -> String {
        let path = self.inner.trail.bytes();
        printable(if path.is_empty() { b"." } else { &path })
    }

    /// Path of the item `name` in this directory, printable.
    #[must_use]
    pub fn path_of(&self, name: &Name) -> String {
        printable(&self.inner.trail.bytes_of(name))
    }
}

/// Flags for opening directories.
pub(super) const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Directory {
    /// Directory `name` in this one, which is open as `descriptor`.
    pub(super) fn child(&self, descriptor: OwnedFd, name: &Name) -> Self {
        let trail = Trail::child(&self.inner.trail, name);
        let scope = Arc::clone(&self.inner.scope);
        Self { inner: Arc::new(Inner { descriptor, trail, scope }) }
    }

    /// Directory to which the symbolic link `name` in this one leads, which is open as
    /// `descriptor`.
    pub(super) fn linked_child(&self, descriptor: OwnedFd, name: &Name) -> Self {
        let trail = Trail::linked(&self.inner.trail, name);
        let scope = Arc::clone(&self.inner.scope);
        Self { inner: Arc::new(Inner { descriptor, trail, scope }) }
    }

    /// Opens a descriptor of this directory to read from, at its start, for the calls that O_PATH
    /// does not allow.
    fn readable(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(self, c".", flags, Mode::empty()).map_err(|errno| self.own_failed("openat", errno))
    }

    /// Opens an unnamed file, a descriptor on this file system where files may be made and the
    /// directory must not be read.
    fn unnamed_file(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(self, c".", flags, Mode::RUSR | Mode::WUSR)
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.inner.scope
    }

    /// Path of `name` from where the trail (the root of a confined tree, or the user's path)
    /// starts.
    pub(super) fn trail_of(&self, name: &Name) -> Vec<u8> {
        self.inner.trail.bytes_of(name)
    }

    /// Error of the system call `call` on the item `name` of this directory.
    pub(super) fn failed(&self, call: &'static str, name: &Name, errno: Errno) -> TreeError {
        TreeError::new(call, self.path_of(name), errno)
    }

    /// Error of the system call `call` on this directory itself.
    fn own_failed(&self, call: &'static str, errno: Errno) -> TreeError {
        TreeError::new(call, self.path(), errno)
    }
}

impl AsFd for Directory {
    /// The `O_PATH` descriptor of the directory: good for `*at` calls, not for reading.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.descriptor.as_fd()
    }
}
