//! The interface of all engines.

use super::job::{Completion, Job};

/// Disk engine: carries out read, write and sync jobs asynchronously. Dropping it waits for what
/// is in flight.
pub trait Engine: Send {
    /// Submits a job, and starts it at once if fewer than [`depth`](Self::depth) are in flight.
    /// Does not wait for the disk, except that `io_uring` carries out reads from a file system
    /// behind FUSE, or from an unknown one, in this call or in the one that frees a slot for them.
    /// An invalid job completes with [`EngineError::Job`](super::EngineError::Job); the engine
    /// without a disk does not check.
    fn submit(&mut self, tag: u64, job: Job);

    /// Waits for the next completion and returns it; `None` if nothing is in flight.
    fn wait(&mut self) -> Option<Completion>;

    /// Returns the next completion if there is one now; does not wait.
    fn try_wait(&mut self) -> Option<Completion>;

    /// Number of jobs that were submitted and whose completion was not yet taken.
    fn in_flight(&self) -> usize;

    /// Maximum number of jobs in flight in the kernel at a time; `usize::MAX` without a disk.
    fn depth(&self) -> usize;

    /// Name of the engine for logs and reports: `io_uring`, `threads` or `none`.
    fn name(&self) -> &'static str;
}
