//! Identity of a file independent of its names, which may be given to another file.

use icdc_disk::tree::{FileTime, Stat};

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
