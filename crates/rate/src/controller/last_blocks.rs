//! Placement of the last blocks of a transfer, and of all blocks of a short one: in parts, each over
//! whichever connection is ready first.
//!
//! A block sent over one connection makes all others wait for that one at the end, when they have
//! nothing left to do: on average, half of the connections' time for a block is lost. The receiver
//! fills a block of its ring for each block that is in flight in parts, so these are at most half
//! of the ring. Where there is not a block for each connection before them, all blocks are sent
//! whole: the more connections share a short path, the smaller their windows. On a long path the
//! windows of all connections have to grow first, and a transfer that has fewer blocks than there are
//! connections goes in parts, as far as half of the ring allows: ten packets of each leave at once.
//! Blocks that are read for a retransmission are sent whole, too: parts of the first reading may still
//! be in flight, and may have other contents.
//!
//! ```text
//! n    connections                       r    blocks of the receiver's ring
//! q    bytes queued before               p    blocks queued in parts before
//! u    bytes of the transfer, less q     b    bytes of a block
//!
//! in parts:  n > 1,  p < r/2,  u ≤ b·min(n, r/2 − p),  and q ≥ n·b or, on a long path, q + u < n·b
//! ```

use icdc_units::ByteCount;

/// A frame of data that is about to be queued for the connections.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Length of its payload.
    pub length: ByteCount,
    /// Form of the payload.
    pub form: Form,
    /// Capacity of the receiver's ring, in blocks.
    pub ring_blocks: u32,
    /// Payload of the whole transfer; `None` while it is not known.
    pub total: Option<ByteCount>,
}

/// Form of a frame's payload, by which the frame may be sent in parts or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A block that can be divided into parts.
    Divisible,
    /// A block that is shorter than two parts or has holes, or several small files.
    Indivisible,
}

/// Way in which a frame is sent: whole over one connection, or in parts over any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// As it is, by one connection.
    Whole,
    /// In parts, by any connections.
    InParts,
}

/// Amount of data queued for the connections so far, by which it is decided which blocks are the
/// last ones of the transfer and go in parts.
#[derive(Debug, Default)]
pub(super) struct LastBlocks {
    /// Payload of the frames that were queued.
    queued: ByteCount,
    /// Number of blocks that were queued in parts.
    in_parts: u32,
}

impl LastBlocks {
    /// Decides how a frame that is queued now is sent, for this number of connections over a long or
    /// a short path, and blocks of this length, and counts it.
    pub(super) fn place(&mut self, frame: Frame, connections: u64, is_long: bool, block: ByteCount) -> Placement {
        let Frame { length, form, ring_blocks, total } = frame;
        let before = self.queued;
        self.count(length);
        let room = u64::from((ring_blocks / 2).saturating_sub(self.in_parts));
        let is_each_at_work = before >= block * connections;
        let is_short = is_long && total.is_some_and(|total| total < block * connections);
        let is_last = total.is_some_and(|total| total - before <= block * connections.min(room));
        let is_shared_out = connections > 1 && (is_each_at_work || is_short);
        if form == Form::Indivisible || !is_shared_out || room == 0 || !is_last {
            return Placement::Whole;
        }
        self.in_parts += 1;
        Placement::InParts
    }

    /// Counts the payload of a frame that is queued whole.
    pub(super) fn count(&mut self, length: ByteCount) {
        self.queued += length;
    }
}
