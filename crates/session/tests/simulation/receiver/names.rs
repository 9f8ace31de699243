//! The executor of the receiver's names: the simulated disk instead of the file system.

use std::collections::{BTreeMap, HashMap, VecDeque};

use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{
    Begin, Entry, EntryId, EntryKind, FileDigest, Message, PackItem, ReceiveOptions, SourceKind, TransferId,
};
use icdc_protocol::run_journal::{ItemKey, Record};
use icdc_session::SessionError;
use icdc_session::failure::Failure;
use icdc_session::receiver::book::Book;
use icdc_session::receiver::book::action::{
    Action, Names as NamesToFlush, NewDirectory, NotBegun, NotStaged, Piece, Placed, Publication, Stored, Target, Told,
};
use icdc_session::receiver::book::item::{DirectoryId, DirectoryPlace, Item, ModificationTime};
use icdc_session::receiver::book::want::{Facts, Kind as Found, PublishedBy, Stat};
use icdc_session::receiver::files::Expected;
use icdc_units::{ByteCount, Time};

use super::data::{Again, Claimed, LOCK_PATIENCE, Plan};
use super::file_journal::FileJournal;
use super::ring::Place as RingPlace;
use super::run_log::RunLog;
use super::staging::{self, Claim};
use crate::audit::Unfinished;
use crate::disk::{Disk, Holder, Inode, Kind, Write};
use crate::environment::Environment;
use crate::source::File;

/// The only file system.
const DEVICE: u64 = 1;
/// The destination as the user has written it.
pub(crate) const DESTINATION: &[u8] = b"dst";

/// Contents of a pack; their place in the ring is free again when they are dropped.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _place: Option<RingPlace>,
}

/// Work for this executor.
#[derive(Debug)]
pub(crate) enum Job {
    Message(Message),
    Pack(Vec<PackItem>, Contents),
    Stored {
        id: EntryId,
        part: Inode,
        is_durable: bool,
        digest: FileDigest,
        unsynced: ByteCount,
    },
    Lost {
        id: EntryId,
        failure: Failure,
    },
    Compared {
        id: EntryId,
        same: bool,
    },
    LinkEnded,
    /// Nothing more comes from anywhere.
    Settled,
    /// The session is over.
    Over {
        has_parted: bool,
    },
}

/// What comes out of it.
#[derive(Debug)]
pub(crate) enum Report {
    Reply(Message),
    Expect { id: EntryId, plan: Box<Plan>, expected: Expected },
    Compare { id: EntryId, inode: Option<Inode>, digest: FileDigest },
    Complete,
    Fail(SessionError),
}

/// Something complete under a staging name.
#[derive(Clone, Debug)]
struct Made {
    directory: Inode,
    name: Vec<u8>,
    staging: Vec<u8>,
    inode: Inode,
    /// A large file: locked, and with a journal.
    is_durable: bool,
}

/// Where the sources land.
#[derive(Clone, Debug)]
struct Placement {
    /// The destination is a directory, into which they go; it has to be made where this is `None`.
    inside: Option<Option<Inode>>,
    begin: Begin,
}

/// See the module's description.
pub(crate) struct Names {
    holder: Holder,
    transfer: TransferId,
    options: ReceiveOptions,
    pub(crate) book: Book<Contents>,
    inbox: VecDeque<Job>,
    /// An action that waits for a lock, since when, and whether it has had to.
    waiting: Option<(Action<Contents>, Time)>,
    placement: Option<Placement>,
    run: Option<RunLog>,
    directories: HashMap<DirectoryId, Inode>,
    /// Paths of the directories below the root.
    paths: BTreeMap<Inode, Vec<Vec<u8>>>,
    claimed: BTreeMap<EntryId, Claimed>,
    made: BTreeMap<EntryId, Made>,
    put_away: bool,
    failed: u64,
    /// The book may have something to do.
    polls: bool,
}

/// What became of an action.
enum Done {
    Through,
    /// It is given back: a lock has to be waited for.
    Waits(Box<Action<Contents>>),
}

impl Names {
    pub(crate) fn new(holder: Holder, transfer: TransferId, options: ReceiveOptions, book: Book<Contents>) -> Self {
        Self {
            holder,
            transfer,
            options,
            book,
            inbox: VecDeque::new(),
            waiting: None,
            placement: None,
            run: None,
            directories: HashMap::new(),
            paths: BTreeMap::new(),
            claimed: BTreeMap::new(),
            made: BTreeMap::new(),
            put_away: false,
            failed: 0,
            polls: false,
        }
    }

    pub(crate) fn push(&mut self, job: Job) {
        self.inbox.push_back(job);
    }

    /// Jobs that are waiting.
    pub(crate) fn backlog(&self) -> usize {
        self.inbox.len()
    }

    /// Where the sources have landed: the directory or name of each below the root.
    pub(crate) fn landed(&self) -> Option<Vec<Vec<Vec<u8>>>> {
        let placement = self.placement.as_ref()?;
        let name = |source: &icdc_protocol::message::Source| match (&placement.inside, source.kind) {
            (None, _) | (_, SourceKind::Contents) => vec![DESTINATION.to_vec()],
            (Some(_), _) => vec![DESTINATION.to_vec(), source.name.clone()],
        };
        Some(placement.begin.sources.iter().map(name).collect())
    }

    /// Number of items that have failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Whether it has put the run's journal away.
    pub(crate) fn has_put_away(&self) -> bool {
        self.put_away
    }

    /// Whether there is something to do.
    pub(crate) fn is_ready(&self) -> bool {
        self.waiting.is_none() && (!self.inbox.is_empty() || self.polls)
    }

    /// Whether it is through with everything that it has been told.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.inbox.is_empty() && !self.polls
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        // While there is something to do, nothing is quiet.
        if self.is_idle() { self.book.next_deadline() } else { None }
    }

    pub(crate) fn on_time(&mut self, now: Time) {
        if self.is_idle() {
            self.book.on_time(now);
            self.polls = true;
        }
    }

    /// Does one thing. `is_hung_up`: whether the sender has closed the connection.
    pub(crate) fn step(&mut self, env: &mut Environment, is_hung_up: bool, reports: &mut Vec<Report>) -> Again {
        let now = env.agenda.now();
        let (action, since) = match self.waiting.take() {
            Some((action, since)) => (Some(action), Some(since)),
            None => (self.book.poll(), None),
        };
        if let Some(action) = action {
            let patient = since.is_none_or(|since| now < since + LOCK_PATIENCE);
            if since.is_none() {
                env.note(format_args!("{} names does {action:?}", self.holder));
            }
            let again = if is_slow(&action) { Again::Slow } else { Again::Soon };
            return match self.carry_out(action, since.is_some(), patient, is_hung_up, env, reports) {
                Done::Through => again,
                Done::Waits(action) => {
                    self.waiting = Some((*action, since.unwrap_or(now)));
                    Again::Later
                }
            };
        }
        let Some(job) = self.inbox.pop_front() else {
            self.polls = false;
            return Again::No;
        };
        self.polls = true;
        env.note(format_args!("{} names: {job:?}", self.holder));
        self.handle(now, job);
        Again::Soon
    }

    fn handle(&mut self, now: Time, job: Job) {
        match job {
            Job::Message(message) => self.book.on_message(now, message),
            Job::Pack(items, payload) => {
                let length = payload.bytes.len();
                self.book.on_pack(now, &items, length, payload);
            }
            Job::Stored { id, part, is_durable, digest, unsynced } => {
                if let Some((directory, name)) = self.place_of(id) {
                    let staging = staging::part(&name);
                    self.made.insert(id, Made { directory, name, staging, inode: part, is_durable });
                }
                self.book.on_stored(now, id, Stored { digest, is_durable, bytes: unsynced.as_u64() });
            }
            Job::Lost { id, failure } => self.book.on_lost(now, id, failure),
            Job::Compared { id, same } => self.book.on_compared(now, id, same),
            Job::LinkEnded => self.book.on_link_ended(),
            Job::Settled => self.book.on_settled(),
            Job::Over { has_parted } => self.book.on_over(has_parted),
        }
    }

    /// The process is killed: of what it was at, a part may be done.
    pub(crate) fn kill(mut self, env: &mut Environment) {
        let Some(action) = self.book.poll() else { return };
        let mut some = |count: usize| env.random.below(count as u64 + 1) as usize;
        let begun = match action {
            Action::MakeDirectories(mut all) => {
                all.truncate(some(all.len()));
                Action::MakeDirectories(all)
            }
            Action::Stage { mut pieces, payload } => {
                pieces.truncate(some(pieces.len()));
                Action::Stage { pieces, payload }
            }
            Action::Rename(mut all) => {
                all.truncate(some(all.len()));
                Action::Rename(all)
            }
            Action::NotePublished(mut all) => {
                all.truncate(some(all.len()));
                Action::NotePublished(all)
            }
            Action::RemoveJournals(mut all) => {
                all.truncate(some(all.len()));
                Action::RemoveJournals(all)
            }
            Action::PutAway { .. } if some(1) == 1 => Action::PutAway { contents: None },
            _ => return,
        };
        env.note(format_args!("{} names was at {begun:?}", self.holder));
        self.carry_out(begun, false, false, false, env, &mut Vec::new());
    }

    fn place_of(&self, id: EntryId) -> Option<(Inode, Vec<u8>)> {
        let item = self.book.item(id)?;
        Some((self.directories.get(&item.directory).copied()?, item.place.name.clone()))
    }

    fn carry_out(
        &mut self,
        action: Action<Contents>,
        has_waited: bool,
        patient: bool,
        is_hung_up: bool,
        env: &mut Environment,
        reports: &mut Vec<Report>,
    ) -> Done {
        let now = env.agenda.now();
        let busy = || SessionError::Local("another copy is writing it; wait for its end or stop it".into());
        match action {
            Action::Place { begin, is_journaled } => {
                let placement = place(&env.disk, &begin);
                let base = base_of(&env.disk, &placement);
                let mut resuming = false;
                if let (true, Some((base, target))) = (is_journaled, base) {
                    let id = (&begin.job, target, &self.transfer);
                    match RunLog::find(&mut env.disk, base, id, self.options.resume, self.holder) {
                        Some(run) => {
                            resuming = run.resuming;
                            self.run = Some(run);
                        }
                        None if patient => return Done::Waits(Box::new(Action::Place { begin, is_journaled })),
                        None => {
                            self.book.on_placed(Err(busy()));
                            return Done::Through;
                        }
                    }
                }
                self.placement = Some(placement);
                self.book.on_placed(Ok(Placed { resuming, has_waited, peer_is_gone: is_hung_up }));
            }
            Action::BeginRun => return self.begin_run(has_waited, patient, env),
            Action::MakeDirectories(wanted) => {
                let made =
                    wanted.iter().map(|wanted| (wanted.id, self.make_directory(wanted, env).map(Some))).collect();
                self.book.on_directories_made(made);
            }
            Action::Examine(items) => {
                if patient && items.iter().any(|item| self.is_part_busy(item.id, env)) {
                    return Done::Waits(Box::new(Action::Examine(items)));
                }
                let mut verdicts = Vec::new();
                for item in &items {
                    let mut facts = self.facts(item.id, has_waited, env);
                    let verdict = self.book.decide(*item, &mut facts);
                    if let Some(claimed) = facts.claimed {
                        self.claimed.insert(item.id, claimed);
                    }
                    verdicts.push((item.id, verdict));
                }
                self.book.on_examined(verdicts);
            }
            Action::NoteStaged { id, path } => {
                if let Some(run) = &mut self.run {
                    if env.random.permille(env.faults.write) {
                        self.book.on_lost(now, id, Failure::full("journal"));
                    } else {
                        run.staged(&path);
                        run.write(&mut env.disk);
                    }
                }
            }
            Action::Expect { id, held } => self.expect(id, held, env, reports),
            Action::Compare { id, digest } => {
                let inode = self.place_of(id).and_then(|(directory, name)| env.disk.find(directory, &name));
                reports.push(Report::Compare { id, inode, digest });
            }
            Action::Stage { pieces, payload } => {
                let staged = pieces.iter().map(|piece| (piece.id, self.stage(piece, &payload, env))).collect();
                self.book.on_staged(staged);
            }
            Action::MakeSymlink(id) => {
                let outcome = self.make_symlink(id, env);
                self.book.on_link_made(id, outcome);
            }
            Action::MakeLink { id, first } => {
                let from = self.directories.get(&first.directory).copied();
                let from = from.and_then(|directory| env.disk.find(directory, &first.name));
                let outcome = self.make_link(id, from, env);
                self.book.on_link_made(id, outcome);
            }
            Action::Flush(_) => {
                let outcome = if env.random.permille(env.faults.sync) {
                    Err(Failure::Passing("input/output error".into()))
                } else {
                    env.disk.sync_filesystem();
                    Ok(())
                };
                self.book.on_flushed(outcome);
            }
            Action::Rename(items) => {
                let outcomes = items.iter().map(|item| (item.id, self.rename(item, env))).collect();
                self.book.on_renamed(outcomes);
            }
            Action::FlushNames(names) => self.flush_names(&names, env),
            Action::NotePublished(published) => self.note_published(&published, env),
            Action::RemoveJournals(ids) => {
                for id in ids {
                    if let Some(made) = self.made.remove(&id) {
                        let _ = env.disk.remove(made.directory, &staging::blocks(&made.name));
                        env.disk.unlock(made.inode, self.holder);
                    }
                }
            }
            Action::RemoveLeftJournals { directory, name } => {
                // With an unfinished file beside it, it is that of another item of this name.
                if let Some(directory) = self.directories.get(&directory)
                    && env.disk.find(*directory, &staging::part(&name)).is_none()
                {
                    let _ = env.disk.remove(*directory, &staging::blocks(&name));
                }
            }
            Action::Discard(id) => {
                if let Some(made) = self.made.remove(&id) {
                    if !made.is_durable {
                        let _ = env.disk.remove(made.directory, &made.staging);
                    }
                    env.disk.unlock(made.inode, self.holder);
                }
            }
            Action::NoteReleased { path } => {
                if let Some(run) = &mut self.run {
                    run.released(&path);
                }
            }
            Action::Forget(id) => {
                if let Some(claimed) = self.claimed.remove(&id) {
                    env.disk.unlock(claimed.part, self.holder);
                }
            }
            Action::FinishDirectory { entry, .. } => {
                let outcome = self.finish_directory(&entry, env);
                self.book.on_directory_finished(&entry, outcome);
            }
            Action::PutAway { contents } => {
                self.put_away(contents, env);
            }
            Action::Reply(message) => reports.push(Report::Reply(message)),
            Action::Tell(Told::Failed { .. }) => self.failed += 1,
            Action::Tell(_) => {}
            Action::Complete => reports.push(Report::Complete),
            Action::Fail(error) => reports.push(Report::Fail(error)),
        }
        Done::Through
    }

    fn begin_run(&mut self, has_waited: bool, patient: bool, env: &mut Environment) -> Done {
        let Some(placement) = self.placement.clone() else {
            env.violate("a run begins that was not placed".into());
            return Done::Through;
        };
        let is_run = is_run(&placement.begin);
        let root = env.disk.root();
        let inside = match placement.inside {
            Some(None) => match env.disk.make_directory(root, DESTINATION) {
                Ok(made) => {
                    let mark = env.disk.begin_sync();
                    env.disk.synced(root, mark);
                    Some(made)
                }
                Err(error) => {
                    let failure = SessionError::Local(format!("{error:?}"));
                    self.book.on_begun(Err(NotBegun::Failed(failure)));
                    return Done::Through;
                }
            },
            Some(Some(there)) => Some(there),
            None => None,
        };
        let (base, target) = inside.map_or((root, Some(DESTINATION)), |inside| (inside, None));
        if is_run {
            let mut run = match self.run.take() {
                Some(run) => run,
                None => {
                    let id = (&placement.begin.job, target, &self.transfer);
                    match RunLog::find(&mut env.disk, base, id, self.options.resume, self.holder) {
                        Some(run) => run,
                        None if patient => return Done::Waits(Box::new(Action::BeginRun)),
                        None => {
                            let failure = SessionError::Local("another copy is writing it".into());
                            self.book.on_begun(Err(NotBegun::Failed(failure)));
                            return Done::Through;
                        }
                    }
                }
            };
            if has_waited || run.is_overtaken(&env.disk) {
                // What it has found before is out of date.
                if !has_waited {
                    return Done::Waits(Box::new(Action::BeginRun));
                }
                let resuming = run.resuming;
                self.run = Some(run);
                self.book.on_begun(Err(NotBegun::HasWaited { resuming }));
                return Done::Through;
            }
            run.begin(&mut env.disk, self.transfer, self.holder);
            self.run = Some(run);
        }
        let mut targets = Vec::new();
        for (number, source) in placement.begin.sources.iter().enumerate() {
            let id = DirectoryId::Source(number as u32);
            let directory = inside.unwrap_or(root);
            self.directories.insert(id, directory);
            let path = if inside.is_some() { vec![DESTINATION.to_vec()] } else { Vec::new() };
            self.paths.insert(directory, path);
            let place = DirectoryPlace { device: DEVICE, inode: directory.0 };
            targets.push(match (inside, source.kind) {
                (Some(_), SourceKind::Contents) => Target::Contents(place),
                (Some(_), _) => Target::Named { directory: place, name: source.name.clone() },
                (None, _) => Target::Named { directory: place, name: DESTINATION.to_vec() },
            });
        }
        self.book.on_begun(Ok(targets));
        Done::Through
    }

    fn make_directory(&mut self, wanted: &NewDirectory, env: &mut Environment) -> Result<DirectoryPlace, Failure> {
        let above = self.directories.get(&wanted.parent).copied();
        let above = above.ok_or_else(|| Failure::from("its directory is not open"))?;
        let inode = match &wanted.name {
            None => above,
            Some(_) if env.random.permille(env.faults.names) => return Err(Failure::full("directory")),
            Some(name) => {
                let made = env.disk.make_directory(above, name);
                let made = made.map_err(|error| Failure::from(format!("cannot be made: {error:?}")))?;
                let mut path = self.paths.get(&above).cloned().unwrap_or_default();
                path.push(name.clone());
                self.paths.insert(made, path);
                made
            }
        };
        self.directories.insert(DirectoryId::Entry(wanted.id), inode);
        Ok(DirectoryPlace { device: DEVICE, inode: inode.0 })
    }

    fn is_part_busy(&self, id: EntryId, env: &Environment) -> bool {
        let is_large = self.book.item(id).is_some_and(|item| item.size() > BLOCK_SIZE as u64);
        is_large
            && self.options.resume
            && self.place_of(id).is_some_and(|(directory, name)| {
                let part = env.disk.find(directory, &staging::part(&name));
                part.is_some_and(|part| env.disk.is_locked(part, self.holder))
            })
    }

    fn facts<'a>(&self, id: EntryId, has_waited: bool, env: &'a mut Environment) -> Known<'a> {
        let item = self.book.item(id).cloned();
        let (directory, name) = self.place_of(id).unwrap_or((env.disk.root(), Vec::new()));
        let run = self.run.clone();
        Known { disk: &mut env.disk, holder: self.holder, directory, name, item, run, has_waited, claimed: None }
    }

    fn expect(&mut self, id: EntryId, held: Option<BlockMap>, env: &mut Environment, reports: &mut Vec<Report>) {
        let (Some(item), Some((directory, name))) = (self.book.item(id), self.place_of(id)) else {
            return env.violate(format!("expects file {id}, which is not in the book"));
        };
        let EntryKind::File { size, sparse, .. } = item.entry.kind else {
            return env.violate(format!("expects item {id}, which is no file"));
        };
        let header = header_of(&item.entry, &name);
        let revision = revision_of(&header.version);
        let unfinished = Unfinished { directory, name: name.clone(), revision };
        let claimed = self.claimed.remove(&id);
        let plan = Plan {
            directory,
            name,
            header,
            noted: env.audit.noted_of(&unfinished),
            unfinished,
            mode: item.entry.mode,
            mtime: (item.entry.mtime_seconds, item.entry.mtime_nanos),
            claimed,
        };
        let expected = Expected { size: ByteCount::new(size), sparse, held };
        reports.push(Report::Expect { id, plan: Box::new(plan), expected });
    }

    /// Makes something under the staging name of an item in place of what an earlier run left.
    fn make_part(
        &mut self,
        id: EntryId,
        env: &mut Environment,
        make: impl FnOnce(&mut Disk, Inode, &[u8]) -> Inode,
    ) -> Result<Inode, Failure> {
        let (directory, name) = self.place_of(id).ok_or("its directory is not open")?;
        if env.random.permille(env.faults.names) {
            return Err(Failure::full("part"));
        }
        let staging = staging::part(&name);
        let _ = env.disk.remove(directory, &staging);
        let _ = env.disk.remove(directory, &staging::blocks(&name));
        let inode = make(&mut env.disk, directory, &staging);
        self.made.insert(id, Made { directory, name, staging, inode, is_durable: false });
        Ok(inode)
    }

    fn stage(&mut self, piece: &Piece, payload: &Contents, env: &mut Environment) -> Result<u64, NotStaged> {
        let bytes = payload.bytes.get(piece.offset..piece.offset + piece.length).unwrap_or_default().to_vec();
        if *blake3::hash(&bytes).as_bytes() != piece.digest {
            return Err(NotStaged::Damaged);
        }
        let Some(item) = self.book.item(piece.id).cloned() else { return Err(NotStaged::Failed("is unknown".into())) };
        if env.random.permille(env.faults.write) {
            return Err(NotStaged::Failed(Failure::full("part")));
        }
        let make = |disk: &mut Disk, directory, name: &[u8]| disk.create(directory, name).expect("the name is free");
        let inode = self.make_part(piece.id, env, make).map_err(NotStaged::Failed)?;
        env.disk.write(inode, Write::Bytes(0, bytes));
        restore(&mut env.disk, inode, &item.entry);
        Ok(piece.length as u64)
    }

    fn make_symlink(&mut self, id: EntryId, env: &mut Environment) -> Result<(), Failure> {
        let item = self.book.item(id).cloned().ok_or("is unknown")?;
        let EntryKind::Symlink { target } = &item.entry.kind else { return Err("is no link".into()) };
        let make = |disk: &mut Disk, directory, name: &[u8]| {
            disk.make_symlink(directory, name, target).expect("the name is free")
        };
        let inode = self.make_part(id, env, make)?;
        restore(&mut env.disk, inode, &item.entry);
        Ok(())
    }

    fn make_link(&mut self, id: EntryId, from: Option<Inode>, env: &mut Environment) -> Result<(), Failure> {
        let from = from.ok_or("the file it is a further name of is not there")?;
        let make = |disk: &mut Disk, directory, name: &[u8]| {
            disk.link(directory, name, from).expect("the name is free");
            from
        };
        self.make_part(id, env, make).map(drop)
    }

    fn rename(&mut self, item: &Publication, env: &mut Environment) -> Result<(), Failure> {
        let Some(made) = self.made.get(&item.id).cloned() else {
            env.violate(format!("renames item {}, which is not made", item.id));
            return Err("is not made".into());
        };
        if env.disk.find(made.directory, &made.staging) != Some(made.inode) {
            return Err("another copy has written it at the same time".into());
        }
        if env.random.permille(env.faults.names) {
            let failure = Failure::from("cannot be renamed");
            return Err(if made.is_durable { failure.passing() } else { failure });
        }
        let renamed = env.disk.rename(made.directory, &made.staging, &made.name);
        renamed.map_err(|error| Failure::from(format!("cannot be renamed: {error:?}")))?;
        if item.digest.is_none() {
            let _ = env.disk.remove(made.directory, &made.staging);
        }
        let mut path = self.paths.get(&made.directory).cloned().unwrap_or_default();
        path.push(made.name.clone());
        let has_lock = made.is_durable || self.run.is_some();
        if let Err(what) = env.audit.check_published(&env.disk, made.inode, &path, has_lock) {
            env.violate(what);
        }
        if !made.is_durable {
            self.made.remove(&item.id);
        }
        if let Ok(revision) = env.audit.revision_of(env.disk.contents(made.inode)) {
            let file = Unfinished { directory: made.directory, name: made.name, revision };
            env.audit.is_named(&file);
            // Without a journal of the run, or with holes in the file, nobody knows it again.
            if self.run.is_none() || env.audit.version(revision).is_some_and(File::is_sparse) {
                env.audit.is_gone(&file);
            }
        }
        Ok(())
    }

    fn flush_names(&mut self, names: &NamesToFlush, env: &mut Environment) {
        if env.random.permille(env.faults.sync) {
            return env.audit.doubt();
        }
        match names {
            NamesToFlush::OnFileSystems(_) => env.disk.sync_filesystem(),
            NamesToFlush::In(directories) => {
                for inode in directories.iter().filter_map(|directory| self.directories.get(directory)) {
                    let mark = env.disk.begin_sync();
                    env.disk.synced(*inode, mark);
                }
            }
        }
    }

    fn note_published(&mut self, published: &[(ItemKey, FileDigest)], env: &mut Environment) {
        let Some(run) = &mut self.run else { return };
        if env.random.permille(env.faults.write) {
            return;
        }
        for (key, digest) in published {
            run.note(&Record::Published { key: *key, digest: *digest });
        }
        run.write(&mut env.disk);
    }

    fn finish_directory(&mut self, entry: &Entry, env: &mut Environment) -> Result<(), Failure> {
        let Some(inode) = self.directories.get(&DirectoryId::Entry(entry.id)) else {
            env.violate(format!("finishes directory {}, which is not open", entry.id));
            return Err("is not open".into());
        };
        if env.random.permille(env.faults.names) {
            return Err("cannot be given its metadata".into());
        }
        restore(&mut env.disk, *inode, entry);
        Ok(())
    }

    fn put_away(&mut self, contents: Option<(DirectoryId, Box<Entry>)>, env: &mut Environment) {
        self.put_away = true;
        let Some(run) = &mut self.run else { return };
        env.audit.is_put_away();
        let base = run.directory();
        for path in run.remove(&mut env.disk, self.holder) {
            remove_left_behind(&mut env.disk, base, &path);
        }
        if let Some((directory, entry)) = contents
            && let Some(inode) = self.directories.get(&directory)
        {
            restore(&mut env.disk, *inode, &entry);
        }
    }
}

/// Whether the disk takes its time for it.
fn is_slow(action: &Action<Contents>) -> bool {
    matches!(
        action,
        Action::MakeDirectories(_)
            | Action::Stage { .. }
            | Action::Flush(_)
            | Action::Rename(_)
            | Action::FlushNames(_)
            | Action::NotePublished(_)
            | Action::PutAway { .. }
    )
}

fn remove_left_behind(disk: &mut Disk, base: Inode, path: &[u8]) {
    let mut components: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let Some(name) = components.pop() else { return };
    let directory = components.iter().try_fold(base, |directory, name| disk.find(directory, name));
    let Some(directory) = directory else { return };
    let before = disk.contents(directory).mtime;
    let _ = disk.remove(directory, &staging::part(name));
    let _ = disk.remove(directory, &staging::blocks(name));
    disk.write(directory, Write::Mtime(before));
}

fn restore(disk: &mut Disk, inode: Inode, entry: &Entry) {
    disk.write(inode, Write::Mode(entry.mode));
    disk.write(inode, Write::Mtime((entry.mtime_seconds, entry.mtime_nanos)));
}

fn is_run(begin: &Begin) -> bool {
    begin.sources.len() > 1 || begin.sources.iter().any(|source| source.kind != SourceKind::Item)
}

fn place(disk: &Disk, begin: &Begin) -> Placement {
    let root = disk.root();
    let single = begin.sources.len() == 1;
    let contents = begin.sources.iter().any(|source| source.kind == SourceKind::Contents);
    let continues_here = single
        && begin.sources[0].kind == SourceKind::Directory
        && RunLog::is_there(disk, root, &begin.job, Some(DESTINATION));
    let existing = disk.find(root, DESTINATION).filter(|found| *disk.kind(*found) == Kind::Directory);
    let inside = match existing.filter(|_| !continues_here) {
        Some(directory) => Some(Some(directory)),
        None if contents || !single => Some(existing),
        None => None,
    };
    Placement { inside, begin: begin.clone() }
}

/// The directory that holds the first target, if it is there, and the name of the target if that is DST itself.
fn base_of(disk: &Disk, placement: &Placement) -> Option<(Inode, Option<&'static [u8]>)> {
    match placement.inside {
        None => Some((disk.root(), Some(DESTINATION))),
        Some(inside) => inside.map(|inside| (inside, None)),
    }
}

fn header_of(entry: &Entry, name: &[u8]) -> Header {
    let EntryKind::File { size, version, .. } = entry.kind else {
        return Header { version: [0; 16], size: 0, path: [0; 32] };
    };
    Header { version, size, path: *blake3::hash(name).as_bytes() }
}

fn revision_of(version: &[u8; 16]) -> u64 {
    version.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// What lies at the destination that bears on one item.
struct Known<'a> {
    disk: &'a mut Disk,
    holder: Holder,
    directory: Inode,
    name: Vec<u8>,
    item: Option<Item>,
    run: Option<RunLog>,
    has_waited: bool,
    claimed: Option<Claimed>,
}

impl Facts for Known<'_> {
    fn stat(&mut self) -> Option<Stat> {
        let inode = self.disk.find(self.directory, &self.name)?;
        let contents = self.disk.contents(inode);
        let kind = match self.disk.kind(inode) {
            Kind::File => Found::File,
            Kind::Directory => Found::Directory,
            Kind::Symlink(_) => Found::Symlink,
        };
        let size = contents.length.max(contents.bytes.len() as u64);
        let mtime = ModificationTime { seconds: contents.mtime.0, nanos: contents.mtime.1 };
        Some(Stat { kind, size, mtime, mode: contents.mode, owner: (0, 0) })
    }

    fn link_target(&mut self) -> Option<Vec<u8>> {
        match self.disk.kind(self.disk.find(self.directory, &self.name)?) {
            Kind::Symlink(target) => Some(target.clone()),
            _ => None,
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    fn published(&mut self, key: &ItemKey) -> Option<(FileDigest, PublishedBy)> {
        let (digest, ours) = self.run.as_ref()?.published(key)?;
        Some((digest, if ours { PublishedBy::ThisRun } else { PublishedBy::AnEarlierRun }))
    }

    fn journals_without_part(&mut self) -> Vec<BlockMap> {
        let Some(item) = &self.item else { return Vec::new() };
        if self.disk.find(self.directory, &staging::part(&self.name)).is_some() {
            return Vec::new();
        }
        let header = header_of(&item.entry, &self.name);
        FileJournal::find(self.disk, self.directory, &self.name, &header).map(|(_, held)| held).into_iter().collect()
    }

    fn claim_part(&mut self, cleared: bool) -> Result<Option<BlockMap>, Failure> {
        let Some(item) = &self.item else { return Ok(None) };
        let header = header_of(&item.entry, &self.name);
        let part = match staging::claim(self.disk, self.directory, &staging::part(&self.name), self.holder) {
            Claim::Nothing => return Ok(None),
            Claim::Busy => return Err("another copy is writing it; wait for its end or stop it".into()),
            Claim::Taken(part) => part,
        };
        let Some((journal, held)) = FileJournal::find(self.disk, self.directory, &self.name, &header) else {
            self.disk.unlock(part, self.holder);
            return Ok(None);
        };
        if cleared {
            self.disk.write(part, Write::Punch(held.iter().map(|(index, _)| index).collect()));
        }
        self.claimed = Some(Claimed { part, journal, has_waited: self.has_waited });
        Ok(Some(held))
    }
}
