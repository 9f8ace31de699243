//! Properties of a large file, as the executor states them.

use icdc_protocol::block_map::BlockMap;
use icdc_units::ByteCount;

/// A large file whose blocks are going to arrive, before its part file is opened.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Length of the complete file.
    pub length: Length,
    /// Whether the file may have holes.
    pub sparse: bool,
    /// Blocks that an earlier run has noted as durable, with their digests; each is compared with
    /// the medium. `None` for a file without any.
    pub held: Option<BlockMap>,
    /// Whether it is written where it stays, as in a device or in the file that has its name: then it is
    /// made durable by itself, whatever its length.
    pub in_place: bool,
}

/// Length of a file whose blocks arrive: known, or that of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It is known from the announcement.
    Known(ByteCount),
    /// It is that of a stream, which tells it at its end.
    Stream,
}

/// Outcome of opening a large file's part file and journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Whether it has a journal that a later run finds.
    pub journaled: bool,
    /// Whether the sender has to be asked before the file is stored, because a newer run may have
    /// completed it since its contents were requested: another session held the lock until just now,
    /// the sender has closed the connection, or what has the final name has changed. This session's
    /// own sender may have gone long ago, without this end knowing of it.
    pub needs_sender: bool,
}
