//! The thread that handles names: it carries out the actions of the [`Book`] and reports their
//! outcomes to it, together with the messages of the link and the results of the store.
//!
//! It holds the directories, the files under staging names and the run's journal. The book decides
//! what is requested, in which order, and when an item is done.
//!
//! | file | contents |
//! |---|---|
//! | `backups` | what is kept before it is replaced |
//! | `checksum` | existing files that are compared with items by their contents |
//! | `directories` | open directories by their numbers |
//! | `examine` | state of an item at the destination |
//! | `extras` | items that the source has not: listed, counted, deleted |
//! | `obstacles` | items of another kind that have the names of announced ones |
//! | `receipt` | the receipt, which a notary signs |
//! | `referring` | items that are made from reference directories |
//! | `renaming` | items that are made from files which had other names |
//! | `reporting` | events and counts |
//! | `snapshots` | snapshots: where their sources are placed, and their completion |

mod backups;
mod checksum;
mod directories;
mod examine;
mod extras;
mod obstacles;
mod receipt;
mod referring;
mod renaming;
mod reporting;
mod snapshots;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, Sender as Channel, never, select};
use directories::{Aside, Directories};
use examine::{Examiner, header};
use icdc_disk::tree::{Directory, FileTime, Name, Stat, TreeError, Whereabouts, resembles_staging};
use icdc_filter::Rules;
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::MAX_LINKED;
use icdc_protocol::message::{Begin, Digest, Entry, EntryId, EntryKind, FileDigest, Message, Missing, NoticeKind};
use icdc_protocol::run_journal::{ItemKey, Record};
use icdc_session::receiver::book::action::{
    Action, Apart, Examination, FirstName, Names, NewDirectory, NotBegun, NotStaged, Piece, Placed, Publication,
    Reference, ReferencePlace, Stored, Target,
};
use icdc_session::receiver::book::item::{DirectoryId, DirectoryPlace, Item, ModificationTime};
use icdc_session::receiver::book::resume::Verdict;
use icdc_session::receiver::book::{Book, Settings};
use icdc_session::{ById, SessionError};
use icdc_units::ByteCount;

use super::backups::{Backups, Kept};
use super::candidates::Location;
use super::disk_rate::Arrived;
use super::failure::{self, Failure};
use super::file_identity::FileIdentity;
use super::jobs::{CompareJob, DiskJob, NameJob, StoreJob, Subject};
use super::kept_times::{KeptTimes, is_far_off};
use super::large_file::{Continued, Plan};
use super::leftovers;
use super::onto_itself::{SourcesHere, refuse_onto_itself};
use super::pending::{metadata, restore};
use super::placement::{Parents, Placement, Wanted, let_owner_in};
use super::publishing::{Replaced, Staged, amend_special};
use super::references::{Counterpart, References};
use super::renames::Renames;
use super::run_log::{RunId, RunLog};
use super::shared::Shared;
use super::side_by_side::side_by_side;
use super::snapshots::{Snapshots, check_clock, check_latest, latest};
use super::spellings::{Spelling, Spellings};
use super::waiting::{LockWait, Locked};
use crate::{clock, path_text};

/// Longest wait of the thread while nothing is staged.
const NO_DEADLINE: Duration = Duration::from_secs(3600);

/// Executor of the [`Book`]'s actions, on one thread.
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
    /// Unfinished files that examinations have claimed, until their blocks are expected.
    claimed: ById<Continued>,
    staged: ById<Staged>,
    /// Published or found file under the first name of each file with several hard links, as many
    /// as the book knows.
    first_files: ById<FileIdentity>,
    /// Files that are left alone and whose attributes may have to be set.
    to_amend: ById<FileIdentity>,
    /// Files whose contents are being compared with those of items, as they were found.
    compared: ById<Stat>,
    /// Reference directories; `None` until the sources are placed, and if there are none.
    references: Option<References>,
    /// Where replaced and deleted items are kept; `None` until the sources are placed, and if none are.
    backups: Option<Backups>,
    /// The snapshots of the destination; `None` until the sources are placed, and if none is made.
    snapshots: Option<Snapshots>,
    /// Files in reference directories from which items are to be made.
    to_take: ById<Counterpart>,
    /// Files of the destination that may have become new items.
    renames: Renames,
    kept_times: KeptTimes,
    /// How the directories were reached that have items the source has not: they are reopened once
    /// everything else is done.
    reached: HashMap<DirectoryPlace, Whereabouts>,
    /// Directories that are filled under staging names, because theirs belong to something else.
    aside: ById<Aside>,
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
    pub(super) fn new(shared: &'a Shared<'a>, store: Channel<StoreJob>, reads: Channel<DiskJob>) -> Self {
        let settings = Settings {
            options: shared.options.clone(),
            ring_blocks: shared.pool.capacity() as u32,
            is_reserved: resembles_staging,
            asked: shared.order.asked.map(<[_]>::to_vec),
            only_new: shared.only_new(),
            makes_receipt: shared.order.notary.is_some(),
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
            to_amend: ById::default(),
            compared: ById::default(),
            references: None,
            backups: None,
            snapshots: None,
            to_take: ById::default(),
            renames: Renames::default(),
            kept_times: KeptTimes::new(shared.options.dry_run),
            reached: HashMap::new(),
            aside: ById::default(),
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
        // A receiver that requested the items itself continues nothing that it has completely,
        // whatever the sender knows.
        let is_over = ending.is_agreed() || self.shared.order.asked.is_some() && ending.is_complete();
        drop(ending);
        self.book.on_over(is_over);
        self.carry_out();
        if let Some(run) = &mut self.run {
            run.close();
        }
    }

    fn handle(&mut self, job: NameJob) {
        let now = clock::now();
        match job {
            NameJob::Message(message) => self.book.on_message(now, message),
            NameJob::Pack(items, payload) => {
                let length = payload.as_ref().map_or(0, |arrived| arrived.length);
                self.book.on_pack(now, &items, length, payload);
            }
            NameJob::Stored { id, made, digest } => {
                let stored = Stored { digest, is_durable: made.is_durable(), bytes: made.bytes() };
                let item = self.book.item(id);
                if let Some((directory, name)) = item.and_then(|item| self.place(item).ok()) {
                    let staged = Staged::new(directory, name, made);
                    self.staged.insert(id, staged);
                }
                self.book.on_stored(now, id, stored);
            }
            NameJob::Compared { id, same } => self.book.on_compared(now, id, same),
            NameJob::Referred { id, made } => self.on_reference_copied(id, made),
            NameJob::Candidates(found) => self.on_candidates_found(found),
            NameJob::Lost { id, failure } => self.book.on_lost(now, id, failure),
        }
    }

    /// Carries out the book's actions, and reports the outcome of each before the next.
    fn carry_out(&mut self) {
        while let Some(action) = self.book.poll() {
            self.act(action);
        }
    }

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
            Action::Expect { id, held } => self.expect(id, held),
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
                let flushed = self.directories.flush(&file_systems).map_err(|error| failure::of_tree(&error));
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
            Action::FinishDirectory { entry, remembered } => {
                let finished = self.finish_directory(&entry, remembered);
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
            Action::Reply(message) => self.shared.reply(message),
            Action::Notify(notification) => self.shared.notify(notification),
            Action::Complete => self.shared.on_ending(|ending, _| ending.on_complete()),
            Action::Fail(error) => self.shared.fail(error),
        }
    }
}

/// The run as a whole.
impl FileExecutor<'_> {
    /// Finds where the sources are placed; takes the lock of the run's journal, which an earlier
    /// session may still hold.
    fn find_place(&mut self, begin: &Begin, is_journaled: bool) -> Result<Placed, SessionError> {
        let shared = self.shared;
        let (tree, destination) = (shared.order.tree, shared.order.destination);
        let parents = match shared.options {
            options if !options.mkpath => Parents::Needed,
            options if options.dry_run || options.missing == Missing::LeaveOut => Parents::Imagined,
            _ => Parents::Made,
        };
        let drop_box = shared.order.allowed.drop_box;
        let is_drop_box = drop_box.is_some();
        // A client that may only make new items neither chooses by what exists nor learns of it.
        let place = shared.options.place.filter(|_| !is_drop_box);
        let is_directory = shared.options.snapshot.is_some();
        let wanted = Wanted { parents, place, keeps_name: shared.options.keeps_name, is_directory };
        if parents == Parents::Made && !is_drop_box {
            // Nothing is made for a copy that is refused.
            let imagined = Wanted { parents: Parents::Imagined, ..wanted };
            let imagined = Placement::find(tree, destination, begin, imagined, drop_box)?;
            refuse_onto_itself(&imagined, begin)?;
        }
        let placement = Placement::find(tree, destination, begin, wanted, drop_box)?;
        if shared.options.missing == Missing::LeaveOut {
            placement.refuse_new()?;
        }
        if let Some(place) = placement.place_of_directory().filter(|_| !is_drop_box) {
            // Before another run is waited for, whose end may change what is there.
            let _ = shared.place.set(place);
            shared.reply(Message::Placed(place));
        }
        // A drop box replaces nothing, and does not reveal whether the sources exist there.
        if !is_drop_box {
            refuse_onto_itself(&placement, begin)?;
        }
        self.sources = SourcesHere::of(begin).map(Arc::new);
        if !is_drop_box {
            self.open_beside(&placement)?;
        }
        let opening = self.opening.insert(Opening { job: begin.job, placement, is_journaled });
        self.run = opening.find_run(shared)?;
        opening.check_snapshot(shared, self.run.as_ref())?;
        Ok(Placed {
            resuming: self.run.as_ref().is_some_and(|run| run.resuming),
            has_waited: self.run.as_ref().is_some_and(|run| run.has_waited),
            peer_is_gone: shared.link.is_hung_up(),
        })
    }

    /// Opens the reference directories, and finds that for backups.
    fn open_beside(&mut self, placement: &Placement) -> Result<(), SessionError> {
        let shared = self.shared;
        let (tree, destination) = (shared.order.tree, shared.order.destination);
        if !shared.options.link_dest.is_empty() {
            self.references = Some(References::open(tree, destination, shared.options, placement)?);
        }
        self.backups = Backups::open(tree, destination, shared.options, placement, self.sources.as_deref())?;
        Ok(())
    }

    /// Makes the destination, if need be, and begins the run's journal in it; returns the target
    /// of each source.
    fn begin_run(&mut self) -> Result<Vec<Target>, NotBegun> {
        let shared = self.shared;
        // Nothing is made for a copy that is refused.
        self.begin_receipt().map_err(NotBegun::Failed)?;
        let Some(opening) = &mut self.opening else { return Ok(Vec::new()) };
        if !shared.options.dry_run {
            self.new_destination |= opening.placement.make(shared.only_new()).map_err(NotBegun::Failed)?;
        }
        if self.run.is_none()
            && let Some(run) = opening.find_run(shared).map_err(NotBegun::Failed)?
        {
            let (resuming, has_waited) = (run.resuming, run.has_waited);
            self.run = Some(run);
            if has_waited {
                return Err(NotBegun::HasWaited { resuming });
            }
        }
        let local = |reason| NotBegun::Failed(SessionError::Local(reason));
        if !shared.options.dry_run {
            let is_copied = shared.options.snapshot.is_none();
            let may_let_in = shared.options.preserve.mode && !shared.only_new() && is_copied;
            opening.placement.check_rights(may_let_in).map_err(NotBegun::Failed)?;
        }
        if let Some(run) = &mut self.run
            && !run.begin(shared.order.transfer).map_err(local)?
        {
            let before = self.run.take();
            let found = opening.find_run(shared).map_err(NotBegun::Failed)?;
            self.run = found.map(|found| found.or_as_waited_for(before));
            let resuming = self.run.as_ref().is_some_and(|run| run.resuming);
            return Err(NotBegun::HasWaited { resuming });
        }
        let landings = match shared.options.snapshot {
            Some(snapshot) => self.land_in_snapshot(snapshot),
            None => opening.placement.landings(),
        };
        let landings = landings.map_err(NotBegun::Failed)?;
        self.opening = None;
        self.begin_renames();
        self.directories.land(landings).map_err(|error| local(error.to_string()))
    }

    /// Notes the staged item in the run's journal; without that the item is lost.
    fn note_staged(&mut self, id: EntryId, path: &[u8]) {
        let Some(run) = &mut self.run else { return };
        run.staged(path);
        if let Err(reason) = run.write() {
            self.book.on_lost(clock::now(), id, reason.into());
        }
    }

    fn note_released(&mut self, path: &[u8]) {
        if let Some(run) = &mut self.run {
            run.released(path);
        }
    }

    fn note_published(&mut self, records: &[(ItemKey, FileDigest)]) {
        let Some(run) = &mut self.run else { return };
        records.iter().for_each(|&(key, digest)| run.note(&Record::Published { key, digest }));
        if let Err(reason) = run.write() {
            tracing::warn!(%reason, "an interrupted run will not be continued from here");
        }
    }

    fn put_away(&mut self, contents: Option<(DirectoryId, Box<Entry>)>) {
        if self.shared.options.preserve.mode
            && !self.shared.only_new()
            && let Some((directory, _)) = &contents
            && let Ok(directory) = self.directories.get(*directory)
            && let Err(error) = let_owner_in(directory)
        {
            tracing::debug!(%error, "the journal of the run may not be removable");
        }
        if let Some(run) = &mut self.run {
            run.remove();
        }
        if let Some((directory, entry)) = contents
            && (self.new_destination || !self.shared.only_new())
            && let Ok(directory) = self.directories.get(directory)
        {
            // It was possible a moment ago, and was answered for then.
            let restored = directory.set_own_metadata(&metadata(&entry, self.shared.options));
            if let Err(reason) = restored.and_then(|()| directory.sync()) {
                tracing::warn!(%reason, "the directory's time may be that of the end of the copy");
            }
        }
    }
}

/// Outcome of making a further name (hard link) of a file.
enum Linked {
    /// The new name refers to the file that was published or found under the first name.
    ToFirst,
    /// The hard link was not made, for this reason.
    Not(Apart),
}

/// Whether the item is the first name of a file that has several.
fn is_first_name(item: &Item) -> bool {
    matches!(item.entry.kind, EntryKind::File { linked: true, .. })
}

impl Opening {
    /// Checks that the snapshot that is asked for can be made, before anything is.
    fn check_snapshot(&self, shared: &Shared<'_>, run: Option<&RunLog>) -> Result<(), SessionError> {
        match (shared.options.snapshot, self.placement.base()) {
            (Some(snapshot), Some(base)) => {
                let all = check_latest(base)?;
                // Another run may have made a later one meanwhile.
                let has_begun = run.is_some_and(|run| run.is_begun() || run.has_waited);
                if has_begun { Ok(()) } else { check_clock(base, snapshot.time, &all) }
            }
            _ => Ok(()),
        }
    }

    /// Finds the run's journal; `None` if the run has none, or the directory for it is missing.
    fn find_run(&self, shared: &Shared<'_>) -> Result<Option<RunLog>, SessionError> {
        let (true, Some(base)) = (self.is_journaled, self.placement.base()) else { return Ok(None) };
        // A snapshot is another job than a copy of the sources into the same directory.
        let latest = shared.options.snapshot.map(|_| latest());
        let id = RunId {
            job: &self.job,
            target: self.placement.only_name().or(latest.as_ref()),
            transfer: &shared.order.transfer,
            whose: shared.whose(),
        };
        let waiting = LockWait::of(shared, Locked::Everything);
        RunLog::find(base, id, shared.options.resume, &waiting).map(Some).map_err(SessionError::Local)
    }
}

/// Items and directories.
impl FileExecutor<'_> {
    /// Makes or opens a directory; `None` if it is missing in a dry run, or where nothing new is
    /// made.
    fn make_directory(&mut self, new: &NewDirectory) -> Result<Option<DirectoryPlace>, Failure> {
        if self.shared.options.dry_run {
            let found = self.directories.find_existing(new);
            if found.is_none() {
                self.is_directory_obstructed(new);
            }
            return Ok(found);
        }
        if self.shared.only_new() {
            return self.directories.make_only_new(new, self.new_destination, &mut self.spellings).map(Some);
        }
        let preserve = self.shared.options.preserve;
        if self.shared.options.missing == Missing::LeaveOut {
            let opened = self.directories.open(new, preserve, &mut self.spellings);
            return opened.map_err(|failure| self.cannot_be_made(new, failure));
        }
        match self.directories.make(new, preserve, &mut self.spellings) {
            Err(_) if self.is_directory_obstructed(new) => self.make_aside(new),
            Err(failure) => Err(self.cannot_be_made(new, failure)),
            made => made,
        }
        .map(Some)
    }

    fn finish_directory(&mut self, entry: &Entry, remembered: bool) -> Result<(), Failure> {
        let Some(directory) = self.directories.close(entry.id, remembered) else { return Ok(()) };
        if self.shared.options.dry_run {
            return Ok(());
        }
        let wanted = metadata(entry, self.shared.options);
        let restored = restore(&wanted, |wanted| directory.set_own_metadata(wanted));
        if !restored.map_err(|error| failure::of_tree(&error))? {
            self.shared.notice(NoticeKind::ModeNotKept, directory.path().as_bytes());
        }
        if wanted.mtime.is_some() && directory.own_stat().is_ok_and(|stat| is_far_off(wanted.mtime, stat.mtime)) {
            self.shared.notice(NoticeKind::TimeNotKept, directory.path().as_bytes());
        }
        Ok(())
    }

    /// Directory that an item goes into, and its name there.
    fn place(&self, item: &Item) -> Result<(&Directory, Name), Failure> {
        let directory = self.directories.get(item.directory)?;
        let name = Name::new(&item.place.name).map_err(|error| error.to_string())?;
        Ok((directory, name))
    }

    fn item(&self, id: EntryId) -> Result<&Item, Failure> {
        self.book.item(id).ok_or_else(|| "it is not known any more".into())
    }

    /// Extent of the lock of an item's unfinished file: everything, or one item of many.
    fn locked(&self) -> Locked {
        if self.run.is_some() { Locked::OneOfMany } else { Locked::Everything }
    }

    fn examine_all(&mut self, examinations: &[Examination]) {
        let examine = |examination: &Examination| (examination.id, self.examine(*examination));
        let examined = examinations.iter().map(examine).collect();
        if self.shared.has_failed() {
            // A lock may not have been waited for, which is no failure of its item.
            self.book.on_link_ended();
        }
        self.book.on_examined(examined);
    }

    fn examine(&mut self, examination: Examination) -> Result<Verdict, Failure> {
        let references = self.references_of(examination.id);
        let compared = self.compared.remove(&examination.id);
        let item = self.item(examination.id)?;
        let (directory, name) = self.place(item)?;
        let waiting = LockWait::of(self.shared, self.locked());
        let ours = (self.run.as_ref(), self.shared.whose());
        let examiner = Examiner::of(item, (directory, &name), ours, &waiting, &self.kept_times);
        let examiner = examiner.preserving(self.shared.options.preserve);
        let mut examiner = examiner.with_references(&references).with_renames(&self.renames).with_compared(compared);
        let verdict = self.book.decide(examination, &mut examiner)?;
        let (found, claimed, counterparts) = (examiner.found, examiner.claimed, examiner.counterparts);
        let candidates = examiner.candidates;
        let (directory, place, is_first) = (directory.clone(), item.place.directory, is_first_name(item));
        let is_found = !matches!(
            verdict,
            Verdict::Contents { .. }
                | Verdict::Reference(_)
                | Verdict::SameSize
                | Verdict::Undecided
                | Verdict::Candidates(_)
                | Verdict::Taken(_)
        );
        let counterpart_name = name.clone();
        let spelling = Spelling { directory: &directory, place, name: &name };
        self.spellings.check(spelling, found.as_ref().map(|found| (found, is_found)))?;
        if let (Verdict::SameSize, Some(found)) = (&verdict, found) {
            self.compared.insert(examination.id, found);
        }
        if let Some(found) = found.as_ref().map(FileIdentity::of) {
            if verdict == (Verdict::Skip { amend: true }) {
                self.to_amend.insert(examination.id, found);
            }
            if is_found && is_first && !matches!(verdict, Verdict::Keep(_)) {
                self.remember_first(examination.id, found);
            }
        }
        if let Verdict::Reference(Reference { place, .. }) = verdict
            && let Some((directory, found)) = match place {
                ReferencePlace::Older(number) => {
                    let found = counterparts.into_iter().find(|(place, _)| *place == number);
                    references[number].clone().zip(found.map(|(_, found)| found))
                }
                ReferencePlace::Itself => found.map(|found| (directory, found)),
            }
        {
            let location = Location::In(directory, counterpart_name);
            self.to_take.insert(examination.id, Counterpart { location, found });
        }
        match verdict {
            Verdict::Candidates(_) => self.renames.keep(examination.id, candidates.unwrap_or_default()),
            _ => self.renames.forget(examination.id),
        }
        if let Some(claimed) = claimed {
            self.claimed.insert(examination.id, claimed);
        }
        if self.shared.options.dry_run && matches!(verdict, Verdict::Contents { .. }) {
            // Otherwise it is noticed when the item is renamed.
            self.is_item_obstructed(examination.id);
        }
        Ok(verdict)
    }

    /// Sets attributes that an existing file lacks, if it is still the one that was examined;
    /// returns whether something was changed.
    fn amend(&mut self, id: EntryId) -> Result<bool, Failure> {
        let looked_at = self.to_amend.remove(&id);
        let item = self.item(id)?;
        let (directory, name) = self.place(item)?;
        let wanted = metadata(&item.entry, self.shared.options);
        if let EntryKind::Special(_) = item.entry.kind {
            return amend_special(directory, &name, looked_at, &wanted);
        }
        let (file, stat) = directory.open_file(&name).map_err(|error| failure::of_tree(&error))?;
        if looked_at != Some(FileIdentity::of(&stat)) {
            return Err("is another file by now".into());
        }
        let amended = directory.amend(&name, &file, &wanted);
        amended.map_err(|error| {
            tracing::debug!(%error, "a file's attributes cannot be set, so it is replaced");
            failure::of_tree(&error)
        })
    }

    /// Remembers the file that has the first of several names.
    fn remember_first(&mut self, id: EntryId, file: FileIdentity) {
        if self.first_files.len() < MAX_LINKED || self.first_files.contains_key(&id) {
            self.first_files.insert(id, file);
        }
    }

    fn expect(&mut self, id: EntryId, held: Option<BlockMap>) {
        let continued = self.claimed.remove(&id).zip(held);
        let (Some(store), Ok(item)) = (&self.store, self.item(id)) else { return };
        let Ok((directory, name)) = self.place(item) else { return };
        let header = header(item, &name);
        self.shared.large_files.expect(id, item.size());
        let mut plan = Box::new(Plan::new(item.entry.clone(), directory.clone(), name, header, self.locked()));
        let held = continued.map(|(continued, held)| {
            plan.continue_with(continued);
            held
        });
        // The store knows the file before its first block can be requested.
        let _ = store.send(StoreJob::Expect { plan, held });
    }

    fn compare(&self, id: EntryId, digest: FileDigest) {
        let (Some(reads), Ok(item)) = (&self.reads, self.item(id)) else { return };
        let Ok((directory, name)) = self.place(item) else { return };
        let subject = Subject::Published(Location::In(directory.clone(), name));
        let job = CompareJob { id, subject, size: item.size(), digest };
        let _ = reads.send(DiskJob::Compare(job));
    }

    /// Checks small files that arrived in a pack and writes them under staging names; returns for
    /// each the bytes that are not yet durable, or why it was not staged.
    fn stage(&mut self, pieces: &[Piece], payload: Option<Arrived>) -> Vec<(EntryId, Result<ByteCount, NotStaged>)> {
        let contents = payload.as_ref().map_or(&[][..], |arrived| &arrived.block[..arrived.length]);
        let how = (self.shared.options, self.shared.whose());
        let placed = |piece: &Piece| {
            let item = self.item(piece.id)?;
            let (directory, name) = self.place(item)?;
            Ok::<_, Failure>((directory, name, &item.entry))
        };
        let placed: Vec<_> = pieces.iter().map(|piece| (piece, placed(piece))).collect();
        let staged = side_by_side(&placed, |(piece, placed)| {
            let contents = contents.get(piece.offset..).and_then(|rest| rest.get(..piece.length));
            let contents = contents.filter(|contents| *blake3::hash(contents).as_bytes() == piece.digest);
            let contents = contents.ok_or(NotStaged::Damaged)?;
            let (directory, name, entry) = placed.as_ref().map_err(|failure| NotStaged::Failed(failure.clone()))?;
            Staged::small(directory, name.clone(), entry, contents, how).map_err(NotStaged::Failed)
        });
        let keep = |(piece, staged): (&Piece, Result<Staged, NotStaged>)| {
            let kept = staged.map(|staged| {
                if staged.lacks_mode() {
                    self.shared.notice(NoticeKind::ModeNotKept, staged.path().as_bytes());
                }
                self.staged.insert(piece.id, staged);
                ByteCount::from(piece.length)
            });
            (piece.id, kept)
        };
        pieces.iter().zip(staged).map(keep).collect()
    }

    fn make_symlink(&mut self, id: EntryId) -> Result<(), Failure> {
        let item = self.item(id)?;
        let (directory, name) = self.place(item)?;
        let how = (self.shared.options, self.shared.whose());
        let staged = Staged::stage_symlink(directory, name, &item.entry, how)?;
        self.staged.insert(id, staged);
        Ok(())
    }

    fn make_special(&mut self, id: EntryId) -> Result<(), Failure> {
        let item = self.item(id)?;
        let (directory, name) = self.place(item)?;
        let how = (self.shared.options, self.shared.whose());
        let staged = Staged::stage_special(directory, name, &item.entry, how)?;
        self.staged.insert(id, staged);
        Ok(())
    }

    fn make_hard_link(&mut self, id: EntryId, first: &FirstName) {
        match self.stage_hard_link(id, first) {
            Ok(Linked::ToFirst) => self.book.on_link_made(id, Ok(())),
            Ok(Linked::Not(why)) => self.book.on_link_impossible(id, why),
            Err(failure) => self.book.on_link_made(id, Err(failure)),
        }
    }

    fn stage_hard_link(&mut self, id: EntryId, first: &FirstName) -> Result<Linked, Failure> {
        let item = self.item(id)?;
        let EntryKind::HardLink { to, .. } = item.entry.kind else { return Err("is not a hard link".into()) };
        let (directory, name) = self.place(item)?;
        let whose = self.shared.whose();
        if let Some((first, file)) = self.staged.get(&to).and_then(Staged::as_first) {
            // It waits under its staging name until what has its own is deleted.
            let staged = Staged::stage_hard_link(directory, name, first, file, whose)?;
            return Ok(self.linked(id, staged));
        }
        let Some(file) = self.first_files.get(&to).copied() else { return Ok(Linked::Not(Apart::Replaced)) };
        let first_name = Name::new(&first.name).map_err(|error| error.to_string())?;
        let staged = if first.place == item.place.directory {
            Staged::stage_hard_link(directory, name, (directory, &first_name), file, whose)?
        } else {
            let first = self.directories.of_first(first, &first_name)?;
            Staged::stage_hard_link(directory, name, (&first, &first_name), file, whose)?
        };
        Ok(self.linked(id, staged))
    }

    fn linked(&mut self, id: EntryId, staged: Result<Staged, Apart>) -> Linked {
        match staged {
            Ok(staged) => {
                self.staged.insert(id, staged);
                Linked::ToFirst
            }
            Err(why) => Linked::Not(why),
        }
    }

    /// Renames items to their final names: those that may have other spellings one after the
    /// other, because the names to compare with must exist. Returns the outcome of each.
    fn rename(&mut self, publications: &[Publication]) -> Vec<(EntryId, Result<Option<ModificationTime>, Failure>)> {
        let kept = self.keep_replaced(publications);
        let mut spellings = std::mem::take(&mut self.spellings);
        let may_differ = |publication: &&Publication| {
            self.item(publication.id).is_ok_and(|item| {
                let staged = self.staged.get(&publication.id);
                staged.is_some_and(|staged| staged.has_other_spellings(item, &mut spellings))
            })
        };
        let (spelled, plain): (Vec<&Publication>, Vec<&Publication>) = publications.iter().partition(may_differ);
        let mut renamed =
            side_by_side(&plain, |publication| (publication.id, self.rename_one(publication, kept.as_ref())));
        for publication in spelled {
            renamed.push((publication.id, self.rename_spelled(publication, kept.as_ref(), &mut spellings)));
        }
        self.spellings = spellings;
        let shown = |id: &EntryId| self.staged.get(id).and_then(Staged::identity).map(|file| file.modified());
        let shown: Vec<Option<FileTime>> = renamed.iter().map(|(id, _)| shown(id)).collect();
        for ((id, outcome), shown) in renamed.iter().zip(&shown) {
            if let (Ok(()), Some(item), Some(shown)) = (outcome, self.book.item(*id), shown) {
                self.check_time(item, *shown);
            }
            if outcome.is_ok() || !self.is_item_obstructed(*id) {
                self.note_renamed(*id, outcome);
            }
        }
        let time = |FileTime { seconds, nanos }| ModificationTime { seconds, nanos };
        renamed.into_iter().zip(shown).map(|((id, outcome), shown)| (id, outcome.map(|()| shown.map(time)))).collect()
    }

    /// Notifies the user if an item's time of modification is not the one that was set.
    fn check_time(&self, item: &Item, shown: FileTime) {
        let is_link = matches!(item.entry.kind, EntryKind::HardLink { .. });
        if !is_link && is_far_off(metadata(&item.entry, self.shared.options).mtime, shown) {
            self.shared.notice(NoticeKind::TimeNotKept, &item.path);
        }
    }

    fn rename_one(&self, publication: &Publication, kept: Option<&Kept>) -> Result<(), Failure> {
        let staged = self.staged.get(&publication.id).ok_or("it is not staged")?;
        let item = self.item(publication.id)?;
        if publication.needs_sender && self.shared.link.is_hung_up() {
            let path = path_text(&item.path);
            return Err(format!("{path}: the sender closed the connection before it was through").into());
        }
        let verified = publication.digest.filter(|_| self.shared.options.verify);
        let options = self.shared.options;
        let replaced = match kept {
            _ if self.shared.only_new() => Replaced::Nothing,
            // A mirror counts what it deletes first.
            None if options.preserve.specials && options.delete.is_none() => Replaced::AllButDirectories,
            None => Replaced::FilesAndLinks,
            Some(kept) => match kept.get(&publication.id).ok_or("what it replaces is not known")? {
                Ok(before) => Replaced::Kept(before),
                Err(failure) => return Err(failure.clone()),
            },
        };
        staged.rename(item, verified, replaced)
    }

    fn rename_spelled(
        &self,
        publication: &Publication,
        kept: Option<&Kept>,
        spellings: &mut Spellings,
    ) -> Result<(), Failure> {
        let item = self.item(publication.id)?;
        let staged = self.staged.get(&publication.id).ok_or("it is not staged")?;
        let made = staged.check_spelling(item, spellings)?;
        self.rename_one(publication, kept)?;
        staged.note_spelling(item, &made, spellings);
        Ok(())
    }

    fn note_renamed(&mut self, id: EntryId, outcome: &Result<(), Failure>) {
        let Some(staged) = self.staged.get(&id) else { return };
        match outcome {
            Ok(()) => {
                let (file, is_durable) = (staged.identity(), staged.is_durable());
                if let Some(file) = file.filter(|_| self.book.item(id).is_some_and(is_first_name)) {
                    self.remember_first(id, file);
                }
                if !is_durable {
                    self.staged.remove(&id);
                }
            }
            Err(Failure::Final(_)) => staged.remove(),
            Err(Failure::Passing(_)) => {}
        }
    }

    fn remove_journals(&mut self, ids: &[EntryId]) {
        ids.iter().filter_map(|id| self.staged.remove(id)).for_each(|staged| staged.remove_journal());
    }

    /// Removes what an earlier run has left beside the item: journals, and with `with_data` its
    /// unfinished files as well.
    fn remove_leftovers(&self, directory: DirectoryId, name: &[u8], with_data: bool) {
        if let (Ok(directory), Ok(name)) = (self.directories.get(directory), Name::new(name)) {
            let remove = if with_data { leftovers::remove_unfinished } else { leftovers::remove_journals };
            remove(directory, &name, self.shared.whose());
        }
    }

    fn discard(&mut self, id: EntryId) {
        if let Some(staged) = self.staged.remove(&id) {
            staged.discard();
        }
    }

    fn forget(&mut self, id: EntryId) {
        self.claimed.remove(&id);
        self.shared.large_files.forget(id);
    }

    fn flush_names(&self, names: &Names) -> Result<(), TreeError> {
        match names {
            Names::In(directories) => self.directories.flush_names(directories),
            Names::OnFileSystems(file_systems) => self.directories.flush(file_systems),
        }
    }
}
