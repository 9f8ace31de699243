//! The processors of this host, and how many threads make use of them.

use std::num::NonZero;
use std::thread::available_parallelism;

/// More hashers than the fastest cards need.
const MOST_HASHERS: usize = 16;

/// As many as this process may use.
pub(crate) fn count() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// How many threads of an end hash blocks. As many as may run at a time: where there is less to do,
/// they sleep.
pub(crate) fn hashers() -> usize {
    count().min(MOST_HASHERS)
}
