//! Sends the last blocks in parts, each over whichever connection is ready first.
//!
//! A block sent over one connection makes all others wait for that one at the end, when they have
//! nothing left to do: on average, half of the connections' time for a block is lost. The receiver
//! fills a block of its ring for each block that is in flight in parts, so these are at most half
//! of the ring. Where there is not a block for each connection before them, all blocks are sent
//! whole: the more connections share a short path, the smaller their windows. Blocks that are read
//! for a retransmission are sent whole, too: parts of the first reading may still be in flight, and
//! may have other contents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use icdc_link::{Parcel, Payload};
use icdc_protocol::limits::{BLOCK_SIZE, PART_SIZE};
use icdc_protocol::message::{Message, Part};
use icdc_units::ByteCount;

/// Queued frames of a block or a pack.
pub(super) enum Frames {
    /// One frame with the whole block or pack.
    Whole(Box<Parcel>),
    /// A block that would be divided, if the receiver could join parts; whether it is the first.
    Undivided(Box<Parcel>, bool),
    /// Several frames, each with a part of the block.
    Parts(Vec<Parcel>),
}

/// The ring of the receiver, in which the parts of blocks arrive.
#[derive(Clone, Copy)]
pub(super) struct ReceiverRing {
    /// Number of blocks that it holds.
    pub(super) blocks: u32,
    /// Whether the receiver joins parts to blocks.
    pub(super) joins_parts: bool,
}

/// Divides the last blocks of a session into parts, and counts what was queued.
#[derive(Default)]
pub(super) struct LastBlocks {
    /// Payload bytes of the frames that were queued.
    queued: AtomicU64,
    /// Number of blocks that were queued in parts.
    divided: AtomicU32,
    /// Whether some block was not divided because the receiver takes none in parts.
    kept_whole: AtomicBool,
}

impl LastBlocks {
    /// Frames for a parcel that `connections` connections may carry to the receiver's `ring`;
    /// `left` returns the bytes to be sent besides those that were queued.
    pub(super) fn divide(
        &self,
        parcel: Parcel,
        connections: u64,
        ring: ReceiverRing,
        left: impl FnOnce(u64) -> ByteCount,
    ) -> Frames {
        let queued = self.count(&parcel);
        let room = u64::from((ring.blocks / 2).saturating_sub(self.divided.load(Ordering::Relaxed)));
        let blocks = |count| ByteCount::from(BLOCK_SIZE) * count;
        let is_each_at_work = connections > 1 && ByteCount::new(queued) >= blocks(connections);
        let are_last = is_each_at_work && room > 0 && left(queued) <= blocks(connections.min(room));
        match parcel {
            Parcel { message: Message::Block(header), payload: Some(Payload::Own(block, length)) }
                if are_last && length > PART_SIZE && header.ranges.is_empty() =>
            {
                if !ring.joins_parts {
                    let parcel = Parcel { message: Message::Block(header), payload: Some((block, length).into()) };
                    return Frames::Undivided(Box::new(parcel), !self.kept_whole.swap(true, Ordering::Relaxed));
                }
                self.divided.fetch_add(1, Ordering::Relaxed);
                let block = Arc::new(block);
                let part = |number| {
                    let (id, index, value) = (header.id, header.index, header.value);
                    let part = Part { id, index, value, length: length as u32, number: number as u8 };
                    let payload = Payload::Shared(Arc::clone(&block), part.range());
                    Parcel { message: Message::Part(part), payload: Some(payload) }
                };
                Frames::Parts((0..length.div_ceil(PART_SIZE)).map(part).collect())
            }
            parcel => Frames::Whole(Box::new(parcel)),
        }
    }

    /// Counts a frame that is queued whole; returns the payload bytes that were queued before it.
    pub(super) fn count(&self, parcel: &Parcel) -> u64 {
        self.queued.fetch_add(parcel.payload_length() as u64, Ordering::Relaxed)
    }
}

#[cfg(test)]
#[path = "last_blocks/tests.rs"]
mod tests;
