//! Completion and failure of items, directories and the run.

use std::cmp::Reverse;
use std::ops::Bound::{Excluded, Unbounded};

use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{Done, Entry, EntryId, EntryKind, Message};
use icdc_units::{ByteCount, Time};

use super::Book;
use super::action::{Action, Answer, NotFinished};
use super::item::DirectoryId;
use super::levels::{DirectoryState, Level};
use super::links::Progress;
use super::publishing::batch::LotNumber;
use super::state::{Finishing, ItemState, Phase, SessionStage, Tracked};
use crate::Failure;

impl<P> Book<P> {
    /// Handles the loss of a large file, which was given up at either end.
    pub fn on_lost(&mut self, now: Time, id: EntryId, failure: Failure) {
        self.last = now;
        self.lose(id, failure);
        self.proceed();
    }

    /// Fails an item that is wanted and whose contents have not arrived; does nothing for any
    /// other.
    pub(super) fn lose(&mut self, id: EntryId, failure: Failure) {
        if self.items.get(&id).is_some_and(|tracked| tracked.state == ItemState::Wanted) {
            self.fail(id, failure);
        }
    }

    /// Ends an item that was wanted and has failed.
    pub(super) fn fail(&mut self, id: EntryId, failure: Failure) {
        let Some(Tracked { item, .. }) = self.items.get(&id) else { return };
        let (entry, path) = (item.entry.clone(), item.path.clone());
        if failure.is_passing() {
            self.forget(id);
        } else {
            self.release(id);
        }
        let reason = self.note_failure(&entry, path, failure);
        self.reply(Message::Done(vec![Done { id, outcome: Err(reason) }]));
        self.leave(id, Progress::Failed);
    }

    /// Notes in the run's journal, if there is one, that a large item has nothing unfinished in its
    /// directory any more, and requests that a large file be dropped.
    pub(super) fn release(&mut self, id: EntryId) {
        if let Some(Tracked { item, .. }) = self.items.get(&id)
            && self.is_journaled
            && item.size() > ByteCount::from(BLOCK_SIZE)
        {
            let path = item.path.clone();
            self.ask(Action::NoteReleased { path });
        }
        self.forget(id);
    }

    /// Requests that a large file be dropped: no block of it is expected any more.
    fn forget(&mut self, id: EntryId) {
        if self.items.get(&id).is_some_and(|tracked| tracked.item.size() > ByteCount::new(PACK_FILE_LIMIT)) {
            self.ask(Action::Forget(id));
        }
    }

    /// Removes an item that is done or has failed, and releases whatever waits for it.
    pub(super) fn leave(&mut self, id: EntryId, progress: Progress) {
        self.remember(id, progress);
        let Some(Tracked { item, state }) = self.items.remove(&id) else { return };
        self.wanted -= usize::from(state.is_wanted());
        self.weight -= item.weight();
        self.claims.release(item.place);
        for link in self.links.settle(id, progress) {
            self.link(link);
        }
        let done = self.levels.child_done(&item.entry);
        self.finish(done);
    }

    /// Records the progress of an item if it is the first name of a file with several.
    pub(super) fn remember(&mut self, id: EntryId, progress: Progress) {
        let Some(Tracked { item, .. }) = self.items.get(&id) else { return };
        if !matches!(item.entry.kind, EntryKind::File { linked: true, .. }) {
            return;
        }
        let level = match item.directory {
            DirectoryId::Entry(directory) => self.levels.get_mut(directory),
            DirectoryId::Source(_) => None,
        };
        let weight = level.as_ref().filter(|level| !level.remembered).map_or(0, |level| level.trail_weight());
        if self.links.remember(item, progress, weight)
            && let Some(level) = level
        {
            level.remembered = true;
        }
    }

    /// Finishes directories whose children are all done, the inner ones first.
    pub(super) fn finish(&mut self, levels: Vec<Level>) {
        for level in levels {
            self.weight -= level.weight();
            let Level { entry, path, state, source, remembered, lot, .. } = level;
            let outcome = match state {
                DirectoryState::Failed(reason) => Err(reason),
                DirectoryState::Exists(place) => {
                    // The journal of a snapshot is beside it.
                    if path.is_empty() && self.is_journaled && self.settings.options.snapshot.is_none() {
                        self.contents = Some((DirectoryId::Source(source), entry.clone()));
                    }
                    let device = place.device;
                    let finishing = Finishing { path, device, remembered, made: lot, restored: None, finished: None };
                    self.finishing.insert(entry.id, finishing);
                    self.finish_directory(Box::new(entry));
                    continue;
                }
                DirectoryState::DryRun | DirectoryState::LeftOut | DirectoryState::Pending => Ok(()),
            };
            self.reply(Message::Done(vec![Done { id: entry.id, outcome: outcome.map(|()| None) }]));
        }
    }

    /// Requests that a directory get its own attributes; others of it are changed only if the sender
    /// has answered: a newer run may have set them.
    fn finish_directory(&mut self, entry: Box<Entry>) {
        let may_change = self.has_heard();
        let Some(finishing) = self.finishing.get_mut(&entry.id) else { return };
        // It is asked for before the flush of that lot is.
        finishing.restored = finishing.made.map(|_| self.batch.touch(finishing.device));
        let remembered = finishing.remembered;
        self.ask(Action::FinishDirectory { entry, remembered, may_change });
    }

    /// Requests attributes for the directories that have others: the sender has answered.
    pub(super) fn finish_differing(&mut self) {
        let differing: Vec<_> = self.differing.values_mut().rev().filter_map(Option::take).collect();
        differing.into_iter().for_each(|entry| self.finish_directory(entry));
    }

    /// Handles the outcome of setting a directory's own attributes.
    pub fn on_directory_finished(&mut self, entry: &Entry, outcome: Result<(), NotFinished>) {
        self.answered(Answer::DirectoryFinished);
        let outcome = match outcome {
            Ok(()) => Ok(()),
            Err(NotFinished::Failed(failure)) => Err(failure),
            Err(NotFinished::Differs) => {
                self.differing.insert(entry.id, Some(Box::new(entry.clone())));
                if self.has_heard() {
                    self.finish_differing();
                }
                return self.proceed();
            }
        };
        let is_awaited = self.differing.contains_key(&entry.id);
        let Some(finishing) = self.finishing.get_mut(&entry.id) else { return };
        let flushed = |lot: Option<LotNumber>| lot.map_or(Some(Ok(())), |lot| self.batch.outcome(lot));
        let outcome = outcome.and(flushed(finishing.made).unwrap_or(Ok(())));
        match flushed(finishing.restored) {
            flushed if outcome.is_ok() && (flushed.is_none() || !self.differing.is_empty()) => {
                finishing.finished = Some(Box::new(entry.clone()));
                if flushed.is_some() {
                    self.end_flushed();
                }
            }
            flushed => {
                self.end_directory(entry, outcome.and(flushed.unwrap_or(Ok(()))));
                if is_awaited {
                    self.end_flushed();
                }
            }
        }
        self.proceed();
    }

    /// Ends the directories that have their attributes, if these are durable and none of those within
    /// is waited for.
    pub(super) fn end_flushed(&mut self) {
        let batch = &self.batch;
        let through = self.finishing.iter().filter_map(|(id, finishing)| {
            let flushed = finishing.restored.map_or(Some(Ok(())), |lot| batch.outcome(lot))?;
            finishing.finished.is_some().then_some((*id, flushed))
        });
        let mut through: Vec<_> = through.collect();
        // The inner ones first: a sender that moves removes them in this order.
        through.sort_by_key(|(id, _)| Reverse(*id));
        for (id, flushed) in through {
            let is_waiting = self.differing.range((Excluded(id), Unbounded)).next().is_some();
            let finishing = self.finishing.get_mut(&id).filter(|_| !is_waiting);
            if let Some(entry) = finishing.and_then(|finishing| finishing.finished.take()) {
                self.end_directory(&entry, flushed);
            }
        }
    }

    /// Reports the end of a directory to the sender, and its failure to the user.
    fn end_directory(&mut self, entry: &Entry, outcome: Result<(), Failure>) {
        let Some(Finishing { path, .. }) = self.finishing.remove(&entry.id) else { return };
        self.differing.remove(&entry.id);
        if outcome.is_ok() && self.hold_back_directory(entry, &path) {
            return;
        }
        let outcome = outcome.map(|()| None).map_err(|failure| self.note_failure(entry, path, failure));
        self.reply(Message::Done(vec![Done { id: entry.id, outcome }]));
    }

    /// Marks the run as complete if everything is announced and done.
    pub(super) fn check_complete(&mut self) {
        let nothing_announced = match &self.stage {
            SessionStage::Running(run) => run.queue.is_empty() && run.answering.is_none(),
            _ => false,
        };
        if self.phase.is_last()
            && nothing_announced
            && self.items.is_empty()
            && self.levels.is_empty()
            && self.finishing.is_empty()
            && self.batch.is_empty()
            && self.delete_extras()
            && self.make_snapshot()
        {
            self.end_receipt();
            self.phase = Phase::Complete;
            self.ask(Action::Complete);
        }
    }
}
