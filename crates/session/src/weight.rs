//! The memory that an announced entry is charged with.

use icdc_protocol::message::Entry;
use icdc_units::ByteCount;

/// Entries that are announced and not done, as far as one end keeps them in memory: how many, how
/// many directories, and the bytes of their paths and attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Number of entries; directories only as far as `directories` does not count them.
    pub items: usize,
    /// Number of directories that are open.
    pub directories: usize,
    /// Bytes of the entries' paths and attributes.
    pub bytes: ByteCount,
}

/// Bytes that a pending entry keeps in memory beside its fixed size.
#[must_use]
pub fn entry_weight(entry: &Entry, path: &[u8]) -> usize {
    path.len() + entry.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
}
