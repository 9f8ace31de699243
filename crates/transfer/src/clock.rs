//! The clock adapter of this crate: everything else takes time from here or as a parameter.

use std::time::UNIX_EPOCH;

use icdc_disk::tree::FileTime;
pub(crate) use icdc_tcp::clock::{now, of_process, of_thread, wall};

/// Present time of the wall clock, as file systems give it to files.
pub(crate) fn file_time() -> FileTime {
    let since = wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    FileTime { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
}
