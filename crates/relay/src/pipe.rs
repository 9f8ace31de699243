//! Pipes: where bytes are between two sockets that `splice` joins. They exist while bytes are under way, so that an
//! idle connection has none.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// What a pipe shall hold. Each segment takes a page's place, however small it is: 256 of them.
pub(crate) const PIPE_SIZE: usize = 1 << 20;
/// Empty pipes that are kept for the next bytes.
const KEPT: usize = 32;

/// A pipe that never blocks.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
}

/// The pipes of one thread.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    empty: Vec<Pipe>,
}

impl Pipes {
    /// An empty pipe.
    pub(crate) fn take(&mut self) -> Result<Pipe, Errno> {
        if let Some(pipe) = self.empty.pop() {
            return Ok(pipe);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Without privileges a user has so much for all pipes (pipe(7)); one of the usual size does as well, with more calls.
        let _ = fcntl_setpipe_size(&writer, PIPE_SIZE);
        Ok(Pipe { reader, writer })
    }

    /// Takes an empty pipe back.
    pub(crate) fn give_back(&mut self, pipe: Pipe) {
        if self.empty.len() < KEPT {
            self.empty.push(pipe);
        }
    }
}
