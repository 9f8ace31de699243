//! A stream as the destination: the blocks of one file in order.
//!
//! ```text
//! block n, the next ───────────────► output ◄─── in its turn
//! one of a few behind it ──► memory ─────────────┤
//! a later one ──► unfinished file ───────────────┘
//! ```
//!
//! Hashing threads and several connections bring blocks out of order. Those that come too early wait in
//! memory as long as they are few, because the missing one may need its blocks, and then in the
//! unfinished file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice};
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
use rustix::io::{Errno, ReadWriteFlags, pwritev2, write};
use rustix::pipe::PIPE_BUF;

use super::disk_rate::Arrived;
use crate::pipes;

/// Stream, such as standard output, that is the destination: the blocks of one file are written to
/// it in order.
#[derive(Clone, Debug)]
pub struct Output {
    file: Arc<File>,
    /// Asks to wait no longer for the stream's reader.
    stop: StopSignal,
    /// Whether writing may have to wait for a reader, as with a pipe; a file has none.
    has_reader: bool,
    /// Whether a block was written.
    has_begun: Arc<AtomicBool>,
}

impl Output {
    /// Output to `file` from its present position on.
    #[must_use]
    pub fn new(file: File) -> Self {
        pipes::widen(&file);
        let has_reader = !file.metadata().is_ok_and(|found| found.is_file());
        Self { file: Arc::new(file), stop: StopSignal::new(), has_reader, has_begun: Arc::default() }
    }

    /// Whether blocks were written: a file of one piece lies complete at the destination instead.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Copies a whole file to the stream, and waits for its reader.
    ///
    /// # Errors
    /// Errors of `read` and `write`.
    pub fn write_file(&self, mut file: &File) -> io::Result<()> {
        io::copy(&mut file, &mut &*self.file).map(drop)
    }

    /// Ends the waiting for the stream's reader, now and later: the session is over.
    pub(super) fn stop(&self) {
        self.stop.request();
    }

    /// Writes all of `bytes` to the stream, and waits for its reader; fails once the session is
    /// `over`.
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
            match self.write_some(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes as much as the output, which is ready, takes without waiting for its reader.
    fn write_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        // The descriptor is shared with other processes, whose writes are to wait as before.
        match pwritev2(&*self.file, &[IoSlice::new(bytes)], AT_POSITION, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) if self.has_reader => {
                write(&*self.file, &bytes[..bytes.len().min(PIPE_BUF)])
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::AGAIN) if !self.has_reader => {
                write(&*self.file, bytes)
            }
            written => written,
        }
    }
}

/// Offset that stands for the present position.
const AT_POSITION: u64 = u64::MAX;

/// Puts one file's blocks in order on their way to the output: early ones wait in memory or in the
/// unfinished file.
pub(super) struct Ordered<'a> {
    output: &'a Output,
    over: StopDescriptor,
    /// Number of the block that is written next.
    next: u32,
    /// Blocks that wait for those before them.
    early: BTreeMap<u32, Early>,
    /// Number of these that are in memory.
    kept: usize,
}

/// A block that waits for its turn.
enum Early {
    /// It is in memory.
    Kept(Arrived),
    /// It is in the unfinished file, and had this value and length.
    Written(Digest, usize),
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
    /// Sequencer of a file of which nothing is written to the output yet.
    pub(super) fn new(output: &'a Output) -> io::Result<Self> {
        Ok(Self { output, over: output.stop.descriptor()?, next: 0, early: BTreeMap::new(), kept: 0 })
    }

    /// Whether a block is the next one.
    pub(super) fn is_next(&self, index: u32) -> bool {
        index == self.next
    }

    /// Writes the next block; returns its number.
    pub(super) fn write(&mut self, data: &[u8]) -> Result<u32, NotWritten> {
        self.output.write(data, &self.over).map_err(NotWritten::Output)?;
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Keeps a block that comes too early in memory, where no more than `most` are kept; otherwise gives it
    /// back, to be written to the unfinished file.
    pub(super) fn keep(&mut self, index: u32, block: Arrived, most: usize) -> Option<Arrived> {
        if self.kept >= most {
            return Some(block);
        }
        self.kept += 1;
        self.early.insert(index, Early::Kept(block));
        None
    }

    /// Notes that a block waits in the unfinished file.
    pub(super) fn waits(&mut self, index: u32, value: Digest, length: usize) {
        self.early.insert(index, Early::Written(value, length));
    }

    /// Writes the next block if it waits, from the unfinished file by way of `block`; its number, or `None` if
    /// it has not arrived.
    pub(super) fn write_early(&mut self, file: &DiskFile, block: &mut Block) -> Result<Option<u32>, NotWritten> {
        let index = self.next;
        let (value, length) = match self.early.remove(&index) {
            None => return Ok(None),
            Some(Early::Written(value, length)) => (value, length),
            Some(Early::Kept(kept)) => {
                self.kept -= 1;
                return self.write(&kept.block[..kept.length]).map(Some);
            }
        };
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
