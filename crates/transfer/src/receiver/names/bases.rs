//! Items that are compared with the files of the destination that they replace.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::EntryId;
use icdc_session::receiver::book::action::ReferencePlace;

use super::super::bases::Place;
use super::super::jobs::DiskJob;
use super::FileExecutor;

impl FileExecutor<'_> {
    /// Registers the existing file with which the large item `id` is compared, apart from the
    /// blocks `held`.
    pub(super) fn expect_basis(&mut self, id: EntryId, held: Option<BlockMap>, basis: ReferencePlace) {
        if let Some(device) = self.shared.device.get() {
            let Ok(item) = self.item(id) else { return };
            return self.shared.bases.expect(id, item.size(), held, Place::Device(device.disk().clone()));
        }
        let references = match basis {
            ReferencePlace::Older(_) => self.references_of(id),
            ReferencePlace::Itself => Default::default(),
        };
        let Ok(item) = self.item(id) else { return };
        let Ok((directory, name)) = self.target(item) else { return };
        let directory = match basis {
            ReferencePlace::Older(number) => references.get(number).and_then(Option::as_ref),
            ReferencePlace::Itself => Some(directory),
        };
        if let Some(directory) = directory {
            self.shared.bases.expect(id, item.size(), held, Place::Named(directory.clone(), name));
        }
    }

    /// Notes that these blocks do not arrive, as they are holes at the source.
    pub(super) fn on_holes(&self, id: EntryId, blocks: &[u32]) {
        self.compare_on(self.shared.bases.on_holes(id, blocks));
    }

    /// Begins to describe to the sender the file with which an item is compared.
    pub(super) fn describe(&self, id: EntryId) {
        self.shared.bases.begin(id);
        self.compare_on(true);
    }

    /// Has the thread that reads files go on with the comparisons, if it can.
    pub(super) fn compare_on(&self, can_go_on: bool) {
        if let Some(reads) = &self.reads {
            DiskJob::describe_on(reads, can_go_on);
        }
    }
}
