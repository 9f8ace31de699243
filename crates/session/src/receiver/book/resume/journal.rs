//! Digests of whole files that the journals of their blocks tell.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::digest::RootHasher;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{FileDigest, ReceiveOptions};
use icdc_units::ByteCount;

use super::super::item::Item;
use super::facts::Facts;

/// Digest of the file under the final name, from a journal that names all its blocks and has no
/// unfinished file: an earlier run was killed after the rename and before it was reported.
pub(super) fn renamed(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<FileDigest> {
    let is_journaled = options.resume && !options.dry_run && item.size() > ByteCount::from(BLOCK_SIZE);
    if !is_journaled {
        return None;
    }
    facts.journals_without_part().iter().find_map(whole_digest)
}

/// Digest of a whole file from its block map; `None` unless all its blocks are in the map.
pub(super) fn whole_digest(held: &BlockMap) -> Option<FileDigest> {
    let mut hasher = RootHasher::new(held.size());
    for index in 0..held.blocks() {
        hasher.push(held.get(index)?);
    }
    hasher.finish().map(FileDigest::Blake3)
}
