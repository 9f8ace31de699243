//! Files at the destination that have parts in common with the files that replace them: equal parts
//! are not sent.
//!
//! ```text
//! receiver                                      sender
//! Want::Difference (reads its file)  ─────────► (waits)
//! Basis: digests of leaves, block by block ───► reads these blocks, and compares leaf by leaf
//! (fills what is equal from its file) ◄──────── Difference: the leaves that differ
//! ```
//!
//! A leaf's digest only decides what is sent. The whole block, put together from both, has the value
//! that is in its header, or is sent once more as it is.

use serde::{Deserialize, Serialize};

use crate::limits::{BLOCK_SIZE, LEAF_SIZE};
use crate::message::EntryId;

/// Number of leaves of a whole block.
pub const LEAVES: usize = BLOCK_SIZE / LEAF_SIZE;

/// First half of the BLAKE3 digest of a leaf's bytes.
pub type LeafDigest = [u8; 16];

/// Message of the receiver: digests of parts of a file at the destination, so that the sender of
/// the file that replaces it sends only what differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// Id of the file.
    pub id: EntryId,
    /// Number of the first block. Blocks before it that no `Basis` has described, and that are not
    /// held, are wanted whole.
    pub first: u32,
    /// Digests of the leaves of consecutive blocks, for each block from its start on, as far as the
    /// receiver's file reaches.
    pub blocks: Vec<Vec<LeafDigest>>,
    /// Whether this is the last one: all blocks behind it are wanted whole.
    pub complete: bool,
}

/// Digests of the leaves of a block, of which the last may be short.
#[must_use]
pub fn leaf_digests(block: &[u8]) -> Vec<LeafDigest> {
    block.chunks(LEAF_SIZE).map(leaf_digest).collect()
}

/// First 16 bytes of the BLAKE3 digest of a leaf's bytes.
fn leaf_digest(leaf: &[u8]) -> LeafDigest {
    let digest = blake3::hash(leaf);
    let mut half = [0; 16];
    half.copy_from_slice(&digest.as_bytes()[..16]);
    half
}

/// Ranges of a block, (offset, length), ascending, that differ from a basis with these leaves or
/// that it lacks; neighbours are one range.
#[must_use]
pub fn differences(block: &[u8], basis: &[LeafDigest]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (number, leaf) in block.chunks(LEAF_SIZE).enumerate() {
        if basis.get(number).is_some_and(|known| *known == leaf_digest(leaf)) {
            continue;
        }
        let (offset, length) = ((number * LEAF_SIZE) as u32, leaf.len() as u32);
        match ranges.last_mut() {
            Some((start, before)) if *start + *before == offset => *before += length,
            _ => ranges.push((offset, length)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(leaves: &[u8], last: usize) -> Vec<u8> {
        let mut block: Vec<u8> = leaves.iter().flat_map(|leaf| [*leaf; LEAF_SIZE]).collect();
        block.truncate(block.len() - LEAF_SIZE + last);
        block
    }

    #[test]
    fn leaves_that_differ_are_ranges_and_neighbours_one() {
        let old = leaf_digests(&block(&[1, 2, 3, 4, 5], LEAF_SIZE));
        let leaf = LEAF_SIZE as u32;
        for (new, ranges) in [
            (block(&[1, 2, 3, 4, 5], LEAF_SIZE), vec![]),
            (block(&[1, 9, 9, 4, 9], LEAF_SIZE), vec![(leaf, 2 * leaf), (4 * leaf, leaf)]),
            (block(&[1, 2, 3], 100), vec![(2 * leaf, 100)]),
            (block(&[1, 2, 3, 4, 5, 6], 1), vec![(5 * leaf, 1)]),
        ] {
            assert_eq!(differences(&new, &old), ranges);
        }
        assert_eq!(differences(&block(&[7], 10), &[]), [(0, 10)]);
    }
}
