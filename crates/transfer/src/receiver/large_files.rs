//! Large files that are being received, and their blocks between the socket and the disk.
//!
//! Blocks are checked by several threads. The end of a file must not overtake its blocks: one that
//! reports a failure would discard them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use icdc_disk::Block;
use icdc_protocol::message::{BlockHeader, EntryId, ItemEnd, Part};
use icdc_session::SessionError;
use icdc_session::receiver::files::Length;
use icdc_session::receiver::parts::Parts;

use super::parts::put;

/// Table of the large files, those received block by block, that one session has under
/// way. It is shared by the session's threads and locked by each call.
#[derive(Default)]
pub(super) struct LargeFiles(Mutex<Table>);

/// Files under way and their incomplete blocks, behind the lock of [`LargeFiles`].
#[derive(Default)]
struct Table {
    files: HashMap<EntryId, LargeFile>,
    /// Blocks that are being joined from parts.
    parts: Parts<Block>,
}

/// A file that is expected, or of which blocks are being checked.
#[derive(Default)]
struct LargeFile {
    /// Length of the file; `None` once it is complete or given up. Blocks of it may still arrive.
    length: Option<Length>,
    /// Number of blocks that have arrived and are not checked yet.
    unchecked: u32,
    /// End-of-file message, which has arrived behind the blocks and waits for them.
    end: Option<ItemEnd>,
}

impl LargeFiles {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no panic while large files are listed")
    }

    /// Notes that the file `id` of this length is going to be received.
    pub(super) fn expect(&self, id: EntryId, length: Length) {
        self.lock().files.entry(id).or_default().length = Some(length);
    }

    /// Notes that the file is complete or given up.
    pub(super) fn forget(&self, id: EntryId) {
        let mut table = self.lock();
        if let Some(file) = table.files.get_mut(&id) {
            file.length = None;
            if file.unchecked == 0 {
                table.files.remove(&id);
            }
        }
    }

    /// Length of a file that is being received; `None` if it is not.
    pub(super) fn length(&self, id: EntryId) -> Option<Length> {
        self.lock().files.get(&id)?.length
    }

    /// Whether a stream is being received: what its connections owe cannot be read again.
    pub(super) fn has_stream(&self) -> bool {
        self.lock().files.values().any(|file| file.length == Some(Length::Stream))
    }

    /// Notes that a block has arrived whole and is going to be checked.
    pub(super) fn on_block(&self, id: EntryId, index: u32) {
        let mut table = self.lock();
        table.parts.came_whole(id, index);
        table.files.entry(id).or_default().unchecked += 1;
    }

    /// Adds a part to its block, in a ring of this many blocks; returns the block with its header
    /// once it is complete and is going to be checked.
    ///
    /// # Errors
    /// [`SessionError::Protocol`] if the part cannot belong to a block.
    pub(super) fn on_part(
        &self,
        part: &Part,
        arrived: Block,
        ring: usize,
    ) -> Result<Option<(BlockHeader, Block)>, SessionError> {
        let mut table = self.lock();
        let put = |before, arrived| put(before, arrived, part.range());
        let whole =
            table.parts.arrived(part, arrived, ring, put).map_err(|wrong| SessionError::Protocol(wrong.into()))?;
        if whole.is_some() {
            table.files.entry(part.id).or_default().unchecked += 1;
        }
        Ok(whole)
    }

    /// Notes that a block of the file has been checked; returns the end of the file if it waited
    /// for this block.
    pub(super) fn on_checked(&self, id: EntryId) -> Option<ItemEnd> {
        let mut table = self.lock();
        let file = table.files.get_mut(&id)?;
        file.unchecked = file.unchecked.saturating_sub(1);
        if file.unchecked > 0 {
            return None;
        }
        let end = file.end.take();
        if file.length.is_none() {
            table.files.remove(&id);
        }
        end
    }

    /// Takes the end of a file; returns it unless it has to wait for blocks that are being checked.
    pub(super) fn on_end(&self, end: ItemEnd) -> Option<ItemEnd> {
        match self.lock().files.get_mut(&end.id()) {
            Some(file) if file.unchecked > 0 => {
                file.end = Some(end);
                None
            }
            _ => Some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::{FileEnd, GivenUp};
    use icdc_units::ByteCount;

    use super::*;

    const LENGTH: Length = Length::Known(ByteCount::new(5));

    fn end(id: EntryId) -> ItemEnd {
        FileEnd { id, blocks: 2, outcome: Err(GivenUp { reason: "unreadable".into(), same_version: true }) }.into()
    }

    #[test]
    fn an_end_waits_for_the_blocks_of_its_file_only() {
        let files = LargeFiles::default();
        files.expect(1, LENGTH);
        files.on_block(1, 0);
        files.on_block(1, 1);
        files.on_block(2, 0);
        assert_eq!(files.on_end(end(1)), None);
        assert_eq!(files.on_checked(1), None);
        assert_eq!(files.on_checked(2), None);
        assert_eq!(files.on_checked(1), Some(end(1)));
        assert_eq!(files.on_end(end(1)), Some(end(1)), "none is left");
    }

    #[test]
    fn the_blocks_of_a_file_that_was_given_up_hold_its_end_and_are_then_forgotten() {
        let files = LargeFiles::default();
        files.expect(1, LENGTH);
        files.on_block(1, 0);
        files.forget(1);
        assert_eq!(files.length(1), None);
        assert_eq!(files.on_end(end(1)), None);
        assert_eq!(files.on_checked(1), Some(end(1)));
        assert!(files.lock().files.is_empty());
    }

    #[test]
    fn a_file_is_known_from_when_it_is_expected_until_it_is_forgotten() {
        let files = LargeFiles::default();
        assert_eq!(files.length(1), None);
        files.expect(1, LENGTH);
        files.on_block(1, 0);
        assert_eq!(files.on_checked(1), None);
        assert_eq!(files.length(1), Some(LENGTH));
        files.forget(1);
        assert!(files.lock().files.is_empty());
    }
}
