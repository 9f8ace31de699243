//! Description of items, and restoring of mode, times, owner and extended attributes.
//!
//! Each step may undo an earlier one, hence the order: owner (clears set-user-id bits), attributes
//! (an ACL sets permission bits), mode, and times last. An `fstat` first tells which of them hold
//! already, as is usual for a file created with its final mode; reading costs far less than a
//! change that the file system has to log.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps, UTIME_OMIT, Uid,
};
use rustix::io::Errno;

use super::attributes::{self, AttributeKinds, Xattrs};
use super::failure::{Failure, at};
use super::kind::Kind;

/// A point in time as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds into that second, below 1e9.
    pub nanos: u32,
}

/// Description of an item, as `stat` returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Kind of the item.
    pub kind: Kind,
    /// Length in bytes; for a symbolic link the length of its target.
    pub size: u64,
    /// Lower 12 bits of the mode: permissions, set-id, sticky.
    pub mode: u16,
    /// Modification time: time of the last change of the contents.
    pub mtime: FileTime,
    /// Change time: time of the last change of contents or metadata.
    pub ctime: FileTime,
    /// Device number of the file system.
    pub dev: u64,
    /// Inode number; `dev` and `ino` together identify the item.
    pub ino: u64,
    /// Number of names (hard links).
    pub nlink: u64,
    /// Numeric user id of the owner.
    pub uid: u32,
    /// Numeric group id.
    pub gid: u32,
    /// Space in use on the disk, in units of 512 bytes.
    pub blocks: u64,
    /// Number of the device that a device node stands for.
    pub device_node: u64,
}

/// Identity of a file in one of its states, to distinguish a further name of it from another file
/// that has reused its inode, as file systems do at once. A file that was written to, linked or
/// renamed in between counts as another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation {
    device: u64,
    inode: u64,
    size: u64,
    modified: FileTime,
    changed: FileTime,
    /// Time of the inode's creation (birth); `None` where the file system does not store it.
    born: Option<FileTime>,
}

impl Incarnation {
    /// Identity of the item that `stat` describes and that was created at `born`.
    #[must_use]
    pub fn new(stat: &Stat, born: Option<FileTime>) -> Self {
        let Stat { dev: device, ino: inode, size, mtime: modified, ctime: changed, .. } = *stat;
        Self { device, inode, size, modified, changed, born }
    }
}

/// Metadata to be restored; `None` and empty values leave an item's own. The mode is set exactly as
/// given, set-user-id bits included: whether a source may request those is the caller's decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// Lower 12 bits of the mode: permissions, set-id, sticky.
    pub mode: Option<u16>,
    /// Modification time.
    pub mtime: Option<FileTime>,
    /// Numeric owner (user id) and group (group id).
    pub owner: Option<(u32, u32)>,
    /// Bits of the mode that stay as the item has them, besides those of `mode`.
    pub kept_mode: u16,
    /// Extended attributes (name, value) of the `kinds`. With a mode and ACLs among these, `Some`
    /// also takes away the ACLs that are not given, which a directory may have passed on to what was
    /// made in it.
    pub xattrs: Option<&'a [(Vec<u8>, Vec<u8>)]>,
    /// Kinds of extended attributes that are restored.
    pub kinds: AttributeKinds,
}

impl Stat {
    /// Description of an open file or directory.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub fn of(file: impl AsFd) -> std::io::Result<Self> {
        Ok(rustix::fs::fstat(file)?.into())
    }

    /// Whether both describe the same item with the same contents, as far as the file system can
    /// tell: it was not written to, truncated or replaced between the two calls.
    #[must_use]
    pub fn same_version(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.size) == (other.dev, other.ino, other.size)
            && (self.mtime, self.ctime) == (other.mtime, other.ctime)
    }
}

impl From<rustix::fs::Stat> for Stat {
    #[expect(clippy::useless_conversion, clippy::unnecessary_cast, reason = "widths differ by architecture")]
    fn from(stat: rustix::fs::Stat) -> Self {
        let time = |seconds: i64, nanos: u64| FileTime { seconds, nanos: nanos as u32 };
        Self {
            kind: Kind::from_file_type(FileType::from_raw_mode(stat.st_mode))
                .unwrap_or(Kind::Other("of an unknown type")),
            size: stat.st_size as u64,
            mode: (stat.st_mode & 0o7777) as u16,
            mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
            dev: stat.st_dev.into(),
            ino: stat.st_ino.into(),
            nlink: stat.st_nlink.into(),
            uid: stat.st_uid,
            gid: stat.st_gid,
            blocks: stat.st_blocks as u64,
            device_node: stat.st_rdev.into(),
        }
    }
}

/// Description of an item (a symbolic link is not followed), with its identity by the time of its
/// creation.
pub(super) fn incarnation(directory: impl AsFd, name: &std::ffi::CStr) -> Result<(Stat, Incarnation), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    match rustix::fs::statx(&directory, name, flags, wanted) {
        Ok(found) => {
            let has_birth_time = found.stx_mask & StatxFlags::BTIME.bits() != 0;
            let stat = Stat::from(&found);
            Ok((stat, Incarnation::new(&stat, has_birth_time.then(|| time_of(found.stx_btime)))))
        }
        // An old kernel, or a filter of system calls that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let stat = rustix::fs::statat(directory, name, flags)?.into();
            Ok((stat, Incarnation::new(&stat, None)))
        }
        Err(errno) => Err(errno),
    }
}

fn time_of(time: StatxTimestamp) -> FileTime {
    FileTime { seconds: time.tv_sec, nanos: time.tv_nsec }
}

impl From<&Statx> for Stat {
    fn from(found: &Statx) -> Self {
        Self {
            kind: Kind::from_file_type(FileType::from_raw_mode(found.stx_mode.into()))
                .unwrap_or(Kind::Other("of an unknown type")),
            size: found.stx_size,
            mode: found.stx_mode & 0o7777,
            mtime: time_of(found.stx_mtime),
            ctime: time_of(found.stx_ctime),
            dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            ino: found.stx_ino,
            nlink: found.stx_nlink.into(),
            uid: found.stx_uid,
            gid: found.stx_gid,
            blocks: found.stx_blocks,
            device_node: rustix::fs::makedev(found.stx_rdev_major, found.stx_rdev_minor),
        }
    }
}

/// Restores `wanted` on an open file or directory, after its data is written.
pub(super) fn apply(file: impl AsFd, wanted: &Metadata<'_>) -> Result<(), Failure> {
    let file = file.as_fd();
    let found = match (wanted.mode, wanted.owner, wanted.xattrs) {
        (None, None, None) => None,
        _ => Some(Stat::from(rustix::fs::fstat(file).map_err(at("fstat"))?)),
    };
    let wanted_mode = |found: &Stat| wanted.mode.map(|mode| mode | (found.mode & wanted.kept_mode));
    let mut mode = found.as_ref().and_then(wanted_mode);
    let mut mode_holds = found.is_some_and(|found| mode == Some(found.mode));
    if let Some((uid, gid)) = wanted.owner
        && found.is_none_or(|found| (uid, gid) != (found.uid, found.gid))
    {
        let (uid, gid) = identity(uid, gid)?;
        rustix::fs::fchown(file, Some(uid), Some(gid)).map_err(at("fchown"))?;
        mode_holds = false;
    }
    if let (Some(xattrs), Some(found)) = (wanted.xattrs, &found) {
        // Attributes of what is read-only can be set by root alone.
        if !xattrs.is_empty() && found.mode & 0o200 == 0 {
            rustix::fs::fchmod(file, permissions(found.mode | 0o200)).map_err(at("fchmod"))?;
            mode = mode.or(Some(found.mode));
            mode_holds = false;
        }
        for (name, value) in xattrs {
            attributes::set(file, (name, value), wanted.kinds).inspect_err(|_| {
                if found.mode & 0o200 == 0 {
                    let _ = rustix::fs::fchmod(file, permissions(found.mode));
                }
            })?;
            mode_holds = false;
        }
        if wanted.mode.is_some() && wanted.kinds.has(AttributeKinds::ACL) {
            mode_holds &= !attributes::remove_other_acls(file, found.kind, xattrs)?;
        }
    }
    if let Some(mode) = mode
        && !mode_holds
    {
        rustix::fs::fchmod(file, permissions(mode)).map_err(at("fchmod"))?;
    }
    if let Some(mtime) = wanted.mtime {
        rustix::fs::futimens(file, &timestamps(mtime)).map_err(at("futimens"))?;
    }
    Ok(())
}

/// Whether an open file or directory has the `wanted` metadata; false where that cannot be told.
pub(super) fn holds(file: impl AsFd, wanted: &Metadata<'_>) -> bool {
    let file = file.as_fd();
    let Ok(found) = Stat::of(file) else { return false };
    let Ok(has) = carried(file, wanted) else { return false };
    has_all(&found, &has, wanted) && wanted.mtime.is_none_or(|mtime| mtime == found.mtime)
}

/// Extended attributes of the `wanted` kinds that a file has; none if none are wanted.
fn carried(file: BorrowedFd<'_>, wanted: &Metadata<'_>) -> Result<Xattrs, Failure> {
    let found = wanted.xattrs.map(|_| attributes::found(file, wanted.kinds)).transpose()?;
    Ok(found.unwrap_or_default().carried)
}

/// Whether owner, mode and extended attributes of an item are those `wanted`; `has`: its extended
/// attributes of the wanted kinds.
fn has_all(found: &Stat, has: &[(Vec<u8>, Vec<u8>)], wanted: &Metadata<'_>) -> bool {
    let xattrs = wanted.xattrs.unwrap_or_default();
    wanted.owner.is_none_or(|owner| owner == (found.uid, found.gid))
        && wanted.mode.is_none_or(|mode| mode | (found.mode & wanted.kept_mode) == found.mode)
        && xattrs.len() == has.len()
        && xattrs.iter().all(|attribute| has.contains(attribute))
}

/// Sets those `wanted` attributes that an existing file lacks. If extended ones are wanted
/// (`Some`), those of their kinds that are not among them are removed. Returns whether something was
/// changed; a time that the file system rounds to the one that is there is no change.
pub(super) fn amend(file: impl AsFd, wanted: &Metadata<'_>) -> Result<bool, Failure> {
    let file = file.as_fd();
    let found = Stat::from(rustix::fs::fstat(file).map_err(at("fstat"))?);
    let wanted_xattrs = wanted.xattrs.unwrap_or_default();
    let has = carried(file, wanted)?;
    let is_wanted = |name: &[u8]| wanted_xattrs.iter().any(|(wanted, _)| wanted == name);
    let others: Vec<&[u8]> = has.iter().map(|(name, _)| name.as_slice()).filter(|name| !is_wanted(name)).collect();
    let has_all = has_all(&found, &has, wanted);
    others.into_iter().try_for_each(|name| attributes::remove(file, name))?;
    if !has_all {
        apply(file, &Metadata { mtime: None, ..wanted.clone() })?;
    }
    let other_time = wanted.mtime.filter(|mtime| *mtime != found.mtime);
    let shown = other_time.map(|mtime| set_time(file, mtime)).transpose();
    let shown = shown.map_err(|error| Failure {
        call: "futimens",
        attribute: None,
        errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
    })?;
    Ok(!has_all || shown.is_some_and(|shown| shown != found.mtime))
}

/// Sets the time of modification of an open file. Returns the time that it shows: as precisely as
/// the file system stores it.
///
/// # Errors
/// Errors of `futimens` and `fstat`.
pub fn set_time(file: impl AsFd, mtime: FileTime) -> std::io::Result<FileTime> {
    rustix::fs::futimens(&file, &timestamps(mtime))?;
    Ok(Stat::of(file)?.mtime)
}

/// Restores owner and time of a name without following it, as symbolic links need, which have no
/// mode of their own.
pub(super) fn apply_to_link(directory: impl AsFd, name: &std::ffi::CStr, wanted: &Metadata<'_>) -> Result<(), Failure> {
    let directory = directory.as_fd();
    if let Some((uid, gid)) = wanted.owner {
        let (uid, gid) = identity(uid, gid)?;
        rustix::fs::chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(at("fchownat"))?;
    }
    if let Some(mtime) = wanted.mtime {
        rustix::fs::utimensat(directory, name, &timestamps(mtime), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(at("utimensat"))?;
    }
    Ok(())
}

/// Converts user and group id for a system call. An error for the largest number, which the kernel
/// takes as "do not change", so that it cannot be a user or group.
pub(super) fn identity(uid: u32, gid: u32) -> Result<(Uid, Gid), Failure> {
    if uid == u32::MAX || gid == u32::MAX {
        return Err(at("fchown")(Errno::INVAL));
    }
    Ok((Uid::from_raw(uid), Gid::from_raw(gid)))
}

/// Permission bits of a mode as the argument of a system call, without the type of the item.
pub(super) fn permissions(mode: u16) -> Mode {
    Mode::from_raw_mode(u32::from(mode) & 0o7777)
}

/// Argument of `futimens` and `utimensat` that sets the modification time and leaves the access
/// time as it is.
pub(super) fn timestamps(mtime: FileTime) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanos.into() },
    }
}
