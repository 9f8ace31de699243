//! How many threads of an end hash blocks.

use std::num::NonZero;
use std::thread::available_parallelism;

/// More than the fastest cards need.
const MOST: usize = 16;

/// As many as may run at a time: where there is less to do, they sleep.
pub(crate) fn hashers() -> usize {
    available_parallelism().map_or(1, NonZero::get).min(MOST)
}
