//! Reads a stream block by block: standard input, whose length shows at its end.
//!
//! ```text
//! input ── block n ──► held until the input has more, or ends ──► hashers
//! ```
//!
//! The value of a first block depends on whether another follows, so each is handed on one later.

use std::os::fd::AsFd;
use std::sync::Arc;

use crossbeam_channel::Sender as Channel;
use icdc_disk::tree::FileTime;
use icdc_disk::{BLOCK_SIZE, Block};
use icdc_protocol::block_map::{BlockMap, block_count, block_offset};
use icdc_protocol::limits::MAX_FILE_SIZE;
use icdc_protocol::message::{Digest, EntryId, GivenUp, Streamed};
use icdc_session::sender::Need;
use icdc_stop::StopDescriptor;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read as read_bytes};

use super::executor::Executor;
use super::given_up::unreadable;
use super::hashing::{Extent, Hashing, Step};
use super::input::Input;
use crate::clock;

/// Reason for which a stream is not continued that ends where it begins: whether its last block is the
/// only one may depend on more.
const NOTHING_MORE: &str = "the input has ended before its first byte; continue a stream from a place before its end";

/// Announces the stream. `None` when the session is over.
pub(super) fn announce(executor: &Executor<'_>, input: &Input) -> Option<()> {
    if !executor.await_room(Need::Item { depth: 0 }) {
        return None;
    }
    executor.with(|machine| {
        if let Some(from) = input.from() {
            machine.continue_stream(from.as_u64());
        }
        machine.announce(input.found())
    });
    Some(())
}

/// Result of filling a block.
enum Filled {
    /// The input has ended behind these bytes.
    Last(usize),
    /// The block is full.
    Whole,
    /// The session is over.
    Over,
}

/// Reads the stream to its end and hands its blocks on as item `id`, behind those that the receiver has
/// `held` of an earlier session; returns early when the session is over.
pub(super) fn read(executor: &Executor<'_>, hashers: &Channel<Step>, id: EntryId, held: Option<BlockMap>) {
    let Some(input) = &executor.input else { return };
    let Some(held) = before(input, held.as_ref()) else {
        return executor.give_up(id, unreadable("the far end holds other data of it than was asked for".into()));
    };
    match executor.stop_reading.descriptor() {
        Ok(over) => {
            let file = Arc::new(Hashing::of_stream(id));
            let _ = Stream { executor, hashers, file, input, over: &over }.read(id, &held);
        }
        Err(error) => executor.give_up(id, unreadable(error.to_string())),
    }
}

/// Digests of the blocks that come before the input: as many as its place says, without a gap; `None` if
/// the receiver holds others.
fn before(input: &Input, held: Option<&BlockMap>) -> Option<Vec<Digest>> {
    let blocks = block_count(input.from().unwrap_or_default().as_u64());
    let held: Vec<_> = held.into_iter().flat_map(BlockMap::iter).collect();
    let is_asked_for = held.iter().map(|(index, _)| *index).eq(0..blocks);
    is_asked_for.then(|| held.into_iter().map(|(_, value)| value).collect())
}

/// The stream that is being read, and what its blocks are passed to.
struct Stream<'a> {
    executor: &'a Executor<'a>,
    hashers: &'a Channel<Step>,
    file: Arc<Hashing>,
    input: &'a Input,
    /// Readable once the session is over.
    over: &'a StopDescriptor,
}

impl Stream<'_> {
    /// Reads the stream to its end and hands its blocks on, those `before` it first. `None` when the
    /// session is over.
    fn read(&self, id: EntryId, before: &[Digest]) -> Option<()> {
        for (index, value) in (0..).zip(before) {
            self.file.hand_on();
            self.hashers.send(Step::Held { file: self.file.clone(), index, value: *value }).ok()?;
        }
        let mut index = before.len() as u32;
        let begins_at = block_offset(index);
        let mut size = begins_at;
        let mut held: Option<Block> = None;
        loop {
            let mut block = self.executor.pool.take().ok()?;
            let (length, has_ended) = match self.fill(&mut block) {
                Ok(Filled::Whole) => (BLOCK_SIZE, false),
                Ok(Filled::Last(length)) => (length, true),
                Ok(Filled::Over) => return None,
                Err(given_up) => return self.end(Err(given_up)),
            };
            if !self.executor.is_pending(id) {
                return None;
            }
            size += length as u64;
            if size == begins_at && index > 0 {
                return self.end(Err(unreadable(NOTHING_MORE.into())));
            }
            if size > MAX_FILE_SIZE {
                return self.end(Err(unreadable("it is longer than a file may be".into())));
            }
            if length == 0 {
                self.file.set_size(size);
            }
            if let Some(whole) = held.take() {
                self.hand_on(index, whole, BLOCK_SIZE)?;
                index += 1;
            }
            if has_ended && length > 0 {
                self.file.set_size(size);
                self.hand_on(index, block, length)?;
            } else if !has_ended {
                held = Some(block);
                continue;
            }
            let FileTime { seconds: mtime_seconds, nanos: mtime_nanos } = clock::file_time();
            self.file.set_streamed(Streamed { size, mtime_seconds, mtime_nanos });
            return self.end(Ok(()));
        }
    }

    /// Hands a block of the stream on to the hashing threads. `None` when the session is over.
    fn hand_on(&self, index: u32, block: Block, length: usize) -> Option<()> {
        self.file.hand_on();
        self.hashers.send(Step::Data { file: self.file.clone(), index, extent: Extent::Whole, block, length }).ok()
    }

    /// Hands the end of the stream, with the outcome of reading it, on to the hashing threads.
    /// `None` when the session is over.
    fn end(&self, outcome: Result<(), GivenUp>) -> Option<()> {
        self.file.clone().end(outcome).map_or(Some(()), |step| self.hashers.send(step).ok())
    }

    /// Reads from the stream until the block is full or the stream ends; waits for its writer, at
    /// most until the session is over.
    fn fill(&self, block: &mut Block) -> Result<Filled, GivenUp> {
        let _busy = self.executor.stages.read.busy();
        let failed = |error: Errno| unreadable(std::io::Error::from(error).to_string());
        let mut filled = 0;
        while filled < BLOCK_SIZE {
            let input = self.input.as_fd();
            let mut wait = [PollFd::from_borrowed_fd(input, PollFlags::IN), PollFd::new(self.over, PollFlags::IN)];
            match poll(&mut wait, None) {
                Ok(_) if !wait[1].revents().is_empty() => return Ok(Filled::Over),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(failed(error)),
            }
            match read_bytes(input, &mut block[filled..BLOCK_SIZE]) {
                Ok(0) => return Ok(Filled::Last(filled)),
                Ok(count) => filled += count,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(Filled::Whole)
    }
}
