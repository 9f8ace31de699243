//! Reads large files block by block.
//!
//! One thread for each device keeps its engine's queue full and hands on in file order what is
//! read.

mod matched;

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crossbeam_channel::{Receiver as Queue, Sender as Channel};
use icdc_disk::tree::Stat;
use icdc_disk::{DiskFile, Engine, Job, open_engine, sparse};
use icdc_protocol::basis::{Basis, LeafDigest};
use icdc_protocol::block_map::{BlockMap, block_count, block_length, block_offset};
use icdc_protocol::data_ranges;
use icdc_protocol::limits::MAX_HASHED_HOLES;
use icdc_protocol::message::{CandidateAnswer, Candidates, EntryId, FileDigest, GivenUp};
use icdc_session::SessionError;

use super::block_device::SourceDevice;
use super::delta::{Lookup, ReadBlock};
use super::executor::{Contents, Executor, ReadJob};
use super::given_up::{changed, resized, unopened, unreadable};
use super::hashing::{Extent, Hashing, Purpose, Step};
use super::misstated::{extends_beyond, misstated};
use super::source_version::{is_another, version};
use super::stream;
use crate::diskless;
use crate::known_digests::ReadVersion;

/// Maximum number of reads in flight on one device.
pub(super) const DEPTH: usize = 6;
/// Minimum length of a hole in bytes that is not sent: shorter holes are sent as zeros.
const SHORT_HOLE: u32 = 16 << 10;

/// Reason for not reading on in a file that the other end has given up.
const GIVEN_UP: &str = "given up at the other end";

/// A step for the hashing threads, or one that waits for its read to complete.
enum Queued {
    /// A step that can be handed on.
    Ready(Step),
    /// The file cannot be read any further.
    Failed(Arc<Hashing>, GivenUp),
    /// A step whose read is in flight.
    Reading { tag: u64, step: Pending, length: usize },
    /// An entry that was dropped: nothing to pass on.
    Dropped,
    /// A block whose contents are looked up in what the receiver has.
    LookUp { id: EntryId, hashing: Arc<Hashing>, read: ReadBlock },
    /// Nothing that follows continues the blocks of a file that are looked up.
    LookedUp { id: EntryId, hashing: Arc<Hashing> },
    /// The last block of a file was looked up, or the file is given up.
    Forget(EntryId),
    /// The last step of a file: its version is checked when every read before it is through.
    Check { hashing: Arc<Hashing>, announced: Announced },
}

/// A read in flight, with what its step needs.
enum Pending {
    /// A block of a file that is sent for the first time.
    Data { hashing: Arc<Hashing>, index: u32, extent: Extent, announced: Announced, looks_up: Option<EntryId> },
    /// A block that is read again for a retransmission.
    Again { id: EntryId, index: u32, announced: Announced },
}

/// An open file, with the state in which it was announced.
#[derive(Clone)]
struct Announced {
    file: Arc<DiskFile>,
    /// Announced size of the file in bytes.
    size: u64,
    version: [u8; 16],
    /// The device whose contents the file has; `None` for a regular file.
    device: Option<SourceDevice>,
}

/// State of a thread that reads large files: disk engine, steps in file order, and files that are
/// compared.
struct Reader<'a> {
    executor: &'a Executor<'a>,
    hashers: &'a Channel<Step>,
    engine: Box<dyn Engine>,
    /// Present limit of the reads in flight. It grows with completed reads: reads that begin
    /// together end together, and the connection would wait for the first block as long as for the
    /// last.
    depth: usize,
    queue: VecDeque<Queued>,
    next_tag: u64,
    /// Files of which the receiver describes what it has, with the blocks that it holds.
    compared: HashMap<EntryId, Compared>,
    /// Those of them whose contents are looked up in what the receiver has.
    lookups: HashMap<EntryId, Lookup>,
}

/// A file that is read as far as the receiver describes what it has.
enum Compared {
    /// Nothing is described yet.
    Unopened { held: Option<BlockMap>, looks_up: bool },
    /// It is read up to some block.
    Opened(Box<Reading>),
}

/// Descriptions of consecutive blocks of the receiver's file.
#[derive(Default)]
struct Described<'a> {
    /// Digests of leaves, block by block.
    leaves: std::vec::IntoIter<Vec<LeafDigest>>,
    /// Takes the numbers of those blocks that are holes.
    holes: Option<&'a mut Vec<u32>>,
}

/// Large file that is being read: its digest so far, its holes, and the next block.
struct Reading {
    id: EntryId,
    announced: Announced,
    hashing: Arc<Hashing>,
    /// Where it has data; `None` if it has no holes that count.
    map: Option<DataMap>,
    /// Blocks that the receiver holds.
    held: Option<BlockMap>,
    /// Number of the next block to read.
    next: u32,
    /// Whether its contents are looked up in what the receiver has.
    looks_up: bool,
}

/// Error: the session is over, so nothing more is read.
struct Over;

/// Carries out read jobs until the queue is closed or the session ends; `number` is that of the
/// reading thread, from 0.
pub(super) fn read(executor: &Executor<'_>, number: usize, jobs: &Queue<ReadJob>, hashers: &Channel<Step>) {
    let Ok(mut next) = jobs.recv().map(Some) else { return };
    if number > 0 {
        (0..DEPTH).for_each(|_| executor.pool.grow());
    }
    let engine = match open_engine(DEPTH, diskless::engine(executor.diskless)) {
        Ok(engine) => engine,
        Err(error) => return executor.fail(SessionError::Local(error.to_string())),
    };
    let mut reader = Reader::new(executor, hashers, engine);
    loop {
        // With reads in flight the queue is only looked at: their completions come first.
        let job = if next.is_some() {
            next.take()
        } else if reader.queue.is_empty() {
            jobs.recv().ok()
        } else {
            match jobs.try_recv() {
                Ok(job) => Some(job),
                Err(_) => {
                    if reader.advance().is_err() {
                        return;
                    }
                    continue;
                }
            }
        };
        let Some(job) = job else { return };
        let outcome = match job {
            ReadJob::File(id, held) => reader.read_file(id, held),
            ReadJob::Stream(id, held) => {
                stream::read(executor, hashers, id, held);
                Ok(())
            }
            ReadJob::Compared(id, held) => {
                reader.await_descriptions(id, held, false);
                Ok(())
            }
            ReadJob::AwaitChunks(id, held) => {
                reader.await_descriptions(id, held, true);
                Ok(())
            }
            ReadJob::Matched(chunks) => {
                let read = reader.read_matched(&chunks);
                executor.with(|machine| machine.on_chunks_taken(chunks.chunks.len()));
                read
            }
            ReadJob::Described(basis) => {
                let (id, blocks, mut holes) = (basis.id, basis.blocks.len(), Vec::new());
                let read = reader.read_described(basis, &mut holes);
                executor.with(|machine| machine.on_description_read(id, blocks, holes));
                read
            }
            ReadJob::Again(id, index) => reader.read_again(id, index),
            ReadJob::Compare(candidates) => reader.compare(&candidates),
        };
        if outcome.is_err() {
            return;
        }
    }
}

impl<'a> Reader<'a> {
    /// A reader that has nothing to do yet.
    fn new(executor: &'a Executor<'a>, hashers: &'a Channel<Step>, engine: Box<dyn Engine>) -> Self {
        let (queue, compared, lookups) = Default::default();
        Self { executor, hashers, engine, depth: 1, queue, next_tag: 0, compared, lookups }
    }
}

impl Reader<'_> {
    /// Reads all blocks of a file but those that the receiver holds (`held`).
    fn read_file(&mut self, id: EntryId, held: Option<BlockMap>) -> Result<(), Over> {
        let Some(contents) = self.executor.contents(id) else { return Ok(()) };
        match open(&contents, self.executor.buffered) {
            Ok(announced) => self.read_all(Reading::new(&contents, announced, held, Purpose::Send)),
            Err(given_up) => {
                self.executor.give_up(id, given_up);
                Ok(())
            }
        }
    }

    /// Reads a file for its digest, unless there are candidates and the source still has something at
    /// the places of all of them.
    fn compare(&mut self, &Candidates { id, ref places }: &Candidates) -> Result<(), Over> {
        let Some(contents) = self.executor.contents(id) else { return Ok(()) };
        let gone = if contents.held.is_none() { self.executor.asked_about.gone(places) } else { 0 };
        if places.is_empty()
            && let Some(digest) = self.known_digest(&contents)
        {
            self.executor.with(|machine| machine.on_compared(CandidateAnswer { id, gone, digest: Some(digest) }));
            return Ok(());
        }
        // One that cannot be opened is given up when its contents are asked for.
        let is_asked = places.is_empty() || (gone != 0 && !self.executor.dry_run);
        if is_asked && let Ok(announced) = open(&contents, self.executor.buffered) {
            let is_announced = |read: &ReadVersion| version(read.stat()) == announced.version;
            let kept = match places.is_empty() && contents.block_device.is_none() {
                true => self.executor.digests.begin(announced.file.as_file()).filter(is_announced),
                false => None,
            };
            return self.read_all(Reading::new(&contents, announced, None, Purpose::Compare { gone, kept }));
        }
        self.executor.with(|machine| machine.on_compared(CandidateAnswer { id, gone, digest: None }));
        Ok(())
    }

    /// Digest of a file that an earlier run has read, if it is the version that was announced.
    fn known_digest(&self, contents: &Contents) -> Option<FileDigest> {
        // Attributes of its node do not tell what is in a device.
        if contents.block_device.is_some() {
            return None;
        }
        let stat = contents.directory.stat(&contents.name).ok()?;
        if version(&stat) == contents.version { self.executor.digests.of(&stat) } else { None }
    }

    /// Notes that the receiver will describe what it has of a file, besides the blocks `held`, and forgets
    /// files that are done with.
    fn await_descriptions(&mut self, id: EntryId, held: Option<BlockMap>, looks_up: bool) {
        self.compared.retain(|id, _| self.executor.is_pending(*id));
        self.lookups.retain(|id, _| self.executor.is_pending(*id));
        self.compared.insert(id, Compared::Unopened { held, looks_up });
        if looks_up {
            self.lookups.insert(id, Lookup::default());
        }
    }

    /// Reads a file from where it stands to its end, and has checked that it is as it was
    /// announced.
    fn read_all(&mut self, mut reading: Reading) -> Result<(), Over> {
        let end = block_count(reading.announced.size);
        if self.read_blocks(&mut reading, end, Described::default())? {
            if reading.looks_up {
                let (id, hashing) = (reading.id, reading.hashing.clone());
                self.queue.extend([Queued::LookedUp { id, hashing }, Queued::Forget(id)]);
            }
            self.queue.push_back(Queued::Check { hashing: reading.hashing, announced: reading.announced });
        }
        Ok(())
    }

    /// Reads the blocks of a file up to the last that is described, or to its end; adds those to `holes`
    /// that were described and are holes.
    fn read_described(&mut self, basis: Basis, holes: &mut Vec<u32>) -> Result<(), Over> {
        let Basis { id, first, blocks, complete } = basis;
        let Some(mut reading) = self.take_compared(id) else { return Ok(()) };
        let end = first.saturating_add(blocks.len() as u32);
        let goes_on = self.read_blocks(&mut reading, first, Described::default())?
            && self.read_blocks(&mut reading, end, Described { leaves: blocks.into_iter(), holes: Some(holes) })?;
        if goes_on && complete {
            return self.read_all(*reading);
        }
        if goes_on {
            self.compared.insert(id, Compared::Opened(reading));
        }
        Ok(())
    }

    /// Takes a file whose descriptions are awaited, opened with the first of them; `None` if it is done with,
    /// or cannot be opened, and then it is given up.
    fn take_compared(&mut self, id: EntryId) -> Option<Box<Reading>> {
        let (held, looks_up) = match self.compared.remove(&id)? {
            Compared::Opened(reading) => return Some(reading),
            Compared::Unopened { held, looks_up } => (held, looks_up),
        };
        let contents = self.executor.contents(id)?;
        match open(&contents, self.executor.buffered) {
            Ok(announced) => {
                let reading = Reading::new(&contents, announced, held, Purpose::Send);
                Some(Box::new(Reading { looks_up, ..reading }))
            }
            Err(given_up) => {
                self.executor.give_up(id, given_up);
                None
            }
        }
    }

    /// Reads the blocks of a file before the block `end`, of which the receiver describes what it has;
    /// false if the receiver has given the file up.
    fn read_blocks(&mut self, reading: &mut Reading, end: u32, mut described: Described<'_>) -> Result<bool, Over> {
        while reading.next < end {
            let index = reading.next;
            reading.next += 1;
            let leaves = described.leaves.next();
            if !self.executor.is_pending(reading.id) {
                self.push(Queued::Failed(reading.hashing.clone(), unreadable(GIVEN_UP.to_owned())))?;
                self.push(Queued::Forget(reading.id))?;
                return Ok(false);
            }
            let file = reading.hashing.clone();
            if let Some(value) = reading.held.as_ref().and_then(|held| held.get(index)) {
                self.break_lookup(reading)?;
                self.push(Queued::Ready(Step::Held { file, index, value }))?;
                continue;
            }
            let length = block_length(reading.announced.size, index);
            let extent = match (&reading.map, leaves) {
                (None, None) => Extent::Whole,
                (None, Some(leaves)) => Extent::Difference(leaves),
                (Some(map), leaves) => match map.within(index, length) {
                    Some(ranges) if ranges.is_empty() => leaves.map_or(Extent::Whole, Extent::Difference),
                    Some(ranges) => Extent::Data(ranges),
                    None => {
                        if let (Some(_), Some(holes)) = (leaves, &mut described.holes) {
                            holes.push(index);
                        }
                        self.break_lookup(reading)?;
                        self.push(Queued::Ready(Step::Hole { file, index }))?;
                        continue;
                    }
                },
            };
            let (announced, looks_up) = (reading.announced.clone(), reading.looks_up);
            self.submit(
                index,
                Pending::Data { hashing: file, index, extent, announced, looks_up: looks_up.then_some(reading.id) },
            )?;
        }
        Ok(true)
    }

    /// Reads one block of a file once more, for a retransmission.
    fn read_again(&mut self, id: EntryId, index: u32) -> Result<(), Over> {
        let Some(contents) = self.executor.contents(id) else { return Ok(()) };
        match open(&contents, self.executor.buffered) {
            Ok(announced) => self.submit(index, Pending::Again { id, index, announced }),
            Err(given_up) => {
                self.executor.give_up(id, given_up);
                Ok(())
            }
        }
    }

    /// Queues a step behind those before it in file order, and hands on those that are ready.
    fn push(&mut self, queued: Queued) -> Result<(), Over> {
        self.queue.push_back(queued);
        // A long run of holes or held blocks must not pile up behind one slow read.
        while self.queue.len() > 4 * DEPTH {
            self.advance()?;
        }
        self.forward()
    }

    /// Begins to read the block `index`, and waits for the engine and for a free block of memory
    /// before.
    fn submit(&mut self, index: u32, step: Pending) -> Result<(), Over> {
        let (Pending::Data { announced, .. } | Pending::Again { announced, .. }) = &step;
        let (file, length) = (announced.file.clone(), block_length(announced.size, index));
        while self.engine.in_flight() >= self.depth {
            self.advance()?;
        }
        let block = match self.executor.pool.try_take() {
            Some(block) => block,
            None => {
                // Blocks come back only if what has been read is handed on.
                self.drain()?;
                self.executor.pool.take().map_err(|_| Over)?
            }
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        self.engine.submit(tag, Job::Read { file, offset: block_offset(index), length, block });
        self.queue.push_back(Queued::Reading { tag, step, length });
        Ok(())
    }

    /// Waits until all reads in flight have completed and all steps are handed on.
    fn drain(&mut self) -> Result<(), Over> {
        while !self.queue.is_empty() {
            self.advance()?;
        }
        Ok(())
    }

    /// Waits for one read to complete and hands on the steps that are ready.
    fn advance(&mut self) -> Result<(), Over> {
        let completion = {
            let _busy = self.executor.stages.read.busy();
            self.engine.wait()
        };
        if let Some(completion) = completion {
            self.depth = DEPTH.min(self.depth + 1);
            let position = self
                .queue
                .iter()
                .position(|queued| matches!(queued, Queued::Reading { tag, .. } if *tag == completion.tag));
            let slot = position
                .and_then(|position| self.queue.get_mut(position))
                .expect("a completion belongs to a queued read");
            let Queued::Reading { step, length, .. } = std::mem::replace(slot, Queued::Dropped) else {
                unreachable!("the position is that of a read")
            };
            let (Pending::Data { announced, .. } | Pending::Again { announced, .. }) = &step;
            let outcome = match (completion.result, completion.block) {
                // One that is written to is of no use, however much of it is sent yet.
                (Ok(read), Some(block)) if read == length => announced.compare(Ordering::Equal).map(|()| block),
                (Ok(_), _) => Err(announced.compare(Ordering::Less).err().unwrap_or_else(changed)),
                (Err(error), _) => Err(unreadable(error.to_string())),
            };
            match (outcome, step) {
                (Ok(block), Pending::Data { hashing, index, extent, looks_up: Some(id), .. }) => {
                    let ranges = if let Extent::Data(ranges) = extent { ranges } else { Vec::new() };
                    *slot = Queued::LookUp { id, hashing, read: ReadBlock { index, block, length, ranges } };
                }
                (Ok(block), Pending::Data { hashing, index, extent, .. }) => {
                    *slot = Queued::Ready(Step::Data { file: hashing, index, extent, block, length });
                }
                (Ok(block), Pending::Again { id, index, announced }) => {
                    *slot = Queued::Ready(Step::Again { id, size: announced.size, index, block, length });
                }
                (Err(given_up), Pending::Data { hashing, .. }) => *slot = Queued::Failed(hashing, given_up),
                (Err(given_up), Pending::Again { id, .. }) => self.executor.give_up(id, given_up),
            }
        }
        self.forward()
    }

    /// Hands on the steps at the head of the queue whose reads have completed.
    fn forward(&mut self) -> Result<(), Over> {
        while let Some(front) = self.queue.pop_front() {
            let step = match front {
                Queued::Reading { .. } => {
                    self.queue.push_front(front);
                    return Ok(());
                }
                Queued::Dropped => continue,
                Queued::LookUp { id, hashing, read } => {
                    self.look_up(id, &hashing, read)?;
                    continue;
                }
                Queued::LookedUp { id, hashing } => {
                    self.finish_lookup(id, &hashing)?;
                    continue;
                }
                Queued::Forget(id) => {
                    self.lookups.remove(&id);
                    continue;
                }
                Queued::Ready(step) => {
                    if step.file().is_some_and(|file| !file.hand_on()) {
                        continue;
                    }
                    Some(step)
                }
                Queued::Failed(file, given_up) => file.end(Err(given_up)),
                Queued::Check { hashing, announced } => {
                    let is_longer = extends_beyond(announced.file.as_file(), announced.size);
                    let length = if is_longer { Ordering::Greater } else { Ordering::Equal };
                    hashing.end(announced.compare(length))
                }
            };
            let Some(step) = step else { continue };
            self.hashers.send(step).map_err(|_| Over)?;
        }
        Ok(())
    }
}

impl Reading {
    /// An open file of which nothing is read yet.
    fn new(contents: &Contents, announced: Announced, held: Option<BlockMap>, purpose: Purpose) -> Self {
        let &Contents { id, size, sparse, .. } = contents;
        let map = if sparse { DataMap::of(&announced.file, size) } else { None };
        let holes = map.as_ref().map_or(0, |map| size.saturating_sub(map.total));
        let hashing = Arc::new(Hashing::new(id, size, holes <= MAX_HASHED_HOLES, purpose));
        Self { id, announced, hashing, map, held, next: 0, looks_up: false }
    }
}

/// Opens a file to be read; gives it up if it is not in the version that was announced.
fn open(contents: &Contents, buffered: bool) -> Result<Announced, GivenUp> {
    if let Some(device) = &contents.block_device {
        device.check()?;
        let (file, size, version) = (device.disk().clone(), contents.size, contents.version);
        return Ok(Announced { file, size, version, device: Some(device.clone()) });
    }
    let (file, stat) =
        contents.directory.open_file(&contents.name).map_err(|error| unopened(&error, || is_another(contents)))?;
    if version(&stat) != contents.version {
        return Err(resized(contents.size, stat.size));
    }
    let file = DiskFile::for_reading(file).map_err(|error| unreadable(error.to_string()))?;
    let file = Arc::new(file.through_page_cache(buffered));
    Ok(Announced { file, size: contents.size, version: contents.version, device: None })
}

impl Announced {
    /// Checks that the file, which was read, is still as announced; `length` is how its real
    /// length compares with the announced size.
    fn compare(&self, length: Ordering) -> Result<(), GivenUp> {
        if let Some(device) = &self.device {
            device.check()?;
            return if length == Ordering::Equal { Ok(()) } else { Err(misstated(length, self.size)) };
        }
        match Stat::of(self.file.as_file()) {
            Ok(stat) if version(&stat) != self.version => Err(resized(self.size, stat.size)),
            Ok(_) if length == Ordering::Equal => Ok(()),
            Ok(_) => Err(misstated(length, self.size)),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }
}

/// Data ranges of a sparse file: (offset, length), ascending.
struct DataMap {
    ranges: Vec<(u64, u64)>,
    total: u64,
}

impl DataMap {
    /// Data ranges of a file of `size` bytes; `None` if the file system does not tell them.
    fn of(file: &DiskFile, size: u64) -> Option<Self> {
        let ranges: Vec<(u64, u64)> = sparse::data_ranges(file.as_file(), size).collect::<Result<_, _>>().ok()?;
        let total = ranges.iter().map(|(_, length)| length).sum();
        Some(Self { ranges, total })
    }

    /// Data ranges in block `index` of `length` bytes: `None` for a hole, empty if all of it is
    /// data.
    fn within(&self, index: u32, length: usize) -> Option<Vec<(u32, u32)>> {
        let start = block_offset(index);
        let end = start + length as u64;
        let first = self.ranges.partition_point(|(offset, data)| offset + data <= start);
        let inside = self.ranges[first..].iter().take_while(|(offset, _)| *offset < end).map(|(offset, data)| {
            let from = (*offset).max(start);
            let to = (offset + data).min(end);
            ((from - start) as u32, (to - from) as u32)
        });
        let ranges = data_ranges::join(inside, SHORT_HOLE);
        match ranges.as_slice() {
            [] => None,
            [(0, all)] if *all as usize == length => Some(Vec::new()),
            _ => Some(ranges),
        }
    }
}

#[cfg(test)]
#[path = "large/tests.rs"]
mod tests;
