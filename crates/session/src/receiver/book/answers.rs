//! Answers to items, according to what exists at the destination.

use std::collections::BTreeSet;

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_ENTRIES, MAX_FILE_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{Done, Entry, EntryId, EntryKind, FileDigest, Kept, Message, Want, Wants};
use icdc_protocol::receipt::line::Status;
use icdc_units::{ByteCount, Time};

use super::Book;
use super::action::{Action, Answer, Basis, Examination, Names, Notification, Question};
use super::item::{DirectoryId, ModificationTime, size_of};
use super::links::{Linking, Progress};
use super::questions::Step;
use super::resume::verdict::Verdict;
use super::state::{ItemState, NameFlush, Tracked};
use crate::Failure;

/// Contents of a file of more than a pack's limit that are to be requested, with what is there of
/// them.
pub(super) struct LargeContents {
    /// Length of the file in bytes; of a stream, the most that it may have.
    pub(super) size: u64,
    /// Path of the item below the destination.
    pub(super) path: Vec<u8>,
    /// Blocks that an earlier run has left.
    pub(super) held: Option<BlockMap>,
    /// Files from which blocks are put together; `None` if they travel whole.
    pub(super) basis: Option<Basis>,
}

impl<P> Book<P> {
    /// Handles the outcomes of examining items, in the order of the request.
    pub fn on_examined(&mut self, examined: Vec<(EntryId, Result<Verdict, Failure>)>) {
        self.answered(Answer::Examined);
        if !self.phase.is_open() {
            // The answer is no longer needed.
            return;
        }
        let unflushed: Vec<EntryId> = examined
            .iter()
            .filter(|(id, outcome)| *outcome == Ok(Verdict::Skip { amend: false }) && self.needs_flush(*id))
            .map(|(id, _)| *id)
            .collect();
        let is_dry = self.settings.options.dry_run;
        let to_amend: Vec<EntryId> = examined
            .iter()
            .filter(|(_, outcome)| !is_dry && *outcome == Ok(Verdict::Skip { amend: true }))
            .map(|(id, _)| *id)
            .collect();
        let mut alone = Vec::new();
        for (id, outcome) in examined {
            let Some(Tracked { state, .. }) = self.items.get(&id) else { continue };
            let by_itself = *state == ItemState::Examined;
            let answer = self.judge(id, outcome);
            match self.answering() {
                Some(announced) if !by_itself => {
                    announced.examined -= 1;
                    announced.answers[(id - announced.first) as usize] = answer;
                }
                _ => alone.extend(answer.map(|want| (id, want))),
            }
        }
        self.answer_each(alone);
        if let Some(names) = self.names_of(&unflushed) {
            self.flush_names(NameFlush::Skipped(unflushed), names);
        }
        if !to_amend.is_empty() {
            self.amend(to_amend);
        }
        if self.answering().is_some_and(|announced| announced.examined == 0 && announced.drafts.is_empty()) {
            self.answer_announced();
        }
        let outcome = self.process_announced();
        self.end_on_error(outcome);
    }

    /// The answer to an examined item; `None` if it is given later.
    fn judge(&mut self, id: EntryId, outcome: Result<Verdict, Failure>) -> Option<Want> {
        let size = self.items.get(&id).map_or(ByteCount::ZERO, |tracked| tracked.item.size());
        match outcome {
            Ok(Verdict::Have(digest)) => Some(self.have(id, digest, None)),
            Ok(Verdict::TakenOver(digest)) => {
                self.notify(Notification::TakenOver { size });
                self.add_receipt_line(id, Status::Earlier, Some(digest));
                self.leave(id, Progress::Published);
                Some(Want::TakenOver(digest))
            }
            Ok(Verdict::Skip { amend }) if self.needs_flush(id) || (amend && !self.settings.options.dry_run) => {
                self.remember(id, Progress::Coming);
                self.set_state(id, ItemState::Skipping);
                None
            }
            Ok(Verdict::Skip { .. }) => Some(self.skip(id)),
            Ok(Verdict::Keep(why)) => Some(self.keep(id, why)),
            Ok(Verdict::Compare { digest, is_noted, shown }) => {
                self.remember(id, Progress::Coming);
                self.set_state(id, ItemState::Comparing { digest, is_noted, shown });
                self.ask(Action::Compare { id, digest });
                None
            }
            Ok(Verdict::SameSize) => {
                self.ask_digest(id);
                None
            }
            Ok(Verdict::Reference(reference)) => self.refer(id, reference),
            Ok(Verdict::Undecided) => {
                self.await_candidates(id);
                None
            }
            Ok(Verdict::Candidates(places)) => {
                self.ask_about_candidates(id, places);
                None
            }
            Ok(Verdict::Difference { held, basis }) => {
                self.want(id, held, Some(basis));
                Some(match basis {
                    Basis::AtSamePlace(_) => Want::Difference,
                    Basis::AtAnyPlace(_) => Want::Delta,
                })
            }
            Ok(Verdict::Contents { held }) => {
                let want = if held.is_some() { Want::Rest } else { Want::All };
                if self.settings.options.dry_run {
                    if let Some(Tracked { item, .. }) = self.items.get(&id) {
                        let path = item.path.clone();
                        self.notify(Notification::WouldReceive { path, size });
                    }
                    self.leave(id, Progress::Published);
                } else {
                    self.want(id, held, None);
                }
                Some(want)
            }
            Ok(Verdict::Taken(failure)) => {
                self.remove_left_of(id);
                self.items.contains_key(&id).then(|| self.refuse_tracked(id, failure))
            }
            Err(failure) => self.items.contains_key(&id).then(|| self.refuse_tracked(id, failure)),
        }
    }

    /// Removes what an earlier session has left of an item that gets no name: nothing will come of
    /// it.
    fn remove_left_of(&mut self, id: EntryId) {
        if let Some(Tracked { item, .. }) = self.items.get(&id)
            && item.size() > ByteCount::from(BLOCK_SIZE)
        {
            let (directory, name) = (item.directory, item.place.name.clone());
            self.ask(Action::RemoveLeft { directory, name, with_data: true });
        }
    }

    /// Whether the name of an item that is left alone needs a flush of its own: an earlier session
    /// may have made it, and ended before it was durable. In a directory of the run it becomes
    /// durable with that.
    fn needs_flush(&self, id: EntryId) -> bool {
        let directory = self.items.get(&id).map(|tracked| tracked.item.directory);
        !self.settings.options.dry_run && matches!(directory, Some(DirectoryId::Source(_)))
    }

    /// Requests that attributes be set, once the sender has confirmed that it is connected: a newer run may
    /// have set them since.
    fn amend(&mut self, ids: Vec<EntryId>) {
        if self.is_journaled && self.has_heard() {
            self.ask(Action::Amend(ids));
        } else {
            self.ask_before(Step::Amend(ids));
        }
    }

    /// Outcomes of setting attributes: `Ok(true)` if one was changed, `Ok(false)` if all were
    /// right. An item whose attributes cannot be set is transferred anew.
    pub fn on_amended(&mut self, amended: Vec<(EntryId, Result<bool, Failure>)>) {
        self.answered(Answer::Amended);
        let (mut changed, mut unchanged, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (id, outcome) in amended {
            match outcome {
                Ok(true) => changed.push(id),
                Ok(false) => unchanged.push(id),
                Err(_) => refused.push(id),
            }
        }
        if self.phase.is_open() {
            let (unflushed, through): (Vec<_>, Vec<_>) = unchanged.into_iter().partition(|id| self.needs_flush(*id));
            self.on_skipped_flushed(through, &Ok(()));
            if let Some(names) = self.names_of(&unflushed) {
                self.flush_names(NameFlush::Skipped(unflushed), names);
            }
            let devices = changed.iter().filter_map(|id| Some(self.items.get(id)?.item.place.directory.device));
            let devices: BTreeSet<u64> = devices.collect();
            if !devices.is_empty() {
                self.flush_names(NameFlush::Skipped(changed), Names::OnFileSystems(devices.into_iter().collect()));
            }
            let mut examinations = Vec::new();
            for id in refused {
                self.set_state(id, ItemState::Examined);
                examinations.push(Examination { id, question: Question::Contents });
            }
            if !examinations.is_empty() {
                self.ask(Action::Examine(examinations));
            }
        }
        self.proceed();
    }

    /// Ends an item at whose name the destination stays as it is; returns the answer.
    fn keep(&mut self, id: EntryId, why: Kept) -> Want {
        if let Some(Tracked { item, .. }) = self.items.get(&id) {
            let (size, path) = (item.size(), item.path.clone());
            self.notify(Notification::Kept { path, size, why });
        }
        self.add_receipt_line(id, Status::Kept, None);
        self.leave(id, Progress::Kept);
        Want::Keep(why)
    }

    /// Ends an item that is left as it is at the destination; returns the answer.
    fn skip(&mut self, id: EntryId) -> Want {
        if let Some(Tracked { item, .. }) = self.items.get(&id) {
            let (size, path) = (item.size(), item.path.clone());
            let is_file = matches!(item.entry.kind, EntryKind::File { .. } | EntryKind::HardLink { .. });
            let (directory, name) = (item.directory, item.place.name.clone());
            let is_small = size <= ByteCount::from(BLOCK_SIZE);
            // A run leaves data of small items only if it is cut off.
            if (!is_small || self.is_resuming) && !self.settings.options.dry_run {
                self.ask(Action::RemoveLeft { directory, name, with_data: is_small });
            }
            self.notify(Notification::Skipped { path, size, is_file });
        }
        self.add_receipt_line(id, Status::Equal, None);
        self.leave(id, Progress::Published);
        Want::Skip
    }

    /// Handles the flush of the names of items that are left alone: they are durable, or it failed.
    pub(super) fn on_skipped_flushed(&mut self, ids: Vec<EntryId>, outcome: &Result<(), Failure>) {
        let answer = |id| match outcome {
            Ok(()) => (id, self.skip(id)),
            Err(failure) => (id, self.refuse_tracked(id, failure.clone().passing())),
        };
        let answers = ids.into_iter().map(answer).collect();
        self.answer_each(answers);
    }

    /// Ends an item of which nothing is wanted because it is published with this digest; `shown`:
    /// its modification time, if the journal may lack it. Returns the answer.
    fn have(&mut self, id: EntryId, digest: FileDigest, shown: Option<ModificationTime>) -> Want {
        if let Some(Tracked { item, .. }) = self.items.get(&id) {
            let size = item.size();
            let (directory, name) = (item.directory, item.place.name.clone());
            if size > ByteCount::from(BLOCK_SIZE) {
                // Its journal of blocks is removed, so that a later session finds it only in the
                // run's journal.
                if let Some(key) = shown.and_then(|shown| item.key(shown)) {
                    self.ask(Action::NotePublished(vec![(key, digest)]));
                }
                self.ask(Action::RemoveLeft { directory, name, with_data: false });
            }
            self.notify(Notification::Had { size, digest });
        }
        self.add_receipt_line(id, Status::Stored, Some(digest));
        self.leave(id, Progress::Published);
        Want::Have(digest)
    }

    /// Requests the contents of an item except for the blocks in `held`, and for what is equal in
    /// `basis`; links need nothing more from the sender.
    fn want(&mut self, id: EntryId, held: Option<BlockMap>, basis: Option<Basis>) {
        let Some(tracked) = self.items.get_mut(&id) else { return };
        tracked.state = ItemState::Wanted;
        self.wanted += 1;
        match tracked.item.entry.kind {
            EntryKind::Symlink { .. } => self.ask(Action::MakeSymlink(id)),
            EntryKind::Special(_) => self.ask(Action::MakeSpecial(id)),
            EntryKind::HardLink { .. } => self.link(id),
            EntryKind::File { size, .. } => self.want_contents(id, size, held, basis),
            EntryKind::Stream => self.want_contents(id, MAX_FILE_SIZE, held, basis),
            EntryKind::Directory => {}
        }
    }

    /// Requests the contents of a file, or of a stream, that has `size` bytes at most.
    fn want_contents(&mut self, id: EntryId, size: u64, held: Option<BlockMap>, basis: Option<Basis>) {
        let path = self.items.get(&id).map(|tracked| tracked.item.path.clone()).unwrap_or_default();
        self.remember(id, Progress::Coming);
        if size > PACK_FILE_LIMIT {
            self.expect(id, LargeContents { size, path, held, basis });
        }
    }

    /// Registers a large file with the files' machine before its first block can be requested, and
    /// reports the held blocks to the sender before it learns that the rest is wanted.
    pub(super) fn expect(&mut self, id: EntryId, what: LargeContents) {
        let LargeContents { size, path, held, basis } = what;
        if let Some(held) = &held {
            for held in held.held(id) {
                self.reply(Message::Held(held));
            }
            self.notify(Notification::Continued { held: ByteCount::new(held.bytes()) });
        }
        if self.is_journaled && size > BLOCK_SIZE as u64 {
            self.ask(Action::NoteStaged { id, path });
        }
        self.ask(Action::Expect { id, held, basis });
    }

    /// Makes a further name of a file, unless it has to wait for the first one.
    pub(super) fn link(&mut self, id: EntryId) {
        let Some(Tracked { item, .. }) = self.items.get(&id) else { return };
        let EntryKind::HardLink { to, .. } = item.entry.kind else { return };
        match self.links.link(id, to) {
            Linking::Waits => {}
            Linking::To(first) => self.ask(Action::MakeLink { id, first }),
            Linking::Apart => self.separate_soon(id),
            Linking::Fails(reason) => self.lose(id, reason.into()),
        }
    }

    /// Resumes items whose names earlier ones were making.
    pub(super) fn admit_waiting(&mut self) {
        let mut examinations = Vec::new();
        while let Some(id) = self.claims.next() {
            if let Some(tracked) = self.items.get_mut(&id) {
                tracked.state = ItemState::Examined;
                examinations.push(Examination { id, question: Question::Anything });
            }
        }
        if !examinations.is_empty() {
            self.ask(Action::Examine(examinations));
        }
    }

    /// Handles the comparison of the file that has an item's name, or of its candidate; `same`: it has
    /// the expected digest.
    pub fn on_compared(&mut self, now: Time, id: EntryId, same: bool) {
        self.last = now;
        if !self.phase.is_open() {
            // The answer is no longer needed.
            return;
        }
        let state = self.items.get(&id).map(|tracked| tracked.state);
        if let Some(ItemState::ComparingCandidate(number, comparison)) = state {
            self.candidate_compared(id, number, comparison, same);
            return self.proceed();
        }
        if state == Some(ItemState::ComparingContents) {
            self.contents_compared(id, same);
            return self.proceed();
        }
        let Some(Tracked { item, state: ItemState::Comparing { digest, is_noted, shown } }) = self.items.get_mut(&id)
        else {
            return;
        };
        let (digest, is_noted, shown) = (*digest, *is_noted, *shown);
        if same && is_noted {
            let want = self.have(id, digest, Some(shown));
            self.answer(id, vec![want]);
        } else if same {
            // The session that has renamed it may have ended before the name was durable.
            let names = Names::In(vec![item.directory]);
            self.flush_names(NameFlush::Compared { id, digest, shown }, names);
        } else {
            let path = item.path.clone();
            self.notify(Notification::Altered { path });
            self.set_state(id, ItemState::Examined);
            self.ask(Action::Examine(vec![Examination { id, question: Question::Contents }]));
        }
        self.proceed();
    }

    /// Handles the flush of the name of an item that was compared: it is durable, or the flush
    /// failed.
    pub(super) fn on_compared_flushed(
        &mut self,
        id: EntryId,
        (digest, shown): (FileDigest, ModificationTime),
        outcome: Result<(), Failure>,
    ) {
        let want = match outcome {
            Ok(()) => self.have(id, digest, Some(shown)),
            Err(failure) => self.refuse_tracked(id, failure.passing()),
        };
        self.answer(id, vec![want]);
    }

    /// Reports the failure of a tracked item and removes it; returns the answer.
    fn refuse_tracked(&mut self, id: EntryId, failure: Failure) -> Want {
        if let Some(Tracked { item, .. }) = self.items.get(&id) {
            let (entry, path) = (item.entry.clone(), item.path.clone());
            self.refuse(&entry, path, failure);
        }
        self.leave(id, Progress::Failed);
        Want::Failed
    }

    /// Sends the answers to these entries, those to consecutive ones together.
    pub(super) fn answer_each(&mut self, answers: Vec<(EntryId, Want)>) {
        let mut run: Option<(EntryId, Vec<Want>)> = None;
        for (id, want) in answers {
            match &mut run {
                Some((first, wants)) if *first + wants.len() as EntryId == id && wants.len() < MAX_ENTRIES => {
                    wants.push(want);
                }
                _ => {
                    let before = run.replace((id, vec![want]));
                    before.into_iter().for_each(|(first, wants)| self.answer(first, wants));
                }
            }
        }
        run.into_iter().for_each(|(first, wants)| self.answer(first, wants));
    }

    /// Sends the answers to consecutive entries, from `first` on, if there are any. Behind them, the files
    /// are described whose differences are wanted.
    pub(super) fn answer(&mut self, first: EntryId, answers: Vec<Want>) {
        if answers.is_empty() {
            return;
        }
        let description = |(id, want): (EntryId, &Want)| match want {
            Want::Difference => Some(Action::Describe(id)),
            Want::Delta => Some(Action::DescribeChunks(id)),
            _ => None,
        };
        let descriptions: Vec<_> = (first..).zip(&answers).filter_map(description).collect();
        self.reply(Message::Wants(Wants { first, answers }));
        descriptions.into_iter().for_each(|action| self.ask(action));
    }

    /// Reports the failure of an item before anything is wanted of it; returns the answer.
    pub(super) fn refuse(&mut self, entry: &Entry, path: Vec<u8>, failure: Failure) -> Want {
        let reason = self.note_failure(entry, path, failure);
        self.reply(Message::Done(vec![Done { id: entry.id, outcome: Err(reason) }]));
        Want::Failed
    }

    /// Notifies the user of an entry in a directory that is left out because it does not exist;
    /// returns the answer.
    pub(super) fn leave_out(&mut self, entry: &Entry, path: Vec<u8>) -> Want {
        self.notify(Notification::Kept { path, size: size_of(entry), why: Kept::Missing });
        Want::Keep(Kept::Missing)
    }

    /// Notifies the user of an entry that a dry run would receive; returns the answer.
    pub(super) fn would_receive(&mut self, entry: &Entry, path: Vec<u8>) -> Want {
        self.notify(Notification::WouldReceive { path, size: size_of(entry) });
        Want::All
    }
}
