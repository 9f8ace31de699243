//! Content of a large file that the receiver has in its files, wherever it is there.
//!
//! ```text
//! Chunks ──► Index ◄── look up ── Matcher ◄── blocks in file order
//!                                   │ runs of equal bytes
//!            hashers ◄── blocks whose last chunk is known, with the parts that are copied
//! ```
//!
//! A chunk may end in the next block, so that a block is handed on one later.

mod index;
mod matcher;

use std::collections::VecDeque;

use icdc_disk::Block;
use icdc_protocol::block_map::block_offset;
use icdc_protocol::delta::{Chunks, CopiedPart};
use icdc_protocol::limits::{BLOCK_SIZE, MAX_FILE_SIZE};

use self::index::Index;
use self::matcher::Matcher;

/// Number of bytes behind a block that must be described before its contents are looked up, unless all
/// is: what was inserted or deleted before it is rarely more.
const LOOK_AHEAD: u64 = 256 << 20;

/// State of a file whose contents are looked up: the receiver's chunks, and the blocks whose last chunk is
/// not known yet.
#[derive(Default)]
pub(super) struct Lookup {
    index: Index,
    /// `None` until a chunk is described, which tells how to cut.
    matcher: Option<Matcher>,
    /// Place up to which all of the receiver's files are described.
    covered: u64,
    blocks: VecDeque<ReadBlock>,
}

/// A block of a file, with its data ranges, (offset, length); none where all of it is data.
pub(super) struct ReadBlock {
    pub(super) index: u32,
    pub(super) block: Block,
    pub(super) length: usize,
    pub(super) ranges: Vec<(u32, u32)>,
}

/// A block all of whose contents were looked up.
pub(super) struct Found {
    pub(super) read: ReadBlock,
    /// The parts that the receiver has.
    pub(super) copies: Vec<CopiedPart>,
}

impl Lookup {
    /// Adds chunks, of which `room` are kept at most.
    pub(super) fn add(&mut self, told: &Chunks, room: usize) {
        self.covered = if told.complete { MAX_FILE_SIZE } else { self.covered.max(told.covered) };
        self.matcher.get_or_insert_with(|| Matcher::new(told.chunking));
        self.index.add(told, room);
    }

    /// Number of chunks that are kept.
    pub(super) fn chunks(&self) -> usize {
        self.index.len()
    }

    /// Number of the first block that is not looked up yet, of a file of so many blocks, because too little
    /// is described.
    pub(super) fn readable(&self, blocks: u32) -> u32 {
        if self.covered >= MAX_FILE_SIZE {
            return blocks;
        }
        let described = self.covered.saturating_sub(LOOK_AHEAD) / BLOCK_SIZE as u64;
        u32::try_from(described).unwrap_or(u32::MAX).min(blocks)
    }

    /// Looks the contents of the next block up; gives the blocks before it that are through.
    pub(super) fn push(&mut self, read: ReadBlock) -> Vec<Found> {
        if let Some(matcher) = &mut self.matcher {
            let start = block_offset(read.index);
            for (offset, length) in data_of(&read) {
                let data = &read.block[offset..offset + length];
                matcher.push(&self.index, start + offset as u64, data);
            }
        }
        self.blocks.push_back(read);
        self.take_found()
    }

    /// Looks the rest up, as nothing that follows continues it; gives all blocks that are left.
    pub(super) fn finish(&mut self) -> Vec<Found> {
        if let Some(matcher) = &mut self.matcher {
            matcher.finish(&self.index);
        }
        self.take_found()
    }

    /// Whether blocks wait for what follows them.
    pub(super) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Takes the blocks whose data were looked up to their ends.
    fn take_found(&mut self) -> Vec<Found> {
        let mut found = Vec::new();
        while let Some(read) = self.blocks.pop_front() {
            let start = block_offset(read.index);
            let end = data_of(&read).last().map_or(start, |(offset, length)| start + (offset + length) as u64);
            let copies = match &mut self.matcher {
                Some(matcher) if matcher.decided() < end => {
                    self.blocks.push_front(read);
                    break;
                }
                Some(matcher) => matcher.take(start..end),
                None => Vec::new(),
            };
            found.push(Found { read, copies });
        }
        found
    }
}

/// Data ranges of a block: offset and length.
fn data_of(read: &ReadBlock) -> impl Iterator<Item = (usize, usize)> + '_ {
    let all = read.ranges.is_empty().then_some((0, read.length));
    let ranges = read.ranges.iter().map(|(offset, length)| (*offset as usize, *length as usize));
    all.into_iter().chain(ranges)
}
