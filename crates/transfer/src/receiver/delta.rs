//! Files at the destination in which content of large files may be, wherever it is in them: described to the
//! sender by chunks, and read once more for what is copied from them.
//!
//! ```text
//! names ── Want::Delta ──► begin ─► Descriptions ◄── takes ── intake
//!                                        │ steps
//!           compare thread: open, read, cut, Chunks ──► sender
//! ```
//!
//! As with [`ReplacedFiles`](super::bases::ReplacedFiles), what becomes of these files meanwhile does no
//! harm: every block that is put together is compared with its digest.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, MutexGuard};

use icdc_disk::sparse;
use icdc_disk::tree::{Directory, Name};
use icdc_protocol::chunking::{Chunking, chunk_digest};
use icdc_protocol::delta::CopiedPart;
use icdc_protocol::limits::{MAX_CHUNKS, MAX_CHUNKS_TOLD, MAX_FILE_SIZE};
use icdc_protocol::message::{EntryId, Message};
use icdc_session::receiver::descriptions::{Descriptions, OpenBasis, READ_AT_A_TIME, ReadChunks, Step};
use icdc_units::ByteCount;

/// Most large files whose bases are held open; those of further ones are opened again for each block.
const HELD_OPEN: usize = 16;

/// Bases of the large files of a session, shared by its threads and locked by each call.
#[derive(Default)]
pub(super) struct DeltaBases(Mutex<Table>);

/// State machine of the descriptions and the files that they are about, behind the lock of [`DeltaBases`].
#[derive(Default)]
struct Table {
    machine: Descriptions,
    /// Places of the bases of each file, in the order of their numbers.
    places: HashMap<EntryId, Arc<[Place]>>,
    /// Bases that are held open, by the file; those that were opened last are behind.
    open: VecDeque<(EntryId, OpenBases)>,
    /// The bases that are being described; `None` if none are.
    active: Option<Active>,
}

/// Place of a basis.
#[derive(Clone)]
pub(super) enum Place {
    /// A file that is opened by its directory and name there.
    Named(Directory, Name),
    /// A file that is open for the session.
    Open(Arc<File>),
}

/// The bases of a file, by number; `None` for each that cannot be opened.
type OpenBases = Arc<[Option<Arc<File>>]>;

/// The bases that are being described.
#[derive(Clone)]
struct Active {
    id: EntryId,
    bases: OpenBases,
    /// Data ranges of each, (offset, length).
    ranges: Arc<[Vec<(u64, u64)>]>,
}

impl DeltaBases {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no panic while descriptions are noted")
    }

    /// Registers the places of the bases of the received file `id`.
    pub(super) fn expect(&self, id: EntryId, places: Vec<Place>) {
        self.lock().places.insert(id, places.into());
    }

    /// Begins the description of the bases of the file `id`, for which the sender waits unless it is done with.
    pub(super) fn begin(&self, id: EntryId) {
        let mut table = self.lock();
        if table.places.contains_key(&id) {
            table.machine.begin(id);
        }
    }

    /// Whether a block may have come put together from these parts.
    pub(super) fn takes(&self, id: EntryId, index: u32, copies: &[CopiedPart]) -> bool {
        self.lock().machine.takes(id, index, copies)
    }

    /// Forgets a file all of whose blocks are there, or that is given up; true if the comparing thread can go on.
    pub(super) fn forget(&self, id: EntryId) -> bool {
        let mut table = self.lock();
        if table.places.remove(&id).is_none() {
            return false;
        }
        let could = table.machine.has_step();
        table.machine.forget(id);
        table.open.retain(|(of, _)| *of != id);
        table.active.take_if(|active| active.id == id);
        !could && table.machine.has_step()
    }

    /// Takes the next step of the descriptions: opens the bases of a file, or reads one of them on and sends
    /// its chunks by `reply`. True if there is another step; `buffer` is for what is read.
    pub(super) fn step(&self, buffer: &mut Vec<u8>, reply: impl Fn(Message)) -> bool {
        let step = self.lock().machine.next_step();
        let told = match step {
            None => return false,
            Some(Step::Open(id)) => {
                let opened = self.places(id).map(|places| Active::open(id, &places));
                let sizes = opened.as_ref().map(Active::sizes).unwrap_or_default();
                let mut table = self.lock();
                // It may be forgotten by now.
                table.active = opened.filter(|_| table.places.contains_key(&id));
                table.machine.on_opened(id, &sizes)
            }
            Some(Step::Read { id, basis, offset, chunking }) => {
                let active = self.lock().active.clone().filter(|active| active.id == id);
                let read = active.and_then(|active| active.read(usize::from(basis), offset, chunking, buffer));
                // Before the sender knows: its blocks may be here at once.
                self.lock().machine.on_read(id, basis, read.unwrap_or_default())
            }
        };
        if let Some(told) = told {
            if told.complete {
                self.lock().described(told.id);
            }
            reply(Message::Chunks(told));
        }
        self.lock().machine.has_step()
    }

    /// Fills `data` with what the basis of this number has from an offset on; false if it cannot be read or
    /// has become shorter.
    pub(super) fn fill(&self, id: EntryId, (basis, offset): (u8, u64), data: &mut [u8]) -> bool {
        let file = self.bases(id).and_then(|bases| bases.get(usize::from(basis))?.clone());
        file.is_some_and(|file| file.read_exact_at(data, offset).is_ok())
    }

    /// Places of the bases of a file; `None` if it is done with.
    fn places(&self, id: EntryId) -> Option<Arc<[Place]>> {
        self.lock().places.get(&id).cloned()
    }

    /// The bases of a file, opened if they are not open; `None` if it is done with.
    fn bases(&self, id: EntryId) -> Option<OpenBases> {
        let places = {
            let table = self.lock();
            let active = table.active.iter().map(|active| (active.id, &active.bases));
            let mut open = active.chain(table.open.iter().map(|(of, bases)| (*of, bases)));
            if let Some((_, bases)) = open.find(|(of, _)| *of == id) {
                return Some(bases.clone());
            }
            table.places.get(&id)?.clone()
        };
        let bases: OpenBases = places.iter().map(open).collect();
        let mut table = self.lock();
        if table.places.contains_key(&id) {
            table.hold(id, bases.clone());
        }
        Some(bases)
    }
}

impl Table {
    /// Keeps the bases of a file open that is described, for its blocks.
    fn described(&mut self, id: EntryId) {
        if let Some(active) = self.active.take_if(|active| active.id == id) {
            self.hold(id, active.bases);
        }
    }

    /// Keeps bases open, and closes those that were opened first where they are too many.
    fn hold(&mut self, id: EntryId, bases: OpenBases) {
        self.open.retain(|(of, _)| *of != id);
        self.open.push_back((id, bases));
        if self.open.len() > HELD_OPEN {
            self.open.pop_front();
        }
    }
}

impl Active {
    /// Opens the bases of a file. One that is the same file as another before it is left out.
    fn open(id: EntryId, places: &[Place]) -> Self {
        let mut seen = Vec::new();
        let mut open_once = |place: &Place| {
            let file = open(place)?;
            let metadata = file.metadata().ok()?;
            let identity = (metadata.dev(), metadata.ino());
            let is_new = !seen.contains(&identity);
            seen.push(identity);
            is_new.then_some(file)
        };
        let bases: OpenBases = places.iter().map(&mut open_once).collect();
        let ranges_of = |file: &Arc<File>| {
            let size = file.metadata().map_or(0, |metadata| metadata.len());
            // Whoever made the file may have put data anywhere, and any number of holes between.
            let is_near = |range: &io::Result<(u64, u64)>| {
                !range.as_ref().is_ok_and(|(start, length)| start + length > MAX_FILE_SIZE)
            };
            let ranges = sparse::data_ranges(file, size).take_while(is_near).take(MAX_CHUNKS as usize);
            ranges.collect::<Result<_, _>>().unwrap_or_else(|_| vec![(0, size.min(MAX_FILE_SIZE))])
        };
        let ranges = bases.iter().map(|file| file.as_ref().map(ranges_of).unwrap_or_default()).collect();
        Self { id, bases, ranges }
    }

    /// Lengths of the bases: a hole at the end of one is not counted.
    fn sizes(&self) -> Vec<Option<OpenBasis>> {
        let size = |ranges: &Vec<(u64, u64)>| {
            let (offset, length) = ranges.last()?;
            let data = ranges.iter().map(|(_, length)| length).sum();
            Some(OpenBasis { length: ByteCount::new(offset + length), data: ByteCount::new(data) })
        };
        self.ranges.iter().map(size).collect()
    }

    /// Reads a basis from `offset` on and cuts it; `None` if it cannot be read, or has no more data.
    fn read(&self, basis: usize, offset: u64, chunking: Chunking, buffer: &mut Vec<u8>) -> Option<ReadChunks> {
        let (file, ranges) = (self.bases.get(basis)?.as_ref()?, self.ranges.get(basis)?);
        let number = ranges.partition_point(|(start, length)| start + length <= offset);
        let &(start, length) = ranges.get(number)?;
        let (offset, end) = (start.max(offset), start + length);
        let read = (end - offset).min(READ_AT_A_TIME as u64) as usize;
        buffer.resize(read.max(buffer.len()), 0);
        let data = &mut buffer[..read];
        let outcome = file.read_exact_at(data, offset);
        outcome.inspect_err(|error| tracing::debug!(%error, "a basis cannot be described any further")).ok()?;
        let (mut chunks, mut cut, is_all) = (Vec::new(), 0, offset + read as u64 == end);
        while chunks.len() < MAX_CHUNKS_TOLD
            && let Some(length) = chunking.first(&data[cut..], is_all)
        {
            chunks.push((length as u32, chunk_digest(&data[cut..cut + length])));
            cut += length;
        }
        let next = offset + cut as u64;
        let is_last = next == end && number + 1 == ranges.len();
        Some(ReadChunks { offset, chunks, next: (!is_last).then_some(next) })
    }
}

/// Opens a basis; `None` if it cannot be opened, or is no regular file.
fn open(place: &Place) -> Option<Arc<File>> {
    match place {
        Place::Open(file) => Some(file.clone()),
        Place::Named(directory, name) => {
            let opened = directory.open_file(name);
            opened
                .inspect_err(|error| tracing::debug!(%error, "a basis cannot be opened"))
                .ok()
                .map(|(file, _)| file.into())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    /// A file with these contents, open for reading.
    fn file(contents: &[u8]) -> Arc<File> {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(contents).unwrap();
        Arc::new(file)
    }

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    /// All that is told of bases, as (basis, offset, length of the chunk).
    fn told(bases: &DeltaBases) -> Vec<(u8, u64, u32)> {
        let messages = Mutex::new(Vec::new());
        bases.begin(1);
        while bases.step(&mut Vec::new(), |message| messages.lock().unwrap().push(message)) {}
        let messages = messages.into_inner().unwrap();
        assert!(matches!(messages.last(), Some(Message::Chunks(chunks)) if chunks.complete));
        let mut all = Vec::new();
        for message in messages {
            let Message::Chunks(chunks) = message else { panic!("{message:?}") };
            let mut offset = chunks.offset;
            for (length, _) in chunks.chunks {
                all.push((chunks.basis, offset, length));
                offset += u64::from(length);
            }
        }
        all
    }

    #[test]
    fn all_data_of_all_bases_is_described_once() {
        let (a, b) = (noise(1, 40 << 20), noise(2, 300_000));
        let (a, b) = (file(&a), file(&b));
        let bases = DeltaBases::default();
        bases.expect(1, [&a, &b, &a].map(|file| Place::Open(file.clone())).to_vec());
        let told = told(&bases);
        for (basis, length) in [(0, 40 << 20), (1, 300_000), (2, 0)] {
            let mut at = 0;
            for (_, offset, length) in told.iter().filter(|(of, ..)| *of == basis) {
                assert_eq!(*offset, at);
                at += u64::from(*length);
            }
            assert_eq!(at, length, "basis {basis}");
        }
        let mut data = [0; 3];
        assert!(bases.fill(1, (1, 299_997), &mut data) && !bases.fill(1, (1, 299_998), &mut data));
        assert!(!bases.fill(1, (3, 0), &mut data));
        let copy = [CopiedPart { at: 0, length: 3, basis: 1, offset: 299_997 }];
        assert!(bases.takes(1, 0, &copy) && !bases.takes(1, 0, &copy));
        assert!(!bases.forget(1) && !bases.fill(1, (1, 0), &mut data));
    }

    #[test]
    fn holes_are_not_described() {
        let contents = noise(3, 1 << 20);
        let sparse = tempfile::tempfile().unwrap();
        sparse.set_len(64 << 20).unwrap();
        sparse.write_all_at(&contents, 0).unwrap();
        sparse.write_all_at(&contents, 32 << 20).unwrap();
        let bases = DeltaBases::default();
        bases.expect(1, vec![Place::Open(Arc::new(sparse))]);
        let told: u64 = told(&bases).iter().map(|(.., length)| u64::from(*length)).sum();
        // A file system may keep a little more than what was written.
        assert!((2 << 20..8 << 20).contains(&told), "{told}");
    }

    #[test]
    fn a_basis_that_is_truncated_meanwhile_ends_its_description() {
        let basis = file(&noise(4, 1 << 20));
        let bases = DeltaBases::default();
        bases.expect(1, vec![Place::Open(basis.clone())]);
        bases.begin(1);
        assert!(bases.step(&mut Vec::new(), |_| panic!("nothing is read yet")));
        basis.set_len(10).unwrap();
        let messages = Mutex::new(Vec::new());
        while bases.step(&mut Vec::new(), |message| messages.lock().unwrap().push(message)) {}
        let messages = messages.into_inner().unwrap();
        assert!(matches!(&messages[..], [Message::Chunks(told)] if told.complete && told.chunks.is_empty()));
    }
}
