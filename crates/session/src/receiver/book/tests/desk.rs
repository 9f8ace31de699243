//! A names executor without a file system: it carries out the book's actions, except those that are
//! set to fail, and logs them.

use std::collections::{BTreeMap, HashMap, HashSet};

use icdc_protocol::message::{
    Begin, Digest, Done, Entry, EntryId, EntryKind, FileDigest, Message, PackItem, Parent, SnapshotTime, Source,
    SourceKind, Want, Wants,
};
use icdc_units::{ByteCount, Span, Time};

use super::super::action::{
    Action, Apart, DirectoryExtras, Extra, Guard, ListedExtras, MadeSnapshot, Names, NotBegun, NotFinished, NotRenamed,
    NotStaged, Notification, Placed, ReferencePlace, Stored, Target,
};
use super::super::item::{DirectoryId, DirectoryPlace, ModificationTime};
use super::super::owners::Targets;
use super::super::resume::verdict::Verdict;
use super::super::{Book, Settings};
use crate::{Failure, SessionError};

pub(super) const DIGEST: Digest = [9; 32];

pub(super) struct Desk {
    pub(super) book: Book<&'static str>,
    /// Actions carried out since the log was last taken, in order.
    log: Vec<String>,
    pub(super) now: Time,
    pub(super) placed: Placed,
    pub(super) targets: Vec<Target>,
    /// Outcomes of `BeginRun` before the one that succeeds.
    pub(super) not_begun: Vec<NotBegun>,
    /// Verdicts other than that everything is wanted, in the order in which they are asked for.
    pub(super) verdicts: BTreeMap<EntryId, Vec<Verdict>>,
    /// Actions that fail: the first word of the action and the item's number.
    pub(super) fails: HashMap<(&'static str, EntryId), Failure>,
    /// Directories that do not exist and are not made.
    pub(super) missing: HashSet<EntryId>,
    /// A small file whose contents do not match their digest.
    pub(super) damaged: Option<EntryId>,
    /// A further name whose first one was replaced.
    pub(super) replaced_first: Option<EntryId>,
    /// Items that are left alone lack an attribute.
    pub(super) amends: bool,
    /// Directories that have other attributes than the source's.
    pub(super) differing: HashSet<EntryId>,
    /// Items of a directory that the source does not have, by the directory's entry.
    pub(super) extras: BTreeMap<EntryId, Vec<&'static str>>,
    /// Directories and items whose names belong to something of another kind, which has this inode.
    pub(super) obstacles: BTreeMap<EntryId, u64>,
    /// Number of items that are counted of all those.
    pub(super) count: u64,
    /// Names of the complete snapshots.
    pub(super) snapshots: Vec<&'static str>,
    /// Number of times that what has an item's name is changed before the item is renamed.
    pub(super) changes: u32,
    /// Number of questions whether the sender is connected.
    pub(super) asked: u64,
    /// Messages to the sender that were not taken yet.
    pub(super) replies: Vec<Message>,
    /// Files to be compared that were not taken yet.
    pub(super) compares: Vec<EntryId>,
}

/// Name of the snapshot that is made.
pub(super) const NOON: &str = "2026-11-27T12:00:00Z";

/// The time of the snapshot of this name.
pub(super) fn at(name: &str) -> SnapshotTime {
    SnapshotTime::parse(name.as_bytes()).unwrap()
}

pub(super) fn settings() -> Settings {
    Settings {
        options: icdc_protocol::message::ReceiveOptions { resume: true, ..Default::default() },
        ring_blocks: 64,
        is_reserved: |name| name.starts_with(b".icdc-"),
        asked: None,
        only_new: false,
        makes_receipt: false,
        owner_targets: Targets::default(),
    }
}

pub(super) fn place(inode: u64) -> DirectoryPlace {
    DirectoryPlace { device: 1, inode }
}

pub(super) fn entry(id: EntryId, parent: Parent, name: &str, kind: EntryKind) -> Entry {
    Entry {
        id,
        parent,
        name: name.as_bytes().to_vec(),
        kind,
        mode: 0o644,
        mtime_seconds: 1,
        mtime_nanos: 2,
        owner: None,
        xattrs: Vec::new(),
    }
}

pub(super) fn source(id: EntryId, number: u32) -> Entry {
    entry(id, Parent::Source(number), "", EntryKind::Directory)
}

pub(super) fn directory(id: EntryId, parent: EntryId, name: &str) -> Entry {
    entry(id, Parent::Directory(parent), name, EntryKind::Directory)
}

pub(super) fn file(id: EntryId, parent: EntryId, name: &str, size: u64) -> Entry {
    let kind = EntryKind::File { size, version: [id as u8; 16], sparse: false, linked: false };
    entry(id, Parent::Directory(parent), name, kind)
}

pub(super) fn linked(id: EntryId, parent: EntryId, name: &str, size: u64) -> Entry {
    let kind = EntryKind::File { size, version: [id as u8; 16], sparse: false, linked: true };
    entry(id, Parent::Directory(parent), name, kind)
}

pub(super) fn link(id: EntryId, parent: EntryId, name: &str, to: EntryId) -> Entry {
    entry(
        id,
        Parent::Directory(parent),
        name,
        EntryKind::HardLink { to, size: 7, version: [id as u8; 16], sparse: false },
    )
}

impl Desk {
    /// A session in which no message has arrived.
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            book: Book::new(settings),
            log: Vec::new(),
            now: Time::default(),
            placed: Placed { resuming: false, has_waited: false, peer_is_gone: false },
            targets: vec![Target::Named { directory: place(1000), name: b"dst".to_vec() }],
            not_begun: Vec::new(),
            verdicts: BTreeMap::new(),
            fails: HashMap::new(),
            missing: HashSet::new(),
            damaged: None,
            replaced_first: None,
            amends: false,
            differing: HashSet::new(),
            extras: BTreeMap::new(),
            obstacles: BTreeMap::new(),
            count: 0,
            snapshots: Vec::new(),
            changes: 0,
            asked: 0,
            replies: Vec::new(),
            compares: Vec::new(),
        }
    }

    /// A session of one directory that has begun.
    pub(super) fn begun() -> Self {
        Self::begun_with(settings())
    }

    pub(super) fn begun_with(settings: Settings) -> Self {
        let mut desk = Self::new(settings);
        desk.begin_and_answer();
        assert_eq!(desk.log(), ["place journaled", "begin", "ready"]);
        desk
    }

    /// The run of a directory begins, and the sender answers that it is there.
    pub(super) fn begin_and_answer(&mut self) {
        self.begin(&[SourceKind::Directory]);
        self.say(Message::Confirmed);
    }

    pub(super) fn begin(&mut self, sources: &[SourceKind]) {
        let sources =
            sources.iter().map(|kind| Source { name: b"src".to_vec(), kind: *kind, identity: None }).collect();
        self.say(Message::Begin(Begin { job: [0; 32], sources }));
    }

    /// A message from the sender.
    pub(super) fn say(&mut self, message: Message) {
        self.book.on_message(self.now, message);
        self.work();
    }

    pub(super) fn announce(&mut self, entries: &[Entry]) {
        self.say(Message::Entries(entries.to_vec()));
    }

    pub(super) fn pack(&mut self, items: &[(EntryId, u32)]) {
        let digest = DIGEST;
        let pack: Vec<_> = items.iter().map(|&(id, length)| PackItem { id, length, digest }).collect();
        let length = items.iter().map(|(_, length)| *length as usize).sum();
        self.book.on_pack(self.now, &pack, length, "payload");
        self.work();
    }

    pub(super) fn stored(&mut self, id: EntryId) {
        let stored =
            Stored { digest: FileDigest::Blake3(DIGEST), is_durable: true, bytes: ByteCount::ZERO, streamed: None };
        self.book.on_stored(self.now, id, stored);
        self.work();
    }

    pub(super) fn lost(&mut self, id: EntryId, failure: Failure) {
        self.book.on_lost(self.now, id, failure);
        self.work();
    }

    pub(super) fn compared(&mut self, id: EntryId, same: bool) {
        self.book.on_compared(self.now, id, same);
        self.work();
    }

    /// Time passes until the book has something to do.
    pub(super) fn wait(&mut self) {
        if let Some(deadline) = self.book.next_deadline() {
            self.book.on_time(Time::from_nanos(deadline.as_nanos() - 1));
            assert!(self.book.poll().is_none(), "nothing is done before its time");
            self.now = deadline;
            self.book.on_time(deadline);
        }
        self.work();
    }

    pub(super) fn pass(&mut self, span: Span) {
        self.now += span;
    }

    /// The link ends, everything that has arrived is dealt with, and the session is over.
    pub(super) fn over(&mut self, is_agreed: bool) {
        self.book.on_link_ended();
        self.work();
        self.book.on_settled();
        self.work();
        self.book.on_over(is_agreed);
        self.work();
    }

    /// Takes the log: actions carried out since the last call.
    pub(super) fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn note(&mut self, what: String) {
        self.log.push(what);
    }

    fn outcome(&self, action: &'static str, id: EntryId) -> Result<(), Failure> {
        self.fails.get(&(action, id)).map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// Something has the name of this directory or item; if that does not wait for a deletion, it fails.
    fn obstruct(&mut self, id: EntryId) {
        let Some(&inode) = self.obstacles.get(&id) else { return };
        let obstacle =
            Extra { name: format!("in{id}").into_bytes(), device: 1, inode, is_directory: true, replaced_by: None };
        let above = self.book.item(id).map_or(place(0), |item| item.place.directory);
        let waits = self.book.on_obstacle(id, above, obstacle);
        self.note(format!("{id} {}", if waits { "waits" } else { "is in the way" }));
        if !waits {
            self.fails.insert(("make", id), "is in the way".into());
        }
        self.fails.insert(("rename", id), "is in the way".into());
    }

    fn work(&mut self) {
        while let Some(action) = self.book.poll() {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action<&'static str>) {
        match action {
            Action::Place { is_journaled, .. } => {
                self.note(format!("place{}", if is_journaled { " journaled" } else { "" }));
                self.book.on_placed(Ok(self.placed));
            }
            Action::BeginRun => {
                self.note("begin".into());
                let outcome = self.not_begun.pop().map_or_else(|| Ok(self.targets.clone()), Err);
                self.book.on_begun(outcome);
            }
            Action::MakeDirectories(new) => {
                self.note(format!("make {:?}", numbers(new.iter().map(|new| new.id))));
                new.iter().for_each(|new| self.obstruct(new.id));
                let made = new.iter().map(|new| {
                    let outcome = self.outcome("make", new.id);
                    let is_there = !self.missing.contains(&new.id);
                    (new.id, outcome.map(|()| is_there.then(|| place(u64::from(new.id)))))
                });
                let made = made.collect();
                self.book.on_directories_made(made);
            }
            Action::Examine(examinations) => {
                self.note(format!("examine {:?}", numbers(examinations.iter().map(|examination| examination.id))));
                let mut examined = Vec::new();
                for examination in examinations {
                    let id = examination.id;
                    let verdicts = self.verdicts.entry(id).or_default();
                    let verdict =
                        if verdicts.is_empty() { Verdict::Contents { held: None } } else { verdicts.remove(0) };
                    examined.push((id, self.outcome("examine", id).map(|()| verdict)));
                }
                self.book.on_examined(examined);
            }
            Action::Amend(ids) => {
                self.note(format!("amend {ids:?}"));
                let amended = ids.into_iter().map(|id| (id, self.outcome("amend", id).map(|()| self.amends))).collect();
                self.book.on_amended(amended);
            }
            Action::TakeReference { id, reference } => {
                let ReferencePlace::Older(number) = reference.place else { panic!("no item has several names") };
                self.note(format!("take {id} {number}"));
                let taken = self.outcome("take", id).ok().map(|()| ByteCount::new(1));
                self.book.on_reference_taken(self.now, id, taken);
            }
            Action::Stage { pieces, payload } => {
                assert_eq!(payload, "payload");
                self.note(format!("stage {:?}", numbers(pieces.iter().map(|piece| piece.id))));
                let staged = pieces.iter().map(|piece| {
                    if self.damaged == Some(piece.id) {
                        return (piece.id, Err(NotStaged::Damaged));
                    }
                    let outcome = self.outcome("stage", piece.id).map_err(NotStaged::Failed);
                    (piece.id, outcome.map(|()| ByteCount::from(piece.length)))
                });
                let staged = staged.collect();
                self.book.on_staged(staged);
            }
            Action::MakeSymlink(id) => {
                self.note(format!("symlink {id}"));
                self.book.on_link_made(id, self.outcome("symlink", id));
            }
            Action::MakeSpecial(id) => {
                self.note(format!("special {id}"));
                self.book.on_link_made(id, self.outcome("special", id));
            }
            Action::MakeLink { id, first } => {
                self.note(format!("link {id} {}", String::from_utf8_lossy(&first.name)));
                if self.replaced_first == Some(id) {
                    self.book.on_link_impossible(id, Apart::Replaced);
                } else {
                    self.book.on_link_made(id, self.outcome("link", id));
                }
            }
            Action::NoteStaged { id, .. } => {
                self.note(format!("note-staged {id}"));
                if let Err(failure) = self.outcome("note-staged", id) {
                    self.book.on_lost(self.now, id, failure);
                }
            }
            Action::Flush(file_systems) => {
                self.note(format!("flush {file_systems:?}"));
                self.book.on_flushed(self.outcome("flush", 0));
            }
            Action::Rename(publications) => {
                let numbers = numbers(publications.iter().map(|publication| publication.id));
                let guard = match publications.first().map_or(Guard::Lock, |publication| publication.guard) {
                    Guard::Lock => "",
                    Guard::AsFound => " if all is as found",
                    Guard::Sender => " if the sender is there",
                };
                self.note(format!("rename {numbers:?}{guard}"));
                publications.iter().for_each(|publication| self.obstruct(publication.id));
                let is_changed = self.changes > 0;
                self.changes = self.changes.saturating_sub(1);
                let outcome = |id| match self.outcome("rename", id) {
                    Ok(()) if is_changed => Err(NotRenamed::Changed),
                    outcome => outcome.map(|()| Some(SHOWN)).map_err(NotRenamed::Failed),
                };
                let renamed = publications.iter().map(|publication| (publication.id, outcome(publication.id)));
                let renamed = renamed.collect();
                self.book.on_renamed(renamed);
            }
            Action::FlushNames(names) => {
                self.note(match names {
                    Names::In(directories) => format!("flush-names in {}", directories.len()),
                    Names::OnFileSystems(file_systems) => format!("flush-names on {file_systems:?}"),
                });
                self.book.on_names_flushed(self.outcome("flush-names", 0));
            }
            Action::FinishDirectory { entry, may_change: false, .. } if self.differing.contains(&entry.id) => {
                self.note(format!("{} differs", entry.id));
                self.book.on_directory_finished(&entry, Err(NotFinished::Differs));
            }
            Action::FinishDirectory { entry, remembered, .. } => {
                self.note(format!("finish {}{}", entry.id, if remembered { " remembered" } else { "" }));
                self.book.on_directory_finished(&entry, self.outcome("finish", entry.id).map_err(NotFinished::Failed));
            }
            Action::ListExtras { directory, mut found, names } => {
                let DirectoryId::Entry(id) = directory else { panic!("only announced directories are listed") };
                self.note(format!("list {id}"));
                let listed = self.extras.get(&id).cloned().unwrap_or_default();
                let others = listed.iter().filter(|name| !names.contains(name.as_bytes()));
                let extra = |name: &&str| Extra {
                    name: name.as_bytes().to_vec(),
                    device: 1,
                    inode: 5,
                    is_directory: false,
                    replaced_by: None,
                };
                found.extras = others.map(extra).collect();
                let listed = ListedExtras { found, items: listed.len() as u64 };
                self.book.on_extras_listed(self.outcome("list", id).map(|()| listed));
            }
            Action::CountExtras(found) => {
                self.note(format!("count in {}", found.len()));
                let count = self.count;
                self.book.on_extras_counted(found, self.outcome("count", 0).map(|()| count));
            }
            Action::DeleteExtras { found, count } => {
                let shown = |found: &DirectoryExtras| {
                    let names = found.extras.iter().map(|extra| String::from_utf8_lossy(&extra.name).into_owned());
                    format!("{}: {}", String::from_utf8_lossy(&found.path), names.collect::<Vec<_>>().join(" "))
                };
                self.note(format!("delete {count} of {}", found.iter().map(shown).collect::<Vec<_>>().join(", ")));
                let replaced = found.iter().flat_map(|found| &found.extras).filter_map(|extra| extra.replaced_by);
                let replaced = replaced.map(|id| (id, self.outcome("replace", id).map(|()| Some(SHOWN)))).collect();
                let failed = self.outcome("delete", 0).err().map(|_| b"old/x".to_vec());
                self.book.on_extras_deleted(replaced, failed);
            }
            Action::MakeSnapshot => {
                self.note("make snapshot".into());
                let (time, all) = (at(NOON), self.snapshots.iter().map(|time| at(time)).collect());
                self.book.on_snapshot_made(self.outcome("snapshot", 0).map(|()| MadeSnapshot { time, all }));
            }
            Action::RemoveSnapshots(times) => {
                let names: Vec<String> = times.iter().map(|time| time.name()).collect();
                self.note(format!("remove snapshots {}", names.join(" ")));
                let outcomes = times.into_iter().map(|time| (time, self.outcome("remove", 0))).collect();
                self.book.on_snapshots_removed(outcomes);
            }
            Action::Compare { id, .. } => {
                self.compares.push(id);
                self.note(format!("compare {id}"));
            }
            Action::Ask(ready) => {
                let message = Message::Ready(ready);
                self.note(reply(&message));
                self.replies.push(message);
                self.asked += 1;
                self.book.on_asked(self.asked);
            }
            Action::Reply(message) => {
                self.note(reply(&message));
                self.replies.push(message);
            }
            other => self.note(short(&other)),
        }
    }
}

/// The time of modification of everything.
pub(super) const SHOWN: ModificationTime = ModificationTime { seconds: 1, nanos: 2 };

/// An action without an outcome.
fn short(action: &Action<&'static str>) -> String {
    match action {
        Action::Expect { id, held, basis } => {
            let held = if held.is_some() { " held" } else { "" };
            format!("expect {id}{held}{}", if basis.is_some() { " compared" } else { "" })
        }
        Action::Describe(id) => format!("describe {id}"),
        Action::DescribeChunks(id) => format!("describe {id} by chunks"),
        Action::NotePublished(records) => format!("note-published {}", records.len()),
        Action::RemoveJournals(ids) => format!("remove-journals {ids:?}"),
        Action::RemoveLeft { name, with_data, .. } => {
            format!("remove-left{} {}", if *with_data { "" } else { "-journals" }, String::from_utf8_lossy(name))
        }
        Action::Discard(id) => format!("discard {id}"),
        Action::NoteReleased { path } => format!("note-released {}", String::from_utf8_lossy(path)),
        Action::Forget(id) => format!("forget {id}"),
        Action::PutAway { contents } => format!("put-away{}", if contents.is_some() { " contents" } else { "" }),
        Action::Notify(notification) => describe(notification),
        Action::Complete => "complete".into(),
        Action::Fail(SessionError::Protocol(reason)) => format!("fail: {reason}"),
        Action::Fail(error) => format!("fail: {error}"),
        other => format!("{other:?}"),
    }
}

fn reply(message: &Message) -> String {
    match message {
        Message::Ready(ready) => format!("ready{}", if ready.resuming { " resuming" } else { "" }),
        Message::Wants(Wants { first, answers }) => {
            let answers: Vec<_> = answers.iter().map(want).collect();
            format!("wants {first} {}", answers.join(" "))
        }
        Message::Done(items) => {
            let items = items.iter().map(|Done { id, outcome }| match outcome {
                Ok(_) => id.to_string(),
                Err(reason) => format!("{id}: {reason}"),
            });
            format!("done {}", items.collect::<Vec<_>>().join(" "))
        }
        Message::Held(held) => format!("held {} {}", held.id, held.values.len()),
        other => format!("{other:?}"),
    }
}

fn want(want: &Want) -> &'static str {
    match want {
        Want::All => "all",
        Want::Rest => "rest",
        Want::Have(_) => "have",
        Want::TakenOver(_) => "taken-over",
        Want::Skip => "skip",
        Want::Failed => "failed",
        Want::Contents => "contents",
        Want::Keep(_) => "keep",
        Want::Linked => "linked",
        Want::Renamed(_) => "renamed",
        Want::Difference => "difference",
        Want::Delta => "delta",
    }
}

fn describe(notification: &Notification) -> String {
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    match notification {
        Notification::Published { path, .. } => format!("published {}", shown(path)),
        Notification::Had { .. } => "had".into(),
        Notification::TakenOver { .. } => "taken over".into(),
        Notification::Continued { held } => format!("continued {}", held.as_u64()),
        Notification::Skipped { path, .. } => format!("skipped {}", shown(path)),
        Notification::Kept { path, .. } => format!("kept {}", shown(path)),
        Notification::Linked { path, .. } => format!("linked {}", shown(path)),
        Notification::Renamed { path, .. } => format!("renamed {}", shown(path)),
        Notification::Failed { path, reason, .. } => format!("failed {}: {reason}", shown(path)),
        Notification::Unlinked { path, .. } => format!("unlinked {}", shown(path)),
        Notification::Altered { path } => format!("altered {}", shown(path)),
        Notification::Deleted { path, .. } => format!("deleted {}", shown(path)),
        Notification::DeletionRefused { reason } => format!("deletes nothing: {reason}"),
        Notification::Snapshot(news) => format!("snapshot: {news:?}"),
        Notification::WouldReceive { path, size } => format!("would receive {} {}", shown(path), size.as_u64()),
    }
}

fn numbers(ids: impl Iterator<Item = EntryId>) -> Vec<EntryId> {
    ids.collect()
}
