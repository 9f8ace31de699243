//! Descriptions of files in which the content of large files may be, wherever it is there: which are read,
//! how far, and what a sender may copy from them.
//!
//! ```text
//! begin ─► Open ─► on_opened ─► (room) ─► Read ─► on_read ─┬─► Chunks … ─► complete ─► the next file
//!                                           ▲              │
//!                                           └──────────────┘
//! ```
//!
//! One file is described at a time. Its bases are read side by side from their starts on, the one that is
//! described least far first. The chunks of all files that are under way are bounded, and with them what
//! waits for the connection, and what the sender keeps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use icdc_protocol::chunking::{ChunkDigest, Chunking};
use icdc_protocol::delta::{Chunks, CopiedPart};
use icdc_protocol::limits::{MAX_CHUNKS, MAX_CHUNKS_TOLD, MAX_FILE_SIZE};
use icdc_protocol::message::EntryId;
use icdc_units::ByteCount;

/// Most bytes of a basis that are read for one message: as many as the shortest chunks of one have.
pub const READ_AT_A_TIME: usize = MAX_CHUNKS_TOLD * (4 << 10);

/// Descriptions of the bases of a session's large files, one file at a time.
#[derive(Debug, Default)]
pub struct Descriptions {
    /// Files whose bases are still to be described.
    waiting: VecDeque<EntryId>,
    active: Option<Active>,
    /// Descriptions of the files that are under way, as the sender knows them.
    told: BTreeMap<EntryId, Told>,
    /// Number of chunks in all of these.
    total: u32,
}

/// The file whose bases are being described.
#[derive(Debug)]
struct Active {
    id: EntryId,
    stage: Stage,
}

/// Progress of a description.
#[derive(Debug)]
enum Stage {
    Opening,
    /// The bases are open; `most` chunks are expected at most.
    Waiting {
        chunking: Chunking,
        places: Vec<Place>,
        most: u32,
    },
    /// The bases are read; `left` is the number of chunks that may still be described.
    Reading {
        chunking: Chunking,
        places: Vec<Place>,
        left: u32,
        is_pending: bool,
    },
}

/// Progress of the description of a basis.
#[derive(Clone, Copy, Debug)]
struct Place {
    next: u64,
    end: u64,
}

/// Description of the bases of a file, as the sender knows it, and the blocks that came of it.
#[derive(Debug, Default)]
struct Told {
    chunks: u32,
    /// Place in each basis up to which it is described.
    reach: Vec<u64>,
    /// Blocks that have arrived put together.
    assembled: BTreeSet<u32>,
}

/// A basis that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenBasis {
    /// Length of the file.
    pub length: ByteCount,
    /// Number of bytes of it that are data, and no holes.
    pub data: ByteCount,
}

/// Next step of the descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Open the bases of this file: [`Descriptions::on_opened`].
    Open(EntryId),
    /// Read a basis from a place on, cut it into chunks: [`Descriptions::on_read`].
    Read {
        /// Id of the file that is received.
        id: EntryId,
        /// Number of the basis.
        basis: u8,
        /// Place in the basis, in bytes, at which a chunk begins.
        offset: u64,
        /// Parameters by which it is cut.
        chunking: Chunking,
    },
}

/// Outcome of [`Step::Read`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadChunks {
    /// Place of the first chunk, in bytes: that of the step, or behind a hole there.
    pub offset: u64,
    /// Length and digest of each chunk, [`MAX_CHUNKS_TOLD`] at most.
    pub chunks: Vec<(u32, ChunkDigest)>,
    /// Place at which the next chunk begins; `None` where the basis has ended, or cannot be read on.
    pub next: Option<u64>,
}

impl Descriptions {
    /// Begins the description of the bases of a file.
    pub fn begin(&mut self, id: EntryId) {
        self.waiting.push_back(id);
    }

    /// The next step; `None` if something has to come first.
    pub fn next_step(&mut self) -> Option<Step> {
        let Some(active) = &mut self.active else {
            let id = self.waiting.pop_front()?;
            self.active = Some(Active { id, stage: Stage::Opening });
            return Some(Step::Open(id));
        };
        active.begin_reading(self.total);
        let id = active.id;
        let Stage::Reading { chunking, places, is_pending: is_pending @ false, .. } = &mut active.stage else {
            return None;
        };
        let (basis, place) = least_far(places)?;
        *is_pending = true;
        Some(Step::Read { id, basis, offset: place.next, chunking: *chunking })
    }

    /// Whether there is a next step.
    #[must_use]
    pub fn has_step(&self) -> bool {
        match self.active.as_ref().map(|active| &active.stage) {
            None => !self.waiting.is_empty(),
            Some(Stage::Opening) => false,
            Some(Stage::Waiting { most, .. }) => has_room(self.total, *most),
            Some(Stage::Reading { is_pending, .. }) => !is_pending,
        }
    }

    /// Handles the outcome of [`Step::Open`]: the bases in the order of their numbers, `None` for those that
    /// are not read. Gives the message for the sender if there is nothing to describe.
    pub fn on_opened(&mut self, id: EntryId, bases: &[Option<OpenBasis>]) -> Option<Chunks> {
        let active = self.active.as_mut().filter(|active| active.id == id)?;
        let data = bases.iter().flatten().map(|basis| basis.data.as_u64()).fold(0, u64::saturating_add);
        let chunking = Chunking::for_bytes(ByteCount::new(data));
        // Twice the average number: content may be cut more finely than on average.
        let most = 2 * data.div_ceil(chunking.average() as u64);
        let most = u32::try_from(most).unwrap_or(MAX_CHUNKS).min(MAX_CHUNKS);
        let end = |basis: &Option<OpenBasis>| basis.map_or(0, |basis| basis.length.as_u64().min(MAX_FILE_SIZE));
        let places: Vec<_> = bases.iter().map(|basis| Place { next: 0, end: end(basis) }).collect();
        self.told.insert(id, Told { reach: vec![0; places.len()], ..Told::default() });
        if least_far(&places).is_some() {
            active.stage = Stage::Waiting { chunking, places, most };
            return None;
        }
        self.active = None;
        Some(Chunks { id, chunking, basis: 0, offset: 0, chunks: Vec::new(), covered: MAX_FILE_SIZE, complete: true })
    }

    /// Handles the outcome of [`Step::Read`]; gives the message for the sender, `None` where there is nothing
    /// to tell.
    pub fn on_read(&mut self, id: EntryId, basis: u8, read: ReadChunks) -> Option<Chunks> {
        let active = self.active.as_mut().filter(|active| active.id == id)?;
        let Stage::Reading { chunking, places, left, is_pending } = &mut active.stage else { return None };
        let (number, told) = (usize::from(basis), self.told.get_mut(&id)?);
        let ReadChunks { offset, mut chunks, next } = read;
        *is_pending = false;
        chunks.truncate(*left as usize);
        let described = chunks.len() as u32;
        (*left, told.chunks, self.total) = (*left - described, told.chunks + described, self.total + described);
        if described > 0 {
            told.reach[number] = chunks.iter().fold(offset, |end, (length, _)| end + u64::from(*length));
        }
        places[number].next = next.unwrap_or(places[number].end);
        let chunking = *chunking;
        let further = least_far(places).filter(|_| *left > 0);
        let (covered, complete) = (further.map_or(MAX_FILE_SIZE, |(_, place)| place.next), further.is_none());
        if complete {
            self.active = None;
        }
        (complete || described > 0).then_some(Chunks { id, chunking, basis, offset, chunks, covered, complete })
    }

    /// Whether a block may have come put together from these parts: they lie in what is described to the
    /// sender, and the block has not come so before.
    pub fn takes(&mut self, id: EntryId, index: u32, copies: &[CopiedPart]) -> bool {
        let Some(told) = self.told.get_mut(&id) else { return false };
        let is_described = |copy: &CopiedPart| {
            let end = copy.offset.checked_add(u64::from(copy.length));
            told.reach.get(usize::from(copy.basis)).is_some_and(|reach| end.is_some_and(|end| end <= *reach))
        };
        copies.iter().all(is_described) && told.assembled.insert(index)
    }

    /// Forgets a file all of whose blocks are there, or that is given up.
    pub fn forget(&mut self, id: EntryId) {
        self.waiting.retain(|waiting| *waiting != id);
        self.active.take_if(|active| active.id == id);
        self.total -= self.told.remove(&id).map_or(0, |told| told.chunks);
    }
}

impl Active {
    /// Begins to read the bases, if there is room beside the `total` of chunks of other files.
    fn begin_reading(&mut self, total: u32) {
        if let Stage::Waiting { chunking, places, most } = &mut self.stage
            && has_room(total, *most)
        {
            let (chunking, places, left) = (*chunking, std::mem::take(places), MAX_CHUNKS - total);
            self.stage = Stage::Reading { chunking, places, left, is_pending: false };
        }
    }
}

/// Whether so many chunks may be described beside the `total` of other files.
fn has_room(total: u32, most: u32) -> bool {
    total == 0 || total + most <= MAX_CHUNKS
}

/// Number and place of the basis that is described least far and has not ended.
fn least_far(places: &[Place]) -> Option<(u8, Place)> {
    let open = places.iter().zip(0..).filter(|(place, _)| place.next < place.end);
    open.min_by_key(|(place, number)| (place.next, *number)).map(|(place, number)| (number, *place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(length: u64) -> Option<OpenBasis> {
        Some(OpenBasis { length: ByteCount::new(length), data: ByteCount::new(length) })
    }

    /// Chunks of 10 KiB each from `offset` on.
    fn read(offset: u64, chunks: usize, next: Option<u64>) -> ReadChunks {
        ReadChunks { offset, chunks: vec![(10 << 10, [7; 16]); chunks], next }
    }

    /// Descriptions of the file 1 with these bases.
    fn begun(bases: &[Option<OpenBasis>]) -> Descriptions {
        let mut descriptions = Descriptions::default();
        descriptions.begin(1);
        assert_eq!(descriptions.next_step(), Some(Step::Open(1)));
        assert_eq!((descriptions.next_step(), descriptions.has_step()), (None, false));
        assert_eq!(descriptions.on_opened(1, bases), None);
        descriptions
    }

    fn place(step: Option<Step>) -> (u8, u64) {
        match step {
            Some(Step::Read { basis, offset, .. }) => (basis, offset),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bases_are_read_side_by_side_and_the_last_message_says_so() {
        let mut descriptions = begun(&[open(50_000), None, open(20_480)]);
        assert_eq!(place(descriptions.next_step()), (0, 0));
        assert_eq!(descriptions.next_step(), None, "one read at a time");
        let told = descriptions.on_read(1, 0, read(0, 2, Some(20_480))).unwrap();
        assert_eq!((told.covered, told.complete, told.chunks.len()), (0, false, 2), "the other one is not covered");
        assert_eq!(place(descriptions.next_step()), (2, 0));
        let told = descriptions.on_read(1, 2, read(0, 2, None)).unwrap();
        assert_eq!((told.basis, told.covered, told.complete), (2, 20_480, false));
        assert_eq!(place(descriptions.next_step()), (0, 20_480));
        assert_eq!(descriptions.on_read(1, 0, read(20_480, 0, Some(40_000))), None, "a hole");
        assert_eq!(place(descriptions.next_step()), (0, 40_000));
        let told = descriptions.on_read(1, 0, read(40_000, 0, None)).unwrap();
        assert!(told.complete && told.chunks.is_empty());
        assert!(!descriptions.has_step());
    }

    #[test]
    fn a_file_without_bases_is_described_at_once() {
        let mut descriptions = Descriptions::default();
        descriptions.begin(1);
        descriptions.next_step();
        assert!(descriptions.on_opened(1, &[None, open(0)]).is_some_and(|told| told.complete));
        assert_eq!(descriptions.next_step(), None);
    }

    #[test]
    fn only_what_is_described_may_be_copied_and_a_block_once() {
        let mut descriptions = begun(&[open(50_000)]);
        let copy = |basis, offset, length| [CopiedPart { at: 0, length, basis, offset }];
        assert!(!descriptions.takes(1, 0, &copy(0, 0, 1)));
        descriptions.next_step();
        descriptions.on_read(1, 0, read(0, 2, Some(20_480)));
        assert!(!descriptions.takes(2, 0, &copy(0, 0, 1)), "another file");
        assert!(!descriptions.takes(1, 0, &copy(1, 0, 1)), "another basis");
        assert!(!descriptions.takes(1, 0, &copy(0, 20_000, 481)), "beyond what is described");
        assert!(!descriptions.takes(1, 0, &copy(0, u64::MAX, 1)));
        assert!(descriptions.takes(1, 0, &copy(0, 20_000, 480)));
        assert!(!descriptions.takes(1, 0, &copy(0, 0, 1)), "twice");
        assert!(descriptions.takes(1, 1, &copy(0, 0, 1)));
        descriptions.forget(1);
        assert!(!descriptions.takes(1, 2, &copy(0, 0, 1)));
    }

    #[test]
    fn the_chunks_of_files_under_way_are_bounded() {
        // All cut into the shortest chunks.
        let mut descriptions = begun(&[open(16 << 30)]);
        let mut told = 0;
        loop {
            let (_, offset) = place(descriptions.next_step());
            let chunks = vec![(4 << 10, [1; 16]); MAX_CHUNKS_TOLD];
            let next = Some(offset + READ_AT_A_TIME as u64);
            let message = descriptions.on_read(1, 0, ReadChunks { offset, chunks, next }).unwrap();
            told += message.chunks.len();
            if message.complete {
                break;
            }
        }
        assert_eq!(told, MAX_CHUNKS as usize);
        descriptions.begin(2);
        assert_eq!(descriptions.next_step(), Some(Step::Open(2)));
        descriptions.on_opened(2, &[open(100_000)]);
        assert_eq!((descriptions.next_step(), descriptions.has_step()), (None, false));
        descriptions.forget(1);
        assert!(descriptions.has_step());
        assert_eq!(place(descriptions.next_step()), (0, 0));
    }

    #[test]
    fn a_file_that_is_forgotten_while_it_is_described_makes_room() {
        let mut descriptions = begun(&[open(1 << 20)]);
        descriptions.next_step();
        descriptions.begin(2);
        descriptions.begin(3);
        descriptions.forget(1);
        descriptions.forget(2);
        assert_eq!(descriptions.on_read(1, 0, read(0, 1, None)), None);
        assert_eq!(descriptions.next_step(), Some(Step::Open(3)));
    }
}
