//! Shares of a session in what this process may have: blocks of memory, open directories.

use icdc_limits::memory;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_units::ByteCount;
use rustix::process::{Resource, getrlimit};

/// Reciprocal of the share of the tightest memory limit that is used for blocks: the other end may
/// be under the same limit, and threads, paths and the page cache need the rest.
const SHARE: u64 = 4;
/// Minimum number of blocks, whatever the limit: one for the disk and one for the network, for a
/// few threads each.
const LEAST_BLOCKS: u64 = 8;
/// Memory in a limited group that is kept for other purposes than one end's blocks: the minimum
/// blocks of the other end, which may be under the same limit, threads, paths, and the least page
/// cache.
const BESIDES: ByteCount = ByteCount::from_mib(48);
/// Most memory that the codecs of one end have together. Chosen: more than those of all hashing threads
/// by `auto`, and three of the highest levels.
const CODECS: ByteCount = ByteCount::from_mib(256);
/// Reciprocal of the share of the tightest memory limit that is used for codecs.
const CODECS_SHARE: u64 = 8;
/// File descriptors that a session needs besides directories: threads' files, rings, connections,
/// files with which others are compared, and those of the other end in a copy within this process.
const OTHERS: u64 = 80;
/// Number of session ends that may run in this process at once.
const ENDS: u64 = 2;

/// Number of blocks (4 MiB each) that a session end may have: `wanted`, or fewer where memory is
/// limited.
pub(crate) fn blocks(wanted: u64) -> u64 {
    memory::tightest().map_or(wanted, |most| wanted.min((most.as_u64() / SHARE / BLOCK_SIZE as u64).max(LEAST_BLOCKS)))
}

/// Number of codecs of `each` bytes that a session end may have: `wanted`, or fewer where memory is
/// limited, or none.
pub(crate) fn codecs(wanted: usize, each: ByteCount) -> usize {
    codecs_below(memory::tightest(), wanted, each)
}

/// As [`codecs`], below this limit.
fn codecs_below(tightest: Option<ByteCount>, wanted: usize, each: ByteCount) -> usize {
    let most = tightest.map_or(CODECS, |most| CODECS.min(most / CODECS_SHARE));
    wanted.min(usize::try_from(most.as_u64() / each.as_u64()).unwrap_or(usize::MAX))
}

/// Checks that memory for this number of blocks is available; the error is a message for the user.
pub(crate) fn fits(blocks: u64) -> Result<(), String> {
    memory::check_group_limits(ByteCount::new(blocks.saturating_mul(BLOCK_SIZE as u64)) + BESIDES)
}

/// Maximum number of directories that a sending end may have open: each end keeps those that are
/// not done, and has one more descriptor while it reads one.
pub(crate) fn directories() -> usize {
    let most = getrlimit(Resource::Nofile).current.map(|most| most.saturating_sub(OTHERS) / (2 * ENDS));
    most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use icdc_protocol::compression::compressor_memory;

    use super::*;

    #[test]
    fn codecs_keep_to_their_share_of_the_memory() {
        let below = |mebibytes, level| codecs_below(Some(ByteCount::from_mib(mebibytes)), 16, compressor_memory(level));
        assert_eq!(
            [codecs_below(None, 16, compressor_memory(3)), codecs_below(None, 2, compressor_memory(19))],
            [16, 2]
        );
        assert_eq!([below(100_000, 19), below(1000, 19), below(400, 19)], [3, 1, 0]);
        assert_eq!([below(1000, 3), below(100, 3), below(40, 3)], [16, 2, 0]);
    }
}
