//! Identity of a file independent of its names, which may be given to another file; and of what has a
//! name, which may be given to something else.

use icdc_disk::tree::{Directory, FileTime, Name, Stat};

/// Identity of a file, whatever its names. Size and time of modification distinguish it from a file
/// that reuses its inode, and from itself after it was written to; a new name changes neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    /// Device number of the file system.
    device: u64,
    /// Inode number in the file system.
    inode: u64,
    size: u64,
    modified: FileTime,
}

impl FileIdentity {
    /// Identity of the file that `stat` describes.
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.dev, inode: stat.ino, size: stat.size, modified: stat.mtime }
    }

    /// Time of modification of the file.
    pub(super) fn modified(&self) -> FileTime {
        self.modified
    }

    /// Whether `stat` describes the same inode, whatever its size and time are by now.
    pub(super) fn has_inode_of(&self, stat: &Stat) -> bool {
        (self.device, self.inode) == (stat.dev, stat.ino)
    }
}

/// Item that has a name at some time, if any. The time of its last change (ctime) distinguishes it from
/// one that reuses its inode, and from itself after it was written to or got other attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occupant(Option<(u64, u64, FileTime)>);

impl Occupant {
    /// Item that has this name in the directory now; one that cannot be looked at counts as none.
    pub(super) fn of(directory: &Directory, name: &Name) -> Self {
        Self(directory.stat(name).ok().map(|stat| (stat.dev, stat.ino, stat.ctime)))
    }
}
