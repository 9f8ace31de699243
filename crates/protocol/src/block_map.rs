//! Map of the blocks of a file that are present, with their values.
//!
//! ```text
//! file     │ block 0 │ block 1 │ … │ block n-1 (may be short) │      n = ceil(size / BLOCK_SIZE)
//! page p     blocks 64 p .. 64 p + 63: one bit each, and the values of those present, in order
//! ```
//!
//! Only pages that hold a block exist, so that memory follows the blocks present, not the claimed
//! size of the file: 32 bytes per block with a value (a value per 4 MiB), one bit without.

use std::collections::BTreeMap;
use std::ops::Range;

pub use crate::blocks::{block_count, block_length, block_offset};

use crate::digest::RootHasher;
use crate::limits::{BLOCK_SIZE, MAX_HELD};
use crate::message::{Digest, EntryId, Held};

/// Number of blocks in a page: one bit of a word for each.
const PAGE_BLOCKS: u32 = u64::BITS;

/// A block number beyond the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {index} is beyond the end of a file of {blocks} blocks")]
pub struct BeyondEnd {
    /// Number of the block.
    pub index: u32,
    /// Number of blocks in the file.
    pub blocks: u32,
}

/// A set of blocks of one file that needs no values.
pub type BlockSet = BlockMap<()>;

/// Blocks of one file that are present at an end or described by a journal, each with a value: by
/// default its BLAKE3 chaining value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap<V = Digest> {
    size: u64,
    count: u32,
    pages: BTreeMap<u32, Page<V>>,
}

/// 64 consecutive blocks: a bit for each block that is present, and the values of these.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page<V> {
    present: u64,
    values: Vec<V>,
}

impl<V: Copy> BlockMap<V> {
    /// An empty map for a file of `size` bytes.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, count: 0, pages: BTreeMap::new() }
    }

    /// Sets the file's size, which was not known before.
    ///
    /// # Errors
    /// If a block is present that a file of this size does not have.
    pub fn set_size(&mut self, size: u64) -> Result<(), BeyondEnd> {
        let last = self.pages.iter().next_back().and_then(|(number, page)| {
            let bit = page.present.checked_ilog2()?;
            Some(number * PAGE_BLOCKS + bit)
        });
        match last.filter(|last| *last >= block_count(size)) {
            Some(index) => Err(BeyondEnd { index, blocks: block_count(size) }),
            None => {
                self.size = size;
                Ok(())
            }
        }
    }

    /// The file's size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Number of blocks in the file, present or not.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        block_count(self.size)
    }

    /// Number of blocks that are present.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Sum of the lengths of the blocks that are present, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let whole = u64::from(self.count) * BLOCK_SIZE as u64;
        match self.blocks().checked_sub(1) {
            Some(last) if self.contains(last) => whole - (BLOCK_SIZE - block_length(self.size, last)) as u64,
            _ => whole,
        }
    }

    /// Whether every block of the file is present (an empty file is complete).
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.count == self.blocks()
    }

    /// Whether no block is present.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a block, or replaces its value; returns its previous value, if it was present.
    ///
    /// # Errors
    /// If the file has no such block.
    pub fn insert(&mut self, index: u32, value: V) -> Result<Option<V>, BeyondEnd> {
        if index >= self.blocks() {
            return Err(BeyondEnd { index, blocks: self.blocks() });
        }
        let page = self.pages.entry(index / PAGE_BLOCKS).or_insert(Page { present: 0, values: Vec::new() });
        let (bit, rank) = page.locate(index);
        if page.present & bit != 0 {
            return Ok(Some(std::mem::replace(&mut page.values[rank], value)));
        }
        page.present |= bit;
        page.values.insert(rank, value);
        self.count += 1;
        Ok(None)
    }

    /// Removes a block; returns its value, if it was present.
    pub fn remove(&mut self, index: u32) -> Option<V> {
        let number = index / PAGE_BLOCKS;
        let page = self.pages.get_mut(&number)?;
        let (bit, rank) = page.locate(index);
        if page.present & bit == 0 {
            return None;
        }
        page.present &= !bit;
        let value = page.values.remove(rank);
        if page.present == 0 {
            self.pages.remove(&number);
        }
        self.count -= 1;
        Some(value)
    }

    /// The value of a block; `None` if it is not present.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<V> {
        let page = self.pages.get(&(index / PAGE_BLOCKS))?;
        let (bit, rank) = page.locate(index);
        (page.present & bit != 0).then(|| page.values[rank])
    }

    /// Whether a block is present.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        self.get(index).is_some()
    }

    /// Numbers of the blocks present, ascending, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (u32, V)> + '_ {
        self.pages.iter().flat_map(|(number, page)| {
            let bits = (0..PAGE_BLOCKS).filter(|bit| page.present >> bit & 1 == 1);
            bits.map(move |bit| number * PAGE_BLOCKS + bit).zip(page.values.iter().copied())
        })
    }

    /// Maximal runs of consecutive blocks that are present, as ranges of block numbers, ascending.
    pub fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut pieces = self.pages.iter().flat_map(|(number, page)| page.runs(number * PAGE_BLOCKS)).peekable();
        std::iter::from_fn(move || {
            let mut run = pieces.next()?;
            while let Some(next) = pieces.next_if(|next| next.start == run.end) {
                run.end = next.end;
            }
            Some(run)
        })
    }

    /// Maximal runs of consecutive blocks that are missing, as ranges of block numbers, ascending.
    pub fn missing(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let end = self.blocks();
        let mut start = 0;
        self.runs()
            .chain(std::iter::once(end..end))
            .map(move |run| std::mem::replace(&mut start, run.end)..run.start)
            .filter(|gap| !gap.is_empty())
    }
}

impl BlockMap<Digest> {
    /// The file's BLAKE3 digest; `None` unless every block is present.
    #[must_use]
    pub fn root(&self) -> Option<Digest> {
        let mut hasher = RootHasher::new(self.size);
        self.iter().for_each(|(_, value)| hasher.push(value));
        hasher.finish()
    }

    /// The blocks present, as the `Held` messages that report them for the entry `id`.
    pub fn held(&self, id: EntryId) -> impl Iterator<Item = Held> + '_ {
        let mut blocks = self.iter().peekable();
        std::iter::from_fn(move || {
            let (first, value) = blocks.next()?;
            let mut values = vec![value];
            while values.len() < MAX_HELD
                && let Some((_, value)) = blocks.next_if(|(index, _)| index - first == values.len() as u32)
            {
                values.push(value);
            }
            Some(Held { id, first, values })
        })
    }
}

impl<V> Page<V> {
    /// The bit of a block in this page, and the index of its value among the page's values.
    fn locate(&self, index: u32) -> (u64, usize) {
        let bit = 1_u64 << (index % PAGE_BLOCKS);
        (bit, (self.present & (bit - 1)).count_ones() as usize)
    }

    /// Maximal runs of blocks that are present in this page, whose first block is `first`.
    fn runs(&self, first: u32) -> impl Iterator<Item = Range<u32>> + use<V> {
        let mut rest = self.present;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let start = rest.trailing_zeros();
            let length = (rest >> start).trailing_ones();
            let end = start + length;
            rest = if end == PAGE_BLOCKS { 0 } else { rest >> end << end };
            Some(first + start..first + end)
        })
    }
}
