//! Large files: announced to the store before their first block is requested.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::EntryId;
use icdc_session::receiver::book::action::Basis;

use super::super::jobs::StoreJob;
use super::super::large_file::{Claimed, Plan};
use super::FileExecutor;
use super::facts::header;

impl FileExecutor<'_> {
    /// Tells the store of a large file whose blocks are requested from now on, except for those in
    /// `held`, which the claimed part has, and as their differences to `basis`.
    pub(super) fn expect(&mut self, id: EntryId, held: Option<BlockMap>, basis: Option<Basis>) {
        if let Some(basis) = basis {
            self.expect_basis(id, held.clone(), basis);
        }
        let claimed = self.claimed.remove(&id);
        let (Some(store), Ok(item)) = (&self.store, self.item(id)) else { return };
        let Ok((directory, name)) = self.target(item) else { return };
        let header = header(item, &name);
        let mut plan = Box::new(Plan::new(item.entry.clone(), directory.clone(), name, header, self.locked()));
        self.shared.large_files.expect(id, plan.length());
        let held = match (claimed, held) {
            (Some(Claimed::InPlace(found)), held) => {
                plan.write_in_place(found, item.path.clone(), held.is_some());
                held
            }
            (Some(Claimed::Part(continued)), Some(held)) => {
                plan.continue_with(continued);
                Some(held)
            }
            (Some(Claimed::Part(_)), None) | (None, _) => None,
        };
        // The store knows the file before its first block can be requested.
        let _ = store.send(StoreJob::Expect { plan, held });
    }

    /// Drops what is kept of a large file that is complete or has failed.
    pub(super) fn forget(&mut self, id: EntryId) {
        self.claimed.remove(&id);
        self.shared.large_files.forget(id);
        self.compare_on(self.shared.bases.forget(id));
        self.compare_on(self.shared.delta.forget(id));
    }
}
