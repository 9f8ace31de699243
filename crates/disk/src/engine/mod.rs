//! Many transfers between blocks and files at once.
//!
//! A caller submits jobs under tags of its own and takes completions in whatever order the disk
//! gives them. Up to `depth` jobs are with the kernel at a time, further ones queue here; what
//! bounds the queue is the pool, since every transfer brings its block.
//!
//! A block belongs to the engine from [`Engine::submit`] to its [`Completion`]: the type system
//! keeps everyone else's hands off memory that the kernel reads or writes.
//!
//! Two engines give the same results: `uring` (one kernel ring, no threads of its own) and
//! `threads` (`pread`/`pwrite` by as many threads as the depth). What to do next for a job (short
//! transfers, ranges, alignment, retries) is decided in `work`, which neither knows nor makes
//! system calls on the data path.

mod error;
mod threads;
mod uring;
mod work;

use std::sync::Arc;

pub use error::{EngineError, EngineUnavailable};

use crate::file::DiskFile;
use crate::pool::Block;
use threads::ThreadEngine;
use uring::UringEngine;

/// Most jobs with the kernel at a time.
pub const MAX_DEPTH: usize = 1024;

/// One thing to do with a file.
#[derive(Debug)]
pub enum Job {
    /// Reads `length` bytes at `offset` to the start of the block.
    ///
    /// The result is the number of bytes read, less than `length` only at the end of the file. The
    /// bytes of the block behind the result may change, too.
    Read {
        /// The file.
        file: Arc<DiskFile>,
        /// Position in the file in bytes.
        offset: u64,
        /// Bytes wanted, at most the block's size.
        length: usize,
        /// Where they go.
        block: Block,
    },
    /// Writes the first `length` bytes of the block, or only `ranges` of them, to `offset`.
    ///
    /// What lies between ranges is zero, in the block and in the file. With Direct I/O each range
    /// is widened to the alignment by zeros, and so is the end: set the length of the file when
    /// all is written. Jobs in flight together must therefore not share an aligned page, which
    /// blocks at multiples of the block size never do. The result is the number of bytes of the
    /// job, without what was widened.
    Write {
        /// The file.
        file: Arc<DiskFile>,
        /// Position of the block's first byte in the file in bytes.
        offset: u64,
        /// `(offset, length)` within the block: ascending, disjoint, within `length`. Empty means
        /// all of `length`.
        ranges: Vec<(u32, u32)>,
        /// Bytes of the block that belong to the file, at most the block's size.
        length: usize,
        /// The data.
        block: Block,
    },
    /// Makes durable what was written by jobs that completed before this one was submitted, with
    /// the file's metadata (`fsync`). The result is 0.
    Sync {
        /// The file.
        file: Arc<DiskFile>,
    },
}

/// Which kind of job a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// [`Job::Read`].
    Read,
    /// [`Job::Write`].
    Write,
    /// [`Job::Sync`].
    Sync,
}

/// The end of a job.
#[derive(Debug)]
pub struct Completion {
    /// As given to [`Engine::submit`].
    pub tag: u64,
    /// The job's kind.
    pub kind: JobKind,
    /// The job's block; `None` for [`JobKind::Sync`], and with [`EngineError::Lost`].
    pub block: Option<Block>,
    /// Bytes read or written.
    pub result: Result<usize, EngineError>,
}

/// Runs jobs. Dropping an engine waits for what is in flight.
pub trait Engine: Send {
    /// Takes a job; starts it now if fewer than [`depth`](Self::depth) are under way. Never waits
    /// for the disk. A job that makes no sense completes with [`EngineError::Job`].
    fn submit(&mut self, tag: u64, job: Job);

    /// The next completion; waits for it. `None` if nothing is in flight.
    fn wait(&mut self) -> Option<Completion>;

    /// The next completion if there is one now.
    fn try_wait(&mut self) -> Option<Completion>;

    /// Jobs that were submitted and whose completion was not yet taken.
    fn in_flight(&self) -> usize;

    /// Most jobs with the kernel at a time.
    fn depth(&self) -> usize;

    /// Name for logs and reports: `io_uring` or `threads`.
    fn name(&self) -> &'static str;
}

/// Which engine to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring, or threads where the kernel does not allow it.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// Threads.
    Threads,
}

/// Opens an engine that keeps `depth` jobs (1 to [`MAX_DEPTH`], else the nearest) with the kernel.
///
/// # Errors
/// The kernel grants no ring ([`EngineKind::Uring`] only) or no threads.
pub fn open_engine(depth: usize, preference: EngineKind) -> Result<Box<dyn Engine>, EngineUnavailable> {
    let depth = depth.clamp(1, MAX_DEPTH);
    match preference {
        EngineKind::Uring => Ok(Box::new(UringEngine::open(depth)?)),
        EngineKind::Threads => Ok(Box::new(ThreadEngine::open(depth)?)),
        EngineKind::Auto => match UringEngine::open(depth) {
            Ok(engine) => Ok(Box::new(engine)),
            Err(reason) => {
                tracing::info!(%reason, "disk engine: threads instead of io_uring");
                Ok(Box::new(ThreadEngine::open(depth)?))
            }
        },
    }
}
