//! What every engine does.

use super::job::{Completion, Job};

/// Runs jobs. Dropping an engine waits for what is in flight.
pub trait Engine: Send {
    /// Takes a job; starts it now if fewer than [`depth`](Self::depth) are under way. Never waits
    /// for the disk. A job that makes no sense completes with
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
