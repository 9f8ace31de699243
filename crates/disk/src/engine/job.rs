//! Jobs for an engine, and their ends.

use std::sync::Arc;

use super::error::EngineError;
use crate::file::DiskFile;
use crate::pool::Block;

/// A job for a disk engine: an operation on a file.
#[derive(Debug)]
pub enum Job {
    /// Reads `length` bytes at `offset` to the start of the block.
    ///
    /// The result is the number of bytes read, less than `length` only at the end of the file. The
    /// bytes of the block behind the result may change, too.
    Read {
        /// File to read from.
        file: Arc<DiskFile>,
        /// Position in the file in bytes.
        offset: u64,
        /// Number of bytes to read, at most the block's size.
        length: usize,
        /// Block that receives them.
        block: Block,
    },
    /// Writes the first `length` bytes of the block, or only `ranges` of them, to `offset`.
    ///
    /// Nothing between ranges is written, except that with Direct I/O each range is widened to the
    /// alignment by zeros, and so is the end: set the length of the file when all is written. Jobs in flight together must therefore not share an aligned page, which
    /// blocks at multiples of the block size never do. The result is the number of bytes of the
    /// job, without what was widened.
    Write {
        /// File to write to.
        file: Arc<DiskFile>,
        /// Position of the block's first byte in the file in bytes.
        offset: u64,
        /// Ranges to write as `(offset, length)` within the block: ascending, disjoint, within
        /// `length`. Empty means all of `length`.
        ranges: Vec<(u32, u32)>,
        /// Number of bytes of the block that belong to the file, at most the block's size.
        length: usize,
        /// Block that holds the data.
        block: Block,
    },
    /// Makes durable what was written by jobs that completed before this one was submitted, with
    /// the file's metadata (`fsync`). The result is 0.
    Sync {
        /// File to make durable.
        file: Arc<DiskFile>,
    },
}

/// Kind of the job that a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// A read, [`Job::Read`].
    Read,
    /// A write, [`Job::Write`].
    Write,
    /// A sync, [`Job::Sync`].
    Sync,
}

/// Completion of a job, with its result.
#[derive(Debug)]
pub struct Completion {
    /// Tag that was passed to [`Engine::submit`](super::Engine::submit).
    pub tag: u64,
    /// Kind of the completed job.
    pub kind: JobKind,
    /// Block of the job; `None` for [`JobKind::Sync`], and with [`EngineError::Lost`] if the job
    /// was in the ring.
    pub block: Option<Block>,
    /// Number of bytes read or written, or the error.
    pub result: Result<usize, EngineError>,
}
