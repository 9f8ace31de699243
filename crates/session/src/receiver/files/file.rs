//! One large file, from its announcement to its end.

use std::collections::VecDeque;
use std::ops::Range;

use icdc_protocol::block_map::{BlockMap, block_count};
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{Digest, EntryId, FileDigest, Streamed};
use icdc_units::{ByteCount, Time};

use super::action::{Action, Contents, Loss, Read};
use super::blocks::{Blocks, Synced};
use super::context::{Context, Presence};
use super::digests::is_as_announced;
use super::expected::{Expected, Opened};
use super::receiving::{End, Receiving};
use super::size::{Mismatch, Size};
use crate::failure::Failure;

/// State machine of one large file, from the request of its blocks until it leaves the machine.
#[derive(Debug)]
pub(super) struct File<B> {
    id: EntryId,
    size: Size,
    sparse: bool,
    /// Whether it is written where it stays, and made durable by itself.
    in_place: bool,
    /// Number of blocks that an earlier run has left.
    held: u32,
    /// Number of leading bytes of a stream that were reported as durable.
    led: ByteCount,
    /// Number of actions and reads whose outcome is not known yet.
    pending: u32,
    phase: Phase<B>,
}

/// Phase of a large file. In `ReadingBack`, `left` are the blocks still to be read from the medium.
#[derive(Debug)]
enum Phase<B> {
    /// Nothing is opened: no block has arrived.
    Expected,
    /// The part file and the journal are being opened.
    Opening {
        held: Option<BlockMap>,
        /// Blocks that have arrived meanwhile: number, digest and contents.
        waiting: Vec<(u32, Digest, B)>,
        /// Numbers of the blocks whose differences were outdated when they arrived.
        outdated: Vec<u32>,
        end: Option<Result<End, Loss>>,
    },
    /// Blocks are arriving.
    Receiving(Receiving),
    /// All blocks are written; length and metadata are being set.
    Finishing {
        blocks: Blocks,
        digest: FileDigest,
    },
    /// The last checkpoint is under way.
    Flushing {
        blocks: Blocks,
        digest: FileDigest,
    },
    /// Everything is durable and noted; the ranges that hold data on the medium are being looked
    /// up.
    FindingData {
        blocks: Blocks,
        digest: FileDigest,
    },
    ReadingBack {
        blocks: Blocks,
        digest: FileDigest,
        left: VecDeque<(u32, Contents)>,
    },
    /// The file is given up or cut off: the session does nothing more with it, but pending disk
    /// operations still complete.
    Leaving {
        blocks: Blocks,
        reason: Reason,
    },
    /// The file has left the machine.
    Ended,
}

/// Reason for which a file leaves the machine.
#[derive(Debug)]
enum Reason {
    Lost(Loss),
    LinkEnded,
}

/// Events of the file; `context` is the state that it shares with the session's other files.
impl<B> File<B> {
    /// A file whose blocks are expected; it is opened at once if an earlier run has left some.
    pub(super) fn new(id: EntryId, expected: Expected, context: &mut Context<B>) -> Self {
        let Expected { length, sparse, held, in_place } = expected;
        let blocks = held.as_ref().map_or(0, BlockMap::count);
        let (size, phase) = (Size::new(length), Phase::Expected);
        let mut file = Self { id, size, sparse, in_place, held: blocks, led: ByteCount::ZERO, pending: 0, phase };
        if held.is_some() {
            file.open(held, context);
        }
        file
    }

    /// Whether the file has left the machine, and nothing more is done about it.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Opens the file, unless that has happened.
    pub(super) fn on_needed(&mut self, context: &mut Context<B>) {
        if matches!(self.phase, Phase::Expected) {
            self.open(None, context);
        }
    }

    /// Handles a block that has arrived, with the digest in its header: it is written once the file
    /// is open.
    pub(super) fn on_block(&mut self, index: u32, value: Digest, block: B, context: &mut Context<B>) {
        self.on_needed(context);
        if self.size.streamed().is_some_and(|streamed| index >= block_count(streamed.size)) {
            return self.give_up(Loss::DigestsDiffer, context);
        }
        match &mut self.phase {
            Phase::Opening { waiting, end: None | Some(Ok(_)), .. } => waiting.push((index, value, block)),
            Phase::Receiving(receiving) => {
                let is_new = receiving.blocks.arrived(index, value);
                if is_new {
                    receiving.arrived += 1;
                    self.pending += 1;
                    context.push(Action::Write { id: self.id, index, block });
                }
            }
            // It is given up, or has all its blocks: this one was in flight, or is a duplicate.
            Phase::Expected
            | Phase::Opening { .. }
            | Phase::Finishing { .. }
            | Phase::Flushing { .. }
            | Phase::FindingData { .. }
            | Phase::ReadingBack { .. }
            | Phase::Leaving { .. }
            | Phase::Ended => {}
        }
    }

    /// Handles that this block of a stream is not whole, but of this length, and hence the last.
    pub(super) fn on_last_of_stream(&mut self, index: u32, length: ByteCount, context: &mut Context<B>) {
        match self.size.with_last(index, length) {
            Ok(size) => self.size = size,
            Err(Mismatch) => self.give_up(Loss::DigestsDiffer, context),
        }
    }

    /// Handles a difference from which the block cannot be put together: the sender is asked for
    /// the whole block.
    pub(super) fn on_outdated(&mut self, index: u32, context: &mut Context<B>) {
        self.on_needed(context);
        match &mut self.phase {
            Phase::Opening { outdated, end: None | Some(Ok(_)), .. } => outdated.push(index),
            Phase::Receiving(receiving) if !receiving.blocks.map().contains(index) => {
                receiving.arrived += 1;
                receiving.asked_again += 1;
                context.push(Action::Resend { id: self.id, index });
            }
            // It is given up, or has the block.
            Phase::Expected
            | Phase::Opening { .. }
            | Phase::Receiving(_)
            | Phase::Finishing { .. }
            | Phase::Flushing { .. }
            | Phase::FindingData { .. }
            | Phase::ReadingBack { .. }
            | Phase::Leaving { .. }
            | Phase::Ended => {}
        }
    }

    /// Handles the end of a stream: the number of its blocks follows from its size.
    pub(super) fn on_stream_end(&mut self, streamed: Streamed, digest: Digest, context: &mut Context<B>) {
        let blocks = block_count(streamed.size).saturating_sub(self.held);
        let has_more = matches!(&self.phase, Phase::Receiving(receiving) if receiving.arrived > blocks);
        match self.size.ended(streamed) {
            Ok(size) if !has_more => {
                self.size = size;
                self.on_end(End { blocks, digest: FileDigest::Blake3(digest) }, context);
            }
            Ok(_) | Err(Mismatch) => self.give_up(Loss::DigestsDiffer, context),
        }
    }

    /// Handles the sender's end of the file: the number of blocks sent, and the file's digest.
    pub(super) fn on_end(&mut self, announced: End, context: &mut Context<B>) {
        self.on_needed(context);
        match &mut self.phase {
            Phase::Opening { end: end @ (None | Some(Ok(_))), .. } => *end = Some(Ok(announced)),
            Phase::Receiving(receiving) => receiving.end = Some(announced),
            Phase::Expected
            | Phase::Opening { .. }
            | Phase::Finishing { .. }
            | Phase::Flushing { .. }
            | Phase::FindingData { .. }
            | Phase::ReadingBack { .. }
            | Phase::Leaving { .. }
            | Phase::Ended => {}
        }
        self.advance(context);
    }

    /// Gives the file up; the first reason counts.
    pub(super) fn give_up(&mut self, loss: Loss, context: &mut Context<B>) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Expected => {
                context.push(Action::Lost { id: self.id, loss, keep: false });
                Phase::Ended
            }
            Phase::Opening { held, end: None | Some(Ok(_)), .. } => {
                Phase::Opening { held, waiting: Vec::new(), outdated: Vec::new(), end: Some(Err(loss)) }
            }
            Phase::Receiving(Receiving { blocks, .. })
            | Phase::Finishing { blocks, .. }
            | Phase::Flushing { blocks, .. }
            | Phase::FindingData { blocks, .. }
            | Phase::ReadingBack { blocks, .. } => Phase::Leaving { blocks, reason: Reason::Lost(loss) },
            phase @ (Phase::Opening { .. } | Phase::Leaving { .. } | Phase::Ended) => phase,
        };
        self.advance(context);
    }

    /// Handles the outcome of [`Action::Open`]; what has arrived meanwhile is written.
    pub(super) fn on_opened(&mut self, outcome: Result<Opened, Failure>, context: &mut Context<B>) {
        let Phase::Opening { held, waiting, outdated, end } = std::mem::replace(&mut self.phase, Phase::Ended) else {
            return;
        };
        self.pending -= 1;
        let Opened { journaled, needs_sender } = match outcome {
            Ok(opened) => opened,
            Err(failure) => {
                let loss = match end {
                    Some(Err(loss)) => loss,
                    Some(Ok(_)) | None => failure.into(),
                };
                return context.push(Action::Lost { id: self.id, loss, keep: true });
            }
        };
        let unchecked = held.iter().flat_map(BlockMap::iter).collect();
        let is_stream = !matches!(self.size, Size::Known(_));
        let blocks = Blocks::new(self.size.bytes(), held, journaled, is_stream);
        let end = match end.transpose() {
            Ok(end) => end,
            Err(loss) => {
                self.phase = Phase::Leaving { blocks, reason: Reason::Lost(loss) };
                return self.advance(context);
            }
        };
        let sender = if needs_sender { context.probe() } else { Presence::Known };
        self.phase = Phase::Receiving(Receiving { blocks, arrived: 0, asked_again: 0, unchecked, end, sender });
        for (index, value, block) in waiting {
            self.on_block(index, value, block, context);
        }
        for index in outdated {
            self.on_outdated(index, context);
        }
        self.advance(context);
    }

    /// Handles the outcome of writing a block.
    pub(super) fn on_written(&mut self, index: u32, outcome: Result<(), Failure>, now: Time, context: &mut Context<B>) {
        self.pending -= 1;
        let length = self.size.length_of(index);
        match outcome {
            Ok(()) => {
                if let Some(blocks) = self.blocks() {
                    blocks.written(index, length, now);
                }
                self.advance(context);
            }
            Err(failure) => self.give_up(failure.into(), context),
        }
    }

    /// Handles the outcome of the sync of a checkpoint, whose blocks are then noted in the journal.
    pub(super) fn on_synced(&mut self, outcome: Result<(), Failure>, context: &mut Context<B>) {
        self.pending -= 1;
        let id = self.id;
        let Some(blocks) = self.blocks() else { return };
        match outcome {
            Ok(()) => {
                match blocks.synced() {
                    Synced::Note(blocks) => {
                        self.pending += 1;
                        context.push(Action::Note { id, blocks });
                    }
                    Synced::Durable(bytes) => {
                        context.push(Action::Durable(bytes));
                        self.report_leading(context);
                    }
                }
                self.advance(context);
            }
            Err(failure) => {
                blocks.sync_failed();
                self.give_up(failure.into(), context);
            }
        }
    }

    /// Handles the outcome of noting durable blocks in the journal.
    pub(super) fn on_noted(&mut self, outcome: Result<(), Failure>, context: &mut Context<B>) {
        self.pending -= 1;
        let Some(blocks) = self.blocks() else { return };
        let durable = blocks.noted(outcome.is_ok());
        match outcome {
            Ok(()) => {
                context.push(Action::Durable(durable));
                self.report_leading(context);
                self.advance(context);
            }
            Err(failure) => self.give_up(failure.into(), context),
        }
    }

    /// Reports how much of a stream is durable from its start, if that is more than before.
    fn report_leading(&mut self, context: &mut Context<B>) {
        let Some(count) = self.blocks().and_then(|blocks| blocks.leading()) else { return };
        let bytes = self.size.leading(count);
        if bytes > self.led {
            self.led = bytes;
            context.push(Action::StreamDurable { id: self.id, bytes });
        }
    }

    /// Handles the outcome of setting the file's length and metadata.
    pub(super) fn on_finished(&mut self, outcome: Result<(), Failure>, context: &mut Context<B>) {
        self.pending -= 1;
        match (std::mem::replace(&mut self.phase, Phase::Ended), outcome) {
            (Phase::Finishing { blocks, digest }, Ok(()))
                if !self.in_place && self.size.bytes() <= ByteCount::from(BLOCK_SIZE) =>
            {
                // One block: made durable together with the small files.
                let (id, streamed) = (self.id, self.size.streamed());
                context.push(Action::Stored { id, digest, unsynced: blocks.unsynced(), streamed });
            }
            (Phase::Finishing { mut blocks, digest }, Ok(())) => {
                blocks.begin_checkpoint();
                self.phase = Phase::Flushing { blocks, digest };
                self.sync(context);
            }
            (phase, Ok(())) => {
                self.phase = phase;
                self.advance(context);
            }
            (phase, Err(failure)) => {
                let journaled = matches!(&phase, Phase::Finishing { blocks, .. } if blocks.is_journaled());
                self.phase = phase;
                // All data is there: a run that asks for less need only give it its name.
                self.give_up(if journaled { failure.passing() } else { failure }.into(), context);
            }
        }
    }

    /// Handles the ranges of block numbers that hold data on the medium, all of which is then read
    /// back.
    pub(super) fn on_data_found(&mut self, outcome: Result<Vec<Range<u32>>, Failure>, context: &mut Context<B>) {
        self.pending -= 1;
        match (std::mem::replace(&mut self.phase, Phase::Ended), outcome) {
            (Phase::FindingData { blocks, digest }, Ok(data)) => {
                let left = everything(blocks.map(), &data);
                self.phase = Phase::ReadingBack { blocks, digest, left };
                self.advance(context);
            }
            (phase, outcome) => {
                self.phase = phase;
                match outcome {
                    Ok(_) => self.advance(context),
                    Err(failure) => self.give_up(failure.into(), context),
                }
            }
        }
    }

    /// Handles the comparison of a block on the medium; `good`: it contains what it should.
    pub(super) fn on_compared(&mut self, index: u32, good: bool, context: &mut Context<B>) {
        self.pending -= 1;
        match &mut self.phase {
            Phase::Receiving(receiving) if !good => {
                receiving.blocks.damaged(index);
                receiving.asked_again += 1;
                context.push(Action::Resend { id: self.id, index });
            }
            Phase::ReadingBack { .. } if !good => return self.give_up(Loss::ReadBackDiffers, context),
            // It is right, or the file has been given up meanwhile.
            Phase::Receiving(_)
            | Phase::ReadingBack { .. }
            | Phase::Expected
            | Phase::Opening { .. }
            | Phase::Finishing { .. }
            | Phase::Flushing { .. }
            | Phase::FindingData { .. }
            | Phase::Leaving { .. }
            | Phase::Ended => {}
        }
        self.advance(context);
    }

    /// Handles that the sender is asked whether it is connected, by the question of this number.
    pub(super) fn on_asked(&mut self, number: u64, context: &mut Context<B>) {
        if let Phase::Receiving(Receiving { sender: sender @ Presence::Asking, .. }) = &mut self.phase {
            *sender = Presence::Asked { number };
            self.advance(context);
        }
    }

    /// Whether the file waits for the sender's confirmation that it is connected.
    pub(super) fn is_unconfirmed(&self) -> bool {
        matches!(&self.phase, Phase::Receiving(Receiving { sender: Presence::Asking | Presence::Asked { .. }, .. }))
    }

    /// Whether the file has blocks to read and compare.
    pub(super) fn has_reads(&self, context: &Context<B>) -> bool {
        match &self.phase {
            Phase::Receiving(receiving) => !context.link_ended && !receiving.unchecked.is_empty(),
            Phase::ReadingBack { left, .. } => !context.link_ended && !left.is_empty(),
            Phase::Expected
            | Phase::Opening { .. }
            | Phase::Finishing { .. }
            | Phase::Flushing { .. }
            | Phase::FindingData { .. }
            | Phase::Leaving { .. }
            | Phase::Ended => false,
        }
    }

    /// The next block to read and compare; `None` if there is none.
    pub(super) fn next_read(&mut self, context: &Context<B>) -> Option<Read> {
        if context.link_ended {
            return None;
        }
        let (index, contents) = match &mut self.phase {
            Phase::Receiving(receiving) => {
                receiving.unchecked.pop_front().map(|(index, value)| (index, Contents::Value(value)))
            }
            Phase::ReadingBack { left, .. } => left.pop_front(),
            Phase::Expected
            | Phase::Opening { .. }
            | Phase::Finishing { .. }
            | Phase::Flushing { .. }
            | Phase::FindingData { .. }
            | Phase::Leaving { .. }
            | Phase::Ended => None,
        }?;
        self.pending += 1;
        Some(Read { id: self.id, index, contents })
    }

    /// Takes the next step that the file's phase, its pending operations and the link allow;
    /// does nothing if there is none. The results, failures included, are actions added to
    /// `context`.
    pub(super) fn advance(&mut self, context: &mut Context<B>) {
        let is_idle = self.pending == 0;
        match &mut self.phase {
            Phase::Receiving(receiving) if is_idle && receiving.is_complete(context) => self.complete(context),
            Phase::Receiving(receiving) if receiving.blocks.is_checkpoint_due() => {
                receiving.blocks.begin_checkpoint();
                self.sync(context);
            }
            Phase::Flushing { .. } if is_idle => self.flushed(context),
            Phase::ReadingBack { left, .. } if is_idle && left.is_empty() => self.stored(context),
            Phase::Expected | Phase::Receiving(_) | Phase::ReadingBack { .. } if is_idle && context.link_ended => {
                self.settle(context);
            }
            Phase::Leaving { .. } if is_idle => self.leave(context),
            // The next step follows from an outcome that is pending, or from the sender.
            Phase::Expected
            | Phase::Opening { .. }
            | Phase::Receiving(_)
            | Phase::Finishing { .. }
            | Phase::Flushing { .. }
            | Phase::FindingData { .. }
            | Phase::ReadingBack { .. }
            | Phase::Leaving { .. }
            | Phase::Ended => {}
        }
    }

    /// Checks the digest once all blocks are written and the held ones are intact; then finishes
    /// the file.
    fn complete(&mut self, context: &mut Context<B>) {
        let (mut blocks, digest) = match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Receiving(Receiving { blocks, end: Some(End { digest, .. }), .. }) => (blocks, digest),
            phase => {
                self.phase = phase;
                return;
            }
        };
        // Until now a stream's blocks were those of a file of the greatest size.
        let has_size = self.size.is_filled() && blocks.set_size(self.size.bytes()).is_ok();
        let is_right = has_size && is_as_announced(&digest, blocks.map(), self.sparse);
        self.phase = Phase::Finishing { blocks, digest };
        if !is_right {
            return self.give_up(Loss::DigestsDiffer, context);
        }
        self.pending += 1;
        let holes = self.holes();
        context.push(Action::Finish { id: self.id, streamed: self.size.streamed(), holes });
    }

    /// The blocks, all of which are known, that the source does not have: its holes.
    fn holes(&mut self) -> Vec<Range<u32>> {
        self.blocks().map(|blocks| blocks.map().missing().collect()).unwrap_or_default()
    }

    /// Reads the file back if that is wanted, otherwise stores it, after the last checkpoint.
    fn flushed(&mut self, context: &mut Context<B>) {
        if !context.verify {
            return self.stored(context);
        }
        self.phase = match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Flushing { blocks, digest } => Phase::FindingData { blocks, digest },
            phase => phase,
        };
        self.pending += 1;
        // Only now are the pages clean, so that they can be dropped and the reads go to the medium.
        context.push(Action::FindData { id: self.id });
    }

    /// Reports the file as complete and durable under its staging name; it leaves the machine.
    fn stored(&mut self, context: &mut Context<B>) {
        if let Phase::Flushing { digest, .. } | Phase::ReadingBack { digest, .. } = self.phase {
            self.phase = Phase::Ended;
            let (id, streamed) = (self.id, self.size.streamed());
            context.push(Action::Stored { id, digest, unsynced: ByteCount::ZERO, streamed });
        }
    }

    /// Ends the waiting for data after the link has ended: none will arrive.
    fn settle(&mut self, context: &mut Context<B>) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Receiving(Receiving { blocks, .. }) | Phase::ReadingBack { blocks, .. } => {
                Phase::Leaving { blocks, reason: Reason::LinkEnded }
            }
            Phase::Expected => {
                context.push(Action::Left { id: self.id, keep: true });
                Phase::Ended
            }
            // None of these waits for what comes over the link.
            phase @ (Phase::Opening { .. }
            | Phase::Finishing { .. }
            | Phase::Flushing { .. }
            | Phase::FindingData { .. }
            | Phase::Leaving { .. }
            | Phase::Ended) => phase,
        };
        self.advance(context);
    }

    /// Ends a file with no pending operation: what a later run can use becomes durable and is noted
    /// first.
    fn leave(&mut self, context: &mut Context<B>) {
        let Phase::Leaving { blocks, reason } = &mut self.phase else { return };
        let is_passing = match reason {
            Reason::Lost(loss) => loss.is_passing(),
            Reason::LinkEnded => true,
        };
        if is_passing && blocks.is_worth_a_checkpoint() {
            blocks.begin_checkpoint();
            return self.sync(context);
        }
        let keep = is_passing && blocks.is_resumable();
        if let Phase::Leaving { reason, .. } = std::mem::replace(&mut self.phase, Phase::Ended) {
            context.push(match reason {
                Reason::Lost(loss) => Action::Lost { id: self.id, loss, keep },
                Reason::LinkEnded => Action::Left { id: self.id, keep },
            });
        }
    }

    /// Requests that the part file and its journal be opened. `held`: blocks that an earlier run
    /// has left in it.
    fn open(&mut self, held: Option<BlockMap>, context: &mut Context<B>) {
        self.phase = Phase::Opening { held, waiting: Vec::new(), outdated: Vec::new(), end: None };
        self.pending += 1;
        context.push(Action::Open { id: self.id });
    }

    /// Requests that all completed writes be made durable.
    fn sync(&mut self, context: &mut Context<B>) {
        self.pending += 1;
        context.push(Action::Sync { id: self.id });
    }

    /// The blocks of the file while it is open; `None` before and after.
    fn blocks(&mut self) -> Option<&mut Blocks> {
        match &mut self.phase {
            Phase::Receiving(Receiving { blocks, .. })
            | Phase::Finishing { blocks, .. }
            | Phase::Flushing { blocks, .. }
            | Phase::FindingData { blocks, .. }
            | Phase::ReadingBack { blocks, .. }
            | Phase::Leaving { blocks, .. } => Some(blocks),
            Phase::Expected | Phase::Opening { .. } | Phase::Ended => None,
        }
    }
}

/// All blocks to read back with the contents expected: those present, and holes where the medium
/// holds data.
fn everything(blocks: &BlockMap, data: &[Range<u32>]) -> VecDeque<(u32, Contents)> {
    let mut all: VecDeque<_> = blocks.iter().map(|(index, value)| (index, Contents::Value(value))).collect();
    let mut next = 0;
    for range in data {
        let holes = (range.start.max(next)..range.end).filter(|index| !blocks.contains(*index));
        all.extend(holes.map(|index| (index, Contents::Zeros)));
        next = range.end.max(next);
    }
    all
}
