//! The executor of the receiver's large files: the simulated disk instead of Direct I/O.

mod opening;
mod operations;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use icdc_protocol::block_journal::Header;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{BlockHeader, EntryId, FileDigest, ItemEnd, Message, Ready, Streamed};
use icdc_session::failure::Failure;
use icdc_session::receiver::files::{Action, Expected, Files, Length};
use icdc_units::{ByteCount, Span, Time};

use self::operations::Operation;
use super::file_journal::FileJournal;
use super::questions::Questions;
use super::ring::{Block, Ring};
use super::staging;
use crate::audit::Unfinished;
use crate::disk::{Holder, Inode, Occupant, Write};
use crate::environment::Environment;
use crate::mutations::Mutation;

/// Writes and reads in flight.
const DEPTH: usize = 8;
/// How soon an executor looks again for a lock, or for room to compare blocks.
pub(crate) const LOOK_AGAIN: Span = Span::from_millis(20);
/// How long the lock of an earlier session is waited for.
pub(crate) const LOCK_PATIENCE: Span = Span::from_secs(30);

/// Work for this executor.
#[derive(Debug)]
pub(crate) enum Job {
    Expect { id: EntryId, plan: Box<Plan>, expected: Expected },
    Block { header: BlockHeader, block: Block },
    Outdated { id: EntryId, index: u32 },
    End(ItemEnd),
    Confirmed,
    LinkEnded,
}

/// What comes out of it.
#[derive(Debug)]
pub(crate) enum Report {
    Reply(Box<Message>),
    Stored {
        id: EntryId,
        part: Inode,
        is_durable: bool,
        digest: FileDigest,
        unsynced: ByteCount,
        streamed: Option<Streamed>,
    },
    Lost {
        id: EntryId,
        failure: Failure,
    },
    Foreign(ItemEnd),
    /// Every file has ended behind the link's end.
    Ended,
}

/// What is known of a large file before it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) directory: Inode,
    pub(crate) name: Vec<u8>,
    pub(crate) header: Header,
    pub(crate) unfinished: Unfinished,
    /// Blocks that were noted before.
    pub(crate) noted: BTreeSet<u32>,
    pub(crate) mode: u16,
    pub(crate) mtime: (i64, u32),
    pub(crate) claimed: Option<Claimed>,
    /// What had the name when the contents were asked for.
    pub(crate) found: Occupant,
}

/// What an earlier run has left of it, locked.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) part: Inode,
    pub(crate) journal: FileJournal,
    pub(crate) has_waited: bool,
}

/// A file that is open.
#[derive(Debug)]
struct OpenFile {
    plan: Plan,
    part: Inode,
    journal: Option<FileJournal>,
}

/// An open that waits for a lock.
#[derive(Debug)]
struct Waiting {
    id: EntryId,
    until: Time,
    has_waited: bool,
}

/// See the module's description.
pub(crate) struct Data {
    holder: Holder,
    files: Files<Block>,
    ring: Ring,
    inbox: VecDeque<Job>,
    actions: VecDeque<Action<Block>>,
    planned: BTreeMap<EntryId, Plan>,
    /// Those of the files that are streams.
    streams: BTreeSet<EntryId>,
    open: BTreeMap<EntryId, OpenFile>,
    waiting: Option<Waiting>,
    operations: BTreeMap<u64, Operation>,
    /// Blocks that have arrived of files that are not through.
    arrived: BTreeMap<EntryId, (Unfinished, Vec<u32>)>,
    next_tag: u64,
    link_ended: bool,
    ended: bool,
    questions: Questions,
}

/// When the executor is to be asked again.
pub(crate) enum Again {
    /// It has more to do.
    Soon,
    /// It waits for a lock, or for room.
    Later,
    /// The disk takes its time.
    Slow,
    /// Something has to come first.
    No,
}

impl Data {
    pub(crate) fn new(holder: Holder, verify: bool, ring: Ring, questions: Questions) -> Self {
        Self {
            holder,
            files: Files::new(verify),
            ring,
            inbox: VecDeque::new(),
            actions: VecDeque::new(),
            planned: BTreeMap::new(),
            streams: BTreeSet::new(),
            open: BTreeMap::new(),
            waiting: None,
            operations: BTreeMap::new(),
            arrived: BTreeMap::new(),
            next_tag: 0,
            link_ended: false,
            ended: false,
            questions,
        }
    }

    pub(crate) fn push(&mut self, job: Job) {
        self.inbox.push_back(job);
    }

    /// Whether there is something to do.
    pub(crate) fn is_ready(&self) -> bool {
        self.waiting.is_none() && self.operations.len() < DEPTH && !self.inbox.is_empty()
    }

    /// Jobs that are waiting.
    pub(crate) fn backlog(&self) -> usize {
        self.inbox.len()
    }

    /// Does one thing. Operations of the disk that begin are handed to `begin` with their tags.
    pub(crate) fn step(
        &mut self,
        env: &mut Environment,
        is_hung_up: bool,
        reports: &mut Vec<Report>,
        begun: &mut Vec<u64>,
    ) -> Again {
        if self.waiting.is_some() {
            self.try_open(env, is_hung_up);
            return if self.waiting.is_some() { Again::Later } else { Again::Soon };
        }
        if self.operations.len() >= DEPTH {
            return Again::No;
        }
        self.collect();
        if let Some(action) = self.actions.pop_front() {
            self.carry_out(action, env, is_hung_up, reports, begun);
            return Again::Soon;
        }
        if self.operations.len() < DEPTH / 2 && self.files.has_reads() {
            if self.ring.has_room_to_compare() {
                if let Some(read) = self.files.next_read() {
                    self.read(read, begun);
                    return Again::Soon;
                }
            } else if self.inbox.is_empty() {
                return Again::Later;
            }
        }
        if let Some(job) = self.inbox.pop_front() {
            env.note(format_args!("{} data: {job:?}", self.holder));
            self.handle(job, env);
            return Again::Soon;
        }
        if self.link_ended && self.files.is_empty() && !self.ended {
            self.ended = true;
            reports.push(Report::Ended);
        }
        Again::No
    }

    fn collect(&mut self) {
        while let Some(action) = self.files.poll() {
            self.actions.push_back(action);
        }
    }

    fn handle(&mut self, job: Job, env: &mut Environment) {
        match job {
            Job::Expect { id, plan, expected } => {
                self.planned.insert(id, *plan);
                if expected.length == Length::Stream {
                    self.streams.insert(id);
                }
                self.files.expect(id, expected);
            }
            Job::Block { header, block } => {
                self.check_is_news(&header, env);
                let is_stream = self.streams.contains(&header.id);
                if let Some(length) = env.audit.length_of(block.number, header.index).filter(|_| is_stream)
                    && length < ByteCount::from(BLOCK_SIZE)
                {
                    self.files.on_last_of_stream(header.id, header.index, length);
                }
                self.files.on_block(header.id, header.index, header.value, block);
            }
            Job::Outdated { id, index } => self.files.on_outdated(id, index),
            Job::End(end) => self.files.on_end(end),
            Job::Confirmed => self.files.on_confirmed(),
            Job::LinkEnded => {
                self.link_ended = true;
                self.files.on_link_ended();
            }
        }
    }

    /// What is durable and noted does not travel again; what has arrived will be when the session ends.
    fn check_is_news(&mut self, header: &BlockHeader, env: &mut Environment) {
        let plan = self.planned.get(&header.id).or_else(|| Some(&self.open.get(&header.id)?.plan));
        let Some(plan) = plan else { return };
        let was_noted = plan.noted.contains(&header.index) && env.audit.is_noted(&plan.unfinished, header.index);
        if was_noted && !env.may_resend && !env.forged {
            env.violate(format!("block {} of {:?} was noted and is sent again", header.index, plan.unfinished));
        }
        if plan.header.size > BLOCK_SIZE as u64 {
            self.arrived.entry(header.id).or_insert((plan.unfinished.clone(), Vec::new())).1.push(header.index);
        }
    }

    /// However a session ends: what has arrived of unfinished files is noted.
    pub(crate) fn check_arrived(&self, env: &mut Environment) {
        if env.may_resend || env.forged {
            return;
        }
        for (file, indices) in self.arrived.values() {
            if let Some(index) = indices.iter().find(|index| !env.audit.is_noted(file, **index)) {
                return env.violate(format!("block {index} of {file:?} has arrived and is not noted"));
            }
        }
    }

    fn carry_out(
        &mut self,
        action: Action<Block>,
        env: &mut Environment,
        is_hung_up: bool,
        reports: &mut Vec<Report>,
        begun: &mut Vec<u64>,
    ) {
        env.note(format_args!("{} data does {action:?}", self.holder));
        match action {
            Action::Open { id } => {
                self.waiting = Some(Waiting { id, until: env.agenda.now() + LOCK_PATIENCE, has_waited: false });
                self.try_open(env, is_hung_up);
            }
            Action::Probe => {
                let ready = Ready { resuming: false, ring_blocks: self.ring.capacity() as u32 };
                let (number, question) = self.questions.ask(ready, env);
                reports.extend(question.map(|question| Report::Reply(Box::new(question))));
                self.files.on_asked(number);
            }
            Action::Write { id, index, block } => match self.open.get(&id) {
                Some(file) => {
                    let part = file.part;
                    self.begin(Operation::Write { id, part, index, block }, begun);
                }
                None => env.violate(format!("writes to file {id}, which is not open")),
            },
            Action::Sync { id } => match self.open.get(&id) {
                Some(file) => {
                    let part = file.part;
                    self.begin(Operation::Sync { id, part, mark: env.disk.begin_sync() }, begun);
                }
                None => env.violate(format!("flushes file {id}, which is not open")),
            },
            Action::Note { id, blocks } => {
                let outcome = self.note(id, &blocks, env);
                self.files.on_noted(id, outcome);
            }
            Action::Finish { id, streamed, .. } => {
                let outcome = self.finish(id, streamed, env);
                self.files.on_finished(id, outcome);
            }
            Action::FindData { id } => {
                let outcome = match self.open.get(&id) {
                    _ if env.random.permille(env.faults.read) => Err(Failure::Passing("cannot be read".into())),
                    Some(file) => {
                        Ok(env.disk.contents(file.part).blocks.keys().map(|index| *index..*index + 1).collect())
                    }
                    None => Err("is not open".into()),
                };
                self.files.on_data_found(id, outcome);
            }
            Action::Resend { id, index } => {
                if let Some(file) = self.open.get(&id) {
                    env.audit.is_damaged(&file.plan.unfinished, index);
                }
                reports.push(Report::Reply(Box::new(Message::Resend { id, index })));
            }
            Action::Durable(_) => {}
            Action::StreamDurable { id, bytes } => {
                let mut led = 0..bytes.as_u64().div_ceil(BLOCK_SIZE as u64) as u32;
                let durable = self.open.get(&id).map(|file| &env.disk.durable(file.part).blocks);
                if !durable.is_some_and(|durable| led.all(|index| durable.contains_key(&index))) {
                    env.violate(format!("tells of {bytes} of stream {id}, which are not durable"));
                }
            }
            Action::Foreign(end) => reports.push(Report::Foreign(end)),
            Action::Stored { id, digest, unsynced, streamed } => {
                self.arrived.remove(&id);
                let Some(file) = self.open.remove(&id) else { return env.violate(format!("file {id} is not open")) };
                let size = streamed.map_or(file.plan.header.size, |streamed| streamed.size);
                let is_durable = size > BLOCK_SIZE as u64;
                if !is_durable {
                    env.disk.unlock(file.part, self.holder);
                }
                reports.push(Report::Stored { id, part: file.part, is_durable, digest, unsynced, streamed });
            }
            Action::Lost { id, loss, keep } => {
                if let (false, Some((file, _))) = (loss.is_passing(), self.arrived.remove(&id)) {
                    env.audit.is_gone(&file);
                }
                self.put_down(id, keep, env);
                reports.push(Report::Lost { id, failure: loss.into_failure("file") });
            }
            Action::Left { id, keep } => self.put_down(id, keep, env),
        }
    }

    /// A file leaves: its lock goes, and what nobody goes on from.
    fn put_down(&mut self, id: EntryId, keep: bool, env: &mut Environment) {
        let planned = self.planned.remove(&id);
        if let Some(Plan { claimed: Some(claimed), .. }) = planned {
            env.disk.unlock(claimed.part, self.holder);
        }
        let Some(OpenFile { plan, part, .. }) = self.open.remove(&id) else { return };
        if !keep {
            discard(env, &plan);
        }
        env.disk.unlock(part, self.holder);
    }

    fn note(
        &mut self,
        id: EntryId,
        blocks: &[(u32, icdc_protocol::message::Digest)],
        env: &mut Environment,
    ) -> Result<(), Failure> {
        let Some(OpenFile { part, journal: Some(journal), plan }) = self.open.get_mut(&id) else {
            env.violate(format!("notes blocks of file {id}, which has no journal"));
            return Err("has no journal".into());
        };
        if env.random.permille(env.faults.write) {
            return Err(Failure::full("journal"));
        }
        if let Err(what) = env.audit.noted(&env.disk, *part, &plan.unfinished, blocks) {
            env.violate(format!("file {id}: {what}"));
        }
        if !env.has(Mutation::NothingIsNoted) {
            journal.append(&mut env.disk, blocks);
        }
        Ok(())
    }

    fn finish(&mut self, id: EntryId, streamed: Option<Streamed>, env: &mut Environment) -> Result<(), Failure> {
        let Some(OpenFile { plan, part, .. }) = self.open.get(&id) else {
            env.violate(format!("finishes file {id}, which is not open"));
            return Err("is not open".into());
        };
        if env.random.permille(env.faults.names) {
            return Err(Failure::Passing("cannot be given its metadata".into()));
        }
        let (size, mtime) = streamed.map_or((plan.header.size, plan.mtime), |streamed| {
            (streamed.size, (streamed.mtime_seconds, streamed.mtime_nanos))
        });
        env.disk.write(*part, Write::Length(size));
        env.disk.write(*part, Write::Mode(plan.mode));
        env.disk.write(*part, Write::Mtime(mtime));
        Ok(())
    }
}

/// Removes what is there of an unfinished item.
fn discard(env: &mut Environment, plan: &Plan) {
    let _ = env.disk.remove(plan.directory, &staging::part(&plan.name));
    let _ = env.disk.remove(plan.directory, &staging::blocks(&plan.name));
}
