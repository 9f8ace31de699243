//! Large files of the receiver: which blocks are there, written, durable and noted, and what is
//! next for each file.
//!
//! ```text
//! expect ──► needed, first block, end ──► Open ──► Write … ──► every 64 MiB, or second: Sync, then Note
//!                                                │
//!            end known, all blocks written, the held ones compared
//!                                                ▼
//!            digest = the sender's? ──► Finish ──► Sync ──► Note ──► (read back) ──► Stored
//! ```
//!
//! A block counts as durable only after a sync that was asked for when its write was through; only
//! then does the journal name it. So whatever kills the process, the journal never promises too
//! much.
//!
//! The machine never touches a block's bytes: `B` is whatever the executor writes.

mod action;
mod blocks;
mod context;
mod digests;
mod expected;
mod file;
mod receiving;
mod size;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use icdc_protocol::message::{Digest, EntryId, FileEnd, GivenUp, ItemEnd};
use icdc_units::{ByteCount, Time};

use crate::failure::Failure;
pub use action::{Action, Contents, Loss, Read};
pub use blocks::CHECKPOINT;
use context::Context;
pub use digests::digest_like;
pub use expected::{Expected, Length, Opened};
use file::File;
use receiving::End;

/// State machine of the large files of a receiving session, from the request of their blocks until
/// they are complete under their staging names or given up.
#[derive(Debug)]
pub struct Files<B> {
    files: BTreeMap<EntryId, File<B>>,
    /// Files that may have blocks to read and compare.
    reading: VecDeque<EntryId>,
    context: Context<B>,
}

impl<B> Files<B> {
    /// An empty set of files; with `verify`, every file is read back from the medium before it is
    /// stored.
    #[must_use]
    pub fn new(verify: bool) -> Self {
        Self { files: BTreeMap::new(), reading: VecDeque::new(), context: Context::new(verify) }
    }

    /// Registers a file whose blocks will arrive.
    pub fn expect(&mut self, id: EntryId, expected: Expected) {
        let file = File::new(id, expected, &mut self.context);
        self.files.insert(id, file);
    }

    /// Opens a file before its first block arrives, unless that has happened.
    pub fn on_needed(&mut self, id: EntryId) {
        self.with(id, File::on_needed);
    }

    /// Handles a block of a file that has arrived; `value` is the digest in its header.
    pub fn on_block(&mut self, id: EntryId, index: u32, value: Digest, block: B) {
        self.with(id, |file, context| file.on_block(index, value, block, context));
    }

    /// Handles that the next block of a stream has this length, which is less than that of a whole one:
    /// it is the last.
    pub fn on_last_of_stream(&mut self, id: EntryId, index: u32, length: ByteCount) {
        self.with(id, |file, context| file.on_last_of_stream(index, length, context));
    }

    /// Handles a difference to the file at the destination that has arrived, and from which the block
    /// cannot be put together: that file has changed meanwhile.
    pub fn on_outdated(&mut self, id: EntryId, index: u32) {
        self.with(id, |file, context| file.on_outdated(index, context));
    }

    /// Handles the sender's end of an item: all of it has been sent, or it is given up.
    pub fn on_end(&mut self, end: impl Into<ItemEnd>) {
        let end = end.into();
        if !self.files.contains_key(&end.id()) {
            return self.context.push(Action::Foreign(end));
        }
        let FileEnd { id, blocks, outcome } = match end {
            ItemEnd::File(end) => end,
            ItemEnd::Stream(end) => {
                return self.with(end.id, |file, context| file.on_stream_end(end.streamed, end.digest, context));
            }
        };
        self.with(id, |file, context| match outcome {
            Ok(digest) => file.on_end(End { blocks, digest }, context),
            Err(GivenUp { reason, same_version: true }) => file.give_up(Failure::Passing(reason).into(), context),
            Err(GivenUp { reason, same_version: false }) => file.give_up(Failure::Final(reason).into(), context),
        });
    }

    /// Handles the outcome of [`Action::Probe`]: the sender is asked by the `Ready` of this number,
    /// from 1, of all that the session sends, whoever asks.
    pub fn on_asked(&mut self, number: u64) {
        self.unconfirmed().into_iter().for_each(|id| self.with(id, |file, context| file.on_asked(number, context)));
    }

    /// Handles the sender's answer to a `Ready`. It answers each of them, in their order.
    pub fn on_confirmed(&mut self) {
        self.context.confirmed += 1;
        self.unconfirmed().into_iter().for_each(|id| self.with(id, File::advance));
    }

    /// Files that wait for the sender's confirmation that it is connected.
    fn unconfirmed(&self) -> Vec<EntryId> {
        self.files.iter().filter(|(_, file)| file.is_unconfirmed()).map(|(id, _)| *id).collect()
    }

    /// Handles the outcome of [`Action::Open`].
    pub fn on_opened(&mut self, id: EntryId, outcome: Result<Opened, Failure>) {
        self.with(id, |file, context| file.on_opened(outcome, context));
    }

    /// Handles the outcome of [`Action::Write`].
    pub fn on_written(&mut self, id: EntryId, index: u32, outcome: Result<(), Failure>, now: Time) {
        self.with(id, |file, context| file.on_written(index, outcome, now, context));
    }

    /// Handles the outcome of [`Action::Sync`].
    pub fn on_synced(&mut self, id: EntryId, outcome: Result<(), Failure>) {
        self.with(id, |file, context| file.on_synced(outcome, context));
    }

    /// Handles the outcome of [`Action::Note`].
    pub fn on_noted(&mut self, id: EntryId, outcome: Result<(), Failure>) {
        self.with(id, |file, context| file.on_noted(outcome, context));
    }

    /// Handles the outcome of [`Action::Finish`].
    pub fn on_finished(&mut self, id: EntryId, outcome: Result<(), Failure>) {
        self.with(id, |file, context| file.on_finished(outcome, context));
    }

    /// Handles the outcome of [`Action::FindData`]: ranges of block numbers, ascending, outside of
    /// which the medium holds nothing.
    pub fn on_data_found(&mut self, id: EntryId, outcome: Result<Vec<Range<u32>>, Failure>) {
        self.with(id, |file, context| file.on_data_found(outcome, context));
    }

    /// Handles the outcome of a [`Read`]; `good`: the block contains what it should.
    pub fn on_compared(&mut self, id: EntryId, index: u32, good: bool) {
        self.with(id, |file, context| file.on_compared(index, good, context));
    }

    /// The link has ended. Blocks that have arrived are written, what is written becomes durable
    /// and is noted, and every file ends; then [`is_empty`](Self::is_empty) is true.
    pub fn on_link_ended(&mut self) {
        self.context.link_ended = true;
        let all: Vec<EntryId> = self.files.keys().copied().collect();
        all.into_iter().for_each(|id| self.with(id, File::advance));
    }

    /// The next action to carry out, in order. Files, journals and locks belong to the executor.
    pub fn poll(&mut self) -> Option<Action<B>> {
        self.context.actions.pop_front()
    }

    /// The next block to read and to compare. Apart from [`poll`](Self::poll), so that the executor
    /// reads only when it has memory left: comparing must not take memory from what arrives.
    pub fn next_read(&mut self) -> Option<Read> {
        while let Some(id) = self.reading.front() {
            let read = self.files.get_mut(id).and_then(|file| file.next_read(&self.context));
            if read.is_some() {
                return read;
            }
            self.reading.pop_front();
        }
        None
    }

    /// Whether there are blocks to read.
    #[must_use]
    pub fn has_reads(&self) -> bool {
        let reads = |id| self.files.get(id).is_some_and(|file| file.has_reads(&self.context));
        self.reading.iter().any(reads)
    }

    /// Whether every file has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Passes an event to the file of this id, if there is one, and removes the file once it has
    /// ended.
    fn with(&mut self, id: EntryId, event: impl FnOnce(&mut File<B>, &mut Context<B>)) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let read_before = file.has_reads(&self.context);
        event(file, &mut self.context);
        if file.has_ended() {
            self.files.remove(&id);
        } else if !read_before && file.has_reads(&self.context) {
            self.reading.push_back(id);
        }
    }
}

#[cfg(test)]
mod tests;
