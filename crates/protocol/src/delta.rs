//! Content that has moved: parts of a file are found in files at the destination, wherever they are
//! there, and not sent.
//!
//! ```text
//! receiver                                        sender
//! Want::Delta (cuts its bases into chunks) ─────► (waits)
//! Chunks: digests, basis by basis ──────────────► reads the file, cuts it alike, looks each chunk up
//! (copies from its bases) ◄────────────────────── Assembled: where parts of a block are, and the rest
//! ```
//!
//! Bases are numbered from 0: the file that is replaced, if there is one, and those that the user has
//! named. As with a [`Basis`](crate::basis::Basis), a digest only decides what is sent.

use icdc_units::ByteCount;
use serde::{Deserialize, Serialize};

use crate::chunking::{ChunkDigest, Chunking};
use crate::message::{BlockHeader, EntryId};

/// Message of the receiver: consecutive chunks of one of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunks {
    /// Id of the file that is received.
    pub id: EntryId,
    /// Parameters by which all bases of the file are cut.
    pub chunking: Chunking,
    /// Number of the basis.
    pub basis: u8,
    /// Place of the first chunk in the basis, in bytes.
    pub offset: u64,
    /// Length of each chunk in bytes, and its digest.
    pub chunks: Vec<(u32, ChunkDigest)>,
    /// Place up to which all bases are described with this message, in bytes.
    pub covered: u64,
    /// Whether this is the last message about the file.
    pub complete: bool,
}

/// Head of a block that the receiver puts together: `copies` are taken from bases, the payload has the
/// data that they do not cover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assembled {
    /// Head of the block; the copies lie within its data.
    pub header: BlockHeader,
    /// Parts that are copied, ascending and disjoint; at least one.
    pub copies: Vec<CopiedPart>,
}

/// A part of a block that is in a basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedPart {
    /// Place of the part in the block, in bytes.
    pub at: u32,
    /// Length of the part in bytes, not zero.
    pub length: u32,
    /// Number of the basis.
    pub basis: u8,
    /// Place of the part in the basis, in bytes.
    pub offset: u64,
}

impl Assembled {
    /// Length of the parts that are copied.
    #[must_use]
    pub fn copied(&self) -> ByteCount {
        ByteCount::new(copied_bytes(&self.copies))
    }
}

impl CopiedPart {
    /// Place behind the part in the block, in bytes.
    #[must_use]
    pub fn end(&self) -> u64 {
        u64::from(self.at) + u64::from(self.length)
    }
}

/// Number of bytes that these parts have.
#[must_use]
pub fn copied_bytes(copies: &[CopiedPart]) -> u64 {
    copies.iter().map(|copy| u64::from(copy.length)).sum()
}

/// Ranges, (offset, length), ascending, of a block of `length` bytes that travel in the payload: its data
/// `ranges`, all of it where there are none, less what is copied. `None` if a copy is not within the data,
/// or the copies are out of order.
#[must_use]
pub fn sent_ranges(ranges: &[(u32, u32)], copies: &[CopiedPart], length: usize) -> Option<Vec<(u32, u32)>> {
    let all = [(0, u32::try_from(length).ok()?)];
    let data = if ranges.is_empty() { &all[..] } else { ranges };
    let mut copies = copies.iter().peekable();
    let mut sent = Vec::new();
    for &(start, data_length) in data {
        let end = u64::from(start) + u64::from(data_length);
        if end > length as u64 {
            return None;
        }
        let mut at = u64::from(start);
        while let Some(copy) = copies.next_if(|copy| u64::from(copy.at) < end) {
            if copy.length == 0 || u64::from(copy.at) < at || copy.end() > end {
                return None;
            }
            if u64::from(copy.at) > at {
                sent.push((at as u32, copy.at - at as u32));
            }
            at = copy.end();
        }
        if at < end {
            sent.push((at as u32, (end - at) as u32));
        }
    }
    copies.next().is_none().then_some(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(at: u32, length: u32) -> CopiedPart {
        CopiedPart { at, length, basis: 0, offset: 77 }
    }

    #[test]
    fn what_is_sent_is_the_data_that_is_not_copied() {
        for (ranges, copies, sent) in [
            (vec![], vec![], Some(vec![(0, 100)])),
            (vec![], vec![copy(0, 100)], Some(vec![])),
            (vec![], vec![copy(10, 5), copy(15, 5), copy(90, 10)], Some(vec![(0, 10), (20, 70)])),
            (vec![(10, 20), (50, 10)], vec![copy(15, 5), copy(50, 10)], Some(vec![(10, 5), (20, 10)])),
            (vec![(10, 20)], vec![], Some(vec![(10, 20)])),
            // In a hole, over the end of the data, beyond the block, out of order, empty.
            (vec![(10, 20), (50, 10)], vec![copy(40, 5)], None),
            (vec![(10, 20), (50, 10)], vec![copy(25, 6)], None),
            (vec![], vec![copy(99, 2)], None),
            (vec![], vec![copy(100, 1)], None),
            (vec![(90, 20)], vec![], None),
            (vec![], vec![copy(20, 5), copy(10, 5)], None),
            (vec![], vec![copy(20, 5), copy(24, 5)], None),
            (vec![], vec![copy(20, 0)], None),
        ] {
            assert_eq!(sent_ranges(&ranges, &copies, 100), sent, "{ranges:?} {copies:?}");
        }
    }
}
