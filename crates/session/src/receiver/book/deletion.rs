//! Deletion of the extra items of a mirror, from the announcements of its sources until they are
//! deleted.
//!
//! ```text
//! Entries, LeftOut ─► names of each open directory      DirEnd ─► ListExtras: other names there
//! everything done, nothing failed ─► CountExtras ─► within the limit ─► DeleteExtras ─► Ended
//! ```

use std::sync::Arc;

use icdc_protocol::message::{Deletion, Entry, EntryId, EntryKind, LeftOut, Message, Parent, SourceKind};
use icdc_protocol::validate::clip;

use super::Book;
use super::action::{Action, Answer, DirectoryExtras, ListedExtras, Notification, Target};
use super::extras::{Announcing, Extras, Stage};
use super::item::DirectoryId;
use super::levels::DirectoryState;
use super::obstacles::Replaced;
use super::state::SessionStage;
use crate::{Failure, SessionError};

impl<P> Book<P> {
    /// Whether this run deletes what the source does not have: a mirror does, but for the dry run
    /// of a snapshot.
    fn deletes(&self) -> bool {
        let options = &self.settings.options;
        // A dry run compares with the newest snapshot, which stays as it is.
        options.delete.is_some() && !(options.dry_run && options.snapshot.is_some())
    }

    /// Records the name of an announced entry, so that a mirror does not delete what has it.
    pub(super) fn note_source_name(&mut self, entry: &Entry) {
        if !self.deletes() {
            return;
        }
        if let (Parent::Source(number), SessionStage::Running(run)) = (entry.parent, &self.stage)
            && let Some(Target::Named { directory, name }) = run.targets.get(number as usize)
        {
            self.extras.sources.entry(*directory).or_default().insert(name.clone());
        }
        let is_directory = matches!(entry.kind, EntryKind::Directory);
        self.extras.on_entry(entry.id, entry.parent, &entry.name, is_directory);
    }

    /// Records names that the source has and that are not announced, so that a mirror does not
    /// delete what has them.
    pub(super) fn left_out(&mut self, directory: EntryId, what: LeftOut) -> Result<(), SessionError> {
        let open = self.extras.open.get_mut(&directory);
        let open = open.ok_or_else(|| SessionError::Protocol("names are left out of no open directory".into()))?;
        match what {
            LeftOut::Names(names) => {
                names.iter().for_each(|name| open.names.insert(name));
                self.extras.names += names.len();
            }
            LeftOut::Unread => open.is_unread = true,
        }
        Ok(())
    }

    /// Requests the listing of a directory whose children are all announced.
    pub(super) fn list_extras(&mut self, id: EntryId) {
        let Some(Announcing { names, is_unread, is_source }) = self.extras.open.remove(&id) else { return };
        self.extras.names -= names.len();
        let Some(level) = self.levels.get_mut(id) else { return };
        let (shown, source) = (level.path.clone(), level.source);
        let DirectoryState::Exists(place) = level.state else { return };
        let source_path = self.source_path(source, &shown);
        let path = self.destination_path(source, shown);
        let found = DirectoryExtras { source, place, path, source_path, extras: Vec::new() };
        if is_unread {
            return self.extras.add(found, 0);
        }
        let allows_empty = self.settings.options.delete.as_ref().is_some_and(|delete| delete.allow_empty_source);
        if is_source && names.len() == 0 && !allows_empty {
            let shown = if found.path.is_empty() { b".".to_vec() } else { found.path };
            let consequence = match self.has_snapshot_ahead() {
                true => "the snapshot is to be empty",
                false => "everything at the destination is to go",
            };
            self.extras.refuse(|| {
                format!(
                    "{}: its source is an empty directory, as that of a file system that is not mounted; if \
                     {consequence}, add --yes-empty",
                    shown.escape_ascii()
                )
            });
            return;
        }
        if self.extras.refusal.is_none() {
            self.ask(Action::ListExtras { directory: DirectoryId::Entry(id), found, names: names.sorted() });
        }
    }

    /// Path from the transfer root, over which the rules against deletion are, of the directory
    /// that has this path at the destination.
    pub(super) fn source_path(&self, source: u32, path: &[u8]) -> Vec<u8> {
        let SessionStage::Running(run) = &self.stage else { return path.to_vec() };
        let Some(named) = run.sources.get(source as usize) else { return path.to_vec() };
        let is_contents = named.kind == SourceKind::Contents;
        if is_contents && !self.settings.options.dry_run {
            return path.to_vec();
        }
        match beneath_first(path) {
            beneath if is_contents => beneath.to_vec(),
            b"" => named.name.clone(),
            beneath => [&named.name, beneath].join(&b'/'),
        }
    }

    /// Path below the destination of a directory with this path; in a dry run paths begin with the
    /// source's name.
    pub(super) fn destination_path(&self, source: u32, path: Vec<u8>) -> Vec<u8> {
        let SessionStage::Running(run) = &self.stage else { return path };
        if !self.settings.options.dry_run {
            return path;
        }
        let beneath = beneath_first(&path);
        match run.targets.get(source as usize) {
            Some(Target::Named { name, .. }) if beneath.is_empty() => name.clone(),
            Some(Target::Named { name, .. }) => [name, beneath].join(&b'/'),
            _ => beneath.to_vec(),
        }
    }

    /// Handles the outcome of [`Action::ListExtras`].
    pub fn on_extras_listed(&mut self, outcome: Result<ListedExtras, Failure>) {
        self.answered(Answer::ExtrasListed);
        match outcome {
            Ok(ListedExtras { found, items }) => self.extras.add(found, items),
            Err(failure) => self.extras.refuse(|| failure.into_reason()),
        }
    }

    /// Begins the deletion once everything else is done; returns whether it has ended. Nothing is
    /// deleted once the sender has gone: it may not have read everything.
    pub(super) fn delete_extras(&mut self) -> bool {
        if !self.deletes() || !self.phase.is_open() {
            self.interrupt_obstacles();
            return true;
        }
        match self.extras.stage {
            Stage::Ended => return true,
            Stage::Counting | Stage::Deleting => return false,
            Stage::Collecting if !self.has_heard() => return false,
            Stage::Collecting => {}
        }
        if let Some(path) = &self.first_failed {
            let reason = format!("{}: it was not copied", path.escape_ascii());
            self.extras.refuse(|| reason);
        }
        self.extras.refuse_obstacles_with_contents();
        if let Some(reason) = self.extras.refusal.take() {
            self.refuse_deletion(reason);
            return true;
        }
        let found = self.extras.take();
        if found.is_empty() {
            self.end_deletion();
            return true;
        }
        self.extras.stage = Stage::Counting;
        self.ask(Action::CountExtras(found.into()));
        false
    }

    /// Handles the outcome of [`Action::CountExtras`]: the number of items, those in extra
    /// directories included.
    pub fn on_extras_counted(&mut self, found: Arc<[DirectoryExtras]>, outcome: Result<u64, Failure>) {
        self.answered(Answer::ExtrasCounted);
        let max = self.settings.options.delete.as_ref().and_then(|delete| delete.max);
        let names: usize = found.iter().map(|found| found.extras.len()).sum();
        match outcome {
            Err(failure) => self.refuse_deletion(failure.into_reason()),
            Ok(count) => {
                // What is in extra directories was not listed before.
                let all = self.extras.listed + count.saturating_sub(names as u64);
                match Extras::limit(max, all).filter(|limit| count > *limit) {
                    Some(limit) => self.refuse_deletion(format!(
                        "{count} items of the destination are not at the source, and --max-delete allows {limit} of {all}"
                    )),
                    None => {
                        self.extras.stage = Stage::Deleting;
                        self.ask(Action::DeleteExtras { found, count });
                    }
                }
            }
        }
        self.proceed();
    }

    /// Handles the end of [`Action::DeleteExtras`], with the outcomes for what replaces obstacles, and
    /// the path of the first item that could not be deleted.
    pub fn on_extras_deleted(&mut self, replaced: Replaced, failed: Option<Vec<u8>>) {
        self.answered(Answer::ExtrasDeleted);
        self.end_obstacles(replaced);
        if let Some(path) = failed {
            self.first_failed.get_or_insert(path);
        }
        self.end_deletion();
        self.proceed();
    }

    /// Ends the deletion for this reason with nothing deleted; where a snapshot is made, that stays
    /// unfinished.
    fn refuse_deletion(&mut self, reason: String) {
        if self.has_snapshot_ahead() {
            self.fail_obstacles("the snapshot is not complete");
            self.extras = Extras { stage: Stage::Ended, ..Extras::default() };
            return self.refuse_snapshot(reason);
        }
        self.notify(Notification::DeletionRefused { reason: reason.clone() });
        self.reply(Message::Deletion(Deletion::Refused(clip(reason))));
        self.fail_obstacles("nothing is deleted");
        self.end_deletion();
    }

    /// Marks the deletion as ended, and tells the sender, which waits for it, unless a snapshot is
    /// still to be made.
    fn end_deletion(&mut self) {
        self.extras = Extras { stage: Stage::Ended, ..Extras::default() };
        if !self.has_snapshot_ahead() {
            self.reply(Message::Deletion(Deletion::Ended));
        }
    }
}

/// The part of a path below its first component; empty if there is none.
fn beneath_first(path: &[u8]) -> &[u8] {
    path.iter().position(|byte| *byte == b'/').map_or(&[], |slash| &path[slash + 1..])
}
