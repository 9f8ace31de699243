//! The clock adapter of this crate: the date, for what is remembered between runs.

use std::time::{SystemTime, UNIX_EPOCH};

/// Wall-clock time in whole seconds since 1970 (Unix time); 0 if the clock stands before that. For dates that are shown or
/// stored, and for ages.
#[must_use]
pub fn seconds_since_1970() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this is the clock adapter")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
