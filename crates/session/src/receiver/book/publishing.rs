//! Publishing: what has arrived is staged, made durable, and gets its final name.

pub(super) mod batch;

use std::collections::BTreeSet;

use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{Done, EntryId, EntryKind, FileDigest, Message, PackItem, Want};
use icdc_protocol::receipt::line::Status;
use icdc_units::{ByteCount, Time};

use super::Book;
use super::action::{
    Action, Answer, Apart, Guard, Names, NotRenamed, NotStaged, Notification, Piece, Publication, PublishedFile, Stored,
};
use super::answers::LargeContents;
use super::item::{DirectoryId, ModificationTime};
use super::links::Progress;
use super::questions::Step;
use super::state::{ItemState, NameFlush, Origin, SessionStage, Tracked};
use crate::{Failure, SessionError};

/// Most directories that are flushed one by one; more are flushed with their file systems.
const DIRECTORIES: usize = 4;
/// Most items in one `Done` message.
const MAX_DONE: usize = 1024;

impl<P> Book<P> {
    /// Handles small files that have arrived, back to back in a payload of `length` bytes.
    pub fn on_pack(&mut self, now: Time, items: &[PackItem], length: usize, payload: P) {
        self.last = now;
        let outcome = self.pack(items, length, payload);
        self.end_on_error(outcome);
    }

    /// Checks small files that have arrived against their announcements, and requests that those
    /// that are wanted be written under staging names.
    fn pack(&mut self, items: &[PackItem], length: usize, payload: P) -> Result<(), SessionError> {
        match self.stage {
            SessionStage::Running(_) => {}
            SessionStage::Broken => return Ok(()),
            _ => return Err(SessionError::Protocol("data came before it was asked for".into())),
        }
        let mut pieces = Vec::with_capacity(items.len());
        let mut offset = 0;
        for PackItem { id, length: part, digest } in items {
            let part = *part as usize;
            if part > length - offset {
                return Err(SessionError::Protocol("a pack is longer than its payload".into()));
            }
            offset += part;
            // An item that failed here is still on its way; its bytes are useless.
            let Some(Tracked { item, state: state @ ItemState::Wanted }) = self.items.get_mut(id) else { continue };
            let EntryKind::File { size, .. } = item.entry.kind else {
                return Err(SessionError::Protocol(format!("item {id} is not a file")));
            };
            if size > PACK_FILE_LIMIT || part as u64 != size {
                return Err(SessionError::Protocol(format!("packed file {id} has another length than announced")));
            }
            *state = ItemState::Staging(FileDigest::Blake3(*digest));
            pieces.push(Piece { id: *id, offset: offset - part, length: part, digest: *digest });
        }
        if !pieces.is_empty() {
            self.ask(Action::Stage { pieces, payload });
        }
        Ok(())
    }

    /// Handles the outcomes of staging small files. Success gives the file's length: its bytes are
    /// written, and not durable yet. A failure fails that item; contents that do not match their
    /// digest end the session.
    pub fn on_staged(&mut self, staged: Vec<(EntryId, Result<ByteCount, NotStaged>)>) {
        self.answered(Answer::Staged);
        let mut outcome = Ok(());
        for (id, staged) in staged {
            match staged {
                Ok(bytes) => self.staged(id, bytes, false),
                Err(NotStaged::Failed(failure)) => self.fail(id, failure),
                Err(NotStaged::Damaged) => {
                    outcome = Err(SessionError::Protocol(format!("packed file {id} does not match its digest")));
                }
            }
        }
        self.end_on_error(outcome);
    }

    /// Handles a large file that is complete under its staging name and is to get its final one.
    pub fn on_stored(&mut self, now: Time, id: EntryId, stored: Stored) {
        self.last = now;
        match self.items.get_mut(&id) {
            Some(Tracked { state: state @ ItemState::Wanted, item }) => {
                *state = ItemState::Staging(stored.digest);
                if let Some(streamed) = stored.streamed {
                    streamed.describe(&mut item.entry);
                }
            }
            _ => return self.ask(Action::Discard(id)),
        }
        self.staged(id, stored.bytes, stored.is_durable);
        if stored.is_durable {
            self.publish();
        }
        self.proceed();
    }

    /// Handles the outcome of making a symbolic link or a hard link.
    pub fn on_link_made(&mut self, id: EntryId, outcome: Result<(), Failure>) {
        self.answered(Answer::LinkMade);
        match outcome {
            Ok(()) => self.staged(id, ByteCount::ZERO, false),
            Err(failure) => self.fail(id, failure),
        }
        self.proceed();
    }

    /// Handles that a hard link cannot be made: the contents of the item are wanted after all, for
    /// a file of its own.
    pub fn on_link_impossible(&mut self, id: EntryId, why: Apart) {
        self.answered(Answer::LinkMade);
        self.separate(id, why);
        self.proceed();
    }

    /// Marks a hard link to become a file of its own as soon as it has its first answer.
    pub(super) fn separate_soon(&mut self, id: EntryId) {
        self.apart.push(id);
    }

    /// Turns marked hard links that have had their first answer into files.
    pub(super) fn separate_answered(&mut self) {
        let unanswered = self.answering().map_or(EntryId::MAX, |announced| announced.first);
        let (answered, waiting) = std::mem::take(&mut self.apart).into_iter().partition(|id| *id < unanswered);
        self.apart = waiting;
        let answered: Vec<EntryId> = answered;
        answered.into_iter().for_each(|id| self.separate(id, Apart::Kept));
    }

    /// Turns a hard link into a file of its own, or fails it if the session is over.
    fn separate(&mut self, id: EntryId, why: Apart) {
        if self.phase.is_open() {
            self.want_contents_of_link(id, why);
        } else {
            // The session is over: the sender cannot send them.
            self.fail(id, Failure::Passing("cannot be a further name of its file, and is to be sent".into()));
        }
    }

    /// Turns the entry of a hard link into that of a file, and asks the sender for its contents.
    fn want_contents_of_link(&mut self, id: EntryId, why: Apart) {
        let Some(Tracked { item, .. }) = self.items.get_mut(&id) else { return };
        let EntryKind::HardLink { size, version, sparse, .. } = item.entry.kind else { return };
        item.entry.kind = EntryKind::File { size, version, sparse, linked: false };
        let path = item.path.clone();
        self.notify(Notification::Unlinked { path: path.clone(), why });
        if size > PACK_FILE_LIMIT {
            self.expect(id, LargeContents { size, path, held: None, basis: None });
        }
        self.answer(id, vec![Want::Contents]);
    }

    /// Records that an item is complete under its staging name; `bytes` of it are not durable.
    pub(super) fn staged(&mut self, id: EntryId, bytes: ByteCount, is_durable: bool) {
        let Some(Tracked { item, state }) = self.items.get_mut(&id) else { return };
        let origin = match state {
            ItemState::Staging(digest) => Origin::Sender(*digest),
            ItemState::Referencing => Origin::Reference,
            ItemState::Renaming(digest) => Origin::Renamed(*digest),
            _ => Origin::Link,
        };
        *state = ItemState::Staged { origin, bytes, is_durable, shown: None };
        let (directory, device) = (item.directory, item.place.directory.device);
        if let DirectoryId::Entry(directory) = directory
            && let Some(failure) = self.lost(directory)
        {
            self.ask(Action::Discard(id));
            return self.fail(id, failure);
        }
        let file_system = (!is_durable).then_some(device);
        self.batch.add(id, bytes, file_system);
        if self.batch.is_full() {
            self.publish();
        }
    }

    /// The error for which an open directory could not be made durable; `None` if no flush failed.
    pub(super) fn lost(&self, directory: EntryId) -> Option<Failure> {
        self.batch.outcome(self.levels.lot(directory)?)?.err()
    }

    /// Begins to make staged items durable and visible, unless an earlier lot is in progress.
    pub(super) fn publish(&mut self) {
        let Some(lot) = self.batch.begin() else { return };
        if lot.file_systems.is_empty() {
            self.batch.flushed();
            self.rename();
        } else {
            self.ask(Action::Flush(lot.file_systems.into_iter().collect()));
        }
    }

    /// Handles the outcome of flushing what was staged.
    pub fn on_flushed(&mut self, outcome: Result<(), Failure>) {
        self.answered(Answer::Flushed);
        match outcome.map_err(Failure::passing) {
            Ok(()) => {
                self.batch.flushed();
                self.end_flushed();
                if self.batch.publishing().is_empty() {
                    self.batch.end();
                } else {
                    self.rename();
                }
            }
            Err(failure) => self.lose_batch(&failure),
        }
        self.proceed();
    }

    /// Fails everything that waited for a flush that has failed, or for the next one.
    fn lose_batch(&mut self, failure: &Failure) {
        let items = self.batch.lose(failure);
        self.end_flushed();
        for id in items {
            self.ask(Action::Discard(id));
            self.fail(id, failure.clone());
        }
    }

    /// Requests final names for the items of the present lot.
    fn rename(&mut self) {
        let all = self.batch.publishing().to_vec();
        let (unconfirmed, ready): (Vec<EntryId>, Vec<_>) = all.into_iter().partition(|id| self.is_unconfirmed(*id));
        if !unconfirmed.is_empty() {
            self.ask_before(Step::Publish(unconfirmed));
        }
        let publications: Vec<Publication> = ready.iter().filter_map(|id| self.publication(*id)).collect();
        if publications.is_empty() {
            drop(self.batch.end());
        } else {
            self.ask(Action::Rename(publications));
        }
    }

    /// The request to give a staged item its final name, with the guard of that; `None` if it is
    /// not staged.
    fn publication(&self, id: EntryId) -> Option<Publication> {
        let ItemState::Staged { origin, is_durable, .. } = self.state(id)? else { return None };
        // What was compared with the medium is not read again.
        let digest = origin.digest().filter(|_| !matches!(origin, Origin::Renamed(_)));
        // A durable file has its own lock, a run that of its journal.
        let guard = match is_durable || self.is_journaled {
            true => Guard::Lock,
            false => self.questions.guard(),
        };
        Some(Publication { id, digest, guard })
    }

    /// Whether the sender has to be asked before an item is published: nothing has come from the sender
    /// since it was examined, or since this session has the lock that keeps others from its name.
    fn is_unconfirmed(&self, id: EntryId) -> bool {
        let is_sent = matches!(self.state(id), Some(ItemState::Staged { origin: Origin::Sender(_), .. }));
        let is_known = if self.is_journaled { self.has_heard() } else { self.questions.has_asked() };
        !is_sent && !is_known
    }

    /// Stages items once more that are durable under their staging names, and publishes them.
    pub(super) fn publish_again(&mut self, ids: Vec<EntryId>) {
        for id in ids {
            if self.items.contains_key(&id) {
                self.batch.add(id, ByteCount::ZERO, None);
            }
        }
        self.publish();
    }

    /// Handles the outcomes of [`Action::Rename`]: the modification time that each item shows under
    /// its final name, if it is a file.
    pub fn on_renamed(&mut self, outcomes: Vec<(EntryId, Result<Option<ModificationTime>, NotRenamed>)>) {
        self.answered(Answer::Renamed);
        let mut renamed = Vec::with_capacity(outcomes.len());
        for (id, outcome) in outcomes {
            match outcome {
                Ok(time) => {
                    if let Some(Tracked { state: ItemState::Staged { shown, .. }, .. }) = self.items.get_mut(&id) {
                        *shown = time;
                    }
                    renamed.push(id);
                }
                Err(NotRenamed::Changed) => self.ask_before(Step::Publish(vec![id])),
                Err(NotRenamed::Failed(_)) if self.hold_back(id) => {}
                Err(NotRenamed::Failed(failure)) => {
                    self.ask(Action::Discard(id));
                    self.fail(id, failure);
                }
            }
        }
        match self.names_of(&renamed) {
            Some(names) => {
                self.batch.renamed(renamed);
                self.flush_names(NameFlush::Lot, names);
            }
            None => drop(self.batch.end()),
        }
        self.proceed();
    }

    /// Handles the outcome of flushing final names. If it failed, their items are not reported as
    /// done, and their journals are kept.
    pub fn on_names_flushed(&mut self, outcome: Result<(), Failure>) {
        self.answered(Answer::NamesFlushed);
        match (self.naming.pop_front(), outcome) {
            (Some(NameFlush::Lot), Ok(())) => {
                let published = self.batch.end();
                self.end_all_published(published);
            }
            (Some(NameFlush::Lot), Err(failure)) => self.lose_batch(&failure.passing()),
            (Some(NameFlush::Compared { id, digest, shown }), outcome) => {
                self.on_compared_flushed(id, (digest, shown), outcome);
            }
            (Some(NameFlush::Skipped(ids)), outcome) => self.on_skipped_flushed(ids, &outcome),
            (None, _) => {}
        }
        self.proceed();
    }

    /// Requests that names be made durable, for this purpose.
    pub(super) fn flush_names(&mut self, purpose: NameFlush, names: Names) {
        self.naming.push_back(purpose);
        self.ask(Action::FlushNames(names));
    }

    /// Ends items whose final names are durable: notes them in the run's journal, reports them to
    /// the sender, and removes them from the book.
    fn end_all_published(&mut self, published: Vec<EntryId>) {
        self.note_published(&published);
        // Until the next action a file's journal shows a later run that the file is complete.
        let durable = |id: &EntryId| matches!(self.state(*id), Some(ItemState::Staged { is_durable: true, .. }));
        let durable: Vec<EntryId> = published.iter().copied().filter(durable).collect();
        if !durable.is_empty() {
            self.ask(Action::RemoveJournals(durable));
        }
        self.report_done(&published);
        for id in published {
            self.end_published(id);
        }
    }

    /// The names to flush for these items; `None` if there are none.
    pub(super) fn names_of(&self, named: &[EntryId]) -> Option<Names> {
        let (mut directories, mut file_systems) = (Vec::<DirectoryId>::new(), BTreeSet::new());
        for Tracked { item, .. } in named.iter().filter_map(|id| self.items.get(id)) {
            if directories.last() != Some(&item.directory) {
                directories.push(item.directory);
                file_systems.insert(item.place.directory.device);
            }
        }
        match directories.len() {
            0 => None,
            1..=DIRECTORIES => Some(Names::In(directories)),
            _ => Some(Names::OnFileSystems(file_systems.into_iter().collect())),
        }
    }

    /// Requests that published files be noted in the run's journal, if there is one.
    fn note_published(&mut self, published: &[EntryId]) {
        if !self.is_journaled {
            return;
        }
        let records = published.iter().filter_map(|id| {
            let Tracked { item, state: ItemState::Staged { origin, shown: Some(shown), .. } } = self.items.get(id)?
            else {
                return None;
            };
            Some((item.key(*shown)?, origin.digest()?))
        });
        let records = records.collect();
        self.ask(Action::NotePublished(records));
    }

    /// Reports published items to the sender, and adds their lines to the receipt.
    fn report_done(&mut self, published: &[EntryId]) {
        let (mut done, mut answers) = (Vec::new(), Vec::new());
        for id in published {
            let origin = match self.state(*id) {
                Some(ItemState::Staged { origin, .. }) => origin,
                _ => Origin::Link,
            };
            let (status, digest) = match origin {
                Origin::Reference => {
                    answers.push((*id, Want::Linked));
                    (Status::Linked, None)
                }
                Origin::Renamed(digest) => {
                    answers.push((*id, Want::Renamed(Some(digest))));
                    (Status::Renamed, Some(digest))
                }
                Origin::Sender(_) | Origin::Link => {
                    done.push(Done { id: *id, outcome: Ok(origin.digest()) });
                    (Status::Stored, origin.digest())
                }
            };
            self.add_receipt_line(*id, status, digest);
        }
        self.answer_each(answers);
        for done in done.chunks(MAX_DONE) {
            self.reply(Message::Done(done.to_vec()));
        }
    }

    /// Removes an item that has its final name from the book, and notifies the user.
    fn end_published(&mut self, id: EntryId) {
        let Some(Tracked { item, state: ItemState::Staged { origin, bytes, .. } }) = self.items.get(&id) else {
            return;
        };
        let (path, size) = (item.path.clone(), item.size());
        let published = |file| Notification::Published { path: path.clone(), file };
        let notification = match *origin {
            Origin::Sender(digest) => published(Some(PublishedFile { size, digest, made_durable: *bytes })),
            Origin::Link => published(None),
            Origin::Reference => Notification::Linked { path, size },
            Origin::Renamed(digest) => Notification::Renamed { path, size, digest: Some(digest) },
        };
        let left =
            matches!(origin, Origin::Reference | Origin::Renamed(_)).then(|| (item.directory, item.place.name.clone()));
        self.notify(notification);
        if let Some((directory, name)) = left.filter(|_| size > ByteCount::from(BLOCK_SIZE)) {
            // An earlier session may have begun to receive it.
            self.ask(Action::RemoveLeft { directory, name, with_data: false });
        }
        self.release(id);
        self.leave(id, Progress::Published);
    }

    pub(super) fn set_state(&mut self, id: EntryId, state: ItemState) {
        if let Some(tracked) = self.items.get_mut(&id) {
            tracked.state = state;
        }
    }

    fn state(&self, id: EntryId) -> Option<ItemState> {
        self.items.get(&id).map(|tracked| tracked.state)
    }
}
