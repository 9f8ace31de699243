//! Reads files that grow, and sends their blocks, by turns: one thread for all of them, so that none holds up what is
//! read of others. When one is closed, more threads help to read it once more.
//!
//! Which step is next, [`Growth`] says. The file is read by the descriptor by which it was found; that its name still is
//! its own, in the version in which its writer has closed it, is seen last of all.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_channel::{Receiver as Queue, TryRecvError, select};
use icdc_disk::tree::Stat;
use icdc_disk::{Block, sparse};
use icdc_link::Parcel;
use icdc_protocol::block_map::block_offset;
use icdc_protocol::digest::block_value;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_FILE_SIZE};
use icdc_protocol::message::{BlockHeader, Digest, EntryId, GivenUp, Message, Streamed};

use super::executor::{Executor, GrowJob};
use super::fingerprint::Fingerprints;
use super::given_up::{changed, unreadable};
use super::growing_file::{GrowingFile, Phase};
use super::growth::{Growth, Next, Seen, SentBlock};
use super::source_version::version;
use crate::processors::hashers;
use crate::stage_thread::try_start;

/// Announced items that are kept at which a file that grows is given up: what is kept reaches back to the oldest item
/// that has not ended, and there is a limit on it.
const MOST_BEHIND: usize = 1 << 15;

/// Body of the thread that reads files which grow, until the session ends. `grew` is signalled when one may have grown,
/// was closed or abandoned.
pub(super) fn run(executor: &Executor<'_>, jobs: &Queue<GrowJob>, grew: &Queue<()>) {
    let mut items: Vec<Item> = Vec::new();
    loop {
        let job = match jobs.try_recv() {
            Ok(job) => Some(job),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {
                match advance(executor, &mut items) {
                    Some(true) => continue,
                    Some(false) => {}
                    None => return,
                }
                select! {
                    recv(jobs) -> job => match job {
                        Ok(job) => Some(job),
                        Err(_) => return,
                    },
                    recv(grew) -> _ => None,
                }
            }
        };
        if job.is_some_and(|job| take(executor, &mut items, job).is_none()) {
            return;
        }
    }
}

/// Handles a job. `None` when the session is over.
fn take(executor: &Executor<'_>, items: &mut Vec<Item>, job: GrowJob) -> Option<()> {
    match job {
        GrowJob::File(id, file) => items.push(Item::new(id, file)),
        GrowJob::Again(id, index) => match items.iter().find(|item| item.id == id) {
            Some(item) => return item.send_again(executor, index),
            None => executor.give_up(id, changed()),
        },
    }
    Some(())
}

/// Takes one step for each file; whether there was any to take. `None` when the session is over.
fn advance(executor: &Executor<'_>, items: &mut Vec<Item>) -> Option<bool> {
    let mut advanced = false;
    let mut left = Vec::with_capacity(items.len());
    for mut item in items.drain(..) {
        if !executor.is_pending(item.id) {
            continue;
        }
        match item.step(executor) {
            Ok(Step::Over) => return None,
            Ok(Step::Taken) => advanced = true,
            Ok(Step::Waits) => {}
            Err(given_up) => {
                tracing::debug!(id = item.id, reason = given_up.reason, "a file does not travel while it grows");
                executor.give_up(item.id, given_up);
                continue;
            }
        }
        left.push(item);
    }
    *items = left;
    Some(advanced)
}

/// Outcome of a step for one file.
enum Step {
    Taken,
    Waits,
    /// The session is over.
    Over,
}

/// A file that grows, as an item of the session.
struct Item {
    id: EntryId,
    file: Arc<GrowingFile>,
    growth: Growth,
    fingerprints: Fingerprints,
    /// Whether its end was sent: blocks may be asked for again.
    is_sent: bool,
}

impl Item {
    fn new(id: EntryId, file: Arc<GrowingFile>) -> Self {
        Self { id, file, growth: Growth::default(), fingerprints: Fingerprints::default(), is_sent: false }
    }

    /// Takes the next step. Fails if the file is not to travel so.
    fn step(&mut self, executor: &Executor<'_>) -> Result<Step, GivenUp> {
        if self.is_sent {
            return Ok(Step::Waits);
        }
        let closed = match self.file.phase() {
            Phase::Open if executor.kept_items() > MOST_BEHIND => return Err(changed()),
            Phase::Open => None,
            Phase::Closed { version, .. } => Some(version),
            Phase::Abandoned | Phase::Ended { .. } => return Err(changed()),
        };
        let size = self.stat()?.size;
        let seen = Seen { size, filled: self.filled(size)?, is_closed: closed.is_some() };
        let taken = |done: Option<()>| Ok(if done.is_some() { Step::Taken } else { Step::Over });
        // Of an open file, the first block is never the only one.
        let size = if closed.is_some() { size } else { MAX_FILE_SIZE };
        match self.growth.next(seen) {
            Next::Wait => Ok(Step::Waits),
            Next::GiveUp => Err(changed()),
            Next::Send { index, length } => {
                let Some(mut block) = executor.pool.take().ok() else { return Ok(Step::Over) };
                self.read(executor, index, &mut block[..length], size)?;
                let value = block_value(block_offset(index), &block[..length], size);
                self.growth.sent(index, SentBlock { value, fingerprint: self.fingerprints.of(&block[..length]) });
                taken(executor.queue_data(self.parcel(index, value, block, length)))
            }
            Next::Compare { blocks } => {
                let Some(block) = executor.pool.take().ok() else { return Ok(Step::Over) };
                let end = blocks.end;
                tracing::debug!(id = self.id, ?blocks, "comparing what was sent of a file that grew");
                self.compare(executor, blocks, block, size)?;
                self.growth.compared(end);
                Ok(Step::Taken)
            }
            Next::End => taken(self.end(executor, closed)?),
        }
    }

    /// Reads blocks that were sent of a file of `size` bytes, by as many threads as there are processors and free blocks
    /// of memory beside `block`. Fails if one is not as it was sent.
    fn compare(&self, executor: &Executor<'_>, blocks: Range<u32>, block: Block, size: u64) -> Result<(), GivenUp> {
        let next = AtomicU32::new(blocks.start);
        let compare = |mut block: Block| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= blocks.end {
                    return Ok(());
                }
                self.read(executor, index, &mut block, size)?;
                if self.growth.value_if_same(index, self.fingerprints.of(&block)).is_none() {
                    // The others need not go on.
                    next.store(blocks.end, Ordering::Relaxed);
                    return Err(changed());
                }
            }
        };
        let compare = &compare;
        let most = hashers().min(blocks.len()) - 1;
        std::thread::scope(|scope| {
            let more = std::iter::from_fn(|| executor.pool.try_take()).take(most);
            let helpers: Vec<_> =
                more.map_while(|block| try_start(scope, "reread", move || compare(block)).ok()).collect();
            let own = compare(block);
            let others = helpers.into_iter().map(|helper| helper.join().expect("no panic while blocks are compared"));
            others.fold(own, Result::and)
        })
    }

    /// Sends the end of the file, which still has its name, in the version in which its writer has closed it. `None`
    /// when the session is over.
    fn end(&mut self, executor: &Executor<'_>, closed: Option<[u8; 16]>) -> Result<Option<()>, GivenUp> {
        let stat = self.stat()?;
        let named = executor.location(self.id).and_then(|(directory, name)| directory.stat(&name).ok());
        let is_as_closed = |stat: &Stat| self.file.is(stat) && Some(version(stat)) == closed;
        if !is_as_closed(&stat) || !named.as_ref().is_some_and(is_as_closed) {
            return Err(changed());
        }
        let digest = self.growth.digest(stat.size).ok_or_else(changed)?;
        let streamed = Streamed { size: stat.size, mtime_seconds: stat.mtime.seconds, mtime_nanos: stat.mtime.nanos };
        self.is_sent = true;
        tracing::debug!(id = self.id, "the end of a file that grew is sent");
        let end = executor.with(|machine| machine.on_stream_ended(self.id, digest, streamed));
        // The other end may have given it up.
        Ok(end.map_or(Some(()), |end| executor.queue_data(Message::from(end).into())))
    }

    /// Reads a block again, for a retransmission, and gives the file up if it is another by now. `None` when the session
    /// is over.
    fn send_again(&self, executor: &Executor<'_>, index: u32) -> Option<()> {
        let mut block = executor.pool.take().ok()?;
        let read = self.stat().and_then(|stat| {
            let length = (stat.size.saturating_sub(block_offset(index))).min(BLOCK_SIZE as u64) as usize;
            self.read(executor, index, &mut block[..length], stat.size)?;
            let same = self.growth.value_if_same(index, self.fingerprints.of(&block[..length]));
            same.map(|value| (value, length)).ok_or_else(changed)
        });
        match read {
            Ok((value, length)) => executor.queue_again(self.parcel(index, value, block, length)),
            Err(given_up) => {
                executor.give_up(self.id, given_up);
                Some(())
            }
        }
    }

    /// Reads a block of a file that will have `size` bytes.
    fn read(&self, executor: &Executor<'_>, index: u32, block: &mut [u8], size: u64) -> Result<(), GivenUp> {
        let _busy = executor.stages.read.busy();
        // It has become shorter than what was sent of it.
        if block.is_empty() || index > 0 && size <= BLOCK_SIZE as u64 {
            return Err(changed());
        }
        match self.file.file.read_exact_at(block, block_offset(index)) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(changed()),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    fn parcel(&self, index: u32, value: Digest, block: Block, length: usize) -> Parcel {
        let header = BlockHeader { id: self.id, index, value, ranges: Vec::new() };
        Parcel { message: Message::Block(header), payload: Some((block, length).into()) }
    }

    fn stat(&self) -> Result<Stat, GivenUp> {
        Stat::of(&self.file.file).map_err(|error| unreadable(error.to_string()))
    }

    /// Length in bytes of what comes before the first hole in the first `size` bytes.
    fn filled(&self, size: u64) -> Result<u64, GivenUp> {
        match sparse::data_ranges(&self.file.file, size).next() {
            Some(Ok((0, length))) => Ok(length),
            Some(Ok(_)) | None => Ok(0),
            Some(Err(error)) => Err(unreadable(error.to_string())),
        }
    }
}
