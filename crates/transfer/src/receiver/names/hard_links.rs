//! Further names (hard links) of files, and the files that have the first ones.

use icdc_disk::tree::Name;
use icdc_protocol::limits::MAX_LINKED;
use icdc_protocol::message::{EntryId, EntryKind};
use icdc_session::receiver::book::action::{Apart, FirstName};
use icdc_session::receiver::book::item::Item;

use super::super::failure::Failure;
use super::super::file_identity::FileIdentity;
use super::super::leftovers;
use super::super::publishing::Staged;
use super::FileExecutor;

/// Outcome of making a further name (hard link) of a file.
enum Linked {
    /// The new name refers to the file that was published or found under the first name.
    ToFirst,
    /// The hard link was not made, for this reason.
    Not(Apart),
}

impl FileExecutor<'_> {
    /// Makes a further name of a file under a staging name, and reports the outcome to the book.
    pub(super) fn make_hard_link(&mut self, id: EntryId, first: &FirstName) {
        match self.stage_hard_link(id, first) {
            Ok(Linked::ToFirst) => self.book.on_link_made(id, Ok(())),
            Ok(Linked::Not(why)) => self.book.on_link_impossible(id, why),
            Err(failure) => self.book.on_link_made(id, Err(failure)),
        }
    }

    /// Makes the further name under a staging name, from the first file as it is staged or
    /// published; or returns why it has to be a file of its own.
    fn stage_hard_link(&mut self, id: EntryId, first: &FirstName) -> Result<Linked, Failure> {
        let item = self.item(id)?;
        let EntryKind::HardLink { to, .. } = item.entry.kind else { return Err("is not a hard link".into()) };
        let (directory, name) = self.target(item)?;
        let whose = self.shared.whose();
        if let Some((first, file)) = self.staged.get(&to).and_then(Staged::as_first) {
            // It waits under its staging name until what has its own is deleted.
            let staged = Staged::stage_hard_link(directory, name, first, file, whose)?;
            return Ok(self.linked(id, staged));
        }
        let Some(file) = self.first_files.get(&to).copied() else { return Ok(Linked::Not(Apart::Replaced)) };
        if !self.shared.only_new()
            && let Some(staged) = Staged::in_place(directory, &name, file)
        {
            if self.is_resuming() {
                let removed = leftovers::remove_unfinished(directory, &name, whose);
                self.note_removal(removed);
            }
            return Ok(self.linked(id, Ok(staged)));
        }
        let first_name = Name::new(&first.name).map_err(|error| error.to_string())?;
        let staged = if first.place == item.place.directory {
            Staged::stage_hard_link(directory, name, (directory, &first_name), file, whose)?
        } else {
            let first = self.directories.of_first(first, &first_name)?;
            Staged::stage_hard_link(directory, name, (&first, &first_name), file, whose)?
        };
        Ok(self.linked(id, staged))
    }

    /// Keeps a staged further name until it is published; returns the outcome of making it.
    fn linked(&mut self, id: EntryId, staged: Result<Staged, Apart>) -> Linked {
        match staged {
            Ok(staged) => {
                self.staged.insert(id, staged);
                Linked::ToFirst
            }
            Err(why) => Linked::Not(why),
        }
    }

    /// Remembers the file that has the first of several names, for hard links to it; does nothing
    /// if too many are known.
    pub(super) fn remember_first(&mut self, id: EntryId, file: FileIdentity) {
        if self.first_files.len() < MAX_LINKED || self.first_files.contains_key(&id) {
            self.first_files.insert(id, file);
        }
    }
}

/// Whether the item is the first name of a file that has several.
pub(super) fn is_first_name(item: &Item) -> bool {
    matches!(item.entry.kind, EntryKind::File { linked: true, .. })
}
