//! What becomes of entries that are announced: each is placed and answered with what is wanted of it, or waits for an
//! earlier one of the same name.

use icdc_disk::tree::{CAPABILITY, Metadata, Name};
use icdc_protocol::limits::{MAX_DEPTH, MAX_PENDING, MAX_PENDING_BYTES};
use icdc_protocol::message::{Done, Entry, EntryId, EntryKind, Message, Parent, Preserve, Want, Wants};

use super::super::batch::{Made, Publication};
use super::super::failure::{self, Failure};
use super::super::pending::{Pending, metadata};
use super::super::placement::{Placed, Unplaced, misplaced};
use super::super::resume;
use super::Keeper;
use super::levels::make_directory;
use super::links::State;
use super::want::Wanted;
use crate::error::SessionError;
use crate::event::Event;
use crate::path_text;

/// Directories that may be open at once: more than a sender keeps open.
const MAX_OPEN: usize = MAX_DEPTH + 1024;

/// What becomes of an entry at once.
enum Admitted {
    /// It is answered: what is wanted of it, or why it failed.
    Answer(Result<Want, String>),
    /// It is answered later: an earlier item of the same name comes first, or it is compared.
    Waits,
}

impl Keeper<'_> {
    /// Answers what is announced, in its order.
    pub(super) fn entries(&mut self, entries: Vec<Entry>) -> Result<(), SessionError> {
        let mut first = self.next;
        let mut answers = Vec::with_capacity(entries.len());
        for mut entry in entries {
            if !self.shared.options.preserve.owner {
                entry.xattrs.retain(|(name, _)| name != CAPABILITY);
            }
            if entry.id != self.next {
                return Err(SessionError::Protocol(format!("entry {} came where {} was due", entry.id, self.next)));
            }
            self.next = self.next.checked_add(1).ok_or_else(|| SessionError::Protocol("too many entries".into()))?;
            if self.pending.len() + self.claims.waiting() + self.comparing.len() >= MAX_PENDING
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
            Err(Unplaced { path, reason }) => {
                let reason = self.note_failure(&entry, &path, reason.into());
                if matches!(entry.kind, EntryKind::Directory) {
                    // Its children are announced nevertheless: each fails by this one's reason.
                    self.levels.count_child(&entry);
                    self.weight += self.levels.open(entry, None, path, 0, Some(reason));
                    return Ok(Admitted::Answer(Ok(Want::All)));
                }
                return Ok(Admitted::Answer(Err(reason)));
            }
        };
        if matches!(entry.kind, EntryKind::Directory) {
            self.enter(entry, placed);
            return Ok(Admitted::Answer(Ok(Want::All)));
        }
        let source = self.levels.source_of(&entry);
        let Placed { directory, place, name, path, .. } = placed;
        let (Some(directory), Some(name)) = (directory, name) else {
            self.would_receive(&entry, &path);
            return Ok(Admitted::Answer(Ok(Want::All)));
        };
        let pending = Pending { entry, path, directory, directory_place: place, source, name };
        if self.claims.is_held(&pending.place()) {
            self.levels.count_child(&pending.entry);
            self.weight += pending.weight();
            self.links.remember(&pending, State::Coming);
            self.claims.wait(pending);
            return Ok(Admitted::Waits);
        }
        let wanted = match self.want(&pending) {
            Ok(Wanted::Compare(digest)) => {
                self.levels.count_child(&pending.entry);
                self.weight += pending.weight();
                self.claims.hold(pending.place());
                self.compare(pending, digest);
                return Ok(Admitted::Waits);
            }
            Ok(Wanted::Known(want)) => Ok(want),
            Err(failure) => Err(self.note_failure(&pending.entry, &pending.path, failure)),
        };
        if let Ok(Want::All | Want::Rest) = wanted {
            if self.shared.options.dry_run {
                self.would_receive(&pending.entry, &pending.path);
                return Ok(Admitted::Answer(wanted));
            }
            self.levels.count_child(&pending.entry);
            self.weight += pending.weight();
            self.claims.hold(pending.place());
            self.admit(pending);
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
    pub(super) fn admit_waiting(&mut self) {
        while self.store.is_some()
            && let Some(pending) = self.claims.next()
        {
            match self.want(&pending) {
                Ok(Wanted::Compare(digest)) => self.compare(pending, digest),
                Ok(Wanted::Known(want)) => self.go_on(pending, Ok(want)),
                Err(failure) => self.go_on(pending, Err(failure)),
            }
        }
    }

    /// Answers for an item that has waited.
    pub(super) fn go_on(&mut self, pending: Pending, wanted: Result<Want, Failure>) {
        let id = pending.entry.id;
        let (answer, state) = match wanted {
            Ok(want @ (Want::All | Want::Rest)) => {
                self.answer(id, vec![want]);
                return self.admit(pending);
            }
            Ok(want) => (want, State::Published),
            Err(failure) => {
                let reason = self.note_failure(&pending.entry, &pending.path, failure);
                self.shared.reply(Message::Done(vec![Done { id, outcome: Err(reason) }]));
                (Want::Failed, State::Failed)
            }
        };
        self.answer(id, vec![answer]);
        self.leave(&pending, state);
    }

    /// Where an entry goes; the outer error ends the session.
    fn place(&self, entry: &Entry) -> Result<Result<Placed, Unplaced>, SessionError> {
        match entry.parent {
            Parent::Source(number) => {
                let placement = self.placement.as_ref().ok_or_else(|| misplaced(entry, "came before Begin"))?;
                placement.place(entry, number, self.shared.options.dry_run)
            }
            Parent::Directory(id) => self.levels.place(entry, id),
        }
    }

    /// Makes a directory, into which its children will come.
    fn enter(&mut self, entry: Entry, placed: Placed) {
        let Placed { directory, name, path, depth, .. } = placed;
        self.levels.count_child(&entry);
        let made = match (directory, name) {
            (Some(directory), Some(name)) if !self.shared.options.dry_run => {
                self.batch.touch(&directory);
                make_directory(&directory, &name, self.shared.options.preserve.mode).map(Some)
            }
            (Some(directory), Some(name)) => Ok(directory.open_directory(&name).ok()),
            (directory, _) => Ok(directory),
        };
        let (made, failed) = match made {
            Ok(made) => (made, None),
            Err(error) => (None, Some(self.note_failure(&entry, &path, failure::of_tree(&error)))),
        };
        self.weight += self.levels.open(entry, made, path, depth, failed);
    }

    /// Takes an item in; links need nothing more from the sender.
    fn admit(&mut self, pending: Pending) {
        let id = pending.entry.id;
        match &pending.entry.kind {
            EntryKind::Symlink { target } => {
                let made = make_symlink(&pending, target, self.shared.options.preserve);
                self.pending.insert(id, pending);
                match made {
                    Ok(staging) => self.batch.add(Publication { id, made: Made::unsynced(staging), digest: None }),
                    Err(failure) => self.fail_item(id, failure),
                }
            }
            EntryKind::HardLink { .. } => {
                self.pending.insert(id, pending);
                self.link(id);
            }
            _ => {
                self.links.remember(&pending, State::Coming);
                self.pending.insert(id, pending);
            }
        }
    }

    /// Makes a further name of a file, unless it has to wait for the first one.
    pub(super) fn link(&mut self, id: EntryId) {
        let Some(pending) = self.pending.get(&id) else { return };
        let EntryKind::HardLink { to } = pending.entry.kind else { return };
        match self.links.make(pending, to, self.placement.as_ref()) {
            None => {}
            Some(Ok(made)) => self.batch.add(Publication { id, made, digest: None }),
            Some(Err(failure)) => self.fail_item(id, failure),
        }
    }
}

fn make_symlink(pending: &Pending, target: &[u8], preserve: Preserve) -> Result<Name, Failure> {
    let Pending { directory, name, entry, .. } = pending;
    let ((), staging) = resume::make_part(directory, name, |part| directory.make_symlink(target, part))?;
    let wanted = Metadata { mode: None, ..metadata(entry, preserve) };
    match directory.set_link_metadata(&staging, &wanted) {
        Ok(()) => Ok(staging),
        Err(error) => {
            let _ = directory.remove_file(&staging);
            Err(failure::of_tree(&error))
        }
    }
}
