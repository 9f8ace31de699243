//! Publishing many items at once.
//!
//! Small files are written aside, then made durable together by one flush of their file system, and
//! only then renamed to their final names: a file is complete under its name or not there, and
//! thousands of files cost one flush of the disk.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::message::EntryId;
use icdc_units::{ByteCount, Span};

use crate::Failure;

/// Number of items that make a batch full.
const ITEMS: usize = 4096;
/// Number of bytes that make a batch full.
const BYTES: ByteCount = ByteCount::from_mib(256);

/// Number of directories waiting for a flush at which a flush is due. A sender waits when 1536
/// directories are not done.
pub(in crate::receiver::book) const DIRECTORIES: usize = 1024;

/// Idle time after which staged items are published.
pub(in crate::receiver::book) const QUIET: Span = Span::from_millis(50);

/// Staged items, and those that are being published.
#[derive(Debug, Default)]
pub(in crate::receiver::book) struct Batch {
    staged: Lot,
    publishing: Option<Vec<EntryId>>,
    /// Number of lots that were begun.
    begun: u64,
    /// Number of lots whose file systems were flushed, or could not be.
    flushed: u64,
    /// Lots that could not be flushed, with their errors.
    failed: BTreeMap<u64, Failure>,
}

/// Number of the lot with which something becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::receiver::book) struct LotNumber(u64);

/// Items that are made durable and published together.
#[derive(Debug, Default)]
pub(in crate::receiver::book) struct Lot {
    pub(in crate::receiver::book) items: Vec<EntryId>,
    /// Device numbers of the file systems that hold something that is not durable.
    pub(in crate::receiver::book) file_systems: BTreeSet<u64>,
    bytes: ByteCount,
}

impl Lot {
    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.file_systems.is_empty()
    }
}

impl Batch {
    /// Whether nothing is staged and no lot is in progress.
    pub(in crate::receiver::book) fn is_empty(&self) -> bool {
        self.staged.is_empty() && self.publishing.is_none()
    }

    /// Whether anything is ready to be published or flushed and no lot is in progress.
    pub(in crate::receiver::book) fn waits(&self) -> bool {
        !self.staged.is_empty() && self.publishing.is_none()
    }

    /// Number of staged items.
    pub(in crate::receiver::book) fn len(&self) -> usize {
        self.staged.items.len()
    }

    /// Whether enough is staged that waiting for more would gain nothing.
    pub(in crate::receiver::book) fn is_full(&self) -> bool {
        self.staged.items.len() >= ITEMS || self.staged.bytes >= BYTES
    }

    /// Stages an item with `bytes` bytes that are not durable; `file_system`: device number of what
    /// has to be flushed, `None` for an item that is wholly durable.
    pub(in crate::receiver::book) fn add(&mut self, id: EntryId, bytes: ByteCount, file_system: Option<u64>) {
        self.staged.items.push(id);
        self.staged.bytes += bytes;
        self.staged.file_systems.extend(file_system);
    }

    /// Records that a directory was made on this file system or is about to get its attributes.
    /// Returns the lot with which that becomes durable.
    pub(in crate::receiver::book) fn touch(&mut self, file_system: u64) -> LotNumber {
        self.staged.file_systems.insert(file_system);
        LotNumber(self.begun)
    }

    /// Result of flushing a lot; `None` while it has not been flushed.
    pub(in crate::receiver::book) fn outcome(&self, LotNumber(lot): LotNumber) -> Option<Result<(), Failure>> {
        (lot < self.flushed).then(|| self.failed.get(&lot).cloned().map_or(Ok(()), Err))
    }

    /// Begins the next lot with everything staged and returns it; `None` if nothing is staged or
    /// another lot is in progress.
    pub(in crate::receiver::book) fn begin(&mut self) -> Option<Lot> {
        if !self.waits() {
            return None;
        }
        self.begun += 1;
        let lot = std::mem::take(&mut self.staged);
        self.publishing = Some(lot.items.clone());
        Some(lot)
    }

    /// Records that the file systems of the present lot are flushed.
    pub(in crate::receiver::book) fn flushed(&mut self) {
        self.flushed = self.begun;
    }

    /// Records that the present lot could not be flushed or renamed. Returns its items and those
    /// that are staged: the kernel reports lost data only once, so that no later flush vouches for
    /// what was staged before the report.
    pub(in crate::receiver::book) fn lose(&mut self, failure: &Failure) -> Vec<EntryId> {
        for lot in self.flushed..=self.begun {
            self.failed.insert(lot, failure.clone());
        }
        self.begun += 1;
        self.flushed = self.begun;
        let mut items = self.end();
        items.append(&mut std::mem::take(&mut self.staged).items);
        items
    }

    /// Items of the present lot; empty if none is in progress.
    pub(in crate::receiver::book) fn publishing(&self) -> &[EntryId] {
        self.publishing.as_deref().unwrap_or_default()
    }

    /// Replaces the items of the present lot by those that have their final names.
    pub(in crate::receiver::book) fn renamed(&mut self, items: Vec<EntryId>) {
        self.publishing = Some(items);
    }

    /// Ends the present lot, so that the next may begin; returns its items.
    pub(in crate::receiver::book) fn end(&mut self) -> Vec<EntryId> {
        self.publishing.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_full_by_items_or_bytes() {
        let mut batch = Batch::default();
        batch.add(0, BYTES - ByteCount::new(1), Some(1));
        assert!(!batch.is_full());
        batch.add(1, ByteCount::new(1), Some(1));
        assert!(batch.is_full());
        let mut batch = Batch::default();
        (0..ITEMS as u32 - 1).for_each(|id| batch.add(id, ByteCount::new(0), None));
        assert!(!batch.is_full());
        batch.touch(7);
        assert!(!batch.is_full(), "a directory is no item");
        batch.add(ITEMS as u32, ByteCount::new(0), None);
        assert!(batch.is_full());
    }

    #[test]
    fn one_lot_is_published_at_a_time_and_a_directory_that_was_made_is_reason_enough() {
        let mut batch = Batch::default();
        assert!(batch.begin().is_none());
        let made = batch.touch(7);
        let lot = batch.begin().expect("a directory was made");
        assert!(lot.items.is_empty() && lot.file_systems == BTreeSet::from([7]));
        batch.add(1, ByteCount::new(5), Some(8));
        assert!(batch.begin().is_none() && !batch.waits(), "the first lot is not through");
        let (second, first) = (batch.touch(8), made);
        batch.flushed();
        assert_eq!((batch.outcome(first), batch.outcome(second)), (Some(Ok(())), None));
        assert!(batch.end().is_empty() && batch.waits());
        let lot = batch.begin().expect("an item waits");
        assert_eq!((lot.items.as_slice(), batch.publishing()), ([1].as_slice(), [1].as_slice()));
        let meanwhile = batch.touch(8);
        batch.add(2, ByteCount::new(5), Some(8));
        assert_eq!((batch.lose(&"no disk".into()), batch.is_empty()), (vec![1, 2], true));
        let lost = Some(Err("no disk".into()));
        assert_eq!([first, second, meanwhile].map(|lot| batch.outcome(lot)), [Some(Ok(())), lost.clone(), lost]);
        let next = batch.touch(8);
        assert_eq!(batch.outcome(next), None);
    }
}
