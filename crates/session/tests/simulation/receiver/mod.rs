//! The executor of the receiving end: its threads are tasks that take turns as chance has it.

mod bases;
mod compare;
mod data;
mod deltas;
mod file_journal;
mod intake;
pub(crate) mod names;
mod questions;
mod ring;
mod run_log;
pub(crate) mod staging;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use icdc_protocol::message::{Message, ReceiveOptions, TransferId};
use icdc_session::SessionError;
use icdc_session::receiver::book::owners::Targets;
use icdc_session::receiver::book::{Book, Settings};
use icdc_session::receiver::ending::{self, Ending};
use icdc_session::receiver::files::Length;
use icdc_session::receiver::frames_arrived::Connections as Arrived;
use icdc_session::receiver::parts::Parts;
use icdc_units::Time;

use self::bases::Bases;
pub(crate) use self::bases::leaf_of;
use self::compare::Compare;
use self::data::{Again, Data, LOOK_AGAIN};
use self::deltas::Deltas;
use self::names::Names;
use self::questions::Questions;
use self::ring::{Block, Ring};
use crate::connections::Connections;
use crate::environment::{Environment, Event, SessionId, Side};
use crate::mutations::Mutation;
use crate::wire::{Arrival, End};

/// Jobs that may wait for the executor of names, and for that of data.
const NAMES_QUEUE: usize = 64;
const DATA_QUEUE: usize = 4;

/// A thread of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    Intake(usize),
    Names,
    Data,
    /// The disk is through with the operation of this number.
    Disk(u64),
    Compare,
    Describe,
    Outlet,
    /// Whoever looks at the clock.
    Clock,
}

/// What the receiving end of a session has come to.
pub(crate) type Outcome = Result<(), SessionError>;

/// See the module's description.
pub(crate) struct ReceiverEnd {
    session: SessionId,
    ring: Ring,
    parts: Parts<Block>,
    pub(crate) names: Names,
    data: Data,
    compare: Compare,
    bases: Bases,
    deltas: Deltas,
    ending: Ending,
    arrived: Arrived,
    /// A bug has the journal put away.
    is_mistaken: bool,
    /// Only what would be done is told.
    is_dry: bool,
    /// Connections on which nothing more is read.
    ended: BTreeSet<usize>,
    /// Connections that this end has ended.
    shut: BTreeSet<usize>,
    replies: VecDeque<Reply>,
    /// The first connection takes nothing more.
    is_deaf: bool,
    /// What is said behind the next reply.
    overtaken: Vec<Message>,
    scheduled: BTreeSet<Task>,
    deadlines: BTreeMap<Time, ()>,
    link_ended: bool,
    files_ended: bool,
    ends: Ends,
    outcome: Option<Outcome>,
}

/// What the outlet is to do.
#[derive(Debug)]
enum Reply {
    Message(Box<Message>),
    /// Tell that everything so far is handed on.
    Flush,
    Close,
}

/// Who is coming to its end behind the link's end.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Names,
    Files,
    Settling,
    PuttingAway,
    SenderDone,
}

impl ReceiverEnd {
    pub(crate) fn new(session: SessionId, transfer: TransferId, options: ReceiveOptions, ring: usize) -> Self {
        let ring = Ring::new(ring);
        let holder = session as u64;
        let questions = Questions::default();
        let settings = Settings {
            options: options.clone(),
            ring_blocks: ring.capacity() as u32,
            is_reserved: staging::is_staging,
            asked: None,
            only_new: false,
            makes_receipt: options.receipt,
            owner_targets: Targets::default(),
        };
        Self {
            session,
            data: Data::new(holder, options.verify, ring.clone(), questions.clone()),
            names: Names::new(holder, transfer, options.clone(), (Book::new(settings), questions)),
            compare: Compare::default(),
            bases: Bases::default(),
            deltas: Deltas::default(),
            ending: Ending::default(),
            arrived: Arrived::default(),
            is_mistaken: false,
            is_dry: options.dry_run,
            ended: BTreeSet::new(),
            shut: BTreeSet::new(),
            replies: VecDeque::new(),
            is_deaf: false,
            overtaken: Vec::new(),
            scheduled: BTreeSet::new(),
            deadlines: BTreeMap::new(),
            link_ended: false,
            files_ended: false,
            ends: Ends::Names,
            outcome: None,
            parts: Parts::default(),
            ring,
        }
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Whether the ring has more blocks than it may.
    pub(crate) fn is_overfull(&self) -> bool {
        self.ring.in_use() > self.ring.capacity()
    }

    /// Blocks of which parts are waited for.
    pub(crate) fn filling(&self) -> usize {
        self.parts.filling()
    }

    /// A thread takes its turn.
    pub(crate) fn step(&mut self, task: Task, env: &mut Environment, connections: &mut Connections) {
        self.scheduled.remove(&task);
        if self.outcome.is_some() {
            return;
        }
        let (now, changes) = (env.agenda.now(), env.disk.changes());
        let mut again = None;
        match task {
            Task::Intake(connection) => self.take_in(connection, env, connections),
            Task::Names => {
                let mut reports = Vec::new();
                let is_hung_up = connections.is_hung_up(0, Side::Receiver);
                again = Some(self.names.step(env, is_hung_up, &mut reports));
                reports.into_iter().for_each(|report| self.named(report, env, now));
            }
            Task::Data => {
                let (mut reports, mut begun) = (Vec::new(), Vec::new());
                let is_hung_up = connections.is_hung_up(0, Side::Receiver);
                again = Some(self.data.step(env, is_hung_up, &mut reports, &mut begun));
                for tag in begun {
                    let after = env.disk_time();
                    env.agenda.after(after, Event::Receiver { session: self.session, task: Task::Disk(tag) });
                }
                reports.into_iter().for_each(|report| self.stored(report));
            }
            Task::Disk(tag) => {
                self.data.completed(tag, env);
                self.wake_task(Task::Data, env);
            }
            Task::Compare => {
                if let Some((id, same)) = self.compare.step(env) {
                    self.names.push(names::Job::Compared { id, same });
                }
            }
            Task::Describe => {
                let told = self.bases.step(env).map(|basis| Reply::Message(Box::new(basis)));
                self.replies.extend(told);
                let mut chunks = self.deltas.step(env);
                if let Some(chunks) = &mut chunks {
                    chunks.complete &= !env.has(Mutation::ChunksDoNotEnd) || chunks.chunks.is_empty();
                }
                self.replies.extend(chunks.map(|chunks| Reply::Message(Box::new(Message::Chunks(chunks)))));
            }
            Task::Outlet => self.put_out(env, connections),
            Task::Clock => {
                self.deadlines.retain(|deadline, ()| *deadline > now);
                self.names.on_time(now);
                self.ending.on_time(now);
            }
        }
        match again {
            Some(Again::Soon) => self.wake_task(task, env),
            Some(Again::Later) => {
                if self.scheduled.insert(task) {
                    env.agenda.after(LOOK_AGAIN, Event::Receiver { session: self.session, task });
                }
            }
            Some(Again::Slow) => {
                if self.scheduled.insert(task) {
                    let after = env.disk_time();
                    env.agenda.after(after, Event::Receiver { session: self.session, task });
                }
            }
            Some(Again::No) | None => {}
        }
        if self.is_dry && env.disk.changes() != changes {
            env.violate(format!("a dry run changes something: {task:?}"));
        }
        self.settle(env, connections);
    }

    /// Carries out how the session ends, then wakes whoever has something to do.
    pub(crate) fn settle(&mut self, env: &mut Environment, connections: &mut Connections) {
        let now = env.agenda.now();
        self.carry_out(env, connections);
        if !self.link_ended && self.ended.len() == connections.count() {
            self.link_ended = true;
            self.names.push(names::Job::LinkEnded);
            self.ends = Ends::Names;
        }
        if self.link_ended {
            self.end(now);
            self.carry_out(env, connections);
        }
        self.wake(env, connections);
    }

    /// Does what the ending asks for.
    fn carry_out(&mut self, env: &mut Environment, connections: &mut Connections) {
        while let Some(action) = self.ending.poll() {
            env.note(format_args!("{} ending does {action:?}", self.session));
            match action {
                ending::Action::Say(_) if env.has(Mutation::NoReasonIsGiven) => {}
                ending::Action::Say(message) => self.replies.push_back(Reply::Message(message)),
                ending::Action::Flush => self.replies.push_back(Reply::Flush),
                ending::Action::Close => self.replies.push_back(Reply::Close),
                ending::Action::Cut => self.shut(0..1, env, connections),
                ending::Action::CutFurther => self.shut(1..connections.count(), env, connections),
            }
        }
        if self.ending.has_ended() {
            self.data.check_arrived(env);
            self.outcome = Some(std::mem::take(&mut self.ending).into_outcome().map(drop));
        }
    }

    /// Ends these connections.
    fn shut(&mut self, which: Range<usize>, env: &mut Environment, connections: &mut Connections) {
        for connection in which {
            if self.shut.insert(connection) {
                connections.close(connection, Side::Receiver, End::Closed, env);
            }
        }
    }

    /// Behind the link's end everything comes to its own, one after the other.
    fn end(&mut self, now: Time) {
        if !self.names.is_idle() {
            return;
        }
        match self.ends {
            // Only now can nothing more be expected of the files.
            Ends::Names => {
                self.data.push(data::Job::LinkEnded);
                self.ends = Ends::Files;
            }
            Ends::Files if self.files_ended && !self.compare.is_ready() => {
                self.names.push(names::Job::Settled);
                self.ends = Ends::Settling;
            }
            Ends::Files => {}
            Ends::Settling => {
                let is_agreed = self.ending.is_agreed() || self.is_mistaken;
                self.names.push(names::Job::Over { is_agreed });
                self.ends = Ends::PuttingAway;
            }
            Ends::PuttingAway => {
                self.ending.on_drained(now);
                self.ends = Ends::SenderDone;
            }
            Ends::SenderDone => {}
        }
    }

    /// Whether nothing more is read on the first connection.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.contains(&0)
    }

    /// A further connection is there; false if it is of no use.
    pub(crate) fn join(&mut self, connection: usize) -> bool {
        let is_used = self.arrived.on_joined(connection as u8);
        if !is_used {
            self.ended.insert(connection);
        }
        is_used
    }

    /// A further connection has ended.
    fn left(&mut self, connection: usize, env: &Environment) {
        if let Some(left) = self.arrived.on_ended(connection as u8)
            && !env.has(Mutation::DebtsAreForgotten)
        {
            self.replies.push_back(Reply::Message(Box::new(left)));
        }
    }

    /// The user stops the run.
    pub(crate) fn interrupt(&mut self, env: &mut Environment, connections: &mut Connections) {
        self.ending.on_interrupt(env.agenda.now());
        self.settle(env, connections);
    }

    fn wake(&mut self, env: &mut Environment, connections: &mut Connections) {
        for connection in 0..connections.count() {
            let is_ready = match connections.peek(connection, Side::Receiver) {
                None => false,
                Some(_) if self.ended.contains(&connection) => false,
                Some(Arrival::Frame(frame)) if intake::needs_room(frame) && !self.has_room(env) => false,
                Some(_) => self.names.backlog() < NAMES_QUEUE && self.data.backlog() < DATA_QUEUE,
            };
            if is_ready {
                self.wake_task(Task::Intake(connection), env);
            }
        }
        if self.names.is_ready() {
            self.wake_task(Task::Names, env);
        }
        if self.data.is_ready() {
            self.wake_task(Task::Data, env);
        }
        if self.compare.is_ready() && self.scheduled.insert(Task::Compare) {
            let after = env.disk_time();
            env.agenda.after(after, Event::Receiver { session: self.session, task: Task::Compare });
        }
        let is_ready = self.bases.is_ready() || self.deltas.is_ready();
        if is_ready && self.scheduled.insert(Task::Describe) {
            let after = env.disk_time();
            env.agenda.after(after, Event::Receiver { session: self.session, task: Task::Describe });
        }
        if !self.replies.is_empty() {
            self.wake_task(Task::Outlet, env);
        }
        for deadline in [self.names.next_deadline(), self.ending.next_deadline()].into_iter().flatten() {
            if self.deadlines.insert(deadline, ()).is_none() {
                env.agenda.at(deadline, Event::Receiver { session: self.session, task: Task::Clock });
            }
        }
    }

    fn wake_task(&mut self, task: Task, env: &mut Environment) {
        if self.scheduled.insert(task) {
            let after = env.step_time();
            env.agenda.after(after, Event::Receiver { session: self.session, task });
        }
    }

    fn named(&mut self, report: names::Report, env: &mut Environment, now: Time) {
        match report {
            names::Report::Reply(message)
                if matches!(*message, Message::Held(_)) && env.has(Mutation::WantsOvertakeHeld) =>
            {
                self.overtaken.push(*message);
            }
            names::Report::Reply(message) => {
                self.replies.push_back(Reply::Message(message));
                self.replies
                    .extend(std::mem::take(&mut self.overtaken).into_iter().map(|held| Reply::Message(Box::new(held))));
            }
            names::Report::Expect { id, plan, expected, existing } => {
                match (existing, expected.length) {
                    (Some(names::Existing::SamePlace(existing)), Length::Known(size)) => {
                        self.bases.expect(id, size, expected.held.clone(), existing);
                    }
                    (Some(names::Existing::AnyPlace(existing)), _) => self.deltas.expect(id, existing),
                    _ => {}
                }
                self.data.push(data::Job::Expect { id, plan, expected });
            }
            names::Report::DescribeChunks(id) => self.deltas.begin(id),
            names::Report::Describe(id) => self.bases.begin(id),
            names::Report::Forget(id) => {
                self.bases.forget(id);
                self.deltas.forget(id);
            }
            names::Report::Compare { id, inode, digest } => self.compare.push(id, inode, digest),
            names::Report::Complete => self.ending.on_complete(),
            names::Report::Fail(error) => {
                env.note(format_args!("{} receiver fails: {error}", self.session));
                self.ending.on_failure(now, error);
            }
        }
    }

    fn stored(&mut self, report: data::Report) {
        match report {
            data::Report::Reply(message) => self.replies.push_back(Reply::Message(message)),
            data::Report::Stored { id, part, is_durable, digest, unsynced, streamed } => {
                self.deltas.forget(id);
                self.names.push(names::Job::Stored { id, part, is_durable, digest, unsynced, streamed });
            }
            data::Report::Lost { id, failure } => self.names.push(names::Job::Lost { id, failure }),
            data::Report::Foreign(end) => self.names.push(names::Job::Message(Box::new(end.into()))),
            data::Report::Ended => self.files_ended = true,
        }
    }

    fn put_out(&mut self, env: &mut Environment, connections: &mut Connections) {
        let now = env.agenda.now();
        match self.replies.pop_front() {
            None => {}
            Some(Reply::Flush) => self.ending.on_flushed(),
            Some(Reply::Close) => self.ending.on_closed(),
            Some(Reply::Message(_)) if self.is_deaf => {}
            Some(Reply::Message(message)) => {
                env.note(format_args!("{} receiver says {message:?}", self.session));
                if !connections.send(0, Side::Sender, (*message).into(), env) {
                    self.is_deaf = true;
                    let error = SessionError::Cut("takes nothing more".into());
                    if env.has(Mutation::UnsentIsFailed) {
                        self.ending.on_failure(now, error);
                    } else {
                        self.ending.on_send_failed(now, error);
                    }
                }
            }
        }
    }

    /// The process is killed.
    pub(crate) fn kill(self, env: &mut Environment) {
        self.names.kill(env);
        self.data.kill(env);
        env.disk.unlock_all(self.session as u64);
    }
}
