//! Ends of items: the messages by which either end reports them to the other.

use serde::{Deserialize, Serialize};

use crate::message::{Digest, Entry, EntryId, EntryKind, Message};

/// End of a file that travelled as blocks, or of any item that the sender gives up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEnd {
    /// Id of the item.
    pub id: EntryId,
    /// Number of blocks sent for the item in this session, besides those sent for a `Resend`.
    pub blocks: u32,
    /// Digest of the file, or the reason for which it cannot be delivered.
    pub outcome: Result<FileDigest, GivenUp>,
}

/// End of a stream that travelled as blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEnd {
    /// Id of the item.
    pub id: EntryId,
    /// BLAKE3 digest of all bytes.
    pub digest: Digest,
    /// Length and time, which nobody knew before.
    pub streamed: Streamed,
}

/// End of an item whose contents travelled as blocks, or of any item that the sender gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemEnd {
    /// The end of a file, or of an item that is given up.
    File(FileEnd),
    /// The end of a stream.
    Stream(StreamEnd),
}

impl ItemEnd {
    /// Id of the item.
    #[must_use]
    pub fn id(&self) -> EntryId {
        match self {
            Self::File(end) => end.id,
            Self::Stream(end) => end.id,
        }
    }
}

impl From<FileEnd> for ItemEnd {
    fn from(end: FileEnd) -> Self {
        Self::File(end)
    }
}

impl From<StreamEnd> for ItemEnd {
    fn from(end: StreamEnd) -> Self {
        Self::Stream(end)
    }
}

impl From<ItemEnd> for Message {
    fn from(end: ItemEnd) -> Self {
        match end {
            ItemEnd::File(end) => Self::FileEnd(end),
            ItemEnd::Stream(end) => Self::StreamEnd(end),
        }
    }
}

/// Properties that a stream has once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streamed {
    /// Length in bytes.
    pub size: u64,
    /// Time of its end: seconds since 1970.
    pub mtime_seconds: i64,
    /// Nanoseconds after that second, below 1e9.
    pub mtime_nanos: u32,
}

impl Streamed {
    /// Makes the announced entry of the stream that of a regular file, with this size and time.
    pub fn describe(&self, entry: &mut Entry) {
        entry.kind = EntryKind::File { size: self.size, version: [0; 16], sparse: false, linked: false };
        (entry.mtime_seconds, entry.mtime_nanos) = (self.mtime_seconds, self.mtime_nanos);
    }
}

/// Reason for which the sender gives an item up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// The reason, as a sentence for the user.
    pub reason: String,
    /// Whether the source still has the version that was announced, and only could not be read: a
    /// later run can then use the data that has arrived.
    pub same_version: bool,
}

/// Digest of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileDigest {
    /// BLAKE3 of the contents, as `b3sum` prints it.
    Blake3(Digest),
    /// Digest of the size and the data blocks, for sparse files whose zeros would take too long to
    /// hash.
    SparseMap(Digest),
}

/// Final outcome of one item at the receiver, reported to the sender: it is published and durable,
/// or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Id of the item.
    pub id: EntryId,
    /// Digest of the published file (`None` for anything but a regular file), or the error.
    pub outcome: Result<Option<FileDigest>, String>,
}
