//! The processors of this host, and how many threads make use of them.

use std::num::NonZero;
use std::thread::available_parallelism;

/// Upper limit of the number of hashing threads: more than the fastest network cards need.
const MOST_HASHERS: usize = 16;

/// Number of processors that this process may use.
pub(crate) fn count() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// Number of threads of an end that hash blocks: one for each processor, up to [`MOST_HASHERS`].
/// Idle ones sleep.
pub(crate) fn hashers() -> usize {
    count().min(MOST_HASHERS)
}
