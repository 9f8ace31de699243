//! Data ranges of a block that travel, as (offset, length) within the block, ascending and
//! disjoint; the rest is zero.
//!
//! A hole between two ranges costs a range in the message and a separate write at the receiver, so
//! short holes are filled with the zeros that they read as, and of what remains the shortest are
//! filled until at most [`MAX_RANGES`] ranges are left.

use crate::limits::MAX_RANGES;

/// Joins ranges whose gap is at most `gap` bytes, then across the shortest gaps until at most
/// [`MAX_RANGES`] are left. Empty ranges vanish.
///
/// # Panics
/// May panic if the given ranges are not ascending and disjoint; they come from the own file
/// system.
#[must_use]
pub fn join(ranges: impl IntoIterator<Item = (u32, u32)>, gap: u32) -> Vec<(u32, u32)> {
    let mut joined: Vec<(u32, u32)> = ranges.into_iter().filter(|(_, length)| *length > 0).collect();
    fill_gaps(&mut joined, |length, _| length <= gap);
    if joined.len() > MAX_RANGES {
        let mut gaps: Vec<(u32, usize)> =
            joined.windows(2).enumerate().map(|(at, pair)| (gap_between(pair[0], pair[1]), at + 1)).collect();
        let surplus = joined.len() - MAX_RANGES;
        let widest = *gaps.select_nth_unstable(surplus - 1).1;
        fill_gaps(&mut joined, |length, at| (length, at) <= widest);
    }
    joined
}

/// Sum of the ranges' lengths, in bytes.
#[must_use]
pub fn total(ranges: &[(u32, u32)]) -> u64 {
    ranges.iter().map(|(_, length)| u64::from(*length)).sum()
}

/// Joins each range with the one before it if `fill`, which gets the length of the gap and the
/// range's index, returns true.
fn fill_gaps(ranges: &mut Vec<(u32, u32)>, fill: impl Fn(u32, usize) -> bool) {
    let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (at, &(offset, length)) in ranges.iter().enumerate() {
        match joined.last_mut() {
            Some(last) if fill(gap_between(*last, (offset, length)), at) => last.1 = offset + length - last.0,
            _ => joined.push((offset, length)),
        }
    }
    *ranges = joined;
}

/// Bytes between the end of one range and the start of the next.
fn gap_between(left: (u32, u32), right: (u32, u32)) -> u32 {
    right.0 - (left.0 + left.1)
}
