//! A job under way: which transfer comes next, and what a transfer's outcome means for the job.
//!
//! A job is a list of segments of its block, done from front to back:
//! - direct: the job's ranges widened to the alignment (what is added is zeroed), joined where they
//!   then touch; in a device only ranges that are aligned as they are;
//! - buffered: the ranges as they are.
//!
//! A job leaves direct for buffered when the file refuses (`EINVAL`), or when a short transfer
//! stops at an unaligned place before the end. What is done stays done.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::error::EngineError;
use super::job::{Completion, Job, JobKind};
use crate::file::DiskFile;
use crate::pool::{BLOCK_SIZE, Block};

/// Maximum number of interruptions in a row without a byte of progress before a job fails. A
/// signal or the end of a kernel worker interrupts once; a thousand mean that it will never stop.
const MAX_RETRIES: u32 = 1000;

/// Disk job (read, write or sync) that the engine carries out, with its progress.
#[derive(Debug)]
pub(super) struct Work {
    tag: u64,
    kind: JobKind,
    file: Arc<DiskFile>,
    /// Position of the block in the file.
    offset: u64,
    block: Option<Block>,
    /// Ranges of the block that belong to the job; a read has one.
    ranges: Vec<Range<usize>>,
    /// Ranges of the block that are still to be transferred; the first is in flight.
    segments: VecDeque<Range<usize>>,
    direct: bool,
    retries: u32,
}

/// The system call that a job needs next.
pub(super) enum Step<'a> {
    /// A `pread` of the descriptor into the buffer at the offset.
    Read(BorrowedFd<'a>, &'a mut [u8], u64),
    /// A `pwrite` of the buffer to the descriptor at the offset.
    Write(BorrowedFd<'a>, &'a [u8], u64),
    /// An `fsync` of the descriptor.
    Sync(BorrowedFd<'a>),
}

impl Work {
    /// Prepares a job for its first step.
    ///
    /// # Errors
    /// The completion of a job that needs no step: nothing to transfer, or invalid.
    pub(super) fn begin(tag: u64, job: Job) -> Result<Self, Box<Completion>> {
        let (kind, file, offset, length, ranges, block) = match job {
            Job::Read { file, offset, length, block } => (JobKind::Read, file, offset, length, Vec::new(), Some(block)),
            Job::Write { file, offset, ranges, length, block } => {
                (JobKind::Write, file, offset, length, ranges, Some(block))
            }
            Job::Sync { file } => (JobKind::Sync, file, 0, 0, Vec::new(), None),
        };
        let end = |result| Box::new(Completion { tag, kind, block: None, result });
        let ranges = match check(offset, length, &ranges) {
            Ok(ranges) => ranges,
            Err(why) => {
                return Err(Box::new(Completion { block, ..*end(Err(why)) }));
            }
        };
        if kind != JobKind::Sync && ranges.is_empty() {
            return Err(Box::new(Completion { block, ..*end(Ok(0)) }));
        }
        let segments = ranges.iter().cloned().collect();
        let mut work = Self { tag, kind, file, offset, block, ranges, segments, direct: false, retries: 0 };
        work.align();
        Ok(work)
    }

    /// Switches the job to Direct I/O, if the file supports it and the block's offset is aligned.
    fn align(&mut self) {
        let Some(alignment) = self.file.alignment() else {
            return;
        };
        let Some(block) = &mut self.block else { return };
        if !self.offset.is_multiple_of(alignment as u64) {
            return;
        }
        let widened = widen(&self.ranges, alignment);
        // The zeros would stay: a device is not cut to the length of its file.
        if self.kind == JobKind::Write && self.file.is_device() && !widened.iter().eq(&self.ranges) {
            return;
        }
        self.direct = true;
        self.segments = widened;
        if self.kind == JobKind::Write {
            let mut ranges = self.ranges.iter().peekable();
            for segment in &self.segments {
                let mut done = segment.start;
                while let Some(range) = ranges.next_if(|range| range.end <= segment.end) {
                    block[done..range.start].fill(0);
                    done = range.end;
                }
                block[done..segment.end].fill(0);
            }
        }
    }

    /// Whether the job reads from a file system that may give less than there is.
    pub(super) fn may_read_short(&self) -> bool {
        self.kind == JobKind::Read && self.file.may_read_short()
    }

    /// Returns the system call that the job needs now: a read, a write or a sync. It remains
    /// the same until [`advance`](Self::advance) takes its outcome; there is none after the
    /// job's result. The buffer's memory does not move when this value does, and must be kept
    /// until the call is over.
    pub(super) fn step(&mut self) -> Step<'_> {
        let descriptor = self.file.descriptor(self.direct);
        let Some((block, segment)) = self.block.as_mut().zip(self.segments.front()) else {
            return Step::Sync(descriptor);
        };
        let offset = self.offset + segment.start as u64;
        let bytes = &mut block[segment.clone()];
        match self.kind {
            JobKind::Read => Step::Read(descriptor, bytes, offset),
            _ => Step::Write(descriptor, bytes, offset),
        }
    }

    /// Takes the outcome of the step; returns the job's result, or `None` if there is another
    /// step.
    pub(super) fn advance(&mut self, outcome: Result<usize, Errno>) -> Option<Result<usize, EngineError>> {
        match outcome {
            // Cancelled: the thread that submitted has ended. Repeating a transfer is harmless.
            Err(Errno::INTR | Errno::AGAIN | Errno::CANCELED) if self.retries < MAX_RETRIES => {
                self.retries += 1;
                None
            }
            Err(Errno::INVAL) if self.direct => {
                self.file.refuse_direct();
                self.go_buffered()
            }
            Err(errno) => Some(Err(self.failure(errno.into()))),
            Ok(_) if self.kind == JobKind::Sync => Some(Ok(0)),
            Ok(0) if self.kind == JobKind::Write => Some(Err(self.failure(io::ErrorKind::WriteZero.into()))),
            Ok(bytes) => {
                self.retries = 0;
                self.moved(bytes)
            }
        }
    }

    /// Counts bytes that were transferred; returns the job's result, or `None` if there is another
    /// step.
    fn moved(&mut self, bytes: usize) -> Option<Result<usize, EngineError>> {
        let segment = self.segments.front_mut().expect("a transfer has a segment");
        segment.start += bytes;
        let position = segment.start;
        let complete = position >= segment.end;
        if complete {
            self.segments.pop_front();
        }
        if self.kind == JobKind::Read {
            let wanted = self.ranges[0].end;
            if position >= wanted || bytes == 0 || self.ends_at(position) {
                return Some(Ok(position.min(wanted)));
            }
        }
        if self.segments.is_empty() {
            return Some(Ok(self.size()));
        }
        let alignment = self.file.alignment().unwrap_or(1);
        if self.direct && !complete && !position.is_multiple_of(alignment) {
            return self.go_buffered();
        }
        None
    }

    /// Continues with buffered I/O on what is left of the ranges themselves; returns the job's
    /// result if only padding was left.
    fn go_buffered(&mut self) -> Option<Result<usize, EngineError>> {
        let position = self.segments.front().map_or(BLOCK_SIZE, |segment| segment.start);
        self.direct = false;
        self.segments = self
            .ranges
            .iter()
            .filter(|range| range.end > position)
            .map(|range| range.start.max(position)..range.end)
            .collect();
        self.segments.is_empty().then(|| Ok(self.size()))
    }

    /// Completion of the job with this result.
    pub(super) fn complete(self, result: Result<usize, EngineError>) -> Completion {
        Completion { tag: self.tag, kind: self.kind, block: self.block, result }
    }

    /// Whether the file ends at this position of the block, which saves a read that would find
    /// nothing; false if its size cannot be read.
    fn ends_at(&self, position: usize) -> bool {
        self.file.size().is_ok_and(|size| self.offset + position as u64 >= size)
    }

    /// Number of bytes of the job's ranges, without what was widened to the alignment.
    fn size(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    /// Error of the job for a failed step, at the position that it had reached.
    fn failure(&self, cause: io::Error) -> EngineError {
        let path = self.file.path();
        let start = self.segments.front().map_or(0, |segment| segment.start);
        let offset = self.offset + start as u64;
        match self.kind {
            JobKind::Read => EngineError::Read { path, offset, cause },
            JobKind::Write => EngineError::Write { path, offset, cause },
            JobKind::Sync => EngineError::Sync { path, cause },
        }
    }
}

/// Checks that the job fits the block and the largest file; returns its ranges without empty ones.
fn check(offset: u64, length: usize, ranges: &[(u32, u32)]) -> Result<Vec<Range<usize>>, EngineError> {
    if length > BLOCK_SIZE {
        return Err(EngineError::Job("longer than a block"));
    }
    if offset > i64::MAX as u64 - BLOCK_SIZE as u64 {
        return Err(EngineError::Job("offset beyond the largest file"));
    }
    if ranges.is_empty() {
        return Ok(if length == 0 { Vec::new() } else { std::iter::once(0..length).collect() });
    }
    let mut checked = Vec::with_capacity(ranges.len());
    let mut done = 0;
    for &(start, size) in ranges {
        let (start, end) = (start as usize, start as usize + size as usize);
        if start < done || end > length {
            return Err(EngineError::Job("ranges overlap, descend or exceed the length"));
        }
        done = end;
        if start < end {
            checked.push(start..end);
        }
    }
    Ok(checked)
}

/// Ranges widened to the alignment and joined where they touch.
fn widen(ranges: &[Range<usize>], alignment: usize) -> VecDeque<Range<usize>> {
    let mut widened: VecDeque<Range<usize>> = VecDeque::with_capacity(ranges.len());
    for range in ranges {
        let start = range.start - range.start % alignment;
        let end = range.end.next_multiple_of(alignment);
        match widened.back_mut() {
            Some(last) if last.end >= start => last.end = end,
            _ => widened.push_back(start..end),
        }
    }
    widened
}

#[cfg(test)]
mod tests;
