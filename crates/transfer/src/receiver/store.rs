//! Large files on their way to the disk: carries out what [`Files`] asks for, by Direct I/O.
//!
//! ```text
//! hash ── blocks, ends ──► Files ── Write, Sync, Read ──► engine ── completions ──► Files
//!                            │
//!                            ├── Open, Note, Finish … ──► part file, journal (at once)
//!                            └── Stored, Lost ──► names
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, RecvTimeoutError, Sender as Channel, TryRecvError};
use icdc_disk::{Block, Completion, Engine, Job, open_engine};
use icdc_protocol::Features;
use icdc_protocol::block_map::{block_length, block_offset};
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{BlockHeader, Digest, EntryId, Message, NoticeKind, Ready, Streamed};
use icdc_session::SessionError;
use icdc_session::receiver::files::{Action, Contents, Expected, Files, Length, Read};
use icdc_units::ByteCount;

use super::disk_rate::{Arrived, WaitingBlock};
use super::failure::Failure;
use super::jobs::{DiskJob, NameJob, StoreJob};
use super::large_file::{Gaps, LargeFile, Plan, ToWrite};
use super::output::{NotWritten, Ordered};
use super::shared::Shared;
use crate::{clock, diskless};

/// Maximum number of writes and reads in flight.
const DEPTH: usize = 8;

/// Share of the ring, as its divisor, that blocks which come too early for the output may keep.
const KEPT_SHARE: usize = 4;

/// Interval at which the store checks again for free blocks for comparisons.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Longest wait for work when there is no deadline.
const NO_DEADLINE: Duration = Duration::from_secs(3600);

/// A block that has arrived and is to be written to its file or to the output.
struct Arrival {
    block: Arrived,
    ranges: Vec<(u32, u32)>,
    gaps: Gaps,
    /// Digest of the block.
    value: Digest,
}

/// Purpose of a job of the disk engine.
enum JobPurpose {
    /// Write of a block, which counts as waiting for the disk until this is dropped.
    Write { index: u32, waits: WaitingBlock },
    /// Write of a block, which has this digest and length, that waits there for its turn at the output.
    Early { index: u32, value: Digest, length: usize, waits: WaitingBlock },
    /// Sync of a file, which makes its blocks durable.
    Sync,
    /// Read of a block that is compared with its digest.
    Compare { index: u32, contents: Contents },
}

/// Executor of the state machine [`Files`], which writes large files to disk.
pub(super) struct Store<'a> {
    shared: &'a Shared<'a>,
    names: Channel<NameJob>,
    reads: Channel<DiskJob>,
    engine: Box<dyn Engine>,
    machine: Files<Arrival>,
    /// Plans of the files that have not been opened yet.
    plans: HashMap<EntryId, Plan>,
    files: HashMap<EntryId, LargeFile>,
    jobs: HashMap<u64, (EntryId, JobPurpose)>,
    next_tag: u64,
    /// Order of the blocks at the output; `None` where files are the destination.
    ordered: Option<Ordered<'a>>,
}

/// Body of the thread that writes large files: handles jobs until the queue is closed, then makes
/// durable what has arrived.
pub(super) fn run(shared: &Shared<'_>, queue: &Queue<StoreJob>, names: Channel<NameJob>, reads: Channel<DiskJob>) {
    let engine = match open_engine(DEPTH, diskless::engine(shared.options.diskless)) {
        Ok(engine) => engine,
        Err(error) => return shared.fail(SessionError::Local(error.to_string())),
    };
    let ordered = match shared.order.output.map(Ordered::new).transpose() {
        Ok(ordered) => ordered,
        Err(error) => return shared.fail(SessionError::Local(error.to_string())),
    };
    let mut store = Store {
        shared,
        names,
        reads,
        engine,
        // What a device has is always read back.
        machine: Files::new(shared.options.verify || shared.options.write_device),
        plans: HashMap::new(),
        files: HashMap::new(),
        jobs: HashMap::new(),
        next_tag: 0,
        ordered,
    };
    loop {
        while let Some(completion) = store.engine.try_wait() {
            store.completed(completion);
        }
        store.start_comparisons();
        let job = if store.engine.in_flight() == 0 {
            let timeout = if store.machine.has_reads() { RETRY_INTERVAL } else { NO_DEADLINE };
            match queue.recv_timeout(timeout) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        } else if store.engine.in_flight() >= DEPTH {
            store.wait();
            continue;
        } else {
            match queue.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Empty) => {
                    // The next completion or job is at most one disk access away.
                    store.wait();
                    continue;
                }
                Err(TryRecvError::Disconnected) => break,
            }
        };
        store.handle(job);
    }
    store.settle();
}

impl Store<'_> {
    /// Reports a job to the state machine, and carries out what follows.
    fn handle(&mut self, job: StoreJob) {
        match job {
            StoreJob::Expect { plan, held } => {
                let id = plan.id;
                let in_place = plan.is_in_place(self.shared);
                let expected = Expected { length: plan.length(), sparse: plan.is_sparse(), held, in_place };
                self.plans.insert(id, *plan);
                self.machine.expect(id, expected);
            }
            StoreJob::Open(id) => match self.plans.get(&id) {
                // Perhaps a newer run's: only a sender that is there may have the file begun anew.
                Some(plan) if plan.has_remains(self.shared) => {
                    DiskJob::describe_on(&self.reads, self.shared.bases.on_opened(id, None));
                }
                _ => self.machine.on_needed(id),
            },
            StoreJob::Block { header, block, gaps } => {
                let BlockHeader { id, index, value, ranges } = header;
                if block.length < BLOCK_SIZE && self.is_stream(id) {
                    self.machine.on_last_of_stream(id, index, ByteCount::from(block.length));
                }
                self.machine.on_block(id, index, value, Arrival { block, ranges, gaps, value });
            }
            StoreJob::Outdated { id, index } => self.machine.on_outdated(id, index),
            StoreJob::End(end) => self.machine.on_end(end),
            StoreJob::Confirmed => self.machine.on_confirmed(),
        }
        self.carry_out();
    }

    /// Carries out the actions of the state machine [`Files`].
    fn carry_out(&mut self) {
        while let Some(action) = self.machine.poll() {
            self.act(action);
        }
    }

    /// Carries out one action of the state machine.
    fn act(&mut self, action: Action<Arrival>) {
        match action {
            Action::Open { id } => self.open(id),
            Action::Write { id, index, block } => self.write(id, index, block),
            // What is written to the output is its reader's.
            Action::Sync { id } if self.ordered.is_some() => self.machine.on_synced(id, Ok(())),
            Action::Sync { id } => {
                if let Some(file) = self.files.get(&id) {
                    let job = Job::Sync { file: file.disk_file().clone() };
                    self.submit(id, JobPurpose::Sync, job);
                }
            }
            Action::Note { id, blocks } => {
                if let Some(file) = self.files.get_mut(&id) {
                    self.machine.on_noted(id, file.note(&blocks));
                }
            }
            Action::Finish { id, streamed, holes } => self.finish(id, streamed, &holes),
            Action::FindData { id } => {
                if let Some(file) = self.files.get(&id) {
                    self.machine.on_data_found(id, file.find_data());
                }
            }
            Action::Durable(bytes) => self.shared.tally().on_durable(bytes),
            Action::StreamDurable { bytes, .. } => {
                if self.shared.peer().has(Features::STREAM_PLACES) {
                    self.shared.reply(Message::StreamDurable { bytes: bytes.as_u64() });
                }
            }
            Action::Probe => {
                let ring_blocks = self.shared.pool.capacity() as u32;
                let number = self.shared.ask(Ready { resuming: false, ring_blocks });
                self.machine.on_asked(number);
            }
            Action::Resend { id, index } => {
                let path = self.files.get(&id).map(LargeFile::path).unwrap_or_default();
                tracing::warn!(%path, index, "a block of an earlier run, or of the file that is replaced, has changed; it travels");
                self.shared.reply(Message::Resend { id, index });
            }
            Action::Foreign(end) => self.report(NameJob::Message(end.into())),
            Action::Stored { id, digest, unsynced, streamed } => {
                let Some(file) = self.files.remove(&id) else { return };
                self.shared.bases.on_closed(id);
                self.report(match file.made(unsynced) {
                    Ok(made) => NameJob::Stored { id, made, digest, streamed },
                    Err(failure) => {
                        file.close(false);
                        NameJob::Lost { id, failure }
                    }
                });
            }
            Action::Lost { id, loss, keep } => {
                let file = self.files.get(&id);
                let path = file.map(LargeFile::path).or_else(|| self.plans.get(&id).map(Plan::path));
                let failure = loss.into_failure(&path.unwrap_or_default());
                let failure = match file {
                    Some(file) => file.inconsistent(failure),
                    None => failure,
                };
                self.close(id, keep);
                // The session's failure says more, such as that another icdc has the file.
                if !self.shared.has_failed() {
                    self.report(NameJob::Lost { id, failure });
                }
            }
            Action::Left { id, keep } => self.close(id, keep),
        }
    }

    /// Whether the item is a stream, whose length is known only at its end.
    fn is_stream(&self, id: EntryId) -> bool {
        self.shared.large_files.length(id) == Some(Length::Stream)
    }

    /// Sets length and metadata of a complete file, and reports the outcome to the state machine.
    fn finish(&mut self, id: EntryId, streamed: Option<Streamed>, holes: &[Range<u32>]) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let finished = file.finish(streamed, holes, self.shared.options);
        if finished == Ok(false) {
            self.shared.notice(NoticeKind::ModeNotKept, file.path().as_bytes());
        }
        self.machine.on_finished(id, finished.map(|_| ()));
    }

    /// Sends a result to the thread that handles names.
    fn report(&self, job: NameJob) {
        // Where the names have ended, the session has failed.
        let _ = self.names.send(job);
    }

    /// Opens or makes the part file and the journal of a planned file, and reports the outcome to
    /// the state machine.
    fn open(&mut self, id: EntryId) {
        let Some(plan) = self.plans.remove(&id) else { return };
        let outcome = LargeFile::open(plan, self.shared).map(|(file, opened)| {
            DiskJob::describe_on(&self.reads, self.shared.bases.on_opened(id, file.own_contents()));
            self.files.insert(id, file);
            opened
        });
        self.machine.on_opened(id, outcome);
    }

    /// Begins to write a block to its file; where there is an output, writes it there in its turn
    /// or keeps it until then.
    fn write(&mut self, id: EntryId, index: u32, arrival: Arrival) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let disk = file.disk_file().clone();
        let Arrival { block: mut arrived, ranges, gaps, value } = arrival;
        let data = &arrived.block[..arrived.length];
        let ranges = match file.prepare_write(index, (data, ranges, gaps), self.shared.options) {
            Ok(ToWrite::Ranges(ranges)) => ranges,
            outcome => {
                drop(arrived);
                return self.machine.on_written(id, index, outcome.map(drop), clock::now());
            }
        };
        let is_ordered = self.ordered.is_some();
        if let Some(ordered) = &mut self.ordered {
            if ordered.is_next(index) {
                return self.output(id, arrived);
            }
            let most = self.shared.pool.capacity() / KEPT_SHARE;
            match ordered.keep(index, arrived, most) {
                Some(back) => arrived = back,
                None => return,
            }
        }
        let Arrived { block, length, waits } = arrived;
        let purpose = match is_ordered {
            true => JobPurpose::Early { index, value, length, waits },
            false => JobPurpose::Write { index, waits },
        };
        self.submit(id, purpose, Job::Write { file: disk, offset: block_offset(index), ranges, length, block });
    }

    /// Writes the next block to the output, and those behind it that wait.
    fn output(&mut self, id: EntryId, Arrived { mut block, length, waits }: Arrived) {
        let Some(ordered) = &mut self.ordered else { return };
        let written = ordered.write(&block[..length]);
        drop(waits);
        if self.on_output(id, written.map(Some)) {
            self.output_early(id, &mut block);
        }
    }

    /// Writes the blocks to the output whose turn has come and that wait, by way of `block`.
    fn output_early(&mut self, id: EntryId, block: &mut Block) {
        while let (Some(ordered), Some(file)) = (&mut self.ordered, self.files.get(&id)) {
            let written = ordered.write_early(file.disk_file(), block);
            if !self.on_output(id, written) {
                return;
            }
        }
    }

    /// Handles the outcome of writing a block to the output; whether the next one may follow.
    fn on_output(&mut self, id: EntryId, outcome: Result<Option<u32>, NotWritten>) -> bool {
        match outcome {
            Ok(Some(index)) => {
                self.machine.on_written(id, index, Ok(()), clock::now());
                true
            }
            Ok(None) => false,
            Err(why) => {
                self.fail_output(why);
                false
            }
        }
    }

    /// Ends the session because a block does not reach the output.
    fn fail_output(&self, why: NotWritten) {
        self.shared.fail(match why {
            NotWritten::Output(error) => SessionError::Cut(format!("standard output: {error}")),
            NotWritten::Early(error) => SessionError::Local(format!("a block that waits for standard output: {error}")),
        });
    }

    /// Closes the open files of an item, removing its data unless `keep`.
    fn close(&mut self, id: EntryId, keep: bool) {
        self.plans.remove(&id);
        self.shared.bases.on_closed(id);
        if let Some(file) = self.files.remove(&id) {
            file.close(keep);
        }
    }

    /// Gives a job to the disk engine, with the purpose by which its completion is handled.
    fn submit(&mut self, id: EntryId, purpose: JobPurpose, job: Job) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.jobs.insert(tag, (id, purpose));
        self.engine.submit(tag, job);
    }

    /// Waits for one completion of the disk engine and handles it.
    fn wait(&mut self) {
        if let Some(completion) = self.engine.wait() {
            self.completed(completion);
        }
    }

    /// Reports the outcome of a write, sync or read to the state machine, and carries out what
    /// follows.
    fn completed(&mut self, completion: Completion) {
        let Some((id, purpose)) = self.jobs.remove(&completion.tag) else { return };
        let Some(file) = self.files.get(&id) else { return };
        let Completion { block, result, .. } = completion;
        let result = result.map_err(|error| {
            if error.is_out_of_space() { Failure::full(&file.path()) } else { Failure::Passing(error.to_string()) }
        });
        match purpose {
            JobPurpose::Write { index, waits } => {
                drop(waits);
                self.machine.on_written(id, index, result.map(drop), clock::now());
            }
            JobPurpose::Early { index, value, length, waits } => {
                drop(waits);
                match (result, block, &mut self.ordered) {
                    (Ok(_), Some(mut block), Some(ordered)) => {
                        ordered.waits(index, value, length);
                        self.output_early(id, &mut block);
                    }
                    (Err(failure), ..) => self.machine.on_written(id, index, Err(failure), clock::now()),
                    (Ok(_), ..) => {}
                }
            }
            JobPurpose::Sync => self.machine.on_synced(id, result.map(drop)),
            JobPurpose::Compare { index, contents } => {
                let good = is_right(&result, block.as_ref(), index, file.size(), &contents);
                self.machine.on_compared(id, index, good);
            }
        }
        self.carry_out();
    }

    /// Reads blocks that are to be compared with their digests, while the ring has free blocks:
    /// comparisons must not take those from arriving data.
    fn start_comparisons(&mut self) {
        while self.engine.in_flight() < DEPTH / 2 && self.shared.pool.in_use() < self.shared.pool.capacity() / 2 {
            if !self.machine.has_reads() {
                return;
            }
            let Some(block) = self.shared.pool.try_take() else { return };
            let Some(Read { id, index, contents }) = self.machine.next_read() else { return };
            let Some(file) = self.files.get(&id) else { return };
            let length = block_length(file.size().as_u64(), index);
            let job = Job::Read { file: file.disk_file().clone(), offset: block_offset(index), length, block };
            self.submit(id, JobPurpose::Compare { index, contents }, job);
        }
    }

    /// Makes durable and notes in the journals what has arrived, when the session is over. Nothing
    /// stays that no later run can continue from.
    fn settle(&mut self) {
        self.machine.on_link_ended();
        self.carry_out();
        while self.engine.in_flight() > 0 {
            self.wait();
        }
    }
}

/// Whether the data read is the expected contents of the block.
fn is_right(
    result: &Result<usize, Failure>,
    block: Option<&Block>,
    index: u32,
    size: ByteCount,
    contents: &Contents,
) -> bool {
    match (result, block) {
        (Ok(read), Some(block)) => block.get(..*read).is_some_and(|data| contents.fits(data, index, size)),
        _ => false,
    }
}
