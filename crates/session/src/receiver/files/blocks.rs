//! The blocks of one open file: which are there, written, durable, and noted in its journal.

use std::collections::BTreeSet;

use icdc_protocol::block_map::{BeyondEnd, BlockMap};
use icdc_protocol::message::Digest;
use icdc_units::{ByteCount, Span, Time};

/// Bytes written between two checkpoints: the most that a kill or a power cut costs besides the
/// ring.
pub const CHECKPOINT: ByteCount = ByteCount::from_mib(64);
/// Longest time between the first and the last write of a checkpoint, where fewer bytes arrive: one
/// flush per second is little work for any disk, and one second of a slow path is soon
/// retransmitted.
const CHECKPOINT_INTERVAL: Span = Span::from_secs(1);

/// The blocks of an open file, with the progress of its checkpoints.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The blocks that are present: held from an earlier run, or arrived.
    map: BlockMap,
    journal: Journal,
    /// Writes that have completed since the last checkpoint began.
    unsynced: Written,
    checkpoint: Checkpoint,
    /// Leading blocks that are durable; `None` if nobody asks for them.
    leading: Option<Leading>,
}

/// Leading blocks of a file that are durable: how many, and those behind the first gap.
#[derive(Debug, Default)]
struct Leading {
    count: u32,
    behind: BTreeSet<u32>,
}

impl Leading {
    /// Adds blocks that have become durable.
    fn add(&mut self, blocks: &[u32]) {
        self.behind.extend(blocks.iter().filter(|block| **block >= self.count));
        while self.behind.remove(&self.count) {
            self.count += 1;
        }
    }
}

/// Usefulness of the journal for a later run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    /// A later run would not find a journal.
    None,
    /// The journal names no blocks yet.
    Empty,
    /// The journal names durable blocks, from which a later run can continue.
    NamesBlocks,
}

/// State of the checkpoint in progress, if there is one: its writes are being made durable, or are
/// durable (`bytes`) and being noted in the journal.
#[derive(Debug)]
enum Checkpoint {
    Idle,
    Syncing(Written),
    Noting {
        blocks: Vec<u32>,
        bytes: ByteCount,
    },
    /// A sync has failed. The kernel reports lost data only once: a later sync proves nothing.
    Failed,
}

/// Completed writes: numbers and digests of the blocks, and their bytes.
#[derive(Debug, Default)]
struct Written {
    blocks: Vec<(u32, Digest)>,
    bytes: ByteCount,
    /// Times at which the first and the last of these writes completed.
    times: Option<(Time, Time)>,
}

impl Written {
    /// Time from the completion of the first write to that of the last.
    fn lasted(&self) -> Span {
        self.times.map_or(Span::ZERO, |(first, last)| last - first)
    }
}

/// Next step after the sync of a checkpoint: note its blocks, or report it as complete.
pub(super) enum Synced {
    /// These blocks, durable now, are to be noted in the journal.
    Note(Vec<(u32, Digest)>),
    /// The checkpoint is complete: this number of bytes has become durable.
    Durable(ByteCount),
}

impl Blocks {
    /// The blocks of a file that is open; `held`: those that its journal names, of a stream its first
    /// ones.
    pub(super) fn new(size: ByteCount, held: Option<BlockMap>, journaled: bool, is_stream: bool) -> Self {
        let map = held.unwrap_or_else(|| BlockMap::new(size.as_u64()));
        let journal = match (journaled, map.is_empty()) {
            (false, _) => Journal::None,
            (true, true) => Journal::Empty,
            (true, false) => Journal::NamesBlocks,
        };
        let leading = is_stream.then(|| Leading { count: map.count(), behind: BTreeSet::new() });
        Self { map, journal, unsynced: Written::default(), checkpoint: Checkpoint::Idle, leading }
    }

    /// The blocks that are present.
    pub(super) fn map(&self) -> &BlockMap {
        &self.map
    }

    /// Sets the file's size, which was not known before; an error if it does not have all these blocks.
    pub(super) fn set_size(&mut self, size: ByteCount) -> Result<(), BeyondEnd> {
        self.map.set_size(size.as_u64())
    }

    /// Records a block that has arrived; false if it is present already, or beyond the end of the
    /// file.
    pub(super) fn arrived(&mut self, index: u32, value: Digest) -> bool {
        !self.map.contains(index) && self.map.insert(index, value).is_ok()
    }

    /// Removes a held block that is damaged.
    pub(super) fn damaged(&mut self, index: u32) {
        self.map.remove(index);
    }

    /// Records that the write of a block of this length has completed.
    pub(super) fn written(&mut self, index: u32, length: ByteCount, now: Time) {
        if let Some(value) = self.map.get(index) {
            self.unsynced.blocks.push((index, value));
            self.unsynced.times = Some((self.unsynced.times.map_or(now, |(first, _)| first), now));
            self.unsynced.bytes += length;
        }
    }

    /// Number of bytes that are written and not durable.
    pub(super) fn unsynced(&self) -> ByteCount {
        self.unsynced.bytes
    }

    /// Number of leading blocks that are durable; `None` unless it is a stream.
    pub(super) fn leading(&self) -> Option<u32> {
        self.leading.as_ref().map(|leading| leading.count)
    }

    /// Whether a journal is kept.
    pub(super) fn is_journaled(&self) -> bool {
        self.journal != Journal::None
    }

    /// Whether a later run can continue from what is durable.
    pub(super) fn is_resumable(&self) -> bool {
        self.journal == Journal::NamesBlocks
    }

    /// Whether a checkpoint is due: enough bytes are written, or the journal gains by it and the
    /// interval is over.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        let is_enough = matches!(self.checkpoint, Checkpoint::Idle) && self.unsynced.bytes >= CHECKPOINT;
        is_enough || self.is_worth_a_checkpoint() && self.unsynced.lasted() >= CHECKPOINT_INTERVAL
    }

    /// Whether a checkpoint would add blocks to the journal.
    pub(super) fn is_worth_a_checkpoint(&self) -> bool {
        matches!(self.checkpoint, Checkpoint::Idle) && self.is_journaled() && !self.unsynced.blocks.is_empty()
    }

    /// Begins a checkpoint with everything that is written; the caller requests a sync.
    pub(super) fn begin_checkpoint(&mut self) {
        self.checkpoint = Checkpoint::Syncing(std::mem::take(&mut self.unsynced));
    }

    /// Records that the checkpoint's sync has completed; returns the next step.
    pub(super) fn synced(&mut self) -> Synced {
        match std::mem::replace(&mut self.checkpoint, Checkpoint::Idle) {
            Checkpoint::Syncing(Written { blocks, bytes, .. }) if self.is_journaled() && !blocks.is_empty() => {
                self.checkpoint = Checkpoint::Noting { blocks: self.led(&blocks), bytes };
                Synced::Note(blocks)
            }
            Checkpoint::Syncing(Written { blocks, bytes, .. }) => {
                let blocks = self.led(&blocks);
                self.leading.iter_mut().for_each(|leading| leading.add(&blocks));
                Synced::Durable(bytes)
            }
            other => {
                self.checkpoint = other;
                Synced::Durable(ByteCount::ZERO)
            }
        }
    }

    /// Numbers of these blocks, as far as leading ones are counted.
    fn led(&self, blocks: &[(u32, Digest)]) -> Vec<u32> {
        let led = self.leading.iter().flat_map(|_| blocks);
        led.map(|(index, _)| *index).collect()
    }

    /// Records that the checkpoint's sync has failed: what no earlier one has made durable may be
    /// lost, and is not noted any more.
    pub(super) fn sync_failed(&mut self) {
        self.checkpoint = Checkpoint::Failed;
    }

    /// Records that the journal names the checkpoint's blocks, or with `good` false that it could
    /// not be written. Returns the number of bytes that count as durable.
    pub(super) fn noted(&mut self, good: bool) -> ByteCount {
        let (blocks, bytes) = match std::mem::replace(&mut self.checkpoint, Checkpoint::Idle) {
            Checkpoint::Noting { blocks, bytes } => (blocks, bytes),
            other => {
                self.checkpoint = other;
                return ByteCount::ZERO;
            }
        };
        if !good {
            return ByteCount::ZERO;
        }
        self.leading.iter_mut().for_each(|leading| leading.add(&blocks));
        self.journal = Journal::NamesBlocks;
        bytes
    }
}
