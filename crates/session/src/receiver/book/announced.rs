//! What becomes of entries that are announced: each is placed and answered with what is wanted of
//! it, or waits for an earlier one of the same name.
//!
//! The directories of a message are made first, all at once; then its items are examined, all at
//! once.

use icdc_protocol::limits::{MAX_DEPTH, MAX_PENDING, MAX_PENDING_BYTES};
use icdc_protocol::message::{Diskless, Entry, EntryId, EntryKind, GivenUp, Message, Parent, Want};
use icdc_units::ByteCount;

use super::Book;
use super::action::{Action, Answer, Examination, NewDirectory, Question, Target, Told};
use super::item::{DirectoryId, DirectoryPlace, Item, Place};
use super::levels::{Ground, Level, misplaced};
use super::links::Progress;
use super::state::{Announced, Draft, ItemState, Phase, Stage, Tracked};
use crate::weight::entry_weight;
use crate::{Failure, SessionError};

/// Directories that may be open at once: more than a sender keeps open.
const MAX_OPEN: usize = MAX_DEPTH + 1024;
/// Extended attribute that gives a program rights; it means nothing without its owner.
const CAPABILITY: &[u8] = b"security.capability";

/// Where an entry goes.
struct Placed {
    directory: DirectoryId,
    /// `None` for the directory itself.
    name: Option<Vec<u8>>,
    path: Vec<u8>,
    depth: usize,
    ground: Ground,
}

impl<P> Book<P> {
    /// Looks at announcements in their order, each when the one before it is answered.
    pub(super) fn look_at_announced(&mut self) -> Result<(), SessionError> {
        while let Stage::Running(run) = &mut self.stage
            && run.answering.is_none()
            && let Some(message) = run.queue.pop_front()
        {
            match message {
                Message::Entries(entries) => self.entries(entries)?,
                Message::DirEnd { id } => {
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

    /// Places the entries of a message, and has its directories made.
    fn entries(&mut self, entries: Vec<Entry>) -> Result<(), SessionError> {
        let mut announced =
            Announced { first: self.next, answers: vec![None; entries.len()], drafts: Vec::new(), examined: 0 };
        let mut directories = Vec::new();
        for (slot, mut entry) in entries.into_iter().enumerate() {
            if !self.settings.options.preserve.owner {
                entry.xattrs.retain(|(name, _)| name != CAPABILITY);
            }
            self.count(&entry, announced.drafts.len())?;
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
        if let Stage::Running(run) = &mut self.stage {
            run.answering = Some(announced);
        }
        if directories.is_empty() {
            self.examine_announced();
        } else {
            self.ask(Action::MakeDirectories(directories));
        }
        Ok(())
    }

    /// Takes the number of an entry, within the bounds of what may be pending.
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

    /// Opens a directory, into which its children will come; gives what is to be made.
    fn open(&mut self, entry: Entry) -> Result<Option<NewDirectory>, SessionError> {
        let Placed { directory, name, path, depth, ground } = self.place(&entry)?;
        let (ground, new) = match ground {
            Ground::There(_) | Ground::Coming => {
                let new = NewDirectory { id: entry.id, parent: directory, name };
                (Ground::Coming, Some(new))
            }
            Ground::Imagined => (Ground::Imagined, None),
            Ground::Failed(reason) => (Ground::Failed(self.note_failure(&entry, path.clone(), reason.into())), None),
        };
        let source = self.levels.source_of(&entry);
        let level = Level::new(entry, source, path, depth, ground);
        self.weight += level.weight();
        self.levels.open(level);
        Ok(new)
    }

    /// Places an item as far as that can be done before directories are made.
    fn draft(&mut self, entry: Entry) -> Result<Drafted, SessionError> {
        let Placed { directory, name, path, ground, .. } = self.place(&entry)?;
        match (ground, name) {
            (Ground::Failed(reason), _) => Ok(Drafted::Answered(self.refuse(&entry, path, reason.into()))),
            (Ground::There(_) | Ground::Coming, Some(name)) => {
                self.weight += entry_weight(&entry, &path);
                Ok(Drafted::Item(Draft { entry, path, directory, name }))
            }
            _ => Ok(Drafted::Answered(self.would_receive(&entry, path))),
        }
    }

    /// Where an entry goes.
    fn place(&self, entry: &Entry) -> Result<Placed, SessionError> {
        let number = match entry.parent {
            Parent::Source(number) => number,
            Parent::Directory(id) => {
                let mut beneath = self.levels.place(entry, id)?;
                if (self.settings.is_reserved)(&entry.name) && !matches!(beneath.ground, Ground::Failed(_)) {
                    beneath.ground = Ground::Failed("its name is one that icdc keeps for unfinished files".to_owned());
                }
                let (directory, name) = (DirectoryId::Entry(id), Some(entry.name.clone()));
                return Ok(Placed {
                    directory,
                    name,
                    path: beneath.path,
                    depth: beneath.depth,
                    ground: beneath.ground,
                });
            }
        };
        let Stage::Running(run) = &self.stage else { return Err(misplaced(entry, "came before Begin")) };
        let target = run.targets.get(number as usize).zip(run.sources.get(number as usize));
        let (target, source) = target.ok_or_else(|| misplaced(entry, "names no source"))?;
        let (name, path, ground) = match target {
            Target::Named { directory, name } => (Some(name.clone()), name.clone(), Ground::There(*directory)),
            Target::Contents(directory) if matches!(entry.kind, EntryKind::Directory) => {
                (None, Vec::new(), Ground::There(*directory))
            }
            Target::Contents(_) => return Err(misplaced(entry, "is not the directory that was announced")),
            Target::Imagined => (None, Vec::new(), Ground::Imagined),
        };
        // A dry run names what there is to send, not where it would arrive.
        let path = if self.settings.options.dry_run { source.name.clone() } else { path };
        Ok(Placed { directory: DirectoryId::Source(number), name, path, depth: 0, ground })
    }

    /// Directories were made, in the order in which that was asked for; `None` stands for one that a
    /// dry run does not make.
    pub fn on_directories_made(&mut self, made: Vec<(EntryId, Result<Option<DirectoryPlace>, Failure>)>) {
        self.answered(Answer::DirectoriesMade);
        for (id, outcome) in made {
            let above = self.levels.get_mut(id).map(|level| level.entry.parent);
            let above = match above {
                Some(Parent::Directory(above)) => match self.lost(above) {
                    Some(failure) => Some(Ground::Failed(failure.into_reason())),
                    None => self.levels.ground(above).cloned(),
                },
                _ => None,
            };
            let Some(level) = self.levels.get_mut(id) else { continue };
            level.ground = match (above, outcome) {
                (Some(Ground::Failed(reason)), _) => Ground::Failed(reason),
                (_, Ok(Some(place))) => Ground::There(place),
                (_, Ok(None)) => Ground::Imagined,
                (_, Err(failure)) => {
                    self.goes_on_later |= failure.is_passing();
                    Ground::Failed(failure.into_reason())
                }
            };
            match &level.ground {
                Ground::Failed(reason) => {
                    let (path, reason) = (level.path.clone(), reason.clone());
                    self.tell(Told::Failed { path, size: ByteCount::ZERO, reason });
                }
                Ground::There(place) if !self.settings.options.dry_run => {
                    level.lot = Some(self.batch.touch(place.device));
                }
                _ => {}
            }
        }
        self.examine_announced();
        let outcome = self.look_at_announced();
        self.heed(outcome);
    }

    /// Has the items of a message examined whose names nobody else makes.
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

    /// Takes an item in, now that its directory is there, or is not.
    fn admit(&mut self, draft: Draft) -> Admitted {
        let Draft { entry, path, directory, name } = draft;
        let weight = entry_weight(&entry, &path);
        let ground = match directory {
            DirectoryId::Source(number) => self.target_of(number),
            DirectoryId::Entry(above) => self.levels.ground(above).cloned(),
        };
        let directory_place = match ground {
            Some(Ground::There(place)) => place,
            Some(Ground::Failed(reason)) => {
                self.weight -= weight;
                return Admitted::Answered(self.refuse(&entry, path, reason.into()));
            }
            _ => {
                self.weight -= weight;
                return Admitted::Answered(self.would_receive(&entry, path));
            }
        };
        let place = Place { directory: directory_place, name };
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

    fn target_of(&self, number: u32) -> Option<Ground> {
        let Stage::Running(run) = &self.stage else { return None };
        match run.targets.get(number as usize)? {
            Target::Named { directory, .. } | Target::Contents(directory) => Some(Ground::There(*directory)),
            Target::Imagined => Some(Ground::Imagined),
        }
    }

    /// Answers the message whose entries are all placed and judged.
    pub(super) fn answer_announced(&mut self) {
        let Stage::Running(run) = &mut self.stage else { return };
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

/// What becomes of an entry that is no directory.
enum Drafted {
    Item(Draft),
    Answered(Want),
}

/// What becomes of an item whose directory is there, or is not.
enum Admitted {
    Examine,
    Waits,
    Answered(Want),
}
