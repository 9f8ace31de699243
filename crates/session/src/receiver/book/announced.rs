//! Announced entries: each is placed and answered with what is wanted of it, or waits for an
//! earlier one of the same name.
//!
//! The directories of a message are made first, all at once; then its items are examined, all at
//! once.

use icdc_protocol::limits::{MAX_DEPTH, MAX_PENDING, MAX_PENDING_BYTES};
use icdc_protocol::message::{Backup, Diskless, Entry, EntryId, EntryKind, GivenUp, Message, Missing, Parent, Want};
use icdc_units::ByteCount;

use super::Book;
use super::action::{Action, Answer, Examination, NewDirectory, Notification, Question, Target};
use super::attributes;
use super::item::{DirectoryId, DirectoryPlace, FinalName, Item};
use super::levels::{DirectoryState, Level, misplaced};
use super::links::Progress;
use super::state::{Announced, Draft, ItemState, Phase, SessionStage, Tracked};
use crate::weight::entry_weight;
use crate::{Failure, SessionError};

/// Most directories that may be open at once: more than a sender keeps open.
const MAX_OPEN: usize = MAX_DEPTH + 1024;

/// Position of an entry at the destination: its directory, name, path and depth.
struct Position {
    directory: DirectoryId,
    /// Name in the directory; `None` for the directory itself.
    name: Option<Vec<u8>>,
    path: Vec<u8>,
    depth: usize,
    state: DirectoryState,
}

impl<P> Book<P> {
    /// Processes queued announcements in their order, each once the one before it is answered.
    pub(super) fn process_announced(&mut self) -> Result<(), SessionError> {
        while let SessionStage::Running(run) = &mut self.stage
            && run.answering.is_none()
            && let Some(message) = run.queue.pop_front()
        {
            match message {
                Message::Entries(entries) => self.entries(entries)?,
                Message::LeftOut { directory, what } => self.left_out(directory, what)?,
                Message::DirEnd { id } => {
                    self.list_extras(id);
                    let done = self.levels.end(id)?;
                    self.finish(done);
                }
                Message::FileEnd(end) => {
                    if let Err(GivenUp { reason, same_version }) = end.outcome {
                        let failure = if same_version { Failure::Passing(reason) } else { Failure::Final(reason) };
                        self.lose(end.id, failure);
                    }
                }
                // The queue holds nothing else but the end.
                _ => {
                    if self.phase == Phase::Announcing {
                        self.phase = Phase::Announced;
                    }
                    self.publish();
                }
            }
        }
        Ok(())
    }

    /// Places the entries of an announcement, and requests that its directories be made.
    fn entries(&mut self, entries: Vec<Entry>) -> Result<(), SessionError> {
        let mut announced =
            Announced { first: self.next, answers: vec![None; entries.len()], drafts: Vec::new(), examined: 0 };
        let mut directories = Vec::new();
        for (slot, mut entry) in entries.into_iter().enumerate() {
            attributes::receive(&mut entry, &self.settings.options, &self.owners);
            self.count(&entry, announced.drafts.len())?;
            self.note_source_name(&entry);
            if matches!(entry.kind, EntryKind::Directory) {
                announced.answers[slot] = Some(Want::All);
                directories.extend(self.open(entry)?);
                continue;
            }
            announced.answers[slot] = match self.draft(entry)? {
                Drafted::Item(draft) => {
                    announced.drafts.push(draft);
                    None
                }
                Drafted::Answered(want) => Some(want),
            };
        }
        if let SessionStage::Running(run) = &mut self.stage {
            run.answering = Some(announced);
        }
        if directories.is_empty() {
            self.examine_announced();
        } else {
            self.ask(Action::MakeDirectories(directories));
        }
        Ok(())
    }

    /// Checks the id of an entry, which must be the next one, and the limits on pending entries;
    /// counts it.
    fn count(&mut self, entry: &Entry, drafts: usize) -> Result<(), SessionError> {
        if entry.id != self.next {
            return Err(SessionError::Protocol(format!("entry {} came where {} was due", entry.id, self.next)));
        }
        if let Some(Diskless { length, .. }) = self.settings.options.diskless
            && !(entry.id == 0 && matches!(entry.kind, EntryKind::File { size, .. } if size == length.as_u64()))
        {
            // Each name is made in a directory of this host.
            return Err(SessionError::Protocol("without a disk, one file of the length asked for is received".into()));
        }
        self.next = self.next.checked_add(1).ok_or_else(|| SessionError::Protocol("too many entries".into()))?;
        if self.items.len() + drafts >= MAX_PENDING || self.levels.len() >= MAX_OPEN || self.weight >= MAX_PENDING_BYTES
        {
            return Err(SessionError::Protocol("more entries are announced than may be pending".into()));
        }
        Ok(())
    }

    /// Opens a directory, into which its children will come; returns the directory to make, if any.
    fn open(&mut self, entry: Entry) -> Result<Option<NewDirectory>, SessionError> {
        let Position { directory, name, path, depth, state } = self.place(&entry)?;
        let (state, new) = match state {
            DirectoryState::Exists(_) | DirectoryState::Pending => {
                let new = NewDirectory { id: entry.id, parent: directory, name };
                (DirectoryState::Pending, Some(new))
            }
            DirectoryState::DryRun | DirectoryState::LeftOut => (state, None),
            DirectoryState::Failed(reason) => {
                (DirectoryState::Failed(self.note_failure(&entry, path.clone(), reason.into())), None)
            }
        };
        let source = self.levels.source_of(&entry);
        let level = Level::new(entry, source, path, depth, state);
        self.weight += level.weight();
        self.levels.open(level);
        Ok(new)
    }

    /// Places an item that is not a directory, as far as possible before directories are made.
    fn draft(&mut self, entry: Entry) -> Result<Drafted, SessionError> {
        let Position { directory, name, path, state, .. } = self.place(&entry)?;
        if let Some(reason) = attributes::refused_special(&entry, self.settings.options.preserve) {
            return Ok(Drafted::Answered(self.refuse(&entry, path, reason.into())));
        }
        match (state, name) {
            (DirectoryState::Failed(reason), _) => Ok(Drafted::Answered(self.refuse(&entry, path, reason.into()))),
            (DirectoryState::Exists(_) | DirectoryState::Pending, Some(name)) => {
                self.weight += entry_weight(&entry, &path);
                Ok(Drafted::Item(Draft { entry, path, directory, name }))
            }
            (DirectoryState::LeftOut, _) => Ok(Drafted::Answered(self.leave_out(&entry, path))),
            _ => Ok(Drafted::Answered(self.would_receive(&entry, path))),
        }
    }

    /// Determines the position of an entry at the destination.
    fn place(&self, entry: &Entry) -> Result<Position, SessionError> {
        let number = match entry.parent {
            Parent::Source(number) => number,
            Parent::Directory(id) => {
                let mut child = self.levels.place(entry, id)?;
                if let Some(reason) = self.refused_name(&entry.name)
                    && !matches!(child.state, DirectoryState::Failed(_))
                {
                    child.state = DirectoryState::Failed(reason);
                }
                let (directory, name) = (DirectoryId::Entry(id), Some(entry.name.clone()));
                return Ok(Position { directory, name, path: child.path, depth: child.depth, state: child.state });
            }
        };
        let SessionStage::Running(run) = &self.stage else { return Err(misplaced(entry, "came before Begin")) };
        let target = run.targets.get(number as usize).zip(run.sources.get(number as usize));
        let (target, source) = target.ok_or_else(|| misplaced(entry, "names no source"))?;
        let (name, path, state) = match target {
            Target::Named { directory, name } => {
                let state = self.refused_name(name).map(DirectoryState::Failed);
                (Some(name.clone()), name.clone(), state.unwrap_or(DirectoryState::Exists(*directory)))
            }
            Target::Contents(directory) if matches!(entry.kind, EntryKind::Directory) => {
                (None, Vec::new(), DirectoryState::Exists(*directory))
            }
            Target::Contents(_) => return Err(misplaced(entry, "is not the directory that was announced")),
            Target::Imagined => (None, Vec::new(), DirectoryState::DryRun),
        };
        // A dry run names what there is to send, not where it would arrive.
        let path = if self.settings.options.dry_run { source.name.clone() } else { path };
        Ok(Position { directory: DirectoryId::Source(number), name, path, depth: 0, state })
    }

    /// Reason why no item may have this name: unfinished files have such names, or items that are
    /// kept beside those which replace them; `None` if one may.
    fn refused_name(&self, name: &[u8]) -> Option<String> {
        if (self.settings.is_reserved)(name) {
            return Some("its name is one that icdc keeps for unfinished files".to_owned());
        }
        match self.settings.options.backup.as_deref() {
            Some(Backup { directory: None, suffix }) if name.ends_with(suffix) => Some(format!(
                "its name ends in {}, as those of the files that are kept beside others; choose another --suffix, name a \
                 --backup-dir, or leave the item out",
                String::from_utf8_lossy(suffix).escape_debug()
            )),
            _ => None,
        }
    }

    /// Handles the outcomes of making directories, in the order of the request; `None` stands for a
    /// missing directory that is not made, because this is a dry run or nothing new is made.
    pub fn on_directories_made(&mut self, made: Vec<(EntryId, Result<Option<DirectoryPlace>, Failure>)>) {
        self.answered(Answer::DirectoriesMade);
        let missing = self.settings.options.missing;
        for (id, outcome) in made {
            let above = self.levels.get_mut(id).map(|level| level.entry.parent);
            let above = match above {
                Some(Parent::Directory(above)) => match self.lost(above) {
                    Some(failure) => Some(DirectoryState::Failed(failure.into_reason())),
                    None => self.levels.state(above).cloned(),
                },
                _ => None,
            };
            let Some(level) = self.levels.get_mut(id) else { continue };
            level.state = match (above, outcome) {
                (Some(DirectoryState::Failed(reason)), _) => DirectoryState::Failed(reason),
                (Some(DirectoryState::LeftOut), _) => DirectoryState::LeftOut,
                (_, Ok(Some(place))) => DirectoryState::Exists(place),
                (_, Ok(None)) if missing == Missing::LeaveOut => DirectoryState::LeftOut,
                (_, Ok(None)) => DirectoryState::DryRun,
                (_, Err(failure)) => {
                    self.has_passing_failure |= failure.is_passing();
                    DirectoryState::Failed(failure.into_reason())
                }
            };
            match &level.state {
                DirectoryState::Failed(reason) => {
                    let (path, reason) = (level.path.clone(), reason.clone());
                    self.first_failed.get_or_insert_with(|| path.clone());
                    self.fail_receipt(&path);
                    self.notify(Notification::Failed { path, size: ByteCount::ZERO, reason });
                }
                DirectoryState::Exists(place) if !self.settings.options.dry_run => {
                    level.lot = Some(self.batch.touch(place.device));
                    self.add_directory_receipt_line(id);
                }
                _ => {}
            }
        }
        self.examine_announced();
        let outcome = self.process_announced();
        self.end_on_error(outcome);
    }

    /// Requests the examination of the message's items, except those whose names earlier items are
    /// making.
    fn examine_announced(&mut self) {
        let Some(announced) = self.answering() else { return };
        let first = announced.first;
        let mut examinations = Vec::with_capacity(announced.drafts.len());
        for draft in std::mem::take(&mut announced.drafts) {
            let id = draft.entry.id;
            match self.admit(draft) {
                Admitted::Examine => examinations.push(Examination { id, question: Question::Anything }),
                Admitted::Answered(want) => {
                    if let Some(announced) = self.answering() {
                        announced.answers[(id - first) as usize] = Some(want);
                    }
                }
                Admitted::Waits => {}
            }
        }
        if let Some(announced) = self.answering() {
            announced.examined = examinations.len();
        }
        if examinations.is_empty() {
            self.answer_announced();
        } else {
            self.ask(Action::Examine(examinations));
        }
    }

    /// Starts to track an item once the making of its directory has ended; returns what to do next.
    fn admit(&mut self, draft: Draft) -> Admitted {
        let Draft { entry, path, directory, name } = draft;
        let weight = entry_weight(&entry, &path);
        let state = match directory {
            DirectoryId::Source(number) => self.target_of(number),
            DirectoryId::Entry(above) => self.levels.state(above).cloned(),
        };
        let directory_place = match state {
            Some(DirectoryState::Exists(place)) => place,
            Some(DirectoryState::Failed(reason)) => {
                self.weight -= weight;
                return Admitted::Answered(self.refuse(&entry, path, reason.into()));
            }
            Some(DirectoryState::LeftOut) => {
                self.weight -= weight;
                return Admitted::Answered(self.leave_out(&entry, path));
            }
            _ => {
                self.weight -= weight;
                return Admitted::Answered(self.would_receive(&entry, path));
            }
        };
        let place = FinalName { directory: directory_place, name };
        let source = self.levels.source_of(&entry);
        let id = entry.id;
        self.levels.count_child(&entry);
        let holds = self.claims.hold_or_wait(&place, id);
        let item = Box::new(Item { entry, path, directory, place, source });
        let state = if holds { ItemState::Announced } else { ItemState::Waiting };
        self.items.insert(id, Tracked { item, state });
        if holds {
            Admitted::Examine
        } else {
            self.remember(id, Progress::Coming);
            Admitted::Waits
        }
    }

    /// State of the directory that the source of this number goes into; `None` if it is not known.
    fn target_of(&self, number: u32) -> Option<DirectoryState> {
        let SessionStage::Running(run) = &self.stage else { return None };
        match run.targets.get(number as usize)? {
            Target::Named { directory, .. } | Target::Contents(directory) => Some(DirectoryState::Exists(*directory)),
            Target::Imagined => Some(DirectoryState::DryRun),
        }
    }

    /// Sends the answers to the message being processed, once none of its items is being examined.
    /// Items that wait for an earlier one of the same name are left out and answered later.
    pub(super) fn answer_announced(&mut self) {
        let SessionStage::Running(run) = &mut self.stage else { return };
        let Some(Announced { first, answers, .. }) = run.answering.take() else { return };
        let mut run = Vec::with_capacity(answers.len());
        for (id, answer) in (first..).zip(answers) {
            match answer {
                Some(want) => run.push(want),
                None => self.answer(id - run.len() as u32, std::mem::take(&mut run)),
            }
        }
        self.answer(self.next - run.len() as u32, run);
    }
}

/// Result of placing an entry that is not a directory, before directories are made.
enum Drafted {
    /// The item is continued when the directories are made.
    Item(Draft),
    /// The item is answered at once: its directory has failed, or this is a dry run.
    Answered(Want),
}

/// Outcome of starting to track an item once the making of its directory has ended.
enum Admitted {
    /// The item is to be examined.
    Examine,
    /// The item waits and is answered later: an earlier one holds the same name.
    Waits,
    /// The item is answered at once: its directory failed, or this is a dry run.
    Answered(Want),
}
