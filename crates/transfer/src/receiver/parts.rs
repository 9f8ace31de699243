//! The bytes of a block that arrives in parts.

use std::ops::Range;

use icdc_disk::Block;

/// Puts an arrived part, which lies at the start of `arrived`, at its `range` of the block: in the
/// block `before`, which holds the earlier parts, or in its own block if it is the first.
pub(super) fn put(before: Option<Block>, mut arrived: Block, range: Range<usize>) -> Block {
    match before {
        None => {
            arrived.copy_within(..range.len(), range.start);
            arrived
        }
        Some(mut block) => {
            let length = range.len();
            block[range].copy_from_slice(&arrived[..length]);
            block
        }
    }
}

#[cfg(test)]
#[path = "parts/tests.rs"]
mod tests;
