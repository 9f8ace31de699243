//! Properties of a large file, as the executor states them.

use icdc_protocol::block_map::BlockMap;
use icdc_units::ByteCount;

/// A large file before anything of it is opened.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Length of the complete file.
    pub size: ByteCount,
    /// Whether the file may have holes.
    pub sparse: bool,
    /// Blocks that an earlier run has noted as durable, with their digests; each is compared with
    /// the medium. `None` for a file without any.
    pub held: Option<BlockMap>,
}

/// Outcome of opening a large file's part file and journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Whether it has a journal that a later run finds.
    pub journaled: bool,
    /// Whether another session held its lock until just now, or the sender has closed the
    /// connection. That session's end, or a newer run's, may be why the lock is free: this
    /// session's own sender may have gone long ago.
    pub has_waited: bool,
}
