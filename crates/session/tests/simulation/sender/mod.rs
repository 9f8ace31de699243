//! The executor of the sending end: its threads are tasks that take turns as chance has it.

pub(crate) mod reader;
pub(crate) mod scan;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use icdc_protocol::Features;
use icdc_protocol::message::{
    Assembled, Basis, Begin, BlockHeader, CandidateAnswer, CandidatePlace, Candidates, Chunks, EntryId, FileDigest,
    GivenUp, ItemEnd, Message, PackItem, Source as Named, Streamed,
};
use icdc_session::SessionError;
use icdc_session::sender::{Action, Grant, Need, ReceiptText, Removed, Sender, Settings, Window};
use icdc_units::Time;

use self::reader::{Read, Reading, changed, digest_now, look};
use self::scan::{Next, Scan, What};
use crate::connections::Connections;
use crate::environment::{Environment, Event, SessionId, Side};
use crate::mutations::Mutation;
use crate::source::{Body, Source};
use crate::wire::{Arrival, End, Frame, Payload};

/// Frames that wait for the socket.
const DATA_QUEUE: usize = 4;

/// A thread of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    Scan,
    Pack,
    Read,
    Intake,
    Outlet(usize),
    /// Whoever looks at the clock.
    Clock,
}

/// Work for the reader.
#[derive(Debug)]
enum Job {
    File(Box<Reading>),
    /// A file is read as far as the receiver describes what it has.
    Described(Basis),
    /// A file is read as far as these chunks of the receiver permit.
    Matched(Chunks),
    Again {
        id: EntryId,
        index: u32,
    },
    /// A file is read for its digest unless the source has something at all of these places.
    Compare(Candidates),
}

/// Something that is to be removed at the source.
#[derive(Debug)]
pub(crate) enum Removing {
    Item(EntryId),
    Directory(EntryId),
    AtEnd(EntryId, Vec<u8>),
    Rest,
    /// Removed by a bug, of which the machine does not know.
    Untold(EntryId),
}

/// What the sending end of a session has come to.
pub(crate) type Outcome = Result<(), SessionError>;

/// See the module's description.
pub(crate) struct SenderEnd {
    session: SessionId,
    is_dry: bool,
    /// The only source is a stream.
    is_stream: bool,
    machine: Sender,
    pub(crate) scan: Scan,
    scan_waits: bool,
    scanned: bool,
    packs: VecDeque<Vec<EntryId>>,
    jobs: VecDeque<Job>,
    /// Files of which the receiver describes what it has.
    described: BTreeMap<EntryId, Reading>,
    /// What is to be removed at the source, for the world to do.
    pub(crate) removals: VecDeque<Removing>,
    /// Paths of what is to be removed at the end.
    at_end: Vec<Vec<u8>>,
    data: VecDeque<Frame>,
    /// Those of blocks that travel in parts.
    parts: VecDeque<Frame>,
    /// Blocks that do, and how many may: half of the receiver's ring.
    divided: BTreeSet<(EntryId, u32)>,
    most_divided: usize,
    /// Blocks that were sent as copies of what the receiver has.
    assembled: BTreeSet<(EntryId, u32)>,
    data_stopped: bool,
    leaving: bool,
    sent: bool,
    broken: BTreeSet<usize>,
    scheduled: BTreeSet<Task>,
    deadline: Option<Time>,
    /// What was overtaken by the message behind it.
    overtaken: Option<Message>,
    outcome: Option<Outcome>,
    /// The lines of the receipt so far.
    receipt: blake3::Hasher,
    /// What is wrong with the receipt that the receiver has signed.
    pub(crate) misstated: Option<String>,
}

/// How a session runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    pub(crate) is_dry: bool,
    /// The receiver deletes what the source does not have.
    pub(crate) deletes: bool,
    /// The sender removes what it has moved.
    pub(crate) moves: bool,
    /// The receiver gives a receipt.
    pub(crate) receipts: bool,
}

impl SenderEnd {
    pub(crate) fn new(
        session: SessionId,
        source: &Source,
        job: [u8; 32],
        window: Window,
        ring: usize,
        Runs { is_dry, deletes, moves, receipts }: Runs,
    ) -> Self {
        let named = source
            .roots
            .iter()
            .map(|root| Named { name: root.name.clone(), kind: root.kind, identity: None })
            .collect();
        let is_run = source.is_run();
        let settings = Settings {
            dry_run: is_dry,
            keeps_journal: is_run && !is_dry,
            window,
            keeps_digests: false,
            needs: Features::NONE,
            awaits_deletion: deletes,
            awaits_receipt: receipts,
            follows: false,
        };
        Self {
            session,
            is_dry,
            is_stream: source.is_stream,
            machine: Sender::new(settings, Begin { job, sources: named }),
            scan: Scan::of(source, moves),
            scan_waits: false,
            scanned: false,
            packs: VecDeque::new(),
            jobs: VecDeque::new(),
            described: BTreeMap::new(),
            removals: VecDeque::new(),
            at_end: Vec::new(),
            data: VecDeque::new(),
            parts: VecDeque::new(),
            divided: BTreeSet::new(),
            most_divided: ring / 2,
            assembled: BTreeSet::new(),
            data_stopped: false,
            leaving: false,
            sent: false,
            broken: BTreeSet::new(),
            scheduled: BTreeSet::new(),
            deadline: None,
            overtaken: None,
            outcome: None,
            receipt: blake3::Hasher::new(),
            misstated: None,
        }
    }

    pub(crate) fn machine(&self) -> &Sender {
        &self.machine
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// A further connection is there; false if it is of no use.
    pub(crate) fn join(&mut self, connection: usize) -> bool {
        self.machine.on_joined(connection as u8)
    }

    /// The user stops the run.
    pub(crate) fn interrupt(&mut self, env: &mut Environment, connections: &mut Connections) {
        self.machine.on_interrupt(env.agenda.now());
        self.settle(env, connections);
    }

    /// A thread takes its turn.
    pub(crate) fn step(&mut self, task: Task, env: &mut Environment, connections: &mut Connections, source: &Source) {
        self.scheduled.remove(&task);
        if self.outcome.is_some() {
            return;
        }
        let now = env.agenda.now();
        match task {
            Task::Scan => self.scan(env, source),
            Task::Pack => self.pack(now, source),
            Task::Read => self.read(env, connections, source),
            Task::Intake => self.take_in(env, connections),
            Task::Outlet(connection) => self.put_out(connection, env, connections),
            Task::Clock => {
                if self.machine.next_deadline().is_some_and(|deadline| deadline <= now) {
                    self.machine.on_time(now);
                }
            }
        }
        self.settle(env, connections);
    }

    /// Carries out what the machine asks for, then wakes whoever has something to do.
    pub(crate) fn settle(&mut self, env: &mut Environment, connections: &mut Connections) {
        let now = env.agenda.now();
        if connections.is_silent(now) {
            self.machine.on_silence(now);
        }
        while let Some(action) = self.machine.poll() {
            env.note(format_args!("{} sender does {action:?}", self.session));
            match action {
                Action::Pack(ids) => self.packs.push_back(ids),
                Action::Read { id, held, described } => {
                    let announced = self.scan.announced[&id].clone();
                    let reading = Reading::new(id, announced, held);
                    if described {
                        self.described.insert(id, reading);
                    } else {
                        self.jobs.push_back(Job::File(Box::new(reading)));
                    }
                }
                Action::ReadStream { id, held } => {
                    let announced = self.scan.announced[&id].clone();
                    self.jobs.push_back(Job::File(Box::new(Reading::new(id, announced, held))));
                }
                Action::ReadDescribed(basis) => self.jobs.push_back(Job::Described(basis)),
                Action::AwaitChunks { id, held } => {
                    let announced = self.scan.announced[&id].clone();
                    self.described.insert(id, Reading::new(id, announced, held));
                }
                Action::ReadMatched(chunks) => self.jobs.push_back(Job::Matched(chunks)),
                Action::ReadAgain { id, index }
                    if env.has(Mutation::AssembledIsNotOwed) && self.assembled.contains(&(id, index)) => {}
                Action::ReadAgain { id, index }
                    if env.has(Mutation::PartsAreNotOwed) && self.divided.contains(&(id, index)) => {}
                Action::ReadAgain { id, .. } if self.is_stream => {
                    self.machine.on_unreadable(now, id, changed());
                }
                Action::ReadAgain { id, index } => self.jobs.push_back(Job::Again { id, index }),
                Action::Compare(candidates) => self.jobs.push_back(Job::Compare(candidates)),
                Action::Remove { id } => self.removals.push_back(Removing::Item(id)),
                Action::RemoveDirectory { id, .. } => self.removals.push_back(Removing::Directory(id)),
                Action::RemoveAtEnd { id, path } => self.at_end(id, path),
                Action::RemoveRest => self.removals.push_back(Removing::Rest),
                Action::Receipt(text) => self.receipt(text),
                Action::Granted => self.scan_waits = false,
                Action::StopData => self.data_stopped = true,
                Action::Leave => {
                    self.leaving = true;
                    self.data.clear();
                    self.parts.clear();
                    self.jobs.clear();
                    self.packs.clear();
                }
                Action::End(outcome) => {
                    for connection in 0..connections.count() {
                        connections.close(connection, Side::Sender, End::Closed, env);
                    }
                    self.outcome = Some(outcome);
                    return;
                }
                Action::Answered
                | Action::Continuing
                | Action::Settled { .. }
                | Action::DirectoryFailed { .. }
                | Action::Deletion(_)
                | Action::Snapshot(_)
                | Action::Noticed(_)
                | Action::Removed(_)
                | Action::Running(_)
                | Action::InPlace { .. }
                | Action::Placed(_)
                | Action::Problem(_) => {}
                Action::ConnectionLost { connection } => {
                    let connection = usize::from(connection);
                    self.broken.insert(connection);
                    if connection < connections.count() {
                        connections.close(connection, Side::Sender, End::Closed, env);
                    }
                }
            }
        }
        self.wake(env, connections);
    }

    /// The receipt goes on: what is signed stands for the lines of the receiver.
    fn receipt(&mut self, text: ReceiptText) {
        match text {
            ReceiptText::Begun(_) => self.receipt = blake3::Hasher::new(),
            ReceiptText::Items(lines) => drop(self.receipt.update(&lines)),
            ReceiptText::Signed { key, .. } => {
                if self.receipt.finalize() != key {
                    self.misstated = Some("the ends have other lines in the receipt".into());
                }
            }
            ReceiptText::Refused(_) if self.machine.counts().failed == 0 => {
                self.misstated = Some("there is no receipt although nothing has failed".into());
            }
            ReceiptText::Refused(_) => {}
        }
    }

    /// Something is kept for the end; a directory as such.
    fn at_end(&mut self, id: EntryId, path: Vec<u8>) {
        match self.scan.announced[&id].what {
            What::Directory { .. } => self.at_end.push(path),
            _ => self.removals.push_back(Removing::AtEnd(id, path)),
        }
    }

    /// Something was removed at the source, or stays.
    pub(crate) fn removed(
        &mut self,
        what: Removing,
        outcome: Removed,
        env: &mut Environment,
        connections: &mut Connections,
    ) {
        let now = env.agenda.now();
        match what {
            Removing::Item(id) => self.machine.on_removed(now, id, outcome),
            Removing::Directory(id) if env.random.once_in(4) => {
                self.at_end.push(b"kept".to_vec());
                self.machine.on_directory_kept(now, id);
            }
            Removing::Directory(id) => self.machine.on_directory_removed(now, id, outcome),
            Removing::AtEnd(_, path) => self.machine.on_removed_at_end(path, false, outcome),
            Removing::Rest => {
                for path in std::mem::take(&mut self.at_end) {
                    self.machine.on_removed_at_end(path, true, Removed::Gone);
                }
                self.machine.on_rest_removed(now);
            }
            Removing::Untold(_) => {}
        }
        self.settle(env, connections);
    }

    fn wake(&mut self, env: &mut Environment, connections: &mut Connections) {
        let room = self.has_room();
        let mut ready = Vec::new();
        if !self.leaving {
            if !self.scanned && !self.scan_waits {
                ready.push(Task::Scan);
            }
            if room && !self.packs.is_empty() {
                ready.push(Task::Pack);
            }
            if room && !self.jobs.is_empty() {
                ready.push(Task::Read);
            }
        }
        if connections.peek(0, Side::Sender).is_some() {
            ready.push(Task::Intake);
        }
        for connection in 0..connections.count() {
            if self.has_output(connection) && connections.has_room(connection, Side::Receiver) {
                ready.push(Task::Outlet(connection));
            }
        }
        for task in ready {
            if self.scheduled.insert(task) {
                let after = env.step_time();
                env.agenda.after(after, Event::Sender { session: self.session, task });
            }
        }
        let deadline = self.machine.next_deadline();
        if deadline != self.deadline {
            self.deadline = deadline;
            if let Some(deadline) = deadline {
                env.agenda.at(deadline, Event::Sender { session: self.session, task: Task::Clock });
            }
        }
    }

    fn has_room(&self) -> bool {
        self.data.len() < DATA_QUEUE && self.parts.len() < DATA_QUEUE
    }

    fn has_output(&self, connection: usize) -> bool {
        if self.broken.contains(&connection) {
            return false;
        }
        let has_data = !(self.data_stopped || self.data.is_empty() && self.parts.is_empty());
        match connection {
            0 => self.machine.has_message() || self.overtaken.is_some() || has_data || (self.leaving && !self.sent),
            _ => has_data,
        }
    }

    fn scan(&mut self, env: &Environment, source: &Source) {
        if self.leaving || self.scanned || self.scan_waits {
            return;
        }
        match self.scan.next(source) {
            Next::Announce(found, depth) => match self.machine.request(Need::Item { depth }) {
                Grant::Later if !env.has(Mutation::ScanDoesNotWait) => self.scan_waits = true,
                Grant::Now | Grant::Later => {
                    let id = self.machine.announce(found);
                    self.scan.announced(id);
                }
                Grant::Over => self.scanned = true,
            },
            Next::Leave(id) => {
                self.machine.leave_directory(id);
                self.scan.left();
            }
            Next::Through => {
                self.scanned = true;
                self.machine.on_scanned(env.agenda.now());
            }
        }
    }

    fn pack(&mut self, now: Time, source: &Source) {
        if self.leaving || !self.has_room() {
            return;
        }
        let Some(ids) = self.packs.pop_front() else { return };
        let (mut items, mut payload) = (Vec::new(), Vec::new());
        for id in ids {
            if self.machine.item(id).is_none() {
                continue;
            }
            let announced = &self.scan.announced[&id];
            let found = look(source, announced).filter(|now| Some(*now) == announced.file.as_ref());
            let Some(Body::Small(bytes)) = found.map(|file| &file.body) else {
                self.machine.on_unreadable(now, id, changed());
                continue;
            };
            payload.extend_from_slice(bytes);
            items.push(PackItem { id, length: bytes.len() as u32, digest: *blake3::hash(bytes).as_bytes() });
        }
        if !items.is_empty() {
            self.machine.on_packed(&items);
            self.data.push_back(Frame { message: Message::Pack(items), payload: Some(Payload::Small(payload)) });
        }
    }

    fn read(&mut self, env: &mut Environment, connections: &Connections, source: &Source) {
        let now = env.agenda.now();
        if self.leaving || !self.has_room() {
            return;
        }
        match self.jobs.front_mut() {
            None => {}
            Some(Job::Again { id, index }) => {
                let (id, index) = (*id, *index);
                self.jobs.pop_front();
                match Reading::again(id, index, &self.scan.announced[&id], source) {
                    Ok(frame) => self.data.push_back(frame),
                    Err(given_up) => self.machine.on_unreadable(now, id, given_up),
                }
            }
            Some(Job::Compare(Candidates { id, places })) => {
                let is_gone = |place: &CandidatePlace| {
                    let path: Vec<Vec<u8>> = place.path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
                    source.find(place.source as usize, &path).is_none()
                };
                let bits = places.iter().enumerate().filter(|(_, place)| is_gone(place));
                let no_candidate = places.is_empty();
                let (id, gone) = (*id, bits.fold(0, |bits, (number, _)| bits | 1 << number));
                self.jobs.pop_front();
                let is_told = no_candidate || (gone != 0 && !self.is_dry);
                let digest = if is_told { digest_now(&self.scan.announced[&id], source) } else { None };
                self.machine.on_compared(CandidateAnswer { id, gone, digest });
            }
            Some(Job::Described(basis)) => {
                let blocks = basis.blocks.len();
                let reading = self.described.remove(&basis.id);
                let job = reading.map(|reading| Job::File(Box::new(reading.described(basis))));
                self.jobs.pop_front();
                match job {
                    Some(job) => self.jobs.push_front(job),
                    None => self.machine.on_description_read(0, blocks, Vec::new()),
                }
            }
            Some(Job::Matched(chunks)) => {
                self.machine.on_chunks_taken(chunks.chunks.len());
                let reading = self.described.remove(&chunks.id);
                let job = reading.map(|reading| Job::File(Box::new(reading.matched(chunks))));
                self.jobs.pop_front();
                if let Some(job) = job {
                    self.jobs.push_front(job);
                }
            }
            Some(Job::File(reading)) => {
                let id = reading.id;
                let (is_described, described) = (reading.is_described(), reading.described_blocks());
                if self.machine.item(id).is_none() {
                    // The receiver has given it up.
                    self.jobs.pop_front();
                    if is_described {
                        self.machine.on_description_read(id, described, Vec::new());
                    }
                    return;
                }
                match reading.step(source) {
                    Read::Block(frame) => {
                        // The product divides the last blocks: any may be.
                        let has_room = self.divided.len() < self.most_divided || env.has(Mutation::AllTravelInParts);
                        let is_divided = connections.count() > 1 && has_room && env.random.once_in(2);
                        let parts = if is_divided { reading.parts(&frame) } else { Vec::new() };
                        match &frame.message {
                            Message::Block(BlockHeader { index, .. }) if !parts.is_empty() => {
                                self.divided.insert((id, *index));
                                self.parts.extend(parts);
                            }
                            message => {
                                if let Message::Assembled(Assembled { header, .. }) = message {
                                    self.assembled.insert((id, header.index));
                                }
                                self.data.push_back(*frame);
                            }
                        }
                    }
                    Read::Nothing => {}
                    Read::UpToTheDescription => {
                        let holes = reading.take_holes();
                        if let Some(Job::File(reading)) = self.jobs.pop_front() {
                            self.described.insert(id, *reading);
                        }
                        if env.has(Mutation::HolesAreNotTold) {
                            return;
                        }
                        self.machine.on_description_read(id, described, holes);
                    }
                    Read::Unreadable(given_up) => {
                        self.jobs.pop_front();
                        if is_described {
                            self.machine.on_description_read(id, described, Vec::new());
                        }
                        self.machine.on_unreadable(now, id, given_up);
                    }
                    Read::End { blocks, outcome } => {
                        self.jobs.pop_front();
                        if is_described {
                            self.machine.on_description_read(id, described, Vec::new());
                        }
                        let is_read = outcome.is_ok();
                        if let Some(end) = self.ended(id, blocks, outcome)
                            && !env.has(Mutation::FileEndIsLost)
                        {
                            self.data.push_back(Message::from(end).into());
                            if env.has(Mutation::SourceGoesWhenSent) && is_read {
                                self.removals.push_back(Removing::Untold(id));
                            }
                        }
                    }
                }
            }
        }
    }

    /// A file has been read: what is sent behind its blocks.
    fn ended(&mut self, id: EntryId, blocks: u32, outcome: Result<FileDigest, GivenUp>) -> Option<ItemEnd> {
        let file = self.scan.announced[&id].file.as_ref().filter(|_| self.is_stream);
        if let (Some(file), Ok(FileDigest::Blake3(digest))) = (file, &outcome) {
            let streamed = Streamed { size: file.size(), mtime_seconds: file.mtime(), mtime_nanos: 0 };
            return self.machine.on_stream_ended(id, *digest, streamed);
        }
        self.machine.on_read(id, blocks, outcome).map(ItemEnd::from)
    }

    fn take_in(&mut self, env: &mut Environment, connections: &mut Connections) {
        let now = env.agenda.now();
        match connections.read(0, Side::Sender, env) {
            None => {}
            Some(Arrival::Frame(frame)) => {
                env.note(format_args!("{} sender hears {:?}", self.session, frame.message));
                self.machine.on_message(now, frame.message);
            }
            Some(Arrival::End(end)) => {
                env.note(format_args!("{} sender hears {end:?}", self.session));
                self.machine.on_receive_ended(now, SessionError::Cut(format!("{end:?}")));
            }
        }
    }

    fn next_message(&mut self, env: &Environment) -> Option<Message> {
        let message = self.overtaken.take().or_else(|| self.machine.poll_message())?;
        let is_last_failure = matches!(&message, Message::FileEnd(end) if end.outcome.is_err());
        if env.has(Mutation::GoodbyeOvertakes) && is_last_failure {
            let next = self.machine.poll_message();
            self.overtaken = Some(message);
            return next.or_else(|| self.overtaken.take());
        }
        Some(message)
    }

    fn put_out(&mut self, connection: usize, env: &mut Environment, connections: &mut Connections) {
        if !self.has_output(connection) || !connections.has_room(connection, Side::Receiver) {
            return;
        }
        let now = env.agenda.now();
        let message = if connection == 0 { self.next_message(env).map(Frame::from) } else { None };
        let frame = match message {
            Some(frame) => Some(frame),
            None if self.data_stopped => None,
            None => self.data.pop_front().or_else(|| self.parts.pop_front()),
        };
        let Some(frame) = frame else {
            if connection == 0 && self.leaving && !self.sent {
                self.sent = true;
                self.machine.on_sent(now);
            }
            return;
        };
        if connection > 0 && !self.machine.on_handed(connection as u8, &frame.message) {
            self.broken.insert(connection);
            return;
        }
        env.note(format_args!("{} sender says {:?} on {connection}", self.session, frame.message));
        if !connections.send(connection, Side::Receiver, frame, env) {
            self.broken.insert(connection);
            let error = SessionError::Cut("takes nothing more".into());
            if connection == 0 {
                self.machine.on_send_failed(now, error);
            } else {
                self.machine.on_connection_ended(connection as u8);
            }
        }
    }
}
