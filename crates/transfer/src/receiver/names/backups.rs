//! Items that are kept before others replace them.

use icdc_protocol::message::EntryId;
use icdc_session::receiver::book::action::Publication;
use icdc_session::receiver::book::item::DirectoryId;

use super::super::backups::{Backups, Kept, KeptState, Old};
use super::super::failure::{self, Failure};
use super::FileExecutor;

impl FileExecutor<'_> {
    /// Makes durable backups of what items are about to replace; returns the outcomes. `None` if
    /// the session makes no backups.
    pub(super) fn keep_replaced(&mut self, publications: &[Publication]) -> Option<Kept> {
        let mut backups = self.backups.take()?;
        let mut kept: Kept = publications
            .iter()
            .map(|publication| (publication.id, self.keep_before(&mut backups, publication.id)))
            .collect();
        if let Err(error) = self.directories.flush(&backups.take_unflushed()) {
            let failure = failure::of_tree(&error);
            kept.values_mut().filter(|kept| matches!(kept, Ok(KeptState::Kept(_)))).for_each(|kept| {
                *kept = Err(failure.clone());
            });
        }
        self.backups = Some(backups);
        Some(kept)
    }

    /// Makes the backup of what the staged item `id` is about to replace.
    fn keep_before(&self, backups: &mut Backups, id: EntryId) -> Result<KeptState, Failure> {
        let item = self.item(id)?;
        let (directory, name) = self.target(item)?;
        let start = self.directories.get(DirectoryId::Source(item.source))?;
        let staged = self.staged.get(&id).ok_or("it is not staged")?;
        backups.keep(Old { start, directory, name: &name }, staged.own_name()?)
    }
}
