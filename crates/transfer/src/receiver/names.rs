//! The thread that handles names: it carries out the actions of the [`Book`] and reports their
//! outcomes to it, together with the messages of the link and the results of the store.
//!
//! It holds the directories, the files under staging names and the run's journal. The book decides
//! what is requested, in which order, and when an item is done.
//!
//! | file | contents |
//! |---|---|
//! | `backups` | what is kept before it is replaced |
//! | `beginning` | where the sources are placed, and the lock and journal of the run |
//! | `checksum` | files at the destination that are compared with items by their contents |
//! | `device` | the device that is the destination |
//! | `directories` | open directories by their numbers |
//! | `examination`, `facts` | the verdict on each item, and the state of the destination that it needs |
//! | `extras` | items that the source has not: listed, counted, deleted |
//! | `hard_links` | further names of files |
//! | `journal` | records in the run's journal, and its removal |
//! | `kept_links` | links to directories, which are kept and followed |
//! | `large_files` | large files, as the store is told of them |
//! | `making_directories` | directories that are made, and their attributes |
//! | `obstacles` | items of another kind that have the names of announced ones |
//! | `publication` | final names |
//! | `receipt` | the receipt, which a notary signs |
//! | `referring` | items that are made from reference directories |
//! | `removal` | journals and unfinished files that are removed |
//! | `renaming` | items that are made from files which had other names |
//! | `reporting` | events and counts |
//! | `snapshots` | snapshots: where their sources are placed, and their completion |
//! | `staging` | small files, symbolic links and special files under staging names |

mod backups;
mod bases;
mod beginning;
mod checksum;
mod device;
mod directories;
mod examination;
mod extras;
mod facts;
mod hard_links;
mod journal;
mod kept_links;
mod large_files;
mod making_directories;
mod obstacles;
mod publication;
mod receipt;
mod referring;
mod removal;
mod renaming;
mod reporting;
mod snapshots;
mod staging;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, Sender as Channel, never, select};
use directories::{Aside, Directories};
use icdc_disk::tree::{Directory, Name, Stat, Whereabouts, resembles_staging};
use icdc_filter::Rules;
use icdc_protocol::message::{Digest, EntryId, Message};
use icdc_session::ById;
use icdc_session::receiver::book::action::{Action, Stored};
use icdc_session::receiver::book::item::{DirectoryPlace, Item};
use icdc_session::receiver::book::{Book, Settings};

use super::backups::Backups;
use super::disk_rate::Arrived;
use super::failure::{self, Failure};
use super::file_identity::{FileIdentity, Occupant};
use super::jobs::{DiskJob, NameJob, StoreJob};
use super::kept_times::KeptTimes;
use super::large_file::Claimed;
use super::link_targets::LinkTargets;
use super::named_bases::NamedBases;
use super::onto_itself::SourcesHere;
use super::placement::Placement;
use super::publishing::Staged;
use super::references::{Counterpart, References};
use super::renames::Renames;
use super::run_log::RunLog;
use super::shared::Shared;
use super::snapshots::Snapshots;
use super::spellings::Spellings;
use super::waiting::Locked;
use crate::clock;

/// Longest wait of the thread while nothing is staged.
const NO_DEADLINE: Duration = Duration::from_secs(3600);

/// Executor of the [`Book`]'s actions, on the thread that handles names, directories and small
/// files at the destination.
pub(super) struct FileExecutor<'a> {
    shared: &'a Shared<'a>,
    book: Book<Option<Arrived>>,
    /// Request to begin the run: present from the sender's first message until the run has begun.
    opening: Option<Opening>,
    run: Option<RunLog>,
    directories: Directories,
    /// Names that may have another spelling at the destination.
    spellings: Spellings,
    /// Whether the destination was made for this session.
    new_destination: bool,
    /// Whether the receipt has begun, if one is made.
    has_begun_receipt: bool,
    /// Unfinished files, and files that are written at their place, that examinations have claimed, until
    /// their blocks are expected.
    claimed: ById<Claimed>,
    staged: ById<Staged>,
    /// Published or found file under the first name of each file with several hard links, as many
    /// as the book knows.
    first_files: ById<FileIdentity>,
    /// Those of these files that were found with their contents and attributes, and are left alone.
    left_firsts: HashSet<EntryId>,
    /// Occupant of the name of the only item of a run without a journal when that was looked at last;
    /// `None` until it is examined.
    found: Option<Occupant>,
    /// Files that are left alone and whose attributes may have to be set.
    to_amend: ById<FileIdentity>,
    /// Files whose contents are being compared with those of items, as they were found.
    compared: ById<Stat>,
    /// Directories to which links may lead that are kept; `None` until the sources are placed, and if no
    /// link is followed.
    link_targets: Option<LinkTargets>,
    /// Reference directories; `None` until the sources are placed, and if there are none.
    references: Option<References>,
    /// Files and directories that the user has named as bases; `None` until the sources are placed, and if
    /// there are none.
    named_bases: Option<NamedBases>,
    /// Place of replaced and deleted items; `None` until the sources are placed, and if none are
    /// kept.
    backups: Option<Backups>,
    /// The snapshots of the destination; `None` until the sources are placed, and if none is made.
    snapshots: Option<Snapshots>,
    /// Files in reference directories from which items are to be made.
    to_take: ById<Counterpart>,
    /// Files of the destination that may have become new items.
    renames: Renames,
    kept_times: KeptTimes,
    /// Ways to the directories that have items the source has not: they are reopened by them once
    /// everything else is done.
    reached: HashMap<DirectoryPlace, Whereabouts>,
    /// Directories that are filled under staging names, because theirs belong to something else.
    aside: ById<Aside>,
    /// First failure to remove something unfinished beside an item; `None` if nothing is left.
    unremoved: Option<Failure>,
    /// The sources, if they are on this kernel, too.
    sources: Option<Arc<SourcesHere>>,
    /// Rules by which names are never deleted; `None` until the first directory is listed.
    protecting: Option<Arc<Rules>>,
    /// Channel to the store; `None` when nothing more will come from the link: then the store may
    /// end, too.
    store: Option<Channel<StoreJob>>,
    /// Channel to the thread that compares and copies files; closed together with `store`.
    reads: Option<Channel<DiskJob>>,
}

/// A run that has been requested and has not begun.
struct Opening {
    job: Digest,
    placement: Placement,
    is_journaled: bool,
}

impl<'a> FileExecutor<'a> {
    /// Executor of a session that has not begun. `store` leads to the thread that writes large
    /// files, `reads` to the one that reads files at the destination.
    pub(super) fn new(shared: &'a Shared<'a>, store: Channel<StoreJob>, reads: Channel<DiskJob>) -> Self {
        let settings = Settings {
            options: shared.options.clone(),
            ring_blocks: shared.pool.capacity() as u32,
            is_reserved: resembles_staging,
            asked: shared.order.asked.map(<[_]>::to_vec),
            only_new: shared.only_new(),
            makes_receipt: shared.order.notary.is_some(),
            owner_targets: shared.owners.targets.clone(),
        };
        Self {
            shared,
            book: Book::new(settings),
            opening: None,
            run: None,
            directories: Directories::default(),
            spellings: Spellings::default(),
            new_destination: false,
            has_begun_receipt: false,
            claimed: ById::default(),
            staged: ById::default(),
            first_files: ById::default(),
            left_firsts: HashSet::new(),
            found: None,
            to_amend: ById::default(),
            compared: ById::default(),
            link_targets: None,
            references: None,
            named_bases: None,
            backups: None,
            snapshots: None,
            to_take: ById::default(),
            renames: Renames::default(),
            kept_times: KeptTimes::new(shared.options.dry_run),
            reached: HashMap::new(),
            aside: ById::default(),
            unremoved: None,
            sources: None,
            protecting: None,
            store: Some(store),
            reads: Some(reads),
        }
    }

    /// Handles what comes from the link and from the store until both have ended, then publishes
    /// what is staged.
    pub(super) fn run(mut self, link: &Queue<NameJob>, stored: &Queue<NameJob>) {
        let ended = never();
        let mut link = link;
        loop {
            let quiet = self.book.next_deadline().map_or(NO_DEADLINE, |deadline| (deadline - clock::now()).into());
            select! {
                recv(link) -> job => match job {
                    Ok(job) => self.handle(job),
                    Err(_) => {
                        link = &ended;
                        self.store = None;
                        self.reads = None;
                        self.book.on_link_ended();
                    }
                },
                recv(stored) -> job => match job {
                    Ok(job) => self.handle(job),
                    Err(_) => break,
                },
                default(quiet) => self.book.on_time(clock::now()),
            }
            self.carry_out();
        }
        self.book.on_settled();
        self.carry_out();
        let ending = self.shared.ending();
        let is_over = ending.is_agreed() || self.shared.order.ends_here && ending.is_complete();
        drop(ending);
        self.book.on_over(is_over);
        self.carry_out();
        if let Some(run) = &mut self.run {
            run.close();
        }
    }

    /// Reports to the book what a job says: a message, a pack, or the outcome of another thread's
    /// work.
    fn handle(&mut self, job: NameJob) {
        let now = clock::now();
        match job {
            NameJob::Message(Message::OwnerNames(names)) => {
                let (users, groups) = self.shared.owners.known(names);
                self.book.on_owner_names(&users, &groups);
            }
            NameJob::Message(Message::Holes { id, blocks }) => self.on_holes(id, &blocks),
            NameJob::Message(message) => self.book.on_message(now, message),
            NameJob::Pack(items, payload) => {
                let length = payload.as_ref().map_or(0, |arrived| arrived.length);
                self.book.on_pack(now, &items, length, payload);
            }
            NameJob::Stored { id, made, digest, streamed } => {
                // Its name may have to wait for the end of the run, and others for the room of its chunks.
                self.compare_on(self.shared.delta.forget(id));
                let stored = Stored { digest, is_durable: made.is_durable(), bytes: made.bytes(), streamed };
                let item = self.book.item(id);
                if let Some((directory, name)) = item.and_then(|item| self.target(item).ok()) {
                    let staged = Staged::new(directory, name, made);
                    self.staged.insert(id, staged);
                }
                self.book.on_stored(now, id, stored);
            }
            NameJob::Compared { id, same } => self.book.on_compared(now, id, same),
            NameJob::Referred { id, made } => self.on_reference_copied(id, made),
            NameJob::Candidates(found) => self.on_candidates_found(found),
            NameJob::Open(id) => {
                if let Some(store) = &self.store {
                    let _ = store.send(StoreJob::Open(id));
                }
            }
            NameJob::Lost { id, failure } => self.book.on_lost(now, id, failure),
        }
    }

    /// Carries out the book's actions, and reports the outcome of each before the next.
    fn carry_out(&mut self) {
        while let Some(action) = self.book.poll() {
            self.act(action);
        }
    }

    /// Carries out one action of the book, and reports its outcome.
    fn act(&mut self, action: Action<Option<Arrived>>) {
        match action {
            Action::Place { begin, is_journaled } => {
                let placed = self.find_place(&begin, is_journaled);
                self.book.on_placed(placed);
            }
            Action::BeginRun => {
                let begun = self.begin_run();
                self.book.on_begun(begun);
            }
            Action::MakeDirectories(new) => {
                let made = new.iter().map(|new| (new.id, self.make_directory(new))).collect();
                self.book.on_directories_made(made);
            }
            Action::Examine(examinations) => self.examine_all(&examinations),
            Action::Amend(ids) => {
                let amended = ids.iter().map(|id| (*id, self.amend(*id))).collect();
                self.book.on_amended(amended);
            }
            Action::NoteStaged { id, path } => self.note_staged(id, &path),
            Action::Expect { id, held, basis } => self.expect(id, held, basis),
            Action::Describe(id) => self.describe(id),
            Action::DescribeChunks(id) => self.describe_chunks(id),
            Action::Compare { id, digest } => self.compare(id, digest),
            Action::TakeReference { id, reference } => self.take_reference(id, reference),
            Action::CompareExisting { id, digest } => self.compare_existing(id, digest),
            Action::FindCandidates(roots) => self.find_candidates(roots),
            Action::CompareCandidate { id, number, digest } => self.compare_candidate(id, number, digest),
            Action::TakeCandidate { id, number } => self.take_candidate(id, number),
            Action::Stage { pieces, payload } => {
                let staged = self.stage(&pieces, payload);
                self.book.on_staged(staged);
            }
            Action::MakeSymlink(id) => {
                let made = self.make_symlink(id);
                self.book.on_link_made(id, made);
            }
            Action::MakeSpecial(id) => {
                let made = self.make_special(id);
                self.book.on_link_made(id, made);
            }
            Action::MakeLink { id, first } => self.make_hard_link(id, &first),
            Action::Flush(file_systems) => {
                let flushed = self.flush(&file_systems).map_err(|error| failure::of_tree(&error));
                self.book.on_flushed(flushed);
            }
            Action::Rename(publications) => {
                let renamed = self.rename(&publications);
                self.book.on_renamed(renamed);
            }
            Action::FlushNames(names) => {
                let flushed = self.flush_names(&names).map_err(|error| failure::of_tree(&error));
                self.book.on_names_flushed(flushed);
            }
            Action::NotePublished(records) => self.note_published(&records),
            Action::RemoveJournals(ids) => self.remove_journals(&ids),
            Action::RemoveLeft { directory, name, with_data } => self.remove_leftovers(directory, &name, with_data),
            Action::Discard(id) => self.discard(id),
            Action::NoteReleased { path } => self.note_released(&path),
            Action::Forget(id) => self.forget(id),
            Action::FinishDirectory { entry, remembered, may_change } => {
                let finished = self.finish_directory(&entry, remembered, may_change);
                self.book.on_directory_finished(&entry, finished);
            }
            Action::ListExtras { directory, found, names } => {
                let listed = self.list_extras(directory, found, &names);
                self.book.on_extras_listed(listed);
            }
            Action::CountExtras(found) => {
                let counted = self.count_extras(&found);
                self.book.on_extras_counted(found, counted);
            }
            Action::DeleteExtras { found, count } => {
                let (replaced, failed) = self.delete_extras(&found, count);
                self.book.on_extras_deleted(replaced, failed);
            }
            Action::MakeSnapshot => {
                let made = self.make_snapshot();
                self.book.on_snapshot_made(made);
            }
            Action::RemoveSnapshots(times) => {
                let removed = self.remove_snapshots(&times);
                self.book.on_snapshots_removed(removed);
            }
            Action::AddToReceipt(lines) => self.add_to_receipt(lines),
            Action::EndReceipt(outcome) => self.end_receipt(outcome),
            Action::PutAway { contents } => self.put_away(contents),
            Action::Ask(ready) => {
                let number = self.shared.ask(ready);
                self.book.on_asked(number);
            }
            Action::Reply(message) => self.shared.reply(message),
            Action::Notify(notification) => self.shared.notify(notification),
            Action::Complete => self.shared.on_ending(|ending, _| ending.on_complete()),
            Action::Fail(error) => self.shared.fail(error),
        }
    }
}

/// Items and where they are.
impl FileExecutor<'_> {
    /// Directory that an item goes into, and its name there.
    fn target(&self, item: &Item) -> Result<(&Directory, Name), Failure> {
        let directory = self.directories.get(item.directory)?;
        let name = Name::new(&item.place.name).map_err(|error| error.to_string())?;
        Ok((directory, name))
    }

    /// The item with this id, as the book knows it; a failure if it does not any more.
    fn item(&self, id: EntryId) -> Result<&Item, Failure> {
        self.book.item(id).ok_or_else(|| "it is not known any more".into())
    }

    /// Whether this run continues one that was interrupted.
    fn is_resuming(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.resuming)
    }

    /// Extent of the lock of an item's unfinished file: everything, or one item of many.
    fn locked(&self) -> Locked {
        if self.run.is_some() { Locked::OneOfMany } else { Locked::Everything }
    }
}
