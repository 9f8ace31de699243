//! A stream as the destination: the blocks of one file in order.
//!
//! ```text
//! block n, the next ───────────────► output ◄─── read back in its turn
//! a later block ──► unfinished file ─────────────┘
//! ```
//!
//! Over several connections blocks come out of order. One that comes too early waits in the unfinished
//! file, not in memory, whose blocks the missing one may need.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_disk::{Block, DiskFile, sparse};
use icdc_protocol::block_map::block_offset;
use icdc_protocol::digest::is_block;
use icdc_protocol::message::Digest;
use icdc_stop::{StopDescriptor, StopSignal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, write};

/// A stream that the blocks of one file are written to, in order.
#[derive(Clone, Debug)]
pub struct Output {
    file: Arc<File>,
    /// Asks to wait no longer for the stream's reader.
    stop: StopSignal,
    /// Whether a block was written.
    has_begun: Arc<AtomicBool>,
}

impl Output {
    /// Output to `file` from its present position on.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self { file: Arc::new(file), stop: StopSignal::new(), has_begun: Arc::default() }
    }

    /// Whether blocks were written: a file of one piece lies complete at the destination instead.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// Errors of `read` and `write`.
    pub fn write_file(&self, mut file: &File) -> io::Result<()> {
        io::copy(&mut file, &mut &*self.file).map(drop)
    }

    /// Waits no longer for the stream's reader, now or later.
    pub(super) fn stop(&self) {
        self.stop.request();
    }

    fn write(&self, mut bytes: &[u8], over: &StopDescriptor) -> io::Result<()> {
        self.has_begun.store(true, Ordering::Relaxed);
        while !bytes.is_empty() {
            let mut wait =
                [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::OUT), PollFd::new(over, PollFlags::IN)];
            match poll(&mut wait, None) {
                Ok(_) if !wait[1].revents().is_empty() => return Err(io::ErrorKind::ConnectionAborted.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            // A pipe that has room takes this much without waiting.
            let piece = &bytes[..bytes.len().min(PIECE)];
            match write(&*self.file, piece) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Most bytes of one write: what a pipe that is ready takes at once.
const PIECE: usize = rustix::pipe::PIPE_BUF;

/// The order of one file's blocks on their way to the output.
pub(super) struct Ordered<'a> {
    output: &'a Output,
    over: StopDescriptor,
    /// Number of the block that is written next.
    next: u32,
    /// Blocks in the unfinished file that wait for those before them: value and length.
    early: BTreeMap<u32, (Digest, usize)>,
}

/// Reason why a block does not reach the output.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// The output takes nothing more.
    Output(io::Error),
    /// A block that waited in the unfinished file cannot be read, or is not what was written there.
    Early(io::Error),
}

impl<'a> Ordered<'a> {
    /// The order of a file of which nothing is written.
    pub(super) fn new(output: &'a Output) -> io::Result<Self> {
        Ok(Self { output, over: output.stop.descriptor()?, next: 0, early: BTreeMap::new() })
    }

    /// Whether a block is the next one.
    pub(super) fn is_next(&self, index: u32) -> bool {
        index == self.next
    }

    /// Writes the next block.
    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), NotWritten> {
        self.output.write(data, &self.over).map_err(NotWritten::Output)?;
        self.next += 1;
        Ok(())
    }

    /// Notes that a block waits in the unfinished file.
    pub(super) fn waits(&mut self, index: u32, value: Digest, length: usize) {
        self.early.insert(index, (value, length));
    }

    /// Writes the next block from the unfinished file, by way of `block`; its number, or `None` if it is
    /// not there.
    pub(super) fn write_early(&mut self, file: &DiskFile, block: &mut Block) -> Result<Option<u32>, NotWritten> {
        let index = self.next;
        let Some((value, length)) = self.early.remove(&index) else { return Ok(None) };
        let (file, offset) = (file.as_file(), block_offset(index));
        let data = &mut block[..length];
        file.read_exact_at(data, offset).map_err(NotWritten::Early)?;
        if !is_block(offset, data, &value) {
            return Err(NotWritten::Early(io::Error::other("what the disk gives back differs from what was written")));
        }
        self.write(data)?;
        // Where it cannot be, it goes with the file.
        let _ = sparse::punch(file, offset..offset + length as u64);
        Ok(Some(index))
    }
}
