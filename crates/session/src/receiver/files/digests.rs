//! Digests of whole files, from the values of their blocks.

use icdc_protocol::block_map::{BlockMap, block_count, block_offset};
use icdc_protocol::digest::{self, RootHasher};
use icdc_protocol::limits::{BLOCK_SIZE, MAX_HASHED_HOLES};
use icdc_protocol::message::FileDigest;

/// Digest, of the same kind as `like`, of a file with these `blocks`, all others being zero. Never
/// `None`.
#[must_use]
pub fn digest_like(like: &FileDigest, blocks: &BlockMap) -> Option<FileDigest> {
    let size = blocks.size();
    match like {
        FileDigest::SparseMap(_) => Some(FileDigest::SparseMap(digest::sparse_map(size, blocks.iter()))),
        FileDigest::Blake3(_) => {
            let mut hasher = RootHasher::new(size);
            for index in 0..block_count(size) {
                let hole = || digest::zero_block_value(block_offset(index), size);
                hasher.push(blocks.get(index).unwrap_or_else(hole));
            }
            hasher.finish().map(FileDigest::Blake3)
        }
    }
}

/// Whether a file with these `blocks` has the announced digest. Only a `sparse` one may have holes.
pub(super) fn is_as_announced(announced: &FileDigest, blocks: &BlockMap, sparse: bool) -> bool {
    // A hole where none was announced would expose the contents beneath it.
    if !sparse && !blocks.is_complete() {
        return false;
    }
    // A sender identifies a file of that many zeros by its map; hashing them would block everything
    // else for hours.
    if matches!(announced, FileDigest::Blake3(_)) && hole_bytes(blocks) > MAX_HASHED_HOLES {
        return false;
    }
    digest_like(announced, blocks) == Some(*announced)
}

/// Number of bytes in whole blocks that are not present.
fn hole_bytes(blocks: &BlockMap) -> u64 {
    u64::from(blocks.blocks() - blocks.count()) * BLOCK_SIZE as u64
}
