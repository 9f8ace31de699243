//! Hashes the blocks of large files, and builds the files' digests.
//!
//! A block is a subtree of BLAKE3 of its own, so several threads take steps from one queue, in the
//! order of reading, and send each block as soon as its value is known. Only the digest of a file
//! needs the values in order: early ones wait for those before them. The thread that finishes a
//! file's last step queues the end of the file for the receiver, behind its blocks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crossbeam_channel::Receiver as Queue;
use icdc_disk::Block;
use icdc_link::Parcel;
use icdc_protocol::basis::{LeafDigest, differences};
use icdc_protocol::block_map::block_offset;
use icdc_protocol::delta::{CopiedPart, copied_bytes, sent_ranges};
use icdc_protocol::digest::{self, RootHasher};
use icdc_protocol::limits::{BLOCK_SIZE, MAX_FILE_SIZE};
use icdc_protocol::message::{
    Assembled, BlockHeader, CandidateAnswer, Digest, EntryId, FileDigest, GivenUp, ItemEnd, Message, Streamed,
};
use icdc_rate::compression::Neighbours;
use icdc_units::ByteCount;

use super::executor::Executor;
use crate::diskless;
use crate::known_digests::ReadVersion;

/// Work for the hashing threads, queued by the reading threads.
pub(super) enum Step {
    /// A block that the receiver holds already, with its digest.
    Held { file: Arc<Hashing>, index: u32, value: Digest },
    /// A block without data (a hole in the file).
    Hole { file: Arc<Hashing>, index: u32 },
    /// A block to be sent: of its `length` bytes those that `extent` names.
    Data { file: Arc<Hashing>, index: u32, extent: Extent, block: Block, length: usize },
    /// A block that was read again for a retransmission.
    Again { id: EntryId, size: u64, index: u32, block: Block, length: usize },
    /// End of the file: it is read, or cannot be read any further, after `steps` steps.
    End { file: Arc<Hashing>, steps: u32, outcome: Result<(), GivenUp> },
}

/// Bytes of a block that are sent.
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// Those in these ranges, (offset, length): the rest is a hole.
    Data(Vec<(u32, u32)>),
    /// Those in leaves that do not have these digests, as the receiver's file has them.
    Difference(Vec<LeafDigest>),
    /// Those in these ranges, (offset, length), or all of it where there are none, that are not copied from
    /// files of the receiver.
    Assembled { ranges: Vec<(u32, u32)>, copies: Vec<CopiedPart> },
}

impl Step {
    /// The file that the step belongs to; `None` for a block that was read again.
    pub(super) fn file(&self) -> Option<&Arc<Hashing>> {
        match self {
            Self::Held { file, .. } | Self::Hole { file, .. } | Self::Data { file, .. } | Self::End { file, .. } => {
                Some(file)
            }
            Self::Again { .. } => None,
        }
    }
}

/// Purpose for which a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its blocks are sent.
    Send,
    /// Only its digest is told: the receiver may have it under one of several names, of which these
    /// are gone at the source. It is kept for later runs with the version that is read, if there is one.
    Compare { gone: u32, kept: Option<ReadVersion> },
}

/// State of a file that is being hashed.
pub(super) struct Hashing {
    id: EntryId,
    /// Size of the file in bytes; of a stream that has not ended, the most that it may have.
    size: AtomicU64,
    /// Whether zeros between the file's data are hashed as any block.
    hash_holes: bool,
    purpose: Purpose,
    /// Number of steps that the reading thread has handed on.
    handed: AtomicU32,
    /// Whether reading the file has failed: further steps are dropped.
    failed: AtomicBool,
    /// Length and time of a stream; unset until it has ended, and of a file.
    streamed: OnceLock<Streamed>,
    /// Whether its last blocks were worth compressing.
    shrinks: Mutex<Neighbours>,
    state: Mutex<State>,
}

/// Progress of one file's hashing, behind a lock: its digest so far, steps that are done, and its
/// end.
struct State {
    digest: DigestState,
    /// Number of leading blocks whose digests have entered the file's digest.
    next: u32,
    /// Digests of blocks that wait for those before them; `None` for a hole that is not hashed.
    early: BTreeMap<u32, Option<Digest>>,
    /// Number of blocks that were queued for the socket.
    sent: u32,
    /// Number of steps that are done.
    steps: u32,
    /// Total number of steps, and the outcome of reading the file; `None` until the file is read.
    end: Option<(u32, Result<(), GivenUp>)>,
}

/// Digest of a file that is being built from the digests of its blocks.
enum DigestState {
    /// BLAKE3 root over the digests of all blocks.
    Root(RootHasher),
    /// Digests of the blocks that hold data, where there are too many zeros to hash.
    Map(Vec<(u32, Digest)>),
}

/// Body of a hashing thread: handles steps until the channel is closed or the session ends.
pub(super) fn run(executor: &Executor<'_>, steps: &Queue<Step>) {
    for step in steps {
        if take(executor, step).is_none() {
            return;
        }
    }
}

/// Handles one step; `None` when the session is over.
fn take(executor: &Executor<'_>, step: Step) -> Option<()> {
    let busy = executor.stages.hash.busy();
    match step {
        Step::Again { id, size, index, block, length } => {
            let value = diskless::block_value(executor.diskless, block_offset(index), &block[..length], size);
            let header = BlockHeader { id, index, value, ranges: Vec::new() };
            let parcel = Parcel { message: Message::Block(header), payload: Some((block, length).into()) };
            drop(busy);
            executor.queue_again(parcel)
        }
        Step::Held { file, index, value } => file.finish_step(executor, |state| state.note(index, Some(value))),
        Step::Hole { file, index } => {
            let value = file.hash_holes.then(|| digest::zero_block_value(block_offset(index), file.size()));
            file.finish_step(executor, |state| state.note(index, value))
        }
        Step::Data { file, index, block, length, .. } if file.purpose != Purpose::Send => {
            let value = diskless::block_value(executor.diskless, block_offset(index), &block[..length], file.size());
            file.finish_step(executor, |state| state.note(index, Some(value)))
        }
        Step::Data { file, index, extent, block, length } => {
            let value = diskless::block_value(executor.diskless, block_offset(index), &block[..length], file.size());
            let header = BlockHeader { id: file.id, index, value, ranges: Vec::new() };
            let parcel = frame(executor, header, extent, (block, length));
            // Before it is queued, which may take long: values of later blocks wait for this one.
            file.lock().note(index, Some(value));
            let parcel = executor.compressing.compressed(executor.takes_compressed(), &file.shrinks, parcel);
            drop(busy);
            executor.queue_data(parcel)?;
            file.finish_step(executor, |state| state.sent += 1)
        }
        Step::End { file, steps, outcome } => file.update(executor, |state| state.end = Some((steps, outcome))),
    }
}

/// Frame that sends a block of `length` bytes: what `extent` names of it.
fn frame(executor: &Executor<'_>, header: BlockHeader, extent: Extent, (mut block, length): (Block, usize)) -> Parcel {
    match extent {
        Extent::Data(ranges) if !ranges.is_empty() => {
            let payload = gather(&mut block, &ranges);
            let header = BlockHeader { ranges, ..header };
            Parcel { message: Message::Block(header), payload: Some((block, payload).into()) }
        }
        Extent::Difference(leaves) => {
            let ranges = differences(&block[..length], &leaves);
            let payload = gather(&mut block, &ranges);
            if payload == length {
                return Parcel { message: Message::Block(header), payload: Some((block, length).into()) };
            }
            executor.with(|machine| machine.on_unchanged(ByteCount::from(length - payload)));
            let header = BlockHeader { ranges, ..header };
            let payload = (payload > 0).then(|| (block, payload).into());
            Parcel { message: Message::Difference(header), payload }
        }
        Extent::Assembled { ranges, copies } => {
            let sent = sent_ranges(&ranges, &copies, length).expect("what was found lies in the block's data");
            let payload = gather(&mut block, &sent);
            executor.with(|machine| machine.on_unchanged(ByteCount::new(copied_bytes(&copies))));
            let header = BlockHeader { ranges, ..header };
            let payload = (payload > 0).then(|| (block, payload).into());
            Parcel { message: Message::Assembled(Assembled { header, copies }), payload }
        }
        Extent::Whole | Extent::Data(_) => {
            Parcel { message: Message::Block(header), payload: Some((block, length).into()) }
        }
    }
}

/// Moves the bytes of these ranges, (offset, length), to the start of the block; returns their number.
fn gather(block: &mut Block, ranges: &[(u32, u32)]) -> usize {
    let mut gathered = 0;
    for (offset, length) in ranges {
        let (from, length) = (*offset as usize, *length as usize);
        block.copy_within(from..from + length, gathered);
        gathered += length;
    }
    debug_assert!(gathered <= BLOCK_SIZE);
    gathered
}

impl Hashing {
    /// New state for a file of `size` bytes; `hash_holes` tells whether its zeros are hashed, or
    /// are too many for that.
    pub(super) fn new(id: EntryId, size: u64, hash_holes: bool, purpose: Purpose) -> Self {
        let digest = if hash_holes { DigestState::Root(RootHasher::new(size)) } else { DigestState::Map(Vec::new()) };
        let state = State { digest, next: 0, early: BTreeMap::new(), sent: 0, steps: 0, end: None };
        let (handed, failed) = (AtomicU32::new(0), AtomicBool::new(false));
        let (size, streamed) = (AtomicU64::new(size), OnceLock::new());
        Self {
            id,
            size,
            hash_holes,
            purpose,
            handed,
            failed,
            streamed,
            shrinks: Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// New state for a stream, whose size is set at its end.
    pub(super) fn of_stream(id: EntryId) -> Self {
        Self::new(id, MAX_FILE_SIZE, true, Purpose::Send)
    }

    /// Sets the size of a stream, before its last block is handed on.
    pub(super) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Relaxed);
    }

    /// Sets length and modification time of a stream, before its end is handed on.
    pub(super) fn set_streamed(&self, streamed: Streamed) {
        self.set_size(streamed.size);
        let _ = self.streamed.set(streamed);
    }

    /// Size of the file in bytes; of a stream that has not ended, the most that it may have.
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Counts a step that is handed on; false if reading the file has failed before.
    pub(super) fn hand_on(&self) -> bool {
        let has_failed = self.failed.load(Ordering::Relaxed);
        if !has_failed {
            self.handed.fetch_add(1, Ordering::Relaxed);
        }
        !has_failed
    }

    /// Makes the last step of the file, with the outcome of reading it; `None` if reading it had
    /// failed before.
    pub(super) fn end(self: Arc<Self>, outcome: Result<(), GivenUp>) -> Option<Step> {
        let steps = self.handed.load(Ordering::Relaxed);
        let had_failed = self.failed.swap(outcome.is_err(), Ordering::Relaxed);
        (!had_failed).then(|| Step::End { file: self, steps, outcome })
    }

    /// Counts a step as done and updates the state by `note`. `None` when the session is over.
    fn finish_step(&self, executor: &Executor<'_>, note: impl FnOnce(&mut State)) -> Option<()> {
        self.update(executor, |state| {
            note(state);
            state.steps += 1;
        })
    }

    /// Updates the state, and queues the end of the file if that was its last step. `None` when the
    /// session is over.
    fn update(&self, executor: &Executor<'_>, note: impl FnOnce(&mut State)) -> Option<()> {
        let mut state = self.lock();
        note(&mut state);
        let done = state.steps;
        let Some((_, outcome)) = state.end.take_if(|(steps, _)| *steps == done) else { return Some(()) };
        let outcome = outcome.map(|()| state.finish(self.size()));
        let sent = state.sent;
        drop(state);
        if let Purpose::Compare { gone, kept } = self.purpose {
            let digest = outcome.ok();
            if let (Some(version), Some(digest)) = (kept, digest) {
                executor.digests.note(version, digest);
            }
            let answer = CandidateAnswer { id: self.id, gone, digest };
            executor.with(|machine| machine.on_compared(answer));
            return Some(());
        }
        let end = executor.with(|machine| match (outcome, self.streamed.get()) {
            (Ok(FileDigest::Blake3(digest)), Some(streamed)) => machine.on_stream_ended(self.id, digest, *streamed),
            (outcome, _) => machine.on_read(self.id, sent, outcome).map(ItemEnd::from),
        });
        match end {
            Some(end) => executor.queue_data(Message::from(end).into()),
            None => Some(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while a value is noted")
    }
}

impl State {
    /// Adds the digest of a block to the file's digest, once those before it are there; `None` is a
    /// hole that is not hashed.
    fn note(&mut self, index: u32, value: Option<Digest>) {
        self.early.insert(index, value);
        while let Some(value) = self.early.remove(&self.next) {
            match (&mut self.digest, value) {
                (DigestState::Root(hasher), Some(value)) => hasher.push(value),
                (DigestState::Map(values), Some(value)) => values.push((self.next, value)),
                (_, None) => {}
            }
            self.next += 1;
        }
    }

    /// Digest of a file of `size` bytes, all of whose blocks were added.
    fn finish(&mut self, size: u64) -> FileDigest {
        match std::mem::replace(&mut self.digest, DigestState::Map(Vec::new())) {
            DigestState::Root(mut hasher) => {
                hasher.set_size(size);
                FileDigest::Blake3(hasher.finish().expect("every block of the file was pushed"))
            }
            DigestState::Map(values) => FileDigest::SparseMap(digest::sparse_map(size, values)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: u32) -> Vec<Digest> {
        (0..count).map(|index| *blake3::hash(&index.to_le_bytes()).as_bytes()).collect()
    }

    fn state(digest: DigestState) -> State {
        State { digest, next: 0, early: BTreeMap::new(), sent: 0, steps: 0, end: None }
    }

    #[test]
    fn values_in_any_order_give_one_digest() {
        let size = 7 * BLOCK_SIZE as u64 - 1;
        let values = values(7);
        let expected = digest::root(size, &values).map(FileDigest::Blake3);
        for order in [[0, 1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1, 0], [3, 0, 6, 1, 5, 2, 4]] {
            let mut state = state(DigestState::Root(RootHasher::new(size)));
            for index in order {
                state.note(index, Some(values[index as usize]));
            }
            assert!(state.early.is_empty());
            assert_eq!(Some(state.finish(size)), expected, "{order:?}");
        }
    }

    #[test]
    fn a_map_has_the_blocks_with_data_in_order() {
        let values = values(4);
        let mut state = state(DigestState::Map(Vec::new()));
        for (index, value) in [(3, Some(values[3])), (1, None), (0, Some(values[0])), (2, None)] {
            state.note(index, value);
        }
        let expected = digest::sparse_map(9, [(0, values[0]), (3, values[3])]);
        assert_eq!(state.finish(9), FileDigest::SparseMap(expected));
    }
}
