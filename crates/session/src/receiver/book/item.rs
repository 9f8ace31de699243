//! Directories and items as the book tracks them.

use icdc_protocol::message::{Entry, EntryId, EntryKind, ModeChange, ReceiveOptions};
use icdc_protocol::run_journal::{ItemKey, item_key};
use icdc_units::ByteCount;

use crate::weight::entry_weight;

/// A directory into which items go, identified by its source or its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DirectoryId {
    /// The directory that the source of this number goes into.
    Source(u32),
    /// The directory that this entry announced.
    Entry(EntryId),
}

/// Identity of a directory, independent of the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryPlace {
    /// Device number of the directory's file system.
    pub device: u64,
    /// Inode number of the directory.
    pub inode: u64,
}

/// A name at the destination, which one item at a time may make.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FinalName {
    /// Identity of the directory.
    pub directory: DirectoryPlace,
    /// Name in the directory: one path component.
    pub name: Vec<u8>,
}

/// A file or link from its announcement until it is published or has failed.
#[derive(Clone, Debug)]
pub struct Item {
    /// The entry, as announced.
    pub entry: Entry,
    /// Path of the item below the destination.
    pub path: Vec<u8>,
    /// The directory into which the item goes.
    pub directory: DirectoryId,
    /// Directory and name that the item gets there.
    pub place: FinalName,
    /// Number of the source to which the item belongs.
    pub source: u32,
}

impl Item {
    /// Bytes of its path and attributes, which count towards the limit on pending entries.
    #[must_use]
    pub fn weight(&self) -> usize {
        entry_weight(&self.entry, &self.path)
    }

    /// Key of a regular file in the run's journal, given the modification time that it shows at the
    /// destination; `None` for anything else.
    #[must_use]
    pub fn key(&self, shown: ModificationTime) -> Option<ItemKey> {
        let EntryKind::File { version, .. } = &self.entry.kind else { return None };
        Some(item_key(&self.path, version, (shown.seconds, shown.nanos)))
    }

    /// Length of a regular file, 0 of anything else.
    #[must_use]
    pub fn size(&self) -> ByteCount {
        size_of(&self.entry)
    }
}

/// Length of a regular file, 0 of anything else.
pub(super) fn size_of(entry: &Entry) -> ByteCount {
    match entry.kind {
        EntryKind::File { size, .. } => ByteCount::new(size),
        _ => ByteCount::ZERO,
    }
}

/// A modification time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModificationTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds after that second, below 1e9.
    pub nanos: u32,
}

impl ModificationTime {
    /// Modification time of an entry.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self { seconds: entry.mtime_seconds, nanos: entry.mtime_nanos }
    }
}

/// Attributes of an entry that are restored beside its contents; `None` for those not preserved.
/// What is not restored was taken out of the entry on its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored<'a> {
    /// Permission bits; set-id bits only together with the owner, but that of a directory's group.
    pub mode: Option<u16>,
    /// Bits of the mode that stay as the item has them: without an owner, a directory keeps the group
    /// of the one above it, where that says so, and the bit for items in it.
    pub kept_mode: u16,
    /// Modification time.
    pub mtime: Option<ModificationTime>,
    /// Numeric owner and group.
    pub owner: Option<(u32, u32)>,
    /// Extended attributes: name and value.
    pub xattrs: Option<&'a [(Vec<u8>, Vec<u8>)]>,
}

impl<'a> Restored<'a> {
    /// The attributes to restore with these options.
    #[must_use]
    pub fn of(entry: &'a Entry, options: &ReceiveOptions) -> Self {
        let preserve = options.preserve;
        let is_directory = matches!(entry.kind, EntryKind::Directory);
        let bits = match (preserve.owner, is_directory) {
            (true, _) => 0o7777,
            (false, true) => 0o1777 | SET_GROUP_ID,
            (false, false) => 0o1777,
        };
        let keeps_group = !preserve.owner && is_directory && options.chmod.iter().all(keeps_group);
        Self {
            mode: preserve.mode.then_some(entry.mode & bits),
            kept_mode: if keeps_group { SET_GROUP_ID } else { 0 },
            mtime: preserve.times.then(|| ModificationTime::of(entry)),
            owner: if preserve.owner { entry.owner } else { None },
            xattrs: preserve.attributes().then_some(&entry.xattrs),
        }
    }
}

/// Set-group-id bit of a directory's mode, by which new items in it get its group.
const SET_GROUP_ID: u16 = 0o2000;

/// Whether a change of modes leaves the set-group-id bit of directories as it is.
fn keeps_group(change: &ModeChange) -> bool {
    !change.is_of(true) || change.kept & SET_GROUP_ID != 0
}
