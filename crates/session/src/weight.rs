//! The memory that an announced entry is charged with.

use icdc_protocol::message::Entry;

/// Bytes that a pending entry keeps in memory beside its fixed size.
#[must_use]
pub fn entry_weight(entry: &Entry, path: &[u8]) -> usize {
    path.len() + entry.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
}
