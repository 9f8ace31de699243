//! An announced item that is not done.

use icdc_disk::tree::{Directory, FileTime, Metadata, Name};
use icdc_protocol::message::{Entry, Preserve};
use icdc_session::weight::entry_weight;

/// A name in a directory, however the directory was reached.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// Device and inode of the directory.
    pub(super) directory: (u64, u64),
    pub(super) name: Name,
}

/// What is known of an item from its announcement until it is published or has failed.
pub(super) struct Pending {
    pub(super) entry: Entry,
    pub(super) path: Vec<u8>,
    pub(super) directory: Directory,
    /// Device and inode of the directory.
    pub(super) directory_place: (u64, u64),
    /// Number of the source that it is part of.
    pub(super) source: u32,
    pub(super) name: Name,
}

impl Pending {
    /// The name that it makes.
    pub(super) fn place(&self) -> Place {
        Place { directory: self.directory_place, name: self.name.clone() }
    }

    /// Bytes of its path and attributes.
    pub(super) fn weight(&self) -> usize {
        entry_weight(&self.entry, &self.path)
    }
}

/// What is to be restored of an entry. Set-id bits count only together with the owner they belong to, and so do
/// capabilities, which are taken out of an entry on its arrival.
pub(super) fn metadata(entry: &Entry, preserve: Preserve) -> Metadata<'_> {
    let bits = if preserve.owner { 0o7777 } else { 0o1777 };
    Metadata {
        mode: preserve.mode.then_some(entry.mode & bits),
        mtime: preserve.times.then_some(FileTime { seconds: entry.mtime_seconds, nanos: entry.mtime_nanos }),
        owner: if preserve.owner { entry.owner } else { None },
        xattrs: if preserve.xattr { &entry.xattrs } else { &[] },
    }
}
