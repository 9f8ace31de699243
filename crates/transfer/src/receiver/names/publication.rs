//! Publication: staged items get their final names, and the names are flushed.

use icdc_disk::tree::{FileTime, TreeError};
use icdc_protocol::message::{EntryId, EntryKind, NoticeKind};
use icdc_session::receiver::book::action::{Guard, Names, NotRenamed, Publication};
use icdc_session::receiver::book::item::{Item, ModificationTime};

use super::super::backups::Kept;
use super::super::failure::Failure;
use super::super::kept_times::is_far_off;
use super::super::publishing::{Replaced, Staged};
use super::super::restored_metadata::metadata;
use super::super::side_by_side::side_by_side;
use super::super::spellings::Spellings;
use super::FileExecutor;
use super::hard_links::is_first_name;
use crate::path_text;

impl FileExecutor<'_> {
    /// Renames items to their final names: those that may have other spellings one after the
    /// other, because the names to compare with must exist. Returns the outcome of each.
    pub(super) fn rename(
        &mut self,
        publications: &[Publication],
    ) -> Vec<(EntryId, Result<Option<ModificationTime>, NotRenamed>)> {
        let (mut outcomes, mut allowed) =
            (Vec::with_capacity(publications.len()), Vec::with_capacity(publications.len()));
        for publication in publications {
            match self.refusal(publication) {
                Some(refusal) => outcomes.push((publication.id, Err(refusal))),
                None => allowed.push(*publication),
            }
        }
        let renamed = self.rename_allowed(&allowed);
        outcomes.extend(renamed.into_iter().map(|(id, outcome)| (id, outcome.map_err(NotRenamed::Failed))));
        outcomes
    }

    /// Reason why an item may not get its final name now, by its [`Guard`]; `None` if it may.
    fn refusal(&mut self, publication: &Publication) -> Option<NotRenamed> {
        if publication.guard != Guard::Lock && self.shared.link.is_hung_up() {
            let path = self.book.item(publication.id).map(|item| path_text(&item.path)).unwrap_or_default();
            let reason = format!("{path}: the sender closed the connection before it was through");
            return Some(NotRenamed::Failed(reason.into()));
        }
        let is_changed = publication.guard == Guard::AsFound && !self.is_as_found(publication.id);
        is_changed.then_some(NotRenamed::Changed)
    }

    /// Renames items that their guards permit, after backups of what they replace; returns each
    /// outcome, with the modification time that a file shows.
    fn rename_allowed(
        &mut self,
        publications: &[Publication],
    ) -> Vec<(EntryId, Result<Option<ModificationTime>, Failure>)> {
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

    /// Gives one item its final name, in place of what the session's options let it replace.
    fn rename_one(&self, publication: &Publication, kept: Option<&Kept>) -> Result<(), Failure> {
        let staged = self.staged.get(&publication.id).ok_or("it is not staged")?;
        let item = self.item(publication.id)?;
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

    /// Gives one item its final name, which may have another spelling in its directory, unless this
    /// run has an item under that.
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

    /// Handles the outcome of renaming an item: forgets it unless its journal is yet to be removed,
    /// and removes the file of one that has failed for good.
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
            Err(Failure::Final(_)) => {
                let removed = staged.remove();
                self.note_removal(removed);
            }
            Err(Failure::Passing(_)) => {}
        }
    }

    /// Flushes file systems, so that what is staged in them is durable. What is in a device is so already.
    pub(super) fn flush(&self, file_systems: &[u64]) -> Result<(), TreeError> {
        match self.shared.device.get() {
            Some(_) => Ok(()),
            None => self.directories.flush(file_systems),
        }
    }

    /// Flushes directories, or whole file systems, so that the names in them are durable. That of a device
    /// is not new.
    pub(super) fn flush_names(&self, names: &Names) -> Result<(), TreeError> {
        match names {
            _ if self.shared.device.get().is_some() => Ok(()),
            Names::In(directories) => self.directories.flush_names(directories),
            Names::OnFileSystems(file_systems) => self.directories.flush(file_systems),
        }
    }
}
