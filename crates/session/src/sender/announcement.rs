//! Announced entries on their way into one message.

use icdc_protocol::frame::{ENTRIES_OVERHEAD, entry_length};
use icdc_protocol::limits::MAX_HEAD;
use icdc_protocol::message::Entry;

/// Most entries that the sender announces in one message.
const MOST: usize = 256;

/// Entries that wait to be announced together in one message.
#[derive(Default)]
pub(super) struct Batch {
    entries: Vec<Entry>,
    /// Number of bytes that the entries take in a message.
    bytes: usize,
}

impl Batch {
    /// Adds an entry; returns the entries that are complete as a message now, if any.
    pub(super) fn push(&mut self, entry: Entry) -> Option<Vec<Entry>> {
        let bytes = entry_length(&entry);
        let before = if self.bytes + bytes > MAX_HEAD - ENTRIES_OVERHEAD { self.take() } else { None };
        self.bytes += bytes;
        self.entries.push(entry);
        if self.entries.len() >= MOST { self.take() } else { before }
    }

    /// Takes all waiting entries; `None` if there are none.
    pub(super) fn take(&mut self) -> Option<Vec<Entry>> {
        self.bytes = 0;
        Some(std::mem::take(&mut self.entries)).filter(|entries| !entries.is_empty())
    }
}
