//! The journal of a run: what is noted in it, and its removal when the run is complete.

use icdc_protocol::message::{Entry, EntryId, FileDigest};
use icdc_protocol::run_journal::{ItemKey, Record};
use icdc_session::receiver::book::item::DirectoryId;

use super::super::placement::let_owner_in;
use super::super::restored_metadata::metadata;
use super::FileExecutor;
use crate::clock;

impl FileExecutor<'_> {
    /// Notes in the run's journal that an unfinished file is about to be made for the item at
    /// `path`; if that fails, the item is lost.
    pub(super) fn note_staged(&mut self, id: EntryId, path: &[u8]) {
        let Some(run) = &mut self.run else { return };
        run.staged(path);
        if let Err(reason) = run.write() {
            self.book.on_lost(clock::now(), id, reason.into());
        }
    }

    /// Notes in the run's journal that the unfinished file of an item in `path` has been removed.
    pub(super) fn note_released(&mut self, path: &[u8]) {
        if let Some(run) = &mut self.run {
            run.released(path);
        }
    }

    /// Notes published items in the run's journal. A failure is logged: then a later run transfers
    /// them again.
    pub(super) fn note_published(&mut self, records: &[(ItemKey, FileDigest)]) {
        let Some(run) = &mut self.run else { return };
        records.iter().for_each(|&(key, digest)| run.note(&Record::Published { key, digest }));
        if let Err(reason) = run.write() {
            tracing::warn!(%reason, "an interrupted run will not be continued from here");
        }
    }

    /// Removes the run's journal, and restores the attributes of the directory that a source's
    /// contents were copied into, which the removal has changed.
    pub(super) fn put_away(&mut self, contents: Option<(DirectoryId, Box<Entry>)>) {
        if self.shared.options.preserve.mode
            && !self.shared.only_new()
            && let Some((directory, _)) = &contents
            && let Ok(directory) = self.directories.get(*directory)
            && let Err(error) = let_owner_in(directory)
        {
            tracing::debug!(%error, "the journal of the run may not be removable");
        }
        if let Some(run) = &mut self.run {
            run.remove();
        }
        if let Some((directory, entry)) = contents
            && (self.new_destination || !self.shared.only_new())
            && let Ok(directory) = self.directories.get(directory)
        {
            // It was possible a moment ago, and was answered for then.
            let restored = directory.set_own_metadata(&metadata(&entry, self.shared.options));
            if let Err(reason) = restored.and_then(|()| directory.sync()) {
                tracing::warn!(%reason, "the directory's time may be that of the end of the copy");
            }
        }
    }
}
