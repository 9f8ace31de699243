//! The executor of the receiving end: its threads are tasks that take turns as chance has it.

mod compare;
mod data;
mod ending;
mod file_journal;
pub(crate) mod names;
mod ring;
mod run_log;
pub(crate) mod staging;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use icdc_protocol::message::{BlockHeader, Message, ReceiveOptions, TransferId};
use icdc_session::SessionError;
use icdc_session::receiver::book::{Book, Settings};
use icdc_units::Time;

use self::compare::Compare;
use self::data::{Again, Data, LOOK_AGAIN};
use self::ending::Ending;
use self::names::{Contents, Names};
use self::ring::Ring;
use crate::connections::Connections;
use crate::environment::{Environment, Event, SessionId, Side};
use crate::source::value_of;
use crate::wire::{Arrival, End, Frame, Payload};

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
    pub(crate) names: Names,
    data: Data,
    compare: Compare,
    pub(crate) ending: Ending,
    /// Connections on which nothing more is read.
    ended: BTreeSet<usize>,
    /// Connections that this end has ended.
    shut: BTreeSet<usize>,
    replies: VecDeque<Message>,
    scheduled: BTreeSet<Task>,
    deadlines: BTreeMap<Time, ()>,
    link_ended: bool,
    files_ended: bool,
    ends: Ends,
    outcome: Option<Outcome>,
}

/// Who is coming to its end behind the link's end.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Names,
    Files,
    Settling,
    PuttingAway,
}

impl ReceiverEnd {
    pub(crate) fn new(session: SessionId, transfer: TransferId, options: ReceiveOptions, ring: usize) -> Self {
        let ring = Ring::new(ring);
        let holder = session as u64;
        let settings = Settings {
            options: options.clone(),
            ring_blocks: ring.capacity() as u32,
            is_reserved: staging::is_staging,
            asked: None,
        };
        Self {
            session,
            names: Names::new(holder, transfer, options.clone(), Book::new(settings)),
            data: Data::new(holder, options.verify, ring.clone()),
            compare: Compare::default(),
            ending: Ending::default(),
            ended: BTreeSet::new(),
            shut: BTreeSet::new(),
            replies: VecDeque::new(),
            scheduled: BTreeSet::new(),
            deadlines: BTreeMap::new(),
            link_ended: false,
            files_ended: false,
            ends: Ends::Names,
            outcome: None,
            ring,
        }
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// A thread takes its turn.
    pub(crate) fn step(&mut self, task: Task, env: &mut Environment, connections: &mut Connections) {
        self.scheduled.remove(&task);
        if self.outcome.is_some() {
            return;
        }
        let now = env.agenda.now();
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
        self.settle(env, connections);
    }

    /// Carries out how the session ends, then wakes whoever has something to do.
    pub(crate) fn settle(&mut self, env: &mut Environment, connections: &mut Connections) {
        let now = env.agenda.now();
        if let Some(last) = self.ending.take_last_words() {
            self.replies.extend(last);
        }
        if self.ending.takes_link_down(self.replies.is_empty()) {
            self.shut(0, env, connections);
        }
        if self.ended.contains(&0) {
            // Without the first connection the others are of no use.
            self.shut(1, env, connections);
        }
        if !self.link_ended && self.ended.len() == connections.count() {
            self.link_ended = true;
            self.names.push(names::Job::LinkEnded);
            self.ends = Ends::Names;
        }
        if self.link_ended {
            self.end(now, env, connections);
        }
        self.wake(env, connections);
    }

    /// Ends the connections from this one on.
    fn shut(&mut self, first: usize, env: &mut Environment, connections: &mut Connections) {
        for connection in first..connections.count() {
            if self.shut.insert(connection) {
                connections.close(connection, Side::Receiver, End::Closed, env);
            }
        }
    }

    /// Behind the link's end everything comes to its own, one after the other.
    fn end(&mut self, now: Time, env: &mut Environment, connections: &mut Connections) {
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
                self.names.push(names::Job::Over { has_parted: self.ending.has_parted() });
                self.ends = Ends::PuttingAway;
            }
            Ends::PuttingAway if self.replies.is_empty() => {
                let outcome = self.ending.settled(now);
                if let Some(last) = self.ending.take_last_words() {
                    self.replies.extend(last);
                }
                while let Some(message) = self.replies.pop_front() {
                    connections.send(0, Side::Sender, message.into(), env);
                }
                self.shut(0, env, connections);
                self.data.check_arrived(env);
                self.outcome = Some(outcome);
            }
            Ends::PuttingAway => {}
        }
    }

    /// Whether nothing more is read on the first connection.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.contains(&0)
    }

    /// The user stops the run.
    pub(crate) fn interrupt(&mut self, env: &mut Environment, connections: &mut Connections) {
        self.ending.fail(env.agenda.now(), SessionError::Interrupted);
        self.settle(env, connections);
    }

    fn wake(&mut self, env: &mut Environment, connections: &mut Connections) {
        for connection in 0..connections.count() {
            let is_ready = match connections.peek(connection, Side::Receiver) {
                None => false,
                Some(_) if self.ended.contains(&connection) => false,
                Some(Arrival::Frame(frame)) if frame.payload.is_some() && !self.ring.has_room() => false,
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

    fn take_in(&mut self, connection: usize, env: &mut Environment, connections: &mut Connections) {
        if self.ended.contains(&connection) {
            return;
        }
        let has_room = match connections.peek(connection, Side::Receiver) {
            None => return,
            Some(Arrival::Frame(frame)) => frame.payload.is_none() || self.ring.has_room(),
            Some(Arrival::End(_)) => true,
        };
        if !has_room {
            return;
        }
        match connections.read(connection, Side::Receiver, env) {
            None => {}
            Some(Arrival::End(end)) => {
                env.note(format_args!("{} receiver hears {end:?} on {connection}", self.session));
                self.ended.insert(connection);
                self.ending.on_connection_ended(env.agenda.now(), connection, end);
            }
            Some(Arrival::Frame(frame)) => {
                env.note(format_args!("{} receiver hears {:?} on {connection}", self.session, frame.message));
                self.take(connection, *frame, env);
            }
        }
    }

    fn take(&mut self, connection: usize, Frame { message, payload }: Frame, env: &mut Environment) {
        match (message, payload) {
            (Message::Block(header), Some(Payload::Block(number))) => {
                if value_of(number) != header.value {
                    return env.violate(format!("block {} of file {} is damaged", header.index, header.id));
                }
                let BlockHeader { .. } = header;
                let block = self.ring.take().with(number);
                self.data.push(data::Job::Block { header, block });
            }
            (Message::Pack(items), payload) => {
                let bytes = match payload {
                    Some(Payload::Small(bytes)) => bytes,
                    _ => Vec::new(),
                };
                let place = Some(self.ring.take());
                self.names.push(names::Job::Pack(items, Contents { bytes, _place: place }));
            }
            (Message::FileEnd(end), _) => self.data.push(data::Job::End(end)),
            (Message::Confirmed, _) => {
                self.names.push(names::Job::Message(Message::Confirmed));
                self.data.push(data::Job::Confirmed);
            }
            (Message::Totals(_) | Message::Problem(_) | Message::Ping | Message::Congestion(_), _) => {}
            (message @ (Message::Goodbye(_) | Message::Interrupt | Message::Abort(_) | Message::Refused(_)), _) => {
                if self.ending.on_message(env.agenda.now(), message) {
                    self.ended.insert(connection);
                }
            }
            (message, _) => self.names.push(names::Job::Message(message)),
        }
    }

    fn named(&mut self, report: names::Report, env: &mut Environment, now: Time) {
        match report {
            names::Report::Reply(message) => self.replies.push_back(message),
            names::Report::Expect { id, plan, expected } => self.data.push(data::Job::Expect { id, plan, expected }),
            names::Report::Compare { id, inode, digest } => self.compare.push(id, inode, digest),
            names::Report::Complete => self.ending.on_complete(now),
            names::Report::Fail(error) => {
                env.note(format_args!("{} receiver fails: {error}", self.session));
                self.ending.fail(now, error);
            }
        }
    }

    fn stored(&mut self, report: data::Report) {
        match report {
            data::Report::Reply(message) => self.replies.push_back(message),
            data::Report::Stored { id, part, is_durable, digest, unsynced } => {
                self.names.push(names::Job::Stored { id, part, is_durable, digest, unsynced });
            }
            data::Report::Lost { id, failure } => self.names.push(names::Job::Lost { id, failure }),
            data::Report::Foreign(end) => self.names.push(names::Job::Message(Message::FileEnd(end))),
            data::Report::Ended => self.files_ended = true,
        }
    }

    fn put_out(&mut self, env: &mut Environment, connections: &mut Connections) {
        let Some(message) = self.replies.pop_front() else { return };
        env.note(format_args!("{} receiver says {message:?}", self.session));
        if !connections.send(0, Side::Sender, message.into(), env) {
            self.replies.clear();
            self.ending.on_send_failed(env.agenda.now());
        }
    }

    /// The process is killed.
    pub(crate) fn kill(self, env: &mut Environment) {
        self.names.kill(env);
        self.data.kill(env);
        env.disk.unlock_all(self.session as u64);
    }
}
