//! Files at the speed of the disk, with bounded memory and confined paths.
//!
//! - [`pool`]: the only memory that file data ever occupies: a fixed number of aligned 4 MiB
//!   blocks. Whoever wants to read waits for a free block; that is the back-pressure of the whole
//!   data path.
//! - [`file`](mod@file): an open regular file, by Direct I/O where its file system allows it.
//! - [`engine`]: many reads and writes of blocks at once, by io_uring or by threads. A block that
//!   is handed to an engine belongs to it until its [`Completion`] gives it back.
//! - [`local_copy`]: contents of a file copied within the host, as a reflink where possible.
//! - [`sparse`]: where the data of a file with holes is.
//! - [`tree`]: names and directories, resolved beneath a root and never outside of it.
//!
//! The crate knows nothing of the network or of the wire format; `transfer` joins it with
//! `protocol`.
//!
//! ```
//! use icdc_disk::{BlockPool, DiskFile, EngineKind, Job, open_engine};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("data");
//! # std::fs::write(&path, b"some data")?;
//! let pool = BlockPool::new(4)?;
//! let mut engine = open_engine(4, EngineKind::Auto)?;
//! let file = Arc::new(DiskFile::for_reading(std::fs::File::open(&path)?)?);
//! engine.submit(7, Job::Read { file, offset: 0, length: 9, block: pool.take()? });
//! let completion = engine.wait().expect("one job is in flight");
//! assert_eq!(completion.tag, 7);
//! let length = completion.result?;
//! let block = completion.block.expect("a read gives its block back");
//! assert_eq!(&block[..length], b"some data");
//! # Ok(())
//! # }
//! ```

pub mod engine;
pub mod file;
pub mod local_copy;
pub mod pool;
pub mod sparse;
pub mod tree;
mod user;
mod writers;

pub use engine::{Completion, Engine, EngineError, EngineKind, EngineUnavailable, Job, JobKind, open_engine};
pub use file::{DiskFile, FileError, Preallocation};
pub use local_copy::reflink;
pub use pool::{BLOCK_SIZE, Block, BlockPool, Closed};
pub use writers::has_writers;
