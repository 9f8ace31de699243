//! The bytes of a block that arrives in parts.

use std::ops::Range;

use icdc_disk::Block;

/// A part, at the start of what has `arrived`, in its place: in what the parts `before` have
/// filled, or in its own block if it is the first.
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
