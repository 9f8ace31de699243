//! The last blocks travel in parts, each over whichever connection is ready first.
//!
//! A block that goes over one connection keeps all waiting for that one at the end, when the others
//! have nothing left to do: half of the connections' time for a block is lost on the average. The
//! receiver fills a block of its ring for each that is on its way in parts, so these are at most
//! half of them. Where there is not a block for each connection before them, all go whole: the more
//! connections are at work on a short path, the smaller are their windows. So does what is read once
//! more: parts of what was read before may still be on their way, and need not be of the same
//! contents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use icdc_link::{Parcel, Payload};
use icdc_protocol::limits::{BLOCK_SIZE, PART_SIZE};
use icdc_protocol::message::{Message, Part};
use icdc_units::ByteCount;

/// What is queued of a block or a pack.
pub(super) enum Frames {
    Whole(Box<Parcel>),
    /// One that would go in parts, if the receiver could put them together; whether it is the first.
    Undivided(Box<Parcel>, bool),
    Parts(Vec<Parcel>),
}

/// See the module's description.
#[derive(Default)]
pub(super) struct LastBlocks {
    /// Payload of the frames that were queued.
    queued: AtomicU64,
    /// Blocks that were queued in parts.
    divided: AtomicU32,
    /// Some block was not divided because the receiver takes none in parts.
    kept_whole: AtomicBool,
}

impl LastBlocks {
    /// What is queued for a frame that `connections` may carry to a ring of so many blocks, of a receiver
    /// that `takes_parts` or not; `left` tells how much there is to be sent besides what was queued.
    pub(super) fn divide(
        &self,
        parcel: Parcel,
        connections: u64,
        ring: u32,
        takes_parts: bool,
        left: impl FnOnce(u64) -> ByteCount,
    ) -> Frames {
        let queued = self.count(&parcel);
        let room = u64::from((ring / 2).saturating_sub(self.divided.load(Ordering::Relaxed)));
        let blocks = |count| ByteCount::from(BLOCK_SIZE) * count;
        let is_each_at_work = connections > 1 && ByteCount::new(queued) >= blocks(connections);
        let are_last = is_each_at_work && room > 0 && left(queued) <= blocks(connections.min(room));
        match parcel {
            Parcel { message: Message::Block(header), payload: Some(Payload::Own(block, length)) }
                if are_last && length > PART_SIZE && header.ranges.is_empty() =>
            {
                if !takes_parts {
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

    /// Takes note of a frame that is queued whole; what was queued before it.
    pub(super) fn count(&self, parcel: &Parcel) -> u64 {
        self.queued.fetch_add(parcel.payload_length() as u64, Ordering::Relaxed)
    }
}

#[cfg(test)]
#[path = "last_blocks/tests.rs"]
mod tests;
