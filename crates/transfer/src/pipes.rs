//! Pipes to and from other programs.

use std::fs::File;

/// Capacity in bytes that is requested for a pipe: what an ordinary user may have by default.
const CAPACITY: usize = 1 << 20;

/// Gives a pipe more capacity, where that is permitted; does nothing to what is no pipe.
pub(crate) fn widen(file: &File) {
    let _ = rustix::pipe::fcntl_setpipe_size(file, CAPACITY);
}
