//! Rules of descriptions by chunks, and of blocks that are put together.

use super::blocks::block_ranges;
use super::rules::{Checked, require};
use crate::delta::{Assembled, Chunks, copied_bytes, sent_ranges};
use crate::limits::{BLOCK_SIZE, MAX_BASES, MAX_CHUNKS_TOLD, MAX_COPIES, MAX_FILE_SIZE};

/// Checks numbers and lengths of chunks, and that they lie in a file.
pub(super) fn chunks(chunks: &Chunks) -> Checked {
    require(chunks.chunking.is_valid(), "chunks of a length that no end cuts")?;
    basis(chunks.basis)?;
    require(chunks.chunks.len() <= MAX_CHUNKS_TOLD, "too many chunks")?;
    require(!chunks.chunks.is_empty() || chunks.complete, "it describes nothing")?;
    let longest = chunks.chunking.longest();
    let mut end = chunks.offset;
    for &(length, _) in &chunks.chunks {
        require((1..=longest).contains(&(length as usize)), "a chunk that is empty or too long")?;
        end = end.saturating_add(u64::from(length));
    }
    require(end <= MAX_FILE_SIZE, "a chunk beyond the end of any file")
}

/// Checks that copies lie within the data of the block, and that the payload has the rest of it. The last
/// block of a file, which may be short, is compared with its length when it is put together.
pub(super) fn assembled(assembled: &Assembled, payload_length: usize) -> Checked {
    let Assembled { header, copies } = assembled;
    let data = block_ranges(header)?;
    require(payload_length <= BLOCK_SIZE, "more data than a block holds")?;
    require((1..=MAX_COPIES).contains(&copies.len()), "no copies, or too many")?;
    require(sent_ranges(&header.ranges, copies, BLOCK_SIZE).is_some(), "copies out of order, or outside of the data")?;
    for copy in copies {
        basis(copy.basis)?;
        let end = copy.offset.saturating_add(u64::from(copy.length));
        require(end <= MAX_FILE_SIZE, "a copy from beyond the end of any file")?;
    }
    let sum = copied_bytes(copies) + payload_length as u64;
    let is_whole = if header.ranges.is_empty() { sum <= BLOCK_SIZE as u64 } else { sum == data };
    require(is_whole, "copies and payload that do not add up to the data")
}

/// Checks the number of a basis: the file that is replaced and those that are named have one each.
fn basis(number: u8) -> Checked {
    require(usize::from(number) <= MAX_BASES, "a basis that no copy has")
}
