//! How many threads of an end hash blocks.

use std::num::NonZero;
use std::thread::available_parallelism;

/// Each hashes 2 to 4 GB/s: so many are enough for the fastest cards.
const MOST: usize = 16;

/// As many as may run at a time: where there is less to do, they sleep.
pub(crate) fn hashers() -> usize {
    available_parallelism().map_or(1, NonZero::get).min(MOST)
}
