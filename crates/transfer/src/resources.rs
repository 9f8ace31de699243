//! Shares of a session in what this process may have: blocks of memory, open directories.

use icdc_limits::memory;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_units::ByteCount;
use rustix::process::{Resource, getrlimit};

/// Share of blocks in the tightest limit on memory: the other end may be under the same one, and
/// threads, paths and the page cache need the rest.
const SHARE: u64 = 4;
/// The least number of blocks, whatever the limit: one for the disk and one for the network, for a
/// few threads each.
const LEAST_BLOCKS: u64 = 8;
/// Memory of a limited group besides the blocks of one end: the least blocks of the other end,
/// which may be under the same limit, threads, paths, what the page cache needs at least.
const BESIDES: ByteCount = ByteCount::from_mib(48);
/// Descriptors of a session besides directories: threads' files, rings, connections, and those of
/// the other end in a copy within this process.
const OTHERS: u64 = 64;
/// Ends that may be in this process.
const ENDS: u64 = 2;

/// `wanted` blocks, or fewer where memory is limited.
pub(crate) fn blocks(wanted: u64) -> u64 {
    memory::tightest().map_or(wanted, |most| wanted.min((most.as_u64() / SHARE / BLOCK_SIZE as u64).max(LEAST_BLOCKS)))
}

/// Checks that memory for this number of blocks is available.
pub(crate) fn fits(blocks: u64) -> Result<(), String> {
    memory::fits(ByteCount::new(blocks.saturating_mul(BLOCK_SIZE as u64)) + BESIDES)
}

/// The most directories that a sending end may have open: each end keeps those that are not done,
/// and has one more descriptor while it reads one.
pub(crate) fn directories() -> usize {
    let most = getrlimit(Resource::Nofile).current.map(|most| most.saturating_sub(OTHERS) / (2 * ENDS));
    most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX).max(1))
}
