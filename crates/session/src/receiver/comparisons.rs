//! Comparisons of large files with those at the destination that they replace: which is read, how far
//! ahead, and when reading it is given up.
//!
//! ```text
//! begin ─► Open ─► on_opened ─► Read ─► on_described ─┬─► Read … ─► Complete ─► the next file
//!                                          ▲          │
//!                       on_arrived ────────┴──────────┘ blocks, whole or as differences; holes
//! ```
//!
//! One file is read at a time. The blocks that are described and have not arrived are bounded: so are
//! the files that are open, and the blocks are still in the page cache where what is equal is read
//! once more. Where nothing has been equal for a while from its start on, a file is not read on.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use icdc_protocol::block_map::{BlockMap, block_count};
use icdc_protocol::limits::{BLOCK_SIZE, MAX_BASIS_BLOCKS};
use icdc_protocol::message::EntryId;
use icdc_units::ByteCount;

/// Most blocks that are described and have not arrived: as many as a disk reads at 3 GB/s in a round
/// trip of 300 ms.
const MAX_AHEAD: usize = 256;
/// Number of blocks from the start of a file on in which nothing was equal: then it is not read on.
const GIVEN_UP_AFTER: u32 = 32;

/// Comparisons of a session's large files, one at a time, with the files at the destination that
/// they replace, which are described to the sender block by block.
#[derive(Debug, Default)]
pub struct Comparisons {
    /// Files that are still to be compared.
    waiting: VecDeque<File>,
    active: Option<Active>,
    /// Blocks that are described and have not arrived.
    ahead: BTreeSet<(EntryId, u32)>,
}

/// A file that is received, and that replaces another one.
#[derive(Debug)]
struct File {
    id: EntryId,
    size: ByteCount,
    /// Blocks that an earlier run has left: they are not described.
    held: Option<BlockMap>,
}

/// The file that is being compared, and how far.
#[derive(Debug)]
struct Active {
    file: File,
    /// Number of blocks that the file and the one at the destination have.
    common: u32,
    /// Number of the next block to describe.
    next: u32,
    /// Number of blocks that have arrived since its start; `None` once something was equal.
    different: Option<u32>,
    /// The step that has not been answered.
    pending: Option<Step>,
}

/// Next step of the comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open the file at the destination that this one replaces: [`Comparisons::on_opened`].
    Open(EntryId),
    /// Read blocks of the file at the destination and describe them: [`Comparisons::on_described`].
    Read {
        /// Id of the file that replaces it.
        id: EntryId,
        /// Numbers of the blocks.
        blocks: Range<u32>,
    },
    /// Tell the sender that no blocks from `first` on are described.
    Complete {
        /// Id of the file.
        id: EntryId,
        /// Number of the block behind the last that was described.
        first: u32,
    },
}

impl Comparisons {
    /// Begins the comparison of a file of `size` bytes, apart from the blocks held.
    pub fn begin(&mut self, id: EntryId, size: ByteCount, held: Option<BlockMap>) {
        self.waiting.push_back(File { id, size, held });
    }

    /// The next step; `None` if something has to come first.
    pub fn next_step(&mut self) -> Option<Step> {
        let ahead = self.ahead.len();
        if self.active.is_none() {
            if ahead >= MAX_AHEAD {
                return None;
            }
            let file = self.waiting.pop_front()?;
            let step = Step::Open(file.id);
            let pending = Some(step.clone());
            self.active = Some(Active { file, common: 0, next: 0, different: Some(0), pending });
            return Some(step);
        }
        let active = self.active.as_mut().filter(|active| active.pending.is_none())?;
        if active.is_over() {
            let step = Step::Complete { id: active.file.id, first: active.next };
            self.active = None;
            return Some(step);
        }
        if ahead + MAX_BASIS_BLOCKS > MAX_AHEAD {
            return None;
        }
        let step = active.read();
        active.pending = Some(step.clone());
        Some(step)
    }

    /// Whether there is a next step.
    #[must_use]
    pub fn has_step(&self) -> bool {
        match &self.active {
            None => !self.waiting.is_empty() && self.ahead.len() < MAX_AHEAD,
            Some(active) => {
                active.pending.is_none() && (active.is_over() || self.ahead.len() + MAX_BASIS_BLOCKS <= MAX_AHEAD)
            }
        }
    }

    /// Handles the outcome of [`Step::Open`]: length of the file at the destination, `None` if it
    /// cannot be read.
    pub fn on_opened(&mut self, id: EntryId, existing: Option<ByteCount>) {
        let Some(active) = self.answered(id) else { return };
        let size = active.file.size;
        let common = existing.unwrap_or(ByteCount::ZERO).min(size).as_u64().div_ceil(BLOCK_SIZE as u64);
        active.common = u32::try_from(common).unwrap_or(u32::MAX).min(block_count(size.as_u64()));
        active.skip_held();
    }

    /// Handles the outcome of [`Step::Read`]: this number of blocks is described. If these are fewer
    /// than were to be, the file is not read on.
    pub fn on_described(&mut self, id: EntryId, blocks: u32) {
        let Some(Step::Read { blocks: asked, .. }) = self.active.as_ref().and_then(|active| active.pending.clone())
        else {
            return;
        };
        let Some(active) = self.answered(id) else { return };
        let described = asked.start..asked.start.saturating_add(blocks).min(asked.end);
        active.next = described.end;
        if active.next < asked.end {
            active.common = active.next;
        }
        active.skip_held();
        self.ahead.extend(described.map(|index| (id, index)));
    }

    /// Records that a block has arrived; `is_alike`: some of it is equal.
    pub fn on_arrived(&mut self, id: EntryId, index: u32, is_alike: bool) {
        let was_described = self.ahead.remove(&(id, index));
        let Some(active) = self.active.as_mut().filter(|active| active.file.id == id && was_described) else { return };
        active.different = active.different.filter(|_| !is_alike).map(|different| different + 1);
    }

    /// Records that a block that was described is a hole at the source, and does not arrive.
    pub fn on_hole(&mut self, id: EntryId, index: u32) {
        self.ahead.remove(&(id, index));
    }

    /// Whether a block is described and has not arrived.
    #[must_use]
    pub fn is_described(&self, id: EntryId, index: u32) -> bool {
        self.ahead.contains(&(id, index))
    }

    /// Whether the file at the destination that this one replaces is still read.
    #[must_use]
    pub fn is_needed(&self, id: EntryId) -> bool {
        let is_active = self.active.as_ref().is_some_and(|active| active.file.id == id);
        is_active || self.ahead.range((id, 0)..=(id, u32::MAX)).next().is_some()
    }

    /// Forgets a file that is complete or given up.
    pub fn forget(&mut self, id: EntryId) {
        self.waiting.retain(|file| file.id != id);
        self.active.take_if(|active| active.file.id == id);
        self.ahead.retain(|(of, _)| *of != id);
    }

    /// The active file, if it is this one, whose pending step is answered.
    fn answered(&mut self, id: EntryId) -> Option<&mut Active> {
        let active = self.active.as_mut().filter(|active| active.file.id == id)?;
        active.pending = None;
        Some(active)
    }
}

impl Active {
    /// Moves on to the next block that no earlier run has left.
    fn skip_held(&mut self) {
        while self.next < self.common && self.is_held(self.next) {
            self.next += 1;
        }
    }

    /// Whether no further block of the file is described: all are, or nothing was equal for too
    /// long.
    fn is_over(&self) -> bool {
        self.next >= self.common || self.different.is_some_and(|different| different >= GIVEN_UP_AFTER)
    }

    /// The step that reads and describes the next blocks, as many as one message has room for, up
    /// to the next held one.
    fn read(&self) -> Step {
        let most = self.next.saturating_add(MAX_BASIS_BLOCKS as u32).min(self.common);
        let end = (self.next..most).find(|index| self.is_held(*index)).unwrap_or(most);
        Step::Read { id: self.file.id, blocks: self.next..end }
    }

    /// Whether an earlier run has left this block.
    fn is_held(&self, index: u32) -> bool {
        self.file.held.as_ref().is_some_and(|held| held.contains(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = BLOCK_SIZE as u64;

    fn blocks(count: u64) -> ByteCount {
        ByteCount::new(count * BLOCK)
    }

    /// Comparison of file 1, of `size`, with one of `existing` bytes.
    fn opened(size: ByteCount, existing: ByteCount, held: Option<BlockMap>) -> Comparisons {
        let mut comparisons = Comparisons::default();
        comparisons.begin(1, size, held);
        assert_eq!(comparisons.next_step(), Some(Step::Open(1)));
        comparisons.on_opened(1, Some(existing));
        comparisons
    }

    /// Describes all that may be; returns the blocks, and the end if it has come.
    fn describe(comparisons: &mut Comparisons) -> (Vec<Range<u32>>, Option<Step>) {
        let mut ranges = Vec::new();
        while let Some(step) = comparisons.next_step() {
            let Step::Read { id, blocks } = step else { return (ranges, Some(step)) };
            assert_eq!(comparisons.next_step(), None, "one read at a time");
            comparisons.on_described(id, blocks.len() as u32);
            ranges.push(blocks);
        }
        (ranges, None)
    }

    #[test]
    fn what_both_files_have_is_described_and_no_more() {
        for (size, existing, common) in [(blocks(12), blocks(5), 5), (blocks(3), blocks(9), 3)] {
            let mut comparisons = opened(size, existing, None);
            let (described, end) = describe(&mut comparisons);
            assert_eq!(described, vec![0..common]);
            assert_eq!(end, Some(Step::Complete { id: 1, first: common }));
            assert_eq!(comparisons.next_step(), None);
        }
    }

    #[test]
    fn a_file_that_cannot_be_opened_or_read_on_ends_its_comparison() {
        let mut comparisons = Comparisons::default();
        comparisons.begin(1, blocks(9), None);
        comparisons.begin(2, blocks(9), None);
        assert_eq!(comparisons.next_step(), Some(Step::Open(1)));
        comparisons.on_opened(1, None);
        assert_eq!(comparisons.next_step(), Some(Step::Complete { id: 1, first: 0 }));
        assert_eq!(comparisons.next_step(), Some(Step::Open(2)));
        comparisons.on_opened(2, Some(blocks(9)));
        assert_eq!(comparisons.next_step(), Some(Step::Read { id: 2, blocks: 0..9 }));
        comparisons.on_described(2, 7);
        assert_eq!(comparisons.next_step(), Some(Step::Complete { id: 2, first: 7 }));
    }

    #[test]
    fn blocks_that_are_held_are_left_out() {
        let mut held = BlockMap::new(6 * BLOCK);
        for index in [0, 1, 3, 5] {
            held.insert(index, [0; 32]).expect("it is a block of the file");
        }
        let (described, end) = describe(&mut opened(blocks(6), blocks(6), Some(held)));
        assert_eq!((described, end), (vec![2..3, 4..5], Some(Step::Complete { id: 1, first: 6 })));
    }

    #[test]
    fn the_blocks_ahead_of_those_that_arrive_are_bounded_over_all_files() {
        let mut comparisons = opened(blocks(250), blocks(250), None);
        assert!(describe(&mut comparisons).0.is_empty() || comparisons.ahead.len() <= MAX_AHEAD);
        (2..9).for_each(|id| comparisons.begin(id, blocks(1), None));
        while let Some(step) = comparisons.next_step() {
            match step {
                Step::Open(id) => comparisons.on_opened(id, Some(blocks(1))),
                Step::Read { id, blocks } => comparisons.on_described(id, blocks.len() as u32),
                Step::Complete { .. } => {}
            }
            assert!(comparisons.ahead.len() <= MAX_AHEAD);
        }
        assert!(!comparisons.has_step());
        // A block that arrives again makes no room.
        (0..MAX_BASIS_BLOCKS).for_each(|_| comparisons.on_arrived(1, 0, true));
        assert!(!comparisons.has_step());
        (1..MAX_BASIS_BLOCKS as u32).for_each(|index| comparisons.on_arrived(1, index, true));
        assert!(comparisons.has_step());
        assert!(comparisons.next_step().is_some());
    }

    #[test]
    fn holes_of_the_source_make_room_and_prove_nothing() {
        let mut comparisons = opened(blocks(5000), blocks(5000), None);
        describe(&mut comparisons);
        (0..GIVEN_UP_AFTER).for_each(|index| comparisons.on_hole(1, index));
        assert!(matches!(comparisons.next_step(), Some(Step::Read { .. })));
    }

    #[test]
    fn a_file_is_given_up_where_nothing_is_equal_and_not_once_something_was() {
        for alike in [None, Some(3)] {
            let mut comparisons = opened(blocks(5000), blocks(5000), None);
            describe(&mut comparisons);
            (0..GIVEN_UP_AFTER).for_each(|index| comparisons.on_arrived(1, index, Some(index) == alike));
            let next = comparisons.next_step();
            assert_eq!(matches!(next, Some(Step::Complete { .. })), alike.is_none(), "{next:?}");
        }
    }

    #[test]
    fn a_file_is_needed_until_all_that_is_described_of_it_has_arrived() {
        let mut comparisons = opened(blocks(2), blocks(2), None);
        assert!(comparisons.is_needed(1) && !comparisons.is_described(1, 0));
        describe(&mut comparisons);
        comparisons.on_arrived(1, 1, true);
        assert!(comparisons.is_needed(1) && comparisons.is_described(1, 0) && !comparisons.is_described(1, 1));
        comparisons.on_arrived(1, 0, false);
        assert!(!comparisons.is_needed(1));
    }

    #[test]
    fn a_file_that_is_forgotten_makes_room() {
        let mut comparisons = opened(blocks(5000), blocks(5000), None);
        describe(&mut comparisons);
        comparisons.begin(2, blocks(1), None);
        assert!(!comparisons.has_step());
        comparisons.forget(1);
        assert_eq!(comparisons.next_step(), Some(Step::Open(2)));
        comparisons.forget(2);
        comparisons.on_opened(2, Some(blocks(1)));
        assert_eq!(comparisons.next_step(), None);
    }
}
