//! The executor of the receiver's names: the simulated disk instead of the file system.

mod acting;
mod extras;
mod facts;
mod making;
mod placing;
mod renaming;

use std::collections::{BTreeMap, HashMap, VecDeque};

use icdc_protocol::block_journal::Header;
use icdc_protocol::message::{
    Begin, Entry, EntryId, EntryKind, FileDigest, Message, PackItem, ReceiveOptions, SourceKind, Streamed, TransferId,
};
use icdc_session::SessionError;
use icdc_session::failure::Failure;
use icdc_session::receiver::book::Book;
use icdc_session::receiver::book::action::{Action, Stored};
use icdc_session::receiver::book::item::DirectoryId;
use icdc_session::receiver::files::Expected;
use icdc_units::{ByteCount, Time};

use self::renaming::Renames;
use super::data::{Again, Claimed, LOCK_PATIENCE, Plan};
use super::questions::Questions;
use super::ring::Place as RingPlace;
use super::run_log::RunLog;
use super::staging;
use crate::disk::{Holder, Inode, Occupant};
use crate::environment::Environment;

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
    Message(Box<Message>),
    Pack(Vec<PackItem>, Contents),
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
    Compared {
        id: EntryId,
        same: bool,
    },
    LinkEnded,
    /// It is known which files the destination has.
    CandidatesFound,
    /// Nothing more comes from anywhere.
    Settled,
    /// The session is over.
    Over {
        is_agreed: bool,
    },
}

/// A file from which blocks of another are put together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Existing {
    /// From what it has at the same place.
    SamePlace(Inode),
    /// From any place in it.
    AnyPlace(Inode),
}

/// What comes out of it.
#[derive(Debug)]
pub(crate) enum Report {
    Reply(Box<Message>),
    Expect { id: EntryId, plan: Box<Plan>, expected: Expected, existing: Option<Existing> },
    Describe(EntryId),
    DescribeChunks(EntryId),
    Forget(EntryId),
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
    /// Files that were found as they are to be, and are left alone.
    left_firsts: BTreeMap<EntryId, Inode>,
    made: BTreeMap<EntryId, Made>,
    /// Directories that have got this time, until the sender is told.
    restored: BTreeMap<EntryId, (Inode, (i64, u32))>,
    /// Directories that are filled under these staging names.
    aside: BTreeMap<EntryId, Vec<u8>>,
    renames: Renames,
    put_away: bool,
    /// A snapshot was made that the world has not looked at; and whether one was made at all.
    snapshot: (bool, bool),
    /// Whether the receipt has begun, and the lines that were added to it.
    has_begun_receipt: bool,
    receipt: blake3::Hasher,
    failed: u64,
    /// Items of which was told that they would be received, or are left alone.
    looked_at: u64,
    questions: Questions,
    /// What has had the name of the only item of a run without a journal.
    found: Occupant,
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
    pub(crate) fn new(
        holder: Holder,
        transfer: TransferId,
        options: ReceiveOptions,
        (book, questions): (Book<Contents>, Questions),
    ) -> Self {
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
            left_firsts: BTreeMap::new(),
            made: BTreeMap::new(),
            restored: BTreeMap::new(),
            aside: BTreeMap::new(),
            renames: Renames::default(),
            put_away: false,
            snapshot: (false, false),
            has_begun_receipt: false,
            receipt: blake3::Hasher::new(),
            failed: 0,
            looked_at: 0,
            questions,
            found: None,
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

    /// What is complete under a staging name.
    pub(crate) fn made(&self) -> impl Iterator<Item = Inode> {
        self.made.values().map(|made| made.inode)
    }

    /// Number of items that have failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Number of items of which was told that they would be received, or are left alone.
    pub(crate) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Whether it has put the run's journal away.
    pub(crate) fn has_put_away(&self) -> bool {
        self.put_away
    }

    /// Whether a snapshot was made since this was asked before.
    pub(crate) fn take_snapshot(&mut self) -> bool {
        std::mem::take(&mut self.snapshot.0)
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
            Job::Message(message) => self.book.on_message(now, *message),
            Job::Pack(items, payload) => {
                let length = payload.bytes.len();
                self.book.on_pack(now, &items, length, payload);
            }
            Job::Stored { id, part, is_durable, digest, unsynced, streamed } => {
                if let Some((directory, name)) = self.place_of(id) {
                    let staging = staging::part(&name);
                    self.made.insert(id, Made { directory, name, staging, inode: part, is_durable });
                }
                self.book.on_stored(now, id, Stored { digest, is_durable, bytes: unsynced, streamed });
            }
            Job::Lost { id, failure } => self.book.on_lost(now, id, failure),
            Job::Compared { id, same } => self.book.on_compared(now, id, same),
            Job::CandidatesFound => self.book.on_candidates_found(now),
            Job::LinkEnded => self.book.on_link_ended(),
            Job::Settled => self.book.on_settled(),
            Job::Over { is_agreed } => self.book.on_over(is_agreed),
        }
    }

    fn place_of(&self, id: EntryId) -> Option<(Inode, Vec<u8>)> {
        let item = self.book.item(id)?;
        Some((self.directories.get(&item.directory).copied()?, item.place.name.clone()))
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
