//! Journals and unfinished files that are removed.

use icdc_disk::tree::{Name, TreeError};
use icdc_protocol::message::EntryId;
use icdc_session::receiver::book::item::DirectoryId;

use super::super::{failure, leftovers};
use super::FileExecutor;

impl FileExecutor<'_> {
    /// Removes the journals of published files, which have no further use.
    pub(super) fn remove_journals(&mut self, ids: &[EntryId]) {
        for id in ids {
            if let Some(staged) = self.staged.remove(id) {
                self.note_removal(staged.remove_journal());
            }
        }
    }

    /// Removes what an earlier run has left beside the item: journals, and with `with_data` its
    /// unfinished files as well.
    pub(super) fn remove_leftovers(&mut self, directory: DirectoryId, name: &[u8], with_data: bool) {
        if let (Ok(directory), Ok(name)) = (self.directories.get(directory), Name::new(name)) {
            let remove = if with_data { leftovers::remove_unfinished } else { leftovers::remove_journals };
            let removed = remove(directory, &name, self.shared.whose());
            self.note_removal(removed);
        }
    }

    /// Removes the staged file of an item that is not published, unless a later run can publish it as
    /// it is.
    pub(super) fn discard(&mut self, id: EntryId) {
        if let Some(staged) = self.staged.remove(&id) {
            self.note_removal(staged.discard());
        }
    }

    /// Records the outcome of removing something unfinished. Where it stays, the copy is complete all
    /// the same, and a later run removes it; a snapshot must not get its name with it.
    pub(super) fn note_removal(&mut self, outcome: Result<(), TreeError>) {
        if let Err(error) = outcome {
            self.unremoved.get_or_insert_with(|| failure::of_tree(&error).passing());
        }
    }
}
