//! Reads large files block by block, many at depth, for workers that digest them.
//!
//! Reads go on from one file to the next, so that the disk is never idle between two. Holes are
//! not read; their zeros are digested, but for files that are compared by the
//! [`sparse_map`](icdc_protocol::digest::sparse_map) of their blocks.

use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Receiver;
use icdc_disk::sparse::{self, DataRanges};
use icdc_disk::tree::Stat;
use icdc_disk::{Block, BlockPool, Completion, DiskFile, Engine, EngineKind, Job as Read, open_engine};
use icdc_protocol::block_map::{block_count, block_length, block_offset};
use icdc_protocol::digest::{self, RootHasher};
use icdc_protocol::limits::MAX_HASHED_HOLES;
use icdc_protocol::message::{Digest, ListDigest};
use icdc_stop::StopSignal;

use crate::subject::{Digested, Job, check, open, unreadable};

/// Number of reads in flight.
pub(crate) const DEPTH: usize = 8;

/// A large file that is being digested, block by block by several workers; shared by its blocks.
pub(crate) struct Large {
    job: Job,
    file: Arc<DiskFile>,
    opened: Stat,
    /// Whether the digest is that of the blocks that are not all zero.
    is_mapped: bool,
    state: Mutex<State>,
    failed: AtomicBool,
}

/// Progress of a file's digest: blocks left, and values of the blocks digested so far.
struct State {
    /// Number of blocks that are not digested.
    left: u32,
    values: Values,
}

/// BLAKE3 values of a file's blocks, from which the digest of the whole file is computed.
enum Values {
    /// Values of all blocks, for the digest of the contents.
    Root {
        hasher: RootHasher,
        next: u32,
        /// Values of blocks behind the next one.
        early: BTreeMap<u32, Digest>,
    },
    /// Values of the blocks that are not all zero, for the sparse map.
    Map(Vec<(u32, Digest)>),
}

/// A block of a large file, to be digested.
pub(crate) struct BlockWork {
    file: Arc<Large>,
    index: u32,
    /// Data of the block; `None` for a hole.
    data: Option<Block>,
}

impl BlockWork {
    /// Digests the block; if it was the file's last, sends the file's digest as the answer to its
    /// job.
    pub(crate) fn digest(self) {
        let Self { file, index, data } = self;
        if file.failed.load(Ordering::Relaxed) {
            return;
        }
        let size = file.opened.size;
        let (offset, length) = (block_offset(index), block_length(size, index));
        let value = match &data {
            None if file.is_mapped => None,
            None => Some(digest::zero_block_value(offset, size)),
            Some(block) if file.is_mapped && is_zero(&block[..length]) => None,
            Some(block) => Some(digest::block_value(offset, &block[..length], size)),
        };
        // The next read may have it.
        drop(data);
        file.note(index, value);
    }
}

impl Large {
    /// State of a file opened with attributes `opened`, none of whose blocks is digested yet.
    fn new(job: Job, file: DiskFile, opened: Stat, digest: ListDigest) -> Arc<Self> {
        let size = opened.size;
        let is_mapped = digest == ListDigest::Comparison && size > MAX_HASHED_HOLES;
        let values = match is_mapped {
            true => Values::Map(Vec::new()),
            false => Values::Root { hasher: RootHasher::new(size), next: 0, early: BTreeMap::new() },
        };
        let state = Mutex::new(State { left: block_count(size), values });
        Arc::new(Self { job, file: Arc::new(file), opened, is_mapped, state, failed: AtomicBool::new(false) })
    }

    /// Notes the value of a block; `None` for one that is all zero, where those do not count. After
    /// the last block, checks that the file has not changed, and answers with its digest.
    fn note(&self, index: u32, value: Option<Digest>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.left = state.left.saturating_sub(1);
        if let Some(value) = value {
            state.values.note(index, value);
        }
        if state.left == 0 {
            let values = std::mem::replace(&mut state.values, Values::Map(Vec::new()));
            drop(state);
            let digested = check(self.file.as_file(), &self.opened, &self.job.subject);
            self.answer(digested.and_then(|()| values.finish(self.opened.size).ok_or("a block is missing".to_owned())));
        }
    }

    /// Answers once that the file cannot be digested; its remaining blocks are skipped.
    fn fail(&self, reason: String) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            self.answer(Err(reason));
        }
    }

    /// Sends the file's digest, or the reason for which there is none, to the part of the listing
    /// that waits for it.
    fn answer(&self, digested: Digested) {
        // It has room for one, and there is no other; nobody may wait for it any more.
        let _ = self.job.answer.try_send(digested);
    }
}

impl Values {
    /// Keeps the value of block `index`; blocks may come in any order.
    fn note(&mut self, index: u32, value: Digest) {
        match self {
            Self::Map(values) => values.push((index, value)),
            Self::Root { hasher, next, early } => {
                early.insert(index, value);
                while let Some(value) = early.remove(next) {
                    hasher.push(value);
                    *next += 1;
                }
            }
        }
    }

    /// Digest of the file, which has `size` bytes; `None` if the value of a block is missing.
    fn finish(self, size: u64) -> Option<Vec<u8>> {
        let digest = match self {
            Self::Root { hasher, .. } => hasher.finish()?,
            Self::Map(mut values) => {
                values.sort_unstable_by_key(|(index, _)| *index);
                digest::sparse_map(size, values)
            }
        };
        Some(digest.to_vec())
    }
}

/// Function that hands a block that was read, or a hole, to the workers that digest it.
type HandOn<'a> = &'a dyn Fn(BlockWork);

/// Thread that reads large files: queues their blocks for the workers, until the queue of files is
/// closed or `over` is requested.
pub(crate) fn read(
    jobs: &Receiver<Job>,
    hand_on: HandOn<'_>,
    (pool, digest): (&BlockPool, ListDigest),
    over: &StopSignal,
) {
    let Ok(mut next) = jobs.recv().map(Some) else { return };
    let engine = match open_engine(DEPTH, EngineKind::Auto) {
        Ok(engine) => engine,
        Err(error) => {
            return next.into_iter().chain(jobs).for_each(|job| drop(job.answer.send(Err(error.to_string()))));
        }
    };
    let mut reader = Reader { engine, pool, hand_on, over, reading: HashMap::new(), next_tag: 0 };
    loop {
        let job = match next.take() {
            Some(job) => job,
            // With reads in flight their completions come first.
            None => match jobs.try_recv() {
                Ok(job) => job,
                Err(_) if reader.engine.in_flight() > 0 => {
                    reader.complete();
                    continue;
                }
                Err(_) => match jobs.recv() {
                    Ok(job) => job,
                    Err(_) => return,
                },
            },
        };
        reader.read(job, digest);
    }
}

/// Reads of several large files in flight at the disk engine.
struct Reader<'a> {
    engine: Box<dyn Engine>,
    pool: &'a BlockPool,
    hand_on: HandOn<'a>,
    over: &'a StopSignal,
    /// Files and block numbers of the reads in flight, by tag.
    reading: HashMap<u64, (Arc<Large>, u32)>,
    next_tag: u64,
}

impl Reader<'_> {
    /// Submits the reads of a file, and hands on what is read meanwhile.
    fn read(&mut self, job: Job, digest: ListDigest) {
        if self.over.is_requested() {
            return;
        }
        let opened = open(&job.subject).and_then(|(file, stat)| {
            let file = DiskFile::for_reading(file).map_err(|error| unreadable(&job.subject, &error))?;
            Ok((file, stat))
        });
        let (file, stat) = match opened {
            Ok(opened) => opened,
            Err(reason) => return drop(job.answer.send(Err(reason))),
        };
        let (size, allocated) = (stat.size, stat.blocks.saturating_mul(512));
        let large = Large::new(job, file, stat, digest);
        let data = Arc::clone(&large.file);
        let mut holes = (allocated < size).then(|| sparse::data_ranges(data.as_file(), size).peekable());
        for index in 0..block_count(size) {
            if self.over.is_requested() || large.failed.load(Ordering::Relaxed) {
                return;
            }
            let is_hole = match &mut holes {
                None => Ok(false),
                Some(ranges) => is_hole(ranges, block_offset(index), block_length(size, index) as u64),
            };
            match is_hole {
                Ok(false) => self.submit(&large, index),
                Ok(true) => (self.hand_on)(BlockWork { file: Arc::clone(&large), index, data: None }),
                Err(error) => return large.fail(unreadable(&large.job.subject, &error)),
            }
        }
    }

    /// Submits the read of block `index`, after waiting until fewer than [`DEPTH`] reads are in
    /// flight and a buffer is free.
    fn submit(&mut self, file: &Arc<Large>, index: u32) {
        while self.engine.in_flight() >= DEPTH {
            self.complete();
        }
        let block = loop {
            if let Some(block) = self.pool.try_take() {
                break block;
            }
            // Blocks come back from the workers, which need what has been read.
            if self.engine.in_flight() > 0 {
                self.complete();
            } else {
                match self.pool.take() {
                    Ok(block) => break block,
                    Err(_) => return file.fail("the session is over".to_owned()),
                }
            }
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        self.reading.insert(tag, (Arc::clone(file), index));
        let (offset, length) = (block_offset(index), block_length(file.opened.size, index));
        self.engine.submit(tag, Read::Read { file: Arc::clone(&file.file), offset, length, block });
    }

    /// Waits for one read, and hands its block on.
    fn complete(&mut self) {
        let Some(Completion { tag, block, result, .. }) = self.engine.wait() else { return };
        let Some((file, index)) = self.reading.remove(&tag) else { return };
        let length = block_length(file.opened.size, index);
        match (result, block) {
            (Ok(read), Some(block)) if read == length => (self.hand_on)(BlockWork { file, index, data: Some(block) }),
            (Ok(_), _) => file.fail(unreadable(&file.job.subject, &"it has become shorter")),
            (Err(error), _) => file.fail(unreadable(&file.job.subject, &error)),
        }
    }
}

/// Whether no data is in the `length` bytes at `offset`; asked in ascending order.
fn is_hole(ranges: &mut Peekable<DataRanges<'_>>, offset: u64, length: u64) -> std::io::Result<bool> {
    loop {
        match ranges.peek() {
            None => return Ok(true),
            Some(Ok((start, data))) if start + data > offset => return Ok(*start >= offset + length),
            Some(Ok(_)) => {
                ranges.next();
            }
            Some(Err(_)) => return ranges.next().transpose().map(|_| false),
        }
    }
}

/// Whether all bytes are zero; data is found out at its first byte that is not.
fn is_zero(data: &[u8]) -> bool {
    const PIECE: usize = 4096;
    static ZEROS: [u8; PIECE] = [0; PIECE];
    data.chunks(PIECE).all(|piece| *piece == ZEROS[..piece.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_blocks_does_not_depend_on_their_order() {
        let values = [(3, [3; 32]), (0, [1; 32]), (2, [2; 32])];
        let digest = |order: [usize; 3]| {
            let mut map = Values::Map(Vec::new());
            order.into_iter().for_each(|at| map.note(values[at].0, values[at].1));
            map.finish(9)
        };
        assert_eq!(digest([0, 1, 2]), digest([1, 2, 0]));
        assert_eq!(digest([0, 1, 2]), Some(digest::sparse_map(9, [(0, [1; 32]), (2, [2; 32]), (3, [3; 32])]).to_vec()));
    }

    #[test]
    fn zeros_are_told_from_data() {
        assert!(is_zero(&[]) && is_zero(&[0; 5000]));
        let mut data = [0; 5000];
        data[4999] = 1;
        assert!(!is_zero(&data));
    }
}
