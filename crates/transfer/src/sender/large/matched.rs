//! Large files whose contents are looked up in what the receiver has.
//!
//! They are read as far as the receiver has described its files, and what has been read passes through
//! [`Lookup`] before the hashing threads get it.

use std::sync::Arc;

use icdc_protocol::block_map::block_count;
use icdc_protocol::limits::MAX_CHUNKS;
use icdc_protocol::message::{Chunks, EntryId};

use super::super::delta::{Found, Lookup, ReadBlock};
use super::super::given_up::unreadable;
use super::super::hashing::{Extent, Hashing, Step};
use super::{Compared, Described, GIVEN_UP, Over, Queued, Reader, Reading};

/// Most chunks of the receiver's files that a thread keeps: twice as many as a receiver describes of files
/// that are under way.
const MOST_CHUNKS: usize = 2 * MAX_CHUNKS as usize;

impl Reader<'_> {
    /// Reads the blocks of a file whose contents can be looked up with these chunks, besides those before.
    pub(super) fn read_matched(&mut self, chunks: &Chunks) -> Result<(), Over> {
        let id = chunks.id;
        self.lookups.retain(|id, _| self.executor.is_pending(*id));
        let kept: usize = self.lookups.values().map(Lookup::chunks).sum();
        let Some(lookup) = self.lookups.get_mut(&id) else { return Ok(()) };
        lookup.add(chunks, MOST_CHUNKS.saturating_sub(kept));
        self.finish_others(id)?;
        let Some(mut reading) = self.take_compared(id) else { return Ok(()) };
        let blocks = block_count(reading.announced.size);
        let end = self.lookups.get(&id).map_or(0, |lookup| lookup.readable(blocks));
        // What else the receiver has is of no use to it.
        if chunks.complete || end == blocks {
            return self.read_all(*reading);
        }
        if self.read_blocks(&mut reading, end, Described::default())? {
            self.compared.insert(id, Compared::Opened(reading));
        }
        Ok(())
    }

    /// Has the blocks handed on that are kept of other files: one file at a time keeps blocks of memory while
    /// it waits for chunks.
    fn finish_others(&mut self, id: EntryId) -> Result<(), Over> {
        let others: Vec<EntryId> = self
            .lookups
            .iter()
            .filter(|(other, lookup)| **other != id && lookup.has_blocks())
            .map(|(id, _)| *id)
            .collect();
        for other in others {
            if let Some(Compared::Opened(reading)) = self.compared.get(&other) {
                let hashing = reading.hashing.clone();
                self.push(Queued::LookedUp { id: other, hashing })?;
            }
        }
        Ok(())
    }

    /// Has the blocks handed on that are looked up before what is no data of the file.
    pub(super) fn break_lookup(&mut self, reading: &Reading) -> Result<(), Over> {
        match reading.looks_up {
            true => self.push(Queued::LookedUp { id: reading.id, hashing: reading.hashing.clone() }),
            false => Ok(()),
        }
    }

    /// Looks the contents of a block up, and hands on those before it that are through.
    pub(super) fn look_up(&mut self, id: EntryId, hashing: &Arc<Hashing>, read: ReadBlock) -> Result<(), Over> {
        let Some(lookup) = self.lookups.get_mut(&id) else { return self.end_settled(hashing) };
        let busy = self.executor.stages.hash.busy();
        let found = lookup.push(read);
        drop(busy);
        self.hand_on_found(hashing, found)
    }

    /// Hands on all blocks that are being looked up: nothing that follows continues them.
    pub(super) fn finish_lookup(&mut self, id: EntryId, hashing: &Arc<Hashing>) -> Result<(), Over> {
        let Some(lookup) = self.lookups.get_mut(&id) else { return self.end_settled(hashing) };
        let found = lookup.finish();
        self.hand_on_found(hashing, found)
    }

    /// Ends a file that the receiver has settled, so that its blocks are not looked up any more: they are
    /// not handed on, and it has no digest.
    fn end_settled(&self, hashing: &Arc<Hashing>) -> Result<(), Over> {
        match Arc::clone(hashing).end(Err(unreadable(GIVEN_UP.to_owned()))) {
            Some(step) => self.hashers.send(step).map_err(|_| Over),
            None => Ok(()),
        }
    }

    /// Hands on blocks whose contents were looked up.
    fn hand_on_found(&self, hashing: &Arc<Hashing>, found: Vec<Found>) -> Result<(), Over> {
        for Found { read, copies } in found {
            let ReadBlock { index, block, length, ranges } = read;
            let extent = match (copies.is_empty(), ranges.is_empty()) {
                (false, _) => Extent::Assembled { ranges, copies },
                (true, true) => Extent::Whole,
                (true, false) => Extent::Data(ranges),
            };
            if hashing.hand_on() {
                let step = Step::Data { file: hashing.clone(), index, extent, block, length };
                self.hashers.send(step).map_err(|_| Over)?;
            }
        }
        Ok(())
    }
}
