//! Files told apart by what they are, not by their names, which others may give to another file.

use icdc_disk::tree::{FileTime, Stat};

/// A file, whatever its names are. Size and time tell it from another one that gets its inode when it
/// is gone, and from itself after others have written to it; giving it a name changes neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    /// Number of its file system.
    device: u64,
    /// Its number there.
    inode: u64,
    size: u64,
    modified: FileTime,
}

impl FileIdentity {
    /// The file that `stat` describes.
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.dev, inode: stat.ino, size: stat.size, modified: stat.mtime }
    }

    /// Its time of modification.
    pub(super) fn modified(&self) -> FileTime {
        self.modified
    }

    /// True if `stat` describes the same inode, whatever its size and time are by now.
    pub(super) fn has_inode_of(&self, stat: &Stat) -> bool {
        (self.device, self.inode) == (stat.dev, stat.ino)
    }
}
