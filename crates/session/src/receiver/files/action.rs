//! Actions for large files, which the executor carries out.

use std::ops::Range;

use icdc_protocol::block_map::{block_length, block_offset};
use icdc_protocol::digest;
use icdc_protocol::message::{Digest, EntryId, FileDigest, ItemEnd, Streamed};
use icdc_units::ByteCount;

use crate::failure::Failure;

/// An action for a large file, which the executor carries out.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<B> {
    /// Take the lock of an earlier session's unfinished file, make or reopen the part file and its
    /// journal, and reserve the space. If this fails, the executor removes what it has made.
    /// Answered by `on_opened`.
    Open {
        /// Id of the file.
        id: EntryId,
    },
    /// Ask the sender whether it is still connected, by a further `Ready`. Answered at once by
    /// `on_asked`, and later by `on_confirmed`.
    Probe,
    /// Write a block to its place. Answered by `on_written`.
    Write {
        /// Id of the file.
        id: EntryId,
        /// The block's number in the file.
        index: u32,
        /// The block's contents.
        block: B,
    },
    /// Make all completed writes durable. Answered by `on_synced`.
    Sync {
        /// Id of the file.
        id: EntryId,
    },
    /// Append durable blocks to the journal. Answered by `on_noted`.
    Note {
        /// Id of the file.
        id: EntryId,
        /// Numbers and digests of the blocks.
        blocks: Vec<(u32, Digest)>,
    },
    /// Give the file its length and metadata. Answered by `on_finished`.
    Finish {
        /// Id of the file.
        id: EntryId,
        /// Length and time of a stream; `None` for a file, whose announcement has them.
        streamed: Option<Streamed>,
        /// Blocks that are holes of the source: what the file may have there from before it was written is
        /// cleared first.
        holes: Vec<Range<u32>>,
    },
    /// Drop the page cache of the file, which is durable, and find the ranges that hold data on the
    /// medium. Answered by `on_data_found`.
    FindData {
        /// Id of the file.
        id: EntryId,
    },
    /// Ask the sender to transmit a block that was reported as held and is damaged.
    Resend {
        /// Id of the file.
        id: EntryId,
        /// The block's number in the file.
        index: u32,
    },
    /// Report that this number of further bytes has become durable.
    Durable(ByteCount),
    /// Report that this many bytes from the start of a stream are durable, more than before.
    StreamDurable {
        /// Id of the stream.
        id: EntryId,
        /// Number of bytes.
        bytes: ByteCount,
    },
    /// Pass on the end of an item that is not among these files.
    Foreign(ItemEnd),
    /// The file is complete under its staging name and leaves the machine.
    Stored {
        /// Id of the file.
        id: EntryId,
        /// Digest of the file.
        digest: FileDigest,
        /// Number of its bytes that are not durable; zero where all of it is, with its metadata.
        unsynced: ByteCount,
        /// Length and time of a stream; `None` for a file.
        streamed: Option<Streamed>,
    },
    /// The file is given up and leaves the machine.
    Lost {
        /// Id of the file.
        id: EntryId,
        /// The reason for which it is given up.
        loss: Loss,
        /// Whether the data on the disk is kept for a later run; otherwise whatever was opened is
        /// removed.
        keep: bool,
    },
    /// The file leaves the machine unfinished because the link has ended.
    Left {
        /// Id of the file.
        id: EntryId,
        /// Whether the data on the disk is kept for a later run; otherwise whatever was opened is
        /// removed.
        keep: bool,
    },
}

/// A block to read and to compare. Answered by `on_compared`; a block that cannot be read whole
/// does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Id of the file.
    pub id: EntryId,
    /// The block's number in the file.
    pub index: u32,
    /// The expected contents.
    pub contents: Contents,
}

/// Expected contents of a block, with which what the medium gives back is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Data with this digest.
    Value(Digest),
    /// Nothing but zeros: a hole of the source.
    Zeros,
}

impl Contents {
    /// Whether `data` has the expected contents of block `index` in a file of `size` bytes.
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

/// Reason for which a large file is given up, at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The sender or the executor has reported this failure.
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

    /// Turns this reason into the failure of the item at `path`.
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
