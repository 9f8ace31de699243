//! Errors of jobs, and of opening an engine.

use std::io;
use std::path::PathBuf;

use crate::file::{advice, is_out_of_space};

/// Error of a failed job. Its block is given back all the same, except where [`EngineError::Lost`]
/// says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The kernel could not read.
    #[error("read of {path:?} at offset {offset} failed: {cause}{}", advice(cause))]
    Read {
        /// Present path of the file.
        path: PathBuf,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Error that the kernel returned.
        cause: io::Error,
    },
    /// The kernel could not write.
    #[error("write of {path:?} at offset {offset} failed: {cause}{}", advice(cause))]
    Write {
        /// Present path of the file.
        path: PathBuf,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Error that the kernel returned.
        cause: io::Error,
    },
    /// The kernel could not make the data durable. What was written may be lost: write it again.
    #[error("{path:?} cannot be made durable: {cause}{}", advice(cause))]
    Sync {
        /// Present path of the file.
        path: PathBuf,
        /// Error that the kernel returned.
        cause: io::Error,
    },
    /// The job contradicts itself; nothing was read or written.
    #[error("invalid disk job: {0}")]
    Job(&'static str),
    /// The kernel stopped serving the ring. The block of a job that was in the ring stays with the
    /// kernel, and whether anything was read or written is unknown; a job that was still queued, or
    /// is submitted later, gives its block back, and nothing was done.
    #[error("io_uring failed: {0}: choose the threads engine")]
    Lost(io::Error),
}

impl EngineError {
    /// Whether the error is that the disk or the quota is full.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        self.cause().is_some_and(is_out_of_space)
    }

    /// Error that the kernel returned; `None` if the kernel was not asked.
    #[must_use]
    pub fn cause(&self) -> Option<&io::Error> {
        match self {
            Self::Read { cause, .. } | Self::Write { cause, .. } | Self::Sync { cause, .. } => Some(cause),
            Self::Lost(cause) => Some(cause),
            Self::Job(_) => None,
        }
    }
}

/// Error: an engine could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineUnavailable {
    /// io_uring is not available: a kernel before 5.6, or `kernel.io_uring_disabled`, seccomp or a
    /// container's limit forbids it.
    #[error("io_uring is not available ({cause}): choose the threads engine")]
    Uring {
        /// Name of the system call.
        call: &'static str,
        /// Error that the kernel returned.
        cause: io::Error,
    },
    /// No threads could be started.
    #[error("cannot start a disk thread ({0}): raise `ulimit -u` or the container's limit")]
    Threads(io::Error),
}
