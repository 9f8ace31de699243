//! Large files: blocks in any order go to the disk by Direct I/O, and the durable ones to the journal.
//!
//! ```text
//! Expect ──► first block (or end) opens the part file ──► writes ──► every 64 MiB: sync, then journal
//!                                                             │
//!            end known, all blocks there, all writes through  ▼
//!            root digest = sender's? ─► sync ─► (read back) ─► metadata ─► sync ─► name (tree thread)
//! ```
//!
//! A block counts as durable only after a sync that began when its write was through; only then does
//! the journal name it. So whatever kills this process, the journal never promises too much.

use std::collections::HashMap;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, RecvTimeoutError, Sender as Channel, TryRecvError};
use icdc_disk::{Block, Completion, Engine, EngineKind, Job, open_engine};
use icdc_protocol::block_map::{block_length, block_offset};
use icdc_protocol::message::{BlockHeader, Digest, EntryId, FileEnd, GivenUp, Message};

use super::Shared;
use super::arrived::{Arrived, Waits};
use super::failure::Failure;
use super::large_file::{Comparison, Contents, LargeFile, Next};
use super::tree::TreeJob;
use crate::error::SessionError;

pub(super) use super::large_file::Plan;

/// Writes and reads in flight.
const DEPTH: usize = 8;

/// How soon the store looks again for room to compare blocks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long it waits for work otherwise.
const LONG: Duration = Duration::from_secs(3600);

/// Work for the store's thread.
pub(super) enum StoreJob {
    /// A file whose blocks will come.
    Expect(Box<Plan>),
    /// A block with the right value.
    Block { header: BlockHeader, block: Arrived },
    /// No more blocks of a file will come, or it is given up.
    End(FileEnd),
}

/// What a job of the engine is for.
enum Purpose {
    Write {
        index: u32,
        value: Digest,
        bytes: u64,
        waits: Waits,
    },
    Checkpoint,
    LastSync,
    /// A block of an earlier run is compared with the journal.
    CheckHeld {
        index: u32,
        contents: Contents,
    },
    /// A block of the complete file is compared with what was sent.
    ReadBack {
        index: u32,
        contents: Contents,
    },
}

pub(super) struct Store<'a> {
    shared: &'a Shared<'a>,
    tree: Channel<TreeJob>,
    engine: Box<dyn Engine>,
    plans: HashMap<EntryId, Plan>,
    files: HashMap<EntryId, LargeFile>,
    jobs: HashMap<u64, (EntryId, Purpose)>,
    next_tag: u64,
}

/// Handles jobs until the queue is closed, then makes durable what has arrived.
pub(super) fn run(shared: &Shared<'_>, queue: &Queue<StoreJob>, tree: Channel<TreeJob>) {
    let engine = match open_engine(DEPTH, EngineKind::Auto) {
        Ok(engine) => engine,
        Err(error) => return shared.fail(SessionError::Local(error.to_string())),
    };
    let mut store =
        Store { shared, tree, engine, plans: HashMap::new(), files: HashMap::new(), jobs: HashMap::new(), next_tag: 0 };
    loop {
        while let Some(completion) = store.engine.try_wait() {
            store.completed(completion);
        }
        store.start_comparisons();
        let job = if store.engine.in_flight() == 0 {
            let patience = if store.files.values().any(LargeFile::has_comparisons) { LOOK_AGAIN } else { LONG };
            match queue.recv_timeout(patience) {
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
    fn handle(&mut self, job: StoreJob) {
        match job {
            StoreJob::Expect(plan) => {
                let id = plan.id;
                if plan.is_continued() {
                    self.open(id, *plan);
                } else {
                    self.plans.insert(id, *plan);
                }
            }
            StoreJob::Block { header, block: Arrived { block, length, waits } } => {
                let id = header.id;
                self.open_planned(id);
                let Some(file) = self.files.get_mut(&id) else { return };
                if file.arrived(header.index, header.value) {
                    let job = Job::Write {
                        file: file.disk_file().clone(),
                        offset: block_offset(header.index),
                        ranges: header.ranges,
                        length,
                        block,
                    };
                    file.writing += 1;
                    let (index, value, bytes) = (header.index, header.value, length as u64);
                    let purpose = Purpose::Write { index, value, bytes, waits };
                    self.submit(id, purpose, job);
                }
            }
            StoreJob::End(end) => self.end(end),
        }
    }

    fn end(&mut self, end: FileEnd) {
        let id = end.id;
        let known = self.plans.contains_key(&id) || self.files.contains_key(&id);
        match end.outcome {
            _ if !known => {
                let _ = self.tree.send(TreeJob::Message(Message::FileEnd(end)));
            }
            Err(given_up) => {
                self.plans.remove(&id);
                let GivenUp { reason, same_version } = given_up;
                self.lose(id, if same_version { Failure::Passing(reason) } else { Failure::Final(reason) });
            }
            Ok(digest) => {
                self.open_planned(id);
                if let Some(file) = self.files.get_mut(&id) {
                    file.end(end.blocks, digest);
                    self.advance(id);
                }
            }
        }
    }

    fn open_planned(&mut self, id: EntryId) {
        if let Some(plan) = self.plans.remove(&id) {
            self.open(id, plan);
        }
    }

    fn open(&mut self, id: EntryId, plan: Plan) {
        match LargeFile::open(plan, self.shared.options.buffered) {
            Ok(file) => {
                self.files.insert(id, file);
            }
            Err(failure) => {
                let _ = self.tree.send(TreeJob::Lost { id, failure });
            }
        }
    }

    fn submit(&mut self, id: EntryId, purpose: Purpose, job: Job) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.jobs.insert(tag, (id, purpose));
        self.engine.submit(tag, job);
    }

    fn wait(&mut self) {
        let _busy = self.shared.writing();
        if let Some(completion) = self.engine.wait() {
            self.completed(completion);
        }
    }

    fn completed(&mut self, completion: Completion) {
        let Some((id, purpose)) = self.jobs.remove(&completion.tag) else { return };
        // A file that failed meanwhile waits for nothing.
        let Some(file) = self.files.get_mut(&id) else { return };
        let size = file.size();
        let path = file.path();
        let result = completion.result.map_err(|error| {
            if error.is_out_of_space() { Failure::full(&path) } else { Failure::Passing(error.to_string()) }
        });
        let outcome = match (purpose, result) {
            (Purpose::Write { index, value, bytes, waits }, Ok(_)) => {
                drop(waits);
                file.written(index, value, bytes);
                Ok(())
            }
            (Purpose::Write { .. }, Err(failure)) => {
                file.writing -= 1;
                Err(failure)
            }
            (Purpose::Checkpoint, Ok(_)) => file.checkpointed().map(|bytes| self.shared.durable(bytes)),
            (Purpose::LastSync, Ok(_)) => file.synced().map(|bytes| self.shared.durable(bytes)),
            (Purpose::Checkpoint | Purpose::LastSync, Err(failure)) => {
                file.sync_failed();
                Err(failure)
            }
            (Purpose::CheckHeld { index, contents }, result) => {
                let good = is_right(&result, completion.block.as_ref(), index, size, &contents);
                if !file.held_checked(index, good) {
                    tracing::warn!(%path, index, "a block kept by an earlier run is damaged; it travels again");
                    self.shared.reply(Message::Resend { id, index });
                }
                Ok(())
            }
            (Purpose::ReadBack { index, contents }, result) => {
                if is_right(&result, completion.block.as_ref(), index, size, &contents) {
                    file.read_back();
                    Ok(())
                } else {
                    let reason =
                        format!("{path}: what the medium gives back differs from what was written; check the disk");
                    Err(Failure::Final(reason))
                }
            }
        };
        match outcome {
            Ok(()) => self.advance(id),
            Err(failure) => self.lose(id, failure),
        }
    }

    /// Does whatever is next for a file.
    fn advance(&mut self, id: EntryId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        match file.next(self.shared) {
            Ok(Next::Wait) => {}
            Ok(Next::Checkpoint) => {
                let job = Job::Sync { file: file.disk_file().clone() };
                self.submit(id, Purpose::Checkpoint, job);
            }
            Ok(Next::LastSync) => {
                let job = Job::Sync { file: file.disk_file().clone() };
                self.submit(id, Purpose::LastSync, job);
            }
            Ok(Next::Publish { made, digest }) => {
                self.files.remove(&id);
                let _ = self.tree.send(TreeJob::Stored { id, made, digest });
            }
            Err(failure) => self.lose(id, failure),
        }
    }

    /// Ends a file that has failed. What a later run can go on from becomes durable and stays.
    fn lose(&mut self, id: EntryId, failure: Failure) {
        if self.files.get_mut(&id).is_some_and(|file| !file.give_up()) {
            return;
        }
        self.drain_jobs_of(id);
        if failure.is_passing()
            && let Some(sync) = self.files.get_mut(&id).and_then(LargeFile::force_checkpoint)
        {
            self.submit(id, Purpose::Checkpoint, sync);
            self.drain_jobs_of(id);
        }
        match self.files.remove(&id) {
            Some(file) if failure.is_passing() => file.leave(),
            Some(file) => file.discard(),
            None => {}
        }
        let _ = self.tree.send(TreeJob::Lost { id, failure });
    }

    fn drain_jobs_of(&mut self, id: EntryId) {
        while self.jobs.values().any(|(owner, _)| *owner == id) {
            match self.engine.wait() {
                Some(completion) => self.completed(completion),
                None => break,
            }
        }
    }

    /// Reads blocks that are to be compared with what they should be, as long as the ring has room:
    /// that must not take blocks from what arrives.
    fn start_comparisons(&mut self) {
        while self.engine.in_flight() < DEPTH / 2 && self.shared.pool.in_use() < self.shared.pool.capacity() / 2 {
            let Some(block) = self.shared.pool.try_take() else { return };
            let found = self.files.iter_mut().find_map(|(id, file)| Some((*id, file.next_comparison()?)));
            let Some((id, comparison)) = found else { return };
            let Some(file) = self.files.get(&id) else { return };
            let Comparison { index, contents, held } = comparison;
            let length = block_length(file.size(), index);
            let job = Job::Read { file: file.disk_file().clone(), offset: block_offset(index), length, block };
            let purpose =
                if held { Purpose::CheckHeld { index, contents } } else { Purpose::ReadBack { index, contents } };
            self.submit(id, purpose, job);
        }
    }

    /// The session is over: what has arrived becomes durable and is noted. Nothing stays that no later run can go on from.
    fn settle(&mut self) {
        while self.engine.in_flight() > 0 {
            self.wait();
        }
        let unfinished: Vec<EntryId> = self.files.keys().copied().collect();
        for id in unfinished {
            let Some(file) = self.files.get_mut(&id) else { continue };
            if let Some(job) = file.force_checkpoint() {
                self.submit(id, Purpose::Checkpoint, job);
                while self.engine.in_flight() > 0 {
                    self.wait();
                }
            }
            if let Some(file) = self.files.remove(&id) {
                file.leave();
            }
        }
    }
}

/// Whether what was read is what the block has to contain.
fn is_right(
    result: &Result<usize, Failure>,
    block: Option<&Block>,
    index: u32,
    size: u64,
    contents: &Contents,
) -> bool {
    match (result, block) {
        (Ok(read), Some(block)) => block.get(..*read).is_some_and(|data| contents.fits(data, index, size)),
        _ => false,
    }
}
