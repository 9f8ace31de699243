//! Actions for large files, which the executor carries out.

use icdc_protocol::block_map::{block_length, block_offset};
use icdc_protocol::digest;
use icdc_protocol::message::{Digest, EntryId, FileDigest, FileEnd};
use icdc_units::ByteCount;

use crate::failure::Failure;

/// One action for a large file.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<B> {
    /// Take the lock of an earlier session's unfinished file, make or reopen the part file and its
    /// journal, and reserve the space. If this fails, the executor removes what it has made.
    /// Answered by `on_opened`.
    Open {
        /// The file.
        id: EntryId,
    },
    /// Ask the sender whether it is still connected, by a further `Ready`. Answered by
    /// `on_confirmed`.
    Probe,
    /// Write a block to its place. Answered by `on_written`.
    Write {
        /// The file.
        id: EntryId,
        /// The block's number in the file.
        index: u32,
        /// The block's contents.
        block: B,
    },
    /// Make all completed writes durable. Answered by `on_synced`.
    Sync {
        /// The file.
        id: EntryId,
    },
    /// Append durable blocks to the journal. Answered by `on_noted`.
    Note {
        /// The file.
        id: EntryId,
        /// Numbers and values.
        blocks: Vec<(u32, Digest)>,
    },
    /// Give the file its length and metadata. Answered by `on_finished`.
    Finish {
        /// The file.
        id: EntryId,
    },
    /// Drop the page cache of the file, which is durable, and find the ranges that hold data on the
    /// medium. Answered by `on_data_found`.
    FindData {
        /// The file.
        id: EntryId,
    },
    /// Ask the sender to transmit a block that was reported as held and is damaged.
    Resend {
        /// The file.
        id: EntryId,
        /// The block's number in the file.
        index: u32,
    },
    /// This number of further bytes has become durable.
    Durable(ByteCount),
    /// The end of an item that is not among these files.
    Foreign(FileEnd),
    /// The file is complete under its staging name and leaves the machine.
    Stored {
        /// The file.
        id: EntryId,
        /// Its digest.
        digest: FileDigest,
        /// Bytes of it that are not durable; zero where all of it is, with its metadata.
        unsynced: ByteCount,
    },
    /// The file is given up and leaves the machine.
    Lost {
        /// The file.
        id: EntryId,
        /// The reason.
        loss: Loss,
        /// The data on the disk is kept for a later run; otherwise whatever was opened is removed.
        keep: bool,
    },
    /// The file leaves the machine unfinished because the link has ended.
    Left {
        /// The file.
        id: EntryId,
        /// The data on the disk is kept for a later run; otherwise whatever was opened is removed.
        keep: bool,
    },
}

/// A block to read and to compare. Answered by `on_compared`; one that cannot be read whole is not
/// good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The file.
    pub id: EntryId,
    /// The block's number in the file.
    pub index: u32,
    /// The expected contents.
    pub contents: Contents,
}

/// Expected contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Contents with this value.
    Value(Digest),
    /// Nothing but zeros: a hole of the source.
    Zeros,
}

impl Contents {
    /// Whether `data` has the expected contents of block `index` in a file of `size`.
    #[must_use]
    pub fn fits(&self, data: &[u8], index: u32, size: ByteCount) -> bool {
        let size = size.as_u64();
        data.len() == block_length(size, index)
            && match self {
                Self::Value(value) => digest::block_value(block_offset(index), data, size) == *value,
                Self::Zeros => data.iter().all(|byte| *byte == 0),
            }
    }
}

/// Reason for which a file is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Reported by the sender or the executor.
    Failed(Failure),
    /// The data that arrived does not have the digest that the sender has sent.
    DigestsDiffer,
    /// The medium gives back something else than was written.
    ReadBackDiffers,
}

impl Loss {
    /// Whether a later run can continue from what is durable.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.is_passing())
    }

    /// The failure of the item at `path`.
    #[must_use]
    pub fn into_failure(self, path: &str) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::DigestsDiffer => {
                Failure::Final(format!("{path}: what arrived is not what was sent (digests differ)"))
            }
            Self::ReadBackDiffers => Failure::Final(format!(
                "{path}: what the medium gives back differs from what was written; check the disk"
            )),
        }
    }
}

impl From<Failure> for Loss {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
