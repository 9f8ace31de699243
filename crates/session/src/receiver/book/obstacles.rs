//! Obstacles in a mirror: items of the destination whose names are to be those of something of
//! another kind, which cannot replace them by a rename: a directory in place of a file, or a file
//! in place of a directory or a device.
//!
//! What replaces an obstacle is completed beside it, under a staging name. The obstacle counts as an
//! extra item; when the extra items are deleted, the two change places.

use std::collections::BTreeMap;

use icdc_protocol::message::{Deletion, Done, Entry, EntryId, FileDigest, Message, Parent};
use icdc_protocol::receipt::line::Status;
use icdc_protocol::validate::clip;
use icdc_units::ByteCount;

use super::Book;
use super::action::{Action, DirectoryExtras, Extra, Notification, PublishedFile};
use super::extras::{Obstacle, Replacement};
use super::item::{DirectoryId, DirectoryPlace, Item, ModificationTime};
use super::links::Progress;
use super::state::{ItemState, Origin, Tracked};
use crate::Failure;

/// Most obstacles of a run: what replaces them stays open until the end.
const MAX_OBSTACLES: usize = 1024;

/// Failure of what is complete when the session ends before obstacles are deleted.
const INTERRUPTED: &str = "something of another kind has its name, and the copy was interrupted before it was deleted";

/// Outcomes of replacing obstacles: the modification time of what has the name now, if it is a file.
pub type Replaced = Vec<(EntryId, Result<Option<ModificationTime>, Failure>)>;

impl<P> Book<P> {
    /// Notes that `obstacle` has the name of the directory or item `id`, which is examined, made or
    /// renamed in the directory `place`. Returns whether it is deleted with the extra items; otherwise
    /// `id` fails.
    pub fn on_obstacle(&mut self, id: EntryId, place: DirectoryPlace, obstacle: Extra) -> bool {
        if self.settings.options.delete.is_none() || self.extras.obstacles.len() >= MAX_OBSTACLES {
            return false;
        }
        let Some(directory) = self.directory_of(id) else { return false };
        if self.is_made_here(directory, place, &obstacle) {
            return false;
        }
        let found = self.extras_of(directory, place);
        let extra = Extra { replaced_by: Some(id), ..obstacle };
        self.extras.obstacles.insert(id, Obstacle { found, extra, replacement: Replacement::Underway });
        true
    }

    /// The directory that an announced directory or item goes into.
    fn directory_of(&mut self, id: EntryId) -> Option<DirectoryId> {
        if let Some(Tracked { item, .. }) = self.items.get(&id) {
            return Some(item.directory);
        }
        Some(match self.levels.get_mut(id)?.entry.parent {
            Parent::Directory(above) => DirectoryId::Entry(above),
            Parent::Source(number) => DirectoryId::Source(number),
        })
    }

    /// Whether this run may have made the obstacle: it is a directory that the run fills, or another
    /// source goes into the same directory.
    fn is_made_here(&self, directory: DirectoryId, place: DirectoryPlace, obstacle: &Extra) -> bool {
        let own = match directory {
            DirectoryId::Entry(id) => Some(id),
            DirectoryId::Source(_) => None,
        };
        let is_source = || self.extras.sources.get(&place).is_some_and(|names| names.contains(&obstacle.name));
        self.extras.is_of_several(place, own.and_then(|own| self.levels.source(own)))
            || self.extras.found.contains_key(&obstacle.place())
            || own.is_some() && is_source()
            || self.levels.is_filled(place, own)
            || self.levels.is_filled(obstacle.place(), None)
    }

    /// The extra items of a directory, none yet, with its paths.
    fn extras_of(&mut self, directory: DirectoryId, place: DirectoryPlace) -> DirectoryExtras {
        let (source, path, source_path) = match directory {
            DirectoryId::Source(number) => (number, Vec::new(), Vec::new()),
            DirectoryId::Entry(id) => {
                let level = self.levels.get_mut(id).map(|level| (level.source, level.path.clone()));
                let (source, shown) = level.unwrap_or_default();
                (source, self.destination_path(source, shown.clone()), self.source_path(source, &shown))
            }
        };
        DirectoryExtras { source, place, path, source_path, extras: Vec::new() }
    }

    /// Keeps an item that could not be renamed until its obstacle is deleted; false if there is none.
    pub(super) fn hold_back(&mut self, id: EntryId) -> bool {
        if !self.extras.obstacles.contains_key(&id) {
            return false;
        }
        let Some(Tracked { item, state: ItemState::Staged { origin, bytes, .. } }) = self.items.get(&id) else {
            return false;
        };
        if matches!(origin, Origin::Reference | Origin::Renamed(_)) {
            // The sender would have to be told a digest that it has read, and that is not known.
            return false;
        }
        let (digest, bytes) = (origin.digest(), *bytes);
        let replacement = Replacement::Item { item: item.clone(), digest, bytes };
        self.add_receipt_line(id, Status::Stored, digest);
        self.leave(id, Progress::Published);
        self.completed(id, replacement);
        true
    }

    /// Keeps the end of a directory that is complete until its obstacle is deleted; false if there is
    /// none.
    pub(super) fn hold_back_directory(&mut self, entry: &Entry, path: &[u8]) -> bool {
        let is_obstructed = self.extras.obstacles.contains_key(&entry.id);
        if is_obstructed {
            let replacement = Replacement::Directory { entry: Box::new(entry.clone()), path: path.to_vec() };
            self.completed(entry.id, replacement);
        }
        is_obstructed
    }

    /// Keeps what is complete for the deletion; once the link has ended, nothing is deleted. The sender
    /// is told done at once, because it announces only so much behind an item that is not; a failure
    /// is one of the deletion.
    fn completed(&mut self, id: EntryId, replacement: Replacement) {
        if !self.phase.is_open() {
            self.extras.obstacles.remove(&id);
            return self.fail_replacement(replacement, INTERRUPTED.into());
        }
        let digest = match &replacement {
            Replacement::Item { digest, .. } => *digest,
            Replacement::Underway | Replacement::Directory { .. } => None,
        };
        self.reply(Message::Done(vec![Done { id, outcome: Ok(digest) }]));
        if let Some(obstacle) = self.extras.obstacles.get_mut(&id) {
            obstacle.replacement = replacement;
        }
    }

    /// Ends what waited for obstacles to be deleted.
    pub(super) fn end_obstacles(&mut self, mut replaced: Replaced) {
        for (id, obstacle) in std::mem::take(&mut self.extras.obstacles) {
            let outcome = replaced.iter().position(|(other, _)| *other == id).map(|at| replaced.swap_remove(at).1);
            let outcome = outcome.unwrap_or_else(|| Err("what has its name was not deleted".into()));
            match (obstacle.replacement, outcome) {
                (Replacement::Underway, _) | (Replacement::Directory { .. }, Ok(_)) => {}
                (Replacement::Item { item, digest, bytes }, Ok(shown)) => {
                    self.end_replaced(&item, (digest, bytes), shown)
                }
                (replacement, Err(failure)) => self.fail_replacement(replacement, failure),
            }
        }
    }

    /// Fails what is complete and waits for obstacles once nothing is deleted any more.
    pub(super) fn interrupt_obstacles(&mut self) {
        if !self.phase.is_open() {
            self.fail_obstacles("the copy was interrupted before it could be deleted");
        }
    }

    /// Fails what is complete and waits for obstacles, none of which is deleted.
    pub(super) fn fail_obstacles(&mut self, why: &str) {
        let (underway, complete) = std::mem::take(&mut self.extras.obstacles)
            .into_iter()
            .partition(|(_, obstacle)| matches!(obstacle.replacement, Replacement::Underway));
        self.extras.obstacles = underway;
        let complete: BTreeMap<EntryId, Obstacle> = complete;
        for Obstacle { extra, replacement, .. } in complete.into_values() {
            let what = if extra.is_directory { "a directory" } else { "something of another kind" };
            self.fail_replacement(replacement, format!("{what} has its name, and {why}").into());
        }
    }

    /// Ends an item that has taken the name of its obstacle: notes it in the run's journal and
    /// reports it as published. `shown`: its modification time there.
    fn end_replaced(
        &mut self,
        item: &Item,
        (digest, bytes): (Option<FileDigest>, ByteCount),
        shown: Option<ModificationTime>,
    ) {
        let id = item.entry.id;
        if let Some((digest, key)) = digest.zip(shown.and_then(|shown| item.key(shown)))
            && self.is_journaled
        {
            self.ask(Action::NotePublished(vec![(key, digest)]));
        }
        self.ask(Action::RemoveJournals(vec![id]));
        let file = digest.map(|digest| PublishedFile { size: item.size(), digest, made_durable: bytes });
        self.notify(Notification::Published { path: item.path.clone(), file });
    }

    /// Reports the failure of what is complete and does not get the name of its obstacle; the same
    /// command can continue with it.
    fn fail_replacement(&mut self, replacement: Replacement, failure: Failure) {
        let (entry, path) = match replacement {
            Replacement::Underway => return,
            Replacement::Directory { entry, path } => (*entry, path),
            Replacement::Item { item, .. } => {
                self.ask(Action::Discard(item.entry.id));
                (item.entry, item.path)
            }
        };
        // The same command goes on with what is complete.
        let reason = self.note_failure(&entry, path.clone(), failure.passing());
        let path = if path.is_empty() { b".".to_vec() } else { path };
        self.reply(Message::Deletion(Deletion::Failed { path, reason: clip(reason) }));
    }
}
