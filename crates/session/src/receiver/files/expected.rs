//! What the executor knows of a large file.

use icdc_protocol::block_map::BlockMap;
use icdc_units::ByteCount;

/// What is known of a large file before anything of it is opened.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Length of the complete file.
    pub size: ByteCount,
    /// Whether it may have holes.
    pub sparse: bool,
    /// Blocks that an earlier run has noted as durable, with their values; each is compared with
    /// the medium. `None` where the file begins anew.
    pub held: Option<BlockMap>,
}

/// What is known of a large file once its files are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// It has a journal that a later run finds.
    pub journaled: bool,
    /// Another session held its lock until just now, or the sender has closed the connection. That
    /// session's end, or a newer run's, may be why the lock is free: this session's own sender may
    /// have gone long ago.
    pub has_waited: bool,
}
