//! Directories, links and names: one thread that handles entries in the order of their arrival.
//!
//! A directory is finished (its own mode and time set) when all its children are; a file is answered
//! with what is wanted of it, and becomes visible under its name only by [`super::batch`].

use std::collections::HashMap;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, Sender as Channel, never, select};
use icdc_disk::Block;
use icdc_disk::tree::{Directory, FileTime, Kind, Metadata, Name, StagingKind, TreeError, Whereabouts, is_staging};
use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::{BlockMap, block_count};
use icdc_protocol::digest::RootHasher;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_DEPTH, MAX_PENDING, MAX_PENDING_BYTES, PACK_FILE_LIMIT};
use icdc_protocol::message::{
    Begin, Digest, Done, Entry, EntryId, EntryKind, FileDigest, Message, PackItem, Parent, Preserve, Ready, Want, Wants,
};
use icdc_protocol::run_journal::item_key;

use super::Shared;
use super::batch::{Batch, Made, Publication};
use super::claims::{Claims, Place};
use super::placement::{self, Placement, Target};
use super::resume::{self, FileJournal, RunLog};
use super::store::{Plan, StoreJob};
use crate::error::SessionError;
use crate::event::{Event, Outcome};
use crate::{entry_weight, path_text};

/// Work for the tree's thread.
pub(super) enum TreeJob {
    Message(Message),
    Pack(Vec<PackItem>, Option<(Block, usize)>),
    /// A large file is complete under its staging name.
    Stored {
        id: EntryId,
        made: Made,
        digest: FileDigest,
    },
    /// A large file is given up; `Some` if the sender does not know yet.
    Lost {
        id: EntryId,
        reason: Option<String>,
    },
}

/// How long nothing may arrive before what is staged is published.
const QUIET: Duration = Duration::from_millis(50);
/// The same where nothing is staged.
const LONG: Duration = Duration::from_secs(3600);
/// Directories that may be open at once: more than a sender keeps open.
const MAX_OPEN: usize = 4096;

/// A directory that is being filled.
struct Level {
    /// `None` in a dry run, and where the directory could not be made.
    directory: Option<Directory>,
    /// Device and inode of the directory.
    place: (u64, u64),
    /// Number of the source that it is part of.
    source: u32,
    entry: Entry,
    path: Vec<u8>,
    depth: usize,
    parent: Option<EntryId>,
    /// Children that are not done, and whether more may come.
    pending: u32,
    ended: bool,
    failed: Option<String>,
}

/// An announced item that is not done.
pub(super) struct Pending {
    pub(super) entry: Entry,
    pub(super) path: Vec<u8>,
    pub(super) directory: Directory,
    /// Device and inode of the directory.
    directory_place: (u64, u64),
    /// Number of the source that it is part of.
    source: u32,
    pub(super) name: Name,
}

impl Pending {
    /// The name that it makes.
    pub(super) fn place(&self) -> Place {
        Place { directory: self.directory_place, name: self.name.clone() }
    }
}

/// What becomes of an entry at once.
enum Admitted {
    /// It is answered: what is wanted of it, or why it failed.
    Answer(Result<Want, String>),
    /// An earlier item of the same name comes first.
    Waits,
}

/// Where the first name of a file with several names is. It may be needed until the end of the run, for more files than
/// a process can keep directories open.
struct LinkedFile {
    directory: Whereabouts,
    /// Device and inode of the directory.
    place: (u64, u64),
    source: u32,
    name: Name,
    /// Links that wait for it to be published.
    waiting: Vec<EntryId>,
    state: Linked,
}

#[derive(Clone, Copy, PartialEq)]
enum Linked {
    Coming,
    Published,
    Failed,
}

pub(super) struct Keeper<'a> {
    shared: &'a Shared<'a>,
    placement: Option<Placement>,
    run: Option<RunLog>,
    next: EntryId,
    levels: HashMap<EntryId, Level>,
    /// Bytes of paths and attributes of what is pending or open.
    weight: usize,
    pending: HashMap<EntryId, Pending>,
    linked: HashMap<EntryId, LinkedFile>,
    claims: Claims,
    batch: Batch,
    /// The directory that the contents of a source went into, to be given its time once more when the run's
    /// journal is gone from it.
    contents: Option<(Directory, Entry)>,
    /// `None` when nothing more will come from the link: then the store may end, too.
    store: Option<Channel<StoreJob>>,
    ended: bool,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, store: Channel<StoreJob>) -> Self {
        Self {
            shared,
            placement: None,
            run: None,
            next: 0,
            levels: HashMap::new(),
            weight: 0,
            pending: HashMap::new(),
            linked: HashMap::new(),
            claims: Claims::default(),
            batch: Batch::default(),
            contents: None,
            store: Some(store),
            ended: false,
        }
    }

    /// Handles what comes from the link and from the store until both have ended, then publishes what
    /// is staged.
    pub(super) fn run(mut self, link: &Queue<TreeJob>, stored: &Queue<TreeJob>) {
        let ended = never();
        let mut link = link;
        loop {
            let quiet = if self.batch.is_empty() { LONG } else { QUIET };
            let job = select! {
                recv(link) -> job => match job {
                    Ok(job) => Some(job),
                    Err(_) => {
                        link = &ended;
                        self.store = None;
                        None
                    }
                },
                recv(stored) -> job => match job {
                    Ok(job) => Some(job),
                    Err(_) => break,
                },
                default(quiet) => {
                    self.publish();
                    self.admit_waiting();
                    self.finish_run();
                    None
                }
            };
            if let Some(job) = job
                && let Err(error) = self.handle(job)
            {
                self.shared.fail(error);
            }
        }
        self.publish();
        self.finish_run();
        if self.shared.is_complete() && self.shared.has_parted() {
            self.put_away();
        }
    }

    fn handle(&mut self, job: TreeJob) -> Result<(), SessionError> {
        match job {
            TreeJob::Message(Message::Begin(begin)) => self.begin(&begin)?,
            TreeJob::Message(Message::Entries(entries)) => self.entries(entries)?,
            TreeJob::Message(Message::DirEnd { id }) => self.directory_end(id)?,
            TreeJob::Message(Message::FileEnd(end)) => {
                if let Err(reason) = end.outcome {
                    self.given_up(end.id, reason);
                }
            }
            TreeJob::Message(Message::End) => {
                self.ended = true;
                self.publish();
            }
            TreeJob::Message(_) => {
                return Err(SessionError::Protocol("a message that only a receiver may send".into()));
            }
            TreeJob::Pack(items, payload) => self.pack(&items, payload)?,
            TreeJob::Stored { id, made, digest } => self.stored(id, made, digest),
            TreeJob::Lost { id, reason } => self.lost(id, reason),
        }
        // When nothing else can come, nothing is gained by waiting for it.
        if self.batch.is_full() || (self.ended && self.batch.len() == self.pending.len()) {
            self.publish();
        }
        self.admit_waiting();
        self.finish_run();
        Ok(())
    }

    fn begin(&mut self, begin: &Begin) -> Result<(), SessionError> {
        if self.placement.is_some() {
            return Err(SessionError::Protocol("began twice".into()));
        }
        let shared = self.shared;
        let options = &shared.options;
        if let Some(asked) = shared.asked {
            placement::refuse_unasked(&begin.sources, asked)?;
        }
        let placement = Placement::find(shared.tree, shared.destination, begin, options.dry_run)?;
        let many = begin.sources.len() > 1
            || begin.sources.iter().any(|source| source.kind != icdc_protocol::message::SourceKind::Item);
        if let (true, false, Some(base)) = (many, options.dry_run, &placement.base) {
            self.run = Some(
                RunLog::open(base, &begin.job, placement.first.as_ref(), options.resume)
                    .map_err(SessionError::Local)?,
            );
        }
        let resuming = self.run.as_ref().is_some_and(|run| run.resuming);
        self.placement = Some(placement);
        let ring_blocks = shared.pool.capacity() as u32;
        shared.reply(Message::Ready(Ready { resuming, ring_blocks }));
        Ok(())
    }

    fn entries(&mut self, entries: Vec<Entry>) -> Result<(), SessionError> {
        let mut first = self.next;
        let mut answers = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.id != self.next {
                return Err(SessionError::Protocol(format!("entry {} came where {} was due", entry.id, self.next)));
            }
            self.next = self.next.checked_add(1).ok_or_else(|| SessionError::Protocol("too many entries".into()))?;
            if self.pending.len() + self.claims.waiting() >= MAX_PENDING
                || self.levels.len() >= MAX_OPEN
                || self.weight >= MAX_PENDING_BYTES
            {
                return Err(SessionError::Protocol("more entries are announced than may be pending".into()));
            }
            let id = entry.id;
            match self.entry(entry)? {
                Admitted::Answer(Ok(want)) => answers.push(want),
                Admitted::Answer(Err(reason)) => {
                    self.shared.reply(Message::Done(vec![Done { id, outcome: Err(reason) }]));
                    answers.push(Want::Failed);
                }
                Admitted::Waits => {
                    self.answer(first, std::mem::take(&mut answers));
                    first = self.next;
                }
            }
        }
        self.answer(first, answers);
        Ok(())
    }

    fn answer(&self, first: EntryId, answers: Vec<Want>) {
        if !answers.is_empty() {
            self.shared.reply(Message::Wants(Wants { first, answers }));
        }
    }

    /// Places an entry: the outer error ends the session, the inner one only this item.
    fn entry(&mut self, entry: Entry) -> Result<Admitted, SessionError> {
        let placed = match self.place(&entry)? {
            Ok(placed) => placed,
            Err((path, reason)) => {
                self.note_failure(&entry, &path, &reason);
                if matches!(entry.kind, EntryKind::Directory) {
                    // Its children are announced nevertheless: each fails by this one's reason.
                    let parent = parent_of(&entry);
                    self.count_child(parent);
                    self.add_level(entry, None, path, 0, parent, Some(reason));
                    return Ok(Admitted::Answer(Ok(Want::All)));
                }
                return Ok(Admitted::Answer(Err(reason)));
            }
        };
        let parent = parent_of(&entry);
        if matches!(entry.kind, EntryKind::Directory) {
            return Ok(Admitted::Answer(Ok(self.enter(entry, placed, parent))));
        }
        let source = self.source_of(&entry);
        let Placed { directory, place, name, path, .. } = placed;
        let (Some(directory), Some(name)) = (directory, name) else {
            self.would_receive(&entry, &path);
            return Ok(Admitted::Answer(Ok(Want::All)));
        };
        let pending = Pending { entry, path, directory, directory_place: place, source, name };
        if self.claims.is_held(&pending.place()) {
            self.count_child(parent);
            self.weight += entry_weight(&pending.entry, &pending.path);
            self.remember_link(&pending, Linked::Coming);
            self.claims.wait(pending);
            return Ok(Admitted::Waits);
        }
        let wanted = self.want(&pending);
        if let Ok(Want::All | Want::Rest) = wanted {
            if self.shared.options.dry_run {
                self.would_receive(&pending.entry, &pending.path);
                return Ok(Admitted::Answer(wanted));
            }
            self.count_child(parent);
            self.weight += entry_weight(&pending.entry, &pending.path);
            self.claims.hold(pending.place());
            self.admit(pending);
        } else if let Err(reason) = &wanted {
            self.note_failure(&pending.entry, &pending.path, reason);
        }
        Ok(Admitted::Answer(wanted))
    }

    /// What a dry run lists.
    fn would_receive(&self, entry: &Entry, path: &[u8]) {
        let bytes = match entry.kind {
            EntryKind::File { size, .. } => size,
            _ => 0,
        };
        (self.shared.events)(Event::WouldSend { path: path_text(path), bytes });
    }

    /// Goes on with items whose names were made by earlier ones.
    fn admit_waiting(&mut self) {
        while self.store.is_some()
            && let Some(pending) = self.claims.next()
        {
            let id = pending.entry.id;
            let wanted = self.want(&pending);
            let (answer, state) = match wanted {
                Ok(want @ (Want::All | Want::Rest)) => {
                    self.answer(id, vec![want]);
                    self.admit(pending);
                    continue;
                }
                Ok(want) => (want, Linked::Published),
                Err(reason) => {
                    self.note_failure(&pending.entry, &pending.path, &reason);
                    self.shared.reply(Message::Done(vec![Done { id, outcome: Err(reason) }]));
                    (Want::Failed, Linked::Failed)
                }
            };
            self.answer(id, vec![answer]);
            self.weight -= entry_weight(&pending.entry, &pending.path);
            self.claims.release(pending.place());
            self.settle_links(id, state);
            self.child_done(parent_of(&pending.entry));
        }
    }

    /// Where an entry goes; else its path and why it cannot be placed.
    fn place(&self, entry: &Entry) -> Result<Result<Placed, (Vec<u8>, String)>, SessionError> {
        let protocol = |what: &str| SessionError::Protocol(format!("entry {}: {what}", entry.id));
        match entry.parent {
            Parent::Source(number) => {
                let placement = self.placement.as_ref().ok_or_else(|| protocol("came before Begin"))?;
                let target = placement.targets.get(number as usize).ok_or_else(|| protocol("names no source"))?;
                let (directory, name) = match target {
                    Target::Named(directory, name) => (directory, Some(name.clone())),
                    Target::Contents(directory) if matches!(entry.kind, EntryKind::Directory) => (directory, None),
                    Target::Contents(_) => return Err(protocol("is not the directory that was announced")),
                    Target::Imagined => {
                        let path = placement.sources[number as usize].name.clone();
                        return Ok(Ok(Placed { directory: None, place: (0, 0), name: None, path, depth: 0 }));
                    }
                };
                let path = match &name {
                    // A dry run names what there is to send, not where it would arrive.
                    _ if self.shared.options.dry_run => placement.sources[number as usize].name.clone(),
                    Some(name) => name.as_bytes().to_vec(),
                    None => Vec::new(),
                };
                Ok(match place_of(directory) {
                    Ok(place) => Ok(Placed { directory: Some(directory.clone()), place, name, path, depth: 0 }),
                    Err(error) => Err((path, error.to_string())),
                })
            }
            Parent::Directory(id) => {
                let level =
                    self.levels.get(&id).filter(|level| !level.ended).ok_or_else(|| protocol("has no open parent"))?;
                let name = Name::new(&entry.name).map_err(|error| protocol(&error.to_string()))?;
                let mut path = level.path.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name.as_bytes());
                if let Some(reason) = &level.failed {
                    return Ok(Err((path, reason.clone())));
                }
                if level.depth >= MAX_DEPTH {
                    return Err(protocol("is nested too deep"));
                }
                if is_staging(name.as_bytes()) {
                    return Ok(Err((path, "its name is one that icdc keeps for unfinished files".into())));
                }
                let depth = level.depth + 1;
                Ok(Ok(Placed { directory: level.directory.clone(), place: level.place, name: Some(name), path, depth }))
            }
        }
    }

    fn source_of(&self, entry: &Entry) -> u32 {
        match entry.parent {
            Parent::Source(number) => number,
            Parent::Directory(id) => self.levels.get(&id).map_or(0, |level| level.source),
        }
    }

    fn enter(&mut self, entry: Entry, placed: Placed, parent: Option<EntryId>) -> Want {
        let Placed { directory, name, path, depth, .. } = placed;
        self.count_child(parent);
        let made = match (directory, name) {
            (Some(directory), Some(name)) if !self.shared.options.dry_run => {
                self.batch.touch(&directory);
                make_directory(&directory, &name, self.shared.options.preserve.mode).map(Some)
            }
            (Some(directory), Some(name)) => Ok(directory.open_directory(&name).ok()),
            (directory, _) => Ok(directory),
        };
        match made {
            Ok(made) => self.add_level(entry, made, path, depth, parent, None),
            Err(error) => {
                let reason = error.to_string();
                self.note_failure(&entry, &path, &reason);
                self.add_level(entry, None, path, depth, parent, Some(reason));
            }
        }
        Want::All
    }

    fn add_level(
        &mut self,
        entry: Entry,
        directory: Option<Directory>,
        path: Vec<u8>,
        depth: usize,
        parent: Option<EntryId>,
        failed: Option<String>,
    ) {
        let place = directory.as_ref().and_then(|directory| place_of(directory).ok()).unwrap_or_default();
        let source = self.source_of(&entry);
        let level = Level { directory, place, source, entry, path, depth, parent, pending: 0, ended: false, failed };
        self.weight += entry_weight(&level.entry, &level.path);
        self.levels.insert(level.entry.id, level);
    }

    fn want(&mut self, pending: &Pending) -> Result<Want, String> {
        let EntryKind::File { size, version, .. } = &pending.entry.kind else { return Ok(Want::All) };
        let options = &self.shared.options;
        let Pending { directory, name, path, entry, .. } = pending;
        if let Some(digest) = self.run.as_ref().and_then(|run| run.published(&item_key(path, version)))
            && self.is_there(pending, *size)
        {
            self.remember_link(pending, Linked::Published);
            self.shared.resumed(*size);
            self.shared.count_published(*size, Some(&digest));
            return Ok(Want::Have(digest));
        }
        if options.update && self.is_there(pending, *size) {
            self.remember_link(pending, Linked::Published);
            self.shared.skipped();
            self.shared.report(entry, path, Outcome::Skipped, None, None);
            return Ok(Want::Skip);
        }
        if *size <= PACK_FILE_LIMIT || options.dry_run {
            return Ok(Want::All);
        }
        if let Ok(stat) = directory.stat(name)
            && stat.kind == Kind::Directory
        {
            return Err(format!("{} is a directory; a file cannot replace it", directory.path_of(name)));
        }
        let header = Header { version: *version, size: *size, path: *blake3::hash(name.as_bytes()).as_bytes() };
        let mut plan = Plan::new(pending, header);
        let mut want = Want::All;
        if options.resume && *size > BLOCK_SIZE as u64 {
            let part = resume::staging(StagingKind::Part, name);
            let claimed = resume::claim(directory, &part, &directory.path_of(name))?;
            match (claimed, FileJournal::find(directory, name, &header)) {
                (Some(file), Some((journal, held))) => {
                    for held in held.held(entry.id) {
                        self.shared.reply(Message::Held(held));
                    }
                    want = Want::Rest;
                    self.shared.resumed(held.bytes());
                    plan.continue_with(file, journal, held);
                }
                // Killed after the file got its name and before that was told.
                (None, Some((_, held))) if self.is_there(pending, *size) => {
                    if let Some(digest) = whole_digest(&held, *size) {
                        resume::remove_blocks(directory, name);
                        self.remember_link(pending, Linked::Published);
                        self.shared.resumed(*size);
                        self.shared.count_published(*size, Some(&digest));
                        return Ok(Want::Have(digest));
                    }
                }
                _ => {}
            }
        }
        if let Some(run) = &mut self.run
            && *size > BLOCK_SIZE as u64
        {
            run.staged(path);
            run.write()?;
        }
        self.shared.expect_large(entry.id, *size);
        // The store knows the file before its first block can be asked for.
        if let Some(store) = &self.store {
            let _ = store.send(StoreJob::Expect(Box::new(plan)));
        }
        Ok(want)
    }

    fn is_there(&self, pending: &Pending, size: u64) -> bool {
        let entry = &pending.entry;
        let mtime = FileTime { seconds: entry.mtime_seconds, nanos: entry.mtime_nanos };
        pending
            .directory
            .stat(&pending.name)
            .is_ok_and(|stat| stat.kind == Kind::File && stat.size == size && stat.mtime == mtime)
    }

    /// Takes an item in; links need nothing more from the sender.
    fn admit(&mut self, pending: Pending) {
        let id = pending.entry.id;
        match &pending.entry.kind {
            EntryKind::Symlink { target } => {
                let staging = resume::staging(StagingKind::Part, &pending.name);
                let made = make_symlink(&pending, target, &staging, self.shared.options.preserve);
                self.pending.insert(id, pending);
                match made {
                    Ok(()) => self.batch.add(Publication { id, made: Made::unsynced(staging), digest: None }),
                    Err(reason) => self.fail_item(id, reason),
                }
            }
            EntryKind::HardLink { to } => {
                let to = *to;
                self.pending.insert(id, pending);
                match self.linked.get_mut(&to).map(|linked| (linked.state, linked)) {
                    Some((Linked::Coming, linked)) => linked.waiting.push(id),
                    Some((Linked::Published, _)) => self.link(id, to),
                    Some((Linked::Failed, _)) => self.fail_item(id, "the file it is a further name of failed".into()),
                    None => self.fail_item(id, "is a further name of a file that is not part of this copy".into()),
                }
            }
            _ => {
                self.remember_link(&pending, Linked::Coming);
                self.pending.insert(id, pending);
            }
        }
    }

    fn remember_link(&mut self, pending: &Pending, state: Linked) {
        if matches!(pending.entry.kind, EntryKind::File { linked: true, .. }) {
            let new = || LinkedFile {
                directory: pending.directory.whereabouts(),
                place: pending.directory_place,
                source: pending.source,
                name: pending.name.clone(),
                waiting: Vec::new(),
                state,
            };
            self.linked.entry(pending.entry.id).or_insert_with(new).state = state;
        }
    }

    fn link(&mut self, id: EntryId, to: EntryId) {
        let (Some(pending), Some(linked)) = (self.pending.get(&id), self.linked.get(&to)) else { return };
        let Pending { directory, name, .. } = pending;
        let made = self.directory_of(linked, pending).and_then(|first| {
            resume::make_part(directory, name, |part| directory.hard_link(&first, &linked.name, part))
        });
        let staging = resume::staging(StagingKind::Part, name);
        match made {
            Ok(()) => self.batch.add(Publication { id, made: Made::unsynced(staging), digest: None }),
            Err(reason) => self.fail_item(id, reason),
        }
    }

    /// The directory with the first name of a file of which `pending` is a further name.
    fn directory_of(&self, linked: &LinkedFile, pending: &Pending) -> Result<Directory, String> {
        if linked.place == pending.directory_place {
            return Ok(pending.directory.clone());
        }
        let target = self.placement.as_ref().and_then(|placement| placement.targets.get(linked.source as usize));
        let Some(Target::Named(start, _) | Target::Contents(start)) = target else {
            return Err("the file it is a further name of has no place here".into());
        };
        let directory = start.reopen(&linked.directory).map_err(|error| error.to_string())?;
        match place_of(&directory) {
            Ok(place) if place == linked.place => Ok(directory),
            Ok(_) => Err(format!(
                "{}: the directory was replaced during the copy; run the same command again",
                directory.path_of(&linked.name)
            )),
            Err(error) => Err(error.to_string()),
        }
    }

    fn pack(&mut self, items: &[PackItem], payload: Option<(Block, usize)>) -> Result<(), SessionError> {
        let empty: &[u8] = &[];
        let bytes = payload.as_ref().map_or(empty, |(block, length)| &block[..*length]);
        let mut rest = bytes;
        for item in items {
            let Some((contents, after)) = rest.split_at_checked(item.length as usize) else {
                return Err(SessionError::Protocol("a pack is longer than its payload".into()));
            };
            rest = after;
            // An item that failed here is still on its way; its bytes are of no use.
            let Some(pending) = self.pending.get(&item.id) else { continue };
            let EntryKind::File { size, .. } = pending.entry.kind else {
                return Err(SessionError::Protocol(format!("item {} is not a file", item.id)));
            };
            if size > PACK_FILE_LIMIT || u64::from(item.length) != size {
                return Err(SessionError::Protocol(format!(
                    "packed file {} has another length than announced",
                    item.id
                )));
            }
            let digest: Digest = *blake3::hash(contents).as_bytes();
            if digest != item.digest {
                return Err(SessionError::Protocol(format!("packed file {} does not match its digest", item.id)));
            }
            match self.batch.stage(pending, contents, self.shared.options.preserve) {
                Ok(made) => {
                    let digest = Some(FileDigest::Blake3(digest));
                    self.batch.add(Publication { id: item.id, made, digest });
                }
                Err(reason) => self.fail_item(item.id, reason),
            }
            if self.batch.is_full() {
                self.publish();
            }
        }
        Ok(())
    }

    fn stored(&mut self, id: EntryId, made: Made, digest: FileDigest) {
        let durable = made.is_durable();
        self.batch.add(Publication { id, made, digest: Some(digest) });
        if durable {
            self.publish();
        }
    }

    fn lost(&mut self, id: EntryId, reason: Option<String>) {
        match reason {
            Some(reason) => self.fail_item(id, reason),
            None => self.end_item(id, Linked::Failed),
        }
    }

    /// The sender gives an item up; it knows, so there is nothing to answer.
    fn given_up(&mut self, id: EntryId, reason: String) {
        if let Some(pending) = self.pending.get(&id) {
            self.shared.report(&pending.entry, &pending.path, Outcome::Failed, None, Some(reason));
            self.shared.failed();
        }
        self.end_item(id, Linked::Failed);
    }

    fn fail_item(&mut self, id: EntryId, reason: String) {
        if let Some(pending) = self.pending.get(&id) {
            let (entry, path) = (pending.entry.clone(), pending.path.clone());
            self.note_failure(&entry, &path, &reason);
            self.shared.reply(Message::Done(vec![Done { id, outcome: Err(reason) }]));
        }
        self.end_item(id, Linked::Failed);
    }

    fn note_failure(&self, entry: &Entry, path: &[u8], reason: &str) {
        self.shared.report(entry, path, Outcome::Failed, None, Some(reason.to_owned()));
        self.shared.failed();
    }

    /// Takes an item out of the book; what waits for it goes on.
    fn end_item(&mut self, id: EntryId, state: Linked) {
        let Some(pending) = self.pending.remove(&id) else { return };
        self.weight -= entry_weight(&pending.entry, &pending.path);
        self.shared.forget_large(id);
        if let (Some(run), EntryKind::File { size, .. }) = (&mut self.run, &pending.entry.kind)
            && *size > BLOCK_SIZE as u64
        {
            run.released(&pending.path);
        }
        self.claims.release(pending.place());
        self.settle_links(id, state);
        self.child_done(parent_of(&pending.entry));
    }

    /// The first name of a file has come to its end; its further names go on.
    fn settle_links(&mut self, id: EntryId, state: Linked) {
        let Some(linked) = self.linked.get_mut(&id) else { return };
        linked.state = state;
        for link in std::mem::take(&mut linked.waiting) {
            if state == Linked::Published {
                self.link(link, id);
            } else {
                self.fail_item(link, "the file it is a further name of failed".into());
            }
        }
    }

    /// Makes durable and visible what is staged.
    fn publish(&mut self) {
        let outcome = self.batch.publish(self.shared, &self.pending, self.run.as_mut());
        let mut done = Vec::with_capacity(outcome.published.len());
        for (id, digest) in outcome.published {
            if let Some(pending) = self.pending.get(&id) {
                self.shared.published(&pending.entry, &pending.path, digest.as_ref());
            }
            done.push(Done { id, outcome: Ok(digest) });
            self.end_item(id, Linked::Published);
        }
        for done in done.chunks(1024) {
            self.shared.reply(Message::Done(done.to_vec()));
        }
        for (id, reason) in outcome.failed {
            self.fail_item(id, reason);
        }
        if !self.batch.is_empty() && self.ended {
            // Links that waited for what was just published.
            self.publish();
        }
    }

    fn count_child(&mut self, parent: Option<EntryId>) {
        if let Some(level) = parent.and_then(|parent| self.levels.get_mut(&parent)) {
            level.pending += 1;
        }
    }

    fn child_done(&mut self, parent: Option<EntryId>) {
        let mut parent = parent;
        while let Some(id) = parent {
            let Some(level) = self.levels.get_mut(&id) else { return };
            level.pending -= 1;
            parent = self.finish_level(id);
        }
    }

    fn directory_end(&mut self, id: EntryId) -> Result<(), SessionError> {
        let level =
            self.levels.get_mut(&id).ok_or_else(|| SessionError::Protocol(format!("directory {id} is not open")))?;
        level.ended = true;
        let parent = self.finish_level(id);
        self.child_done(parent);
        Ok(())
    }

    /// Finishes a directory whose children are all done; gives the directory above that waits for it.
    fn finish_level(&mut self, id: EntryId) -> Option<EntryId> {
        if !self.levels.get(&id).is_some_and(|level| level.ended && level.pending == 0) {
            return None;
        }
        let level = self.levels.remove(&id)?;
        self.weight -= entry_weight(&level.entry, &level.path);
        let outcome = match (level.failed, level.directory) {
            (Some(reason), _) => Err(reason),
            (None, Some(directory)) if !self.shared.options.dry_run => {
                let wanted = metadata(&level.entry, self.shared.options.preserve);
                let set = directory.set_own_metadata(&wanted);
                if level.path.is_empty() {
                    self.contents = Some((directory, level.entry.clone()));
                }
                set.map_err(|error| {
                    let reason = error.to_string();
                    self.note_failure(&level.entry, &level.path, &reason);
                    reason
                })
            }
            _ => Ok(()),
        };
        self.shared.reply(Message::Done(vec![Done { id, outcome: outcome.map(|()| None) }]));
        level.parent
    }

    fn finish_run(&mut self) {
        let waiting = self.claims.waiting() > 0;
        if self.ended && self.pending.is_empty() && !waiting && self.levels.is_empty() && self.batch.is_empty() {
            self.shared.complete();
        }
    }

    /// Ends the run for good. Not before the sender knows that everything is done: one that does not, because of a
    /// cut or a kill, comes again and has to be recognized.
    fn put_away(&mut self) {
        if let Some(run) = &mut self.run {
            run.remove();
        }
        if let Some((directory, entry)) = self.contents.take() {
            // It was possible a moment ago, and was answered for then.
            let _ = directory.set_own_metadata(&metadata(&entry, self.shared.options.preserve));
        }
    }
}

/// Where an entry goes.
struct Placed {
    directory: Option<Directory>,
    /// Device and inode of the directory.
    place: (u64, u64),
    name: Option<Name>,
    path: Vec<u8>,
    depth: usize,
}

fn place_of(directory: &Directory) -> Result<(u64, u64), TreeError> {
    directory.own_stat().map(|stat| (stat.dev, stat.ino))
}

fn parent_of(entry: &Entry) -> Option<EntryId> {
    match entry.parent {
        Parent::Source(_) => None,
        Parent::Directory(id) => Some(id),
    }
}

/// Makes a directory or opens the one that is there, so that it can be filled.
fn make_directory(directory: &Directory, name: &Name, restore_mode: bool) -> Result<Directory, TreeError> {
    if !restore_mode {
        return directory.make_directory(name, 0o777);
    }
    // Private while it is filled; an existing one may lack the owner's right to write, as one does
    // whose source is read-only and whose filling was interrupted.
    let made = directory.make_directory(name, 0o700)?;
    let mode = made.own_stat()?.mode;
    if mode & 0o700 != 0o700 {
        made.set_own_metadata(&Metadata { mode: Some(mode | 0o700), ..Metadata::default() })?;
    }
    Ok(made)
}

fn make_symlink(pending: &Pending, target: &[u8], staging: &Name, preserve: Preserve) -> Result<(), String> {
    let Pending { directory, name, entry, .. } = pending;
    resume::make_part(directory, name, |part| directory.make_symlink(target, part))?;
    let wanted = Metadata { mode: None, ..metadata(entry, preserve) };
    let restored = directory.set_link_metadata(staging, &wanted).map_err(|error| error.to_string());
    restored.inspect_err(|_| resume::discard(directory, name))
}

/// Digest of a file all of whose blocks are in the map.
fn whole_digest(held: &BlockMap, size: u64) -> Option<FileDigest> {
    let mut hasher = RootHasher::new(size);
    for index in 0..block_count(size) {
        hasher.push(held.get(index)?);
    }
    hasher.finish().map(FileDigest::Blake3)
}

/// What is to be restored of an entry. Set-id bits count only together with the owner they belong to.
pub(super) fn metadata(entry: &Entry, preserve: Preserve) -> Metadata<'_> {
    let bits = if preserve.owner { 0o7777 } else { 0o1777 };
    Metadata {
        mode: preserve.mode.then_some(entry.mode & bits),
        mtime: preserve.times.then_some(FileTime { seconds: entry.mtime_seconds, nanos: entry.mtime_nanos }),
        owner: if preserve.owner { entry.owner } else { None },
        xattrs: if preserve.xattr { &entry.xattrs } else { &[] },
    }
}
