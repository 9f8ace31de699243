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
//! system calls on the data path. A third, `none`, has no disk at all.

mod choice;
mod contract;
mod error;
mod job;
mod none;
mod threads;
mod uring;
mod work;

pub use choice::{EngineKind, MAX_DEPTH, open_engine};
pub use contract::Engine;
pub use error::{EngineError, EngineUnavailable};
pub use job::{Completion, Job, JobKind};
