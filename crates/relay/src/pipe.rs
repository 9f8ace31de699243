//! Pipes that hold bytes between two sockets joined by `splice`. A connection has one only while it
//! holds bytes, so an idle one has none.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// Requested capacity of a pipe, in bytes. Each segment takes a page, however small it is: 256 of
/// them.
pub(crate) const PIPE_SIZE: usize = 1 << 20;
/// Greatest number of empty pipes of a thread that stay open for reuse.
const KEPT: usize = 32;

/// A pipe that never blocks.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
}

/// The empty pipes of one thread that stay open for reuse.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    empty: Vec<Pipe>,
}

impl Pipes {
    /// Returns an empty pipe: one that is open already, or else a new one.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn take(&mut self) -> Result<Pipe, Errno> {
        if let Some(pipe) = self.empty.pop() {
            return Ok(pipe);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Without privileges a user has this much for all pipes together (pipe(7)); a pipe of the
        // default size works as well, with more calls.
        let _ = fcntl_setpipe_size(&writer, PIPE_SIZE);
        Ok(Pipe { reader, writer })
    }

    /// Takes an empty pipe back, to be used again.
    pub(crate) fn give_back(&mut self, pipe: Pipe) {
        if self.empty.len() < KEPT {
            self.empty.push(pipe);
        }
    }
}
