//! Choice of an engine: by kind, or by what the kernel allows.

use super::contract::Engine;
use super::error::EngineUnavailable;
use super::none::NoDisk;
use super::threads::ThreadEngine;
use super::uring::UringEngine;

/// Maximum number of jobs in flight in the kernel at a time.
pub const MAX_DEPTH: usize = 1024;

/// Kind of the disk engine to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// io_uring, or threads where the kernel does not allow it.
    #[default]
    Auto,
    /// io_uring; an error where the kernel does not allow it.
    Uring,
    /// Threads that call `pread`, `pwrite` and `fsync`.
    Threads,
    /// No disk: nothing is read, and nothing written.
    None,
}

/// Opens a disk engine that keeps up to `depth` jobs (1 to [`MAX_DEPTH`], else the nearest) in
/// flight.
///
/// # Errors
/// The kernel grants no ring ([`EngineKind::Uring`] only) or no thread at all; with fewer threads
/// than `depth` the engine opens and has a smaller depth.
pub fn open_engine(depth: usize, preference: EngineKind) -> Result<Box<dyn Engine>, EngineUnavailable> {
    let depth = depth.clamp(1, MAX_DEPTH);
    match preference {
        EngineKind::Uring => Ok(Box::new(UringEngine::open(depth)?)),
        EngineKind::None => Ok(Box::new(NoDisk::default())),
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
