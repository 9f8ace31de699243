//! The executor of the receiver's names: the simulated disk instead of the file system.

mod facts;
mod making;
mod placing;

use std::collections::{BTreeMap, HashMap, VecDeque};

use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{
    Begin, Entry, EntryId, EntryKind, FileDigest, Message, PackItem, ReceiveOptions, SourceKind, TransferId,
};
use icdc_session::SessionError;
use icdc_session::failure::Failure;
use icdc_session::receiver::book::Book;
use icdc_session::receiver::book::action::{Action, Placed, Stored, Told};
use icdc_session::receiver::book::item::DirectoryId;
use icdc_session::receiver::files::Expected;
use icdc_units::{ByteCount, Time};

use self::facts::Known;
use self::placing::{base_of, place};
use super::data::{Again, Claimed, LOCK_PATIENCE, Plan};
use super::ring::Place as RingPlace;
use super::run_log::RunLog;
use super::staging;
use crate::audit::Unfinished;
use crate::disk::{Holder, Inode};
use crate::environment::Environment;
use crate::mutations::Mutation;

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
        if self.waiting.is_some() {
            // It was waiting for a lock, and nothing behind that has begun.
            return;
        }
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
                let forgets = env.has(Mutation::OldSessionWakes);
                let (has_waited, peer_is_gone) = (has_waited && !forgets, is_hung_up && !forgets);
                self.book.on_placed(Ok(Placed { resuming, has_waited, peer_is_gone }));
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
                    if !env.has(Mutation::FlushDoesNothing) {
                        env.disk.sync_filesystem();
                    }
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

fn header_of(entry: &Entry, name: &[u8]) -> Header {
    let EntryKind::File { size, version, .. } = entry.kind else {
        return Header { version: [0; 16], size: 0, path: [0; 32] };
    };
    Header { version, size, path: *blake3::hash(name).as_bytes() }
}

fn revision_of(version: &[u8; 16]) -> u64 {
    version.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
