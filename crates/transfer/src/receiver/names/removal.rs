//! Journals and unfinished files that are removed.

use icdc_disk::tree::Name;
use icdc_protocol::message::EntryId;
use icdc_session::receiver::book::item::DirectoryId;

use super::super::leftovers;
use super::FileExecutor;

impl FileExecutor<'_> {
    /// Removes the journals of published files, which have no further use.
    pub(super) fn remove_journals(&mut self, ids: &[EntryId]) {
        ids.iter().filter_map(|id| self.staged.remove(id)).for_each(|staged| staged.remove_journal());
    }

    /// Removes what an earlier run has left beside the item: journals, and with `with_data` its
    /// unfinished files as well.
    pub(super) fn remove_leftovers(&self, directory: DirectoryId, name: &[u8], with_data: bool) {
        if let (Ok(directory), Ok(name)) = (self.directories.get(directory), Name::new(name)) {
            let remove = if with_data { leftovers::remove_unfinished } else { leftovers::remove_journals };
            remove(directory, &name, self.shared.whose());
        }
    }

    /// Removes the staged file of an item that is not published, unless a later run can publish it as
    /// it is.
    pub(super) fn discard(&mut self, id: EntryId) {
        if let Some(staged) = self.staged.remove(&id) {
            staged.discard();
        }
    }
}
