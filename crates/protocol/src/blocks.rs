//! Division of a file into blocks: their number, offsets and lengths.

use crate::limits::BLOCK_SIZE;

/// Number of blocks of a file of `size` bytes, which may be up to
/// [`MAX_FILE_SIZE`](crate::limits::MAX_FILE_SIZE).
#[must_use]
pub fn block_count(size: u64) -> u32 {
    u32::try_from(size.div_ceil(BLOCK_SIZE as u64)).unwrap_or(u32::MAX)
}

/// Offset of block `index` in the file, in bytes.
#[must_use]
pub fn block_offset(index: u32) -> u64 {
    u64::from(index) * BLOCK_SIZE as u64
}

/// Length in bytes of block `index` of a file of `size` bytes: [`BLOCK_SIZE`], less for the last
/// block, 0 beyond it.
#[must_use]
pub fn block_length(size: u64, index: u32) -> usize {
    size.saturating_sub(block_offset(index)).min(BLOCK_SIZE as u64) as usize
}
