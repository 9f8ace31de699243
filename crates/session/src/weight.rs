//! The memory that an announced entry is charged with.

use icdc_protocol::message::Entry;
use icdc_units::ByteCount;

/// Memory taken at one end by entries that are announced and not done.
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
