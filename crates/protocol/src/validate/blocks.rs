//! Rules of numbers and data ranges of blocks.

use super::rules::{Checked, require};
use crate::limits::{BLOCK_SIZE, MAX_RANGES};
use crate::message::BlockHeader;

/// Checks number and data ranges of a block; returns the sum of the lengths of the ranges.
pub(super) fn block_ranges(header: &BlockHeader) -> Result<u64, &'static str> {
    block_number(header.index)?;
    require(header.ranges.len() <= MAX_RANGES, "too many data ranges")?;
    let mut end = 0;
    let mut sum = 0;
    for &(offset, length) in &header.ranges {
        require(length > 0, "an empty data range")?;
        require(u64::from(offset) >= end, "data ranges that overlap or are out of order")?;
        end = u64::from(offset) + u64::from(length);
        sum += u64::from(length);
    }
    require(end <= BLOCK_SIZE as u64, "a data range beyond the end of the block")?;
    Ok(sum)
}

/// Checks that a file can have a block of this number.
pub(super) fn block_number(index: u32) -> Checked {
    require(index < u32::MAX, "a block number that no file reaches")
}
