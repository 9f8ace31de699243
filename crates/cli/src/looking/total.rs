//! Counts of what is in directories and below them.

use icdc_protocol::message::ListedKind;
use icdc_session::listing::checker::Found;
use serde_json::{Value, json};

use crate::copy::summary::{counted, size};

/// Counts of what is in a directory and below it, or of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    /// Bytes in regular files.
    bytes: u64,
    /// Space in use on the disk, in bytes.
    allocated: u64,
    files: u64,
    directories: u64,
    /// Items of other kinds.
    others: u64,
}

impl Total {
    /// Adds an item. A file that was counted under another name counts as a name only.
    pub(super) fn add(&mut self, found: &Found) {
        match found.kind {
            ListedKind::File { .. } => self.files += 1,
            ListedKind::Open | ListedKind::Directory => self.directories += 1,
            _ => self.others += 1,
        }
        let Some(metadata) = found.metadata.filter(|metadata| !metadata.repeated) else { return };
        self.allocated = self.allocated.saturating_add(metadata.allocated);
        if matches!(found.kind, ListedKind::File { .. }) {
            self.bytes = self.bytes.saturating_add(metadata.size);
        }
    }

    /// Adds the counts of a directory below.
    pub(super) fn join(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.files += other.files;
        self.directories += other.directories;
        self.others += other.others;
    }

    /// Line of text about what is at `place`.
    pub(super) fn line(&self, place: &str) -> String {
        let directories =
            if self.directories == 1 { "1 directory".into() } else { format!("{} directories", self.directories) };
        let mut parts = vec![
            size(self.bytes),
            format!("{} on disk", size(self.allocated)),
            counted(self.files, "file"),
            directories,
        ];
        if self.others > 0 {
            parts.push(counted(self.others, "other item"));
        }
        format!("{}: {place}", parts.join(", "))
    }

    /// JSON object without the place.
    pub(super) fn object(&self) -> Value {
        let Self { bytes, allocated, files, directories, others } = self;
        json!({
            "type": "usage", "bytes": bytes, "allocated": allocated, "files": files, "directories": directories,
            "others": others,
        })
    }
}
