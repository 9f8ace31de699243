//! The interface of all engines.

use super::job::{Completion, Job};

/// Runs jobs. Dropping an engine waits for what is in flight.
pub trait Engine: Send {
    /// Takes a job, and starts it at once if fewer than [`depth`](Self::depth) are in flight. Never
    /// waits for the disk. An invalid job completes with
    /// [`EngineError::Job`](super::EngineError::Job).
    fn submit(&mut self, tag: u64, job: Job);

    /// The next completion; waits for it. `None` if nothing is in flight.
    fn wait(&mut self) -> Option<Completion>;

    /// The next completion if there is one now.
    fn try_wait(&mut self) -> Option<Completion>;

    /// Jobs that were submitted and whose completion was not yet taken.
    fn in_flight(&self) -> usize;

    /// Most jobs with the kernel at a time.
    fn depth(&self) -> usize;

    /// Name for logs and reports: `io_uring`, `threads` or `none`.
    fn name(&self) -> &'static str;
}
