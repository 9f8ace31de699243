//! Ends of items: the messages by which either end reports them to the other.

use serde::{Deserialize, Serialize};

use crate::message::{Digest, EntryId};

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

/// Final outcome of one item at the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Id of the item.
    pub id: EntryId,
    /// Digest of the published file (`None` for anything but a regular file), or the error.
    pub outcome: Result<Option<FileDigest>, String>,
}
