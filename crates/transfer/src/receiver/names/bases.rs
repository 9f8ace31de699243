//! Items that are compared with the files of the destination that they replace.

use icdc_disk::tree::{Directory, Kind, Name};
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::{BLOCK_SIZE, LEAF_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::EntryId;
use icdc_session::receiver::book::action::{Basis, ReferencePlace};
use icdc_session::receiver::book::item::{DirectoryId, Item};
use icdc_units::ByteCount;

use super::super::bases::{Basis as Contents, OwnContents};
use super::super::delta;
use super::super::jobs::DiskJob;
use super::super::large_file::Claimed;
use super::FileExecutor;

/// Least length of a file that is opened before it is compared: shorter ones are cheap to read twice, and there may be
/// many.
const OPENED_FIRST: ByteCount = ByteCount::new(8 * BLOCK_SIZE as u64);

impl FileExecutor<'_> {
    /// Registers the existing files from which blocks of the large item `id` are put together, apart from
    /// the blocks `held`.
    pub(super) fn expect_basis(&mut self, id: EntryId, held: Option<BlockMap>, basis: Basis) {
        match basis {
            Basis::AtSamePlace(place) => self.expect_replaced(id, held, place),
            Basis::AtAnyPlace(place) => self.expect_bases(id, place),
        }
    }

    /// Registers the existing file with which the large item `id` is compared place by place, apart from the
    /// blocks `held`.
    fn expect_replaced(&mut self, id: EntryId, held: Option<BlockMap>, basis: ReferencePlace) {
        let Ok(size) = self.item(id).map(Item::size) else { return };
        if let Some(device) = self.shared.device.get() {
            let own = OwnContents { disk: device.disk().clone(), length: device.size() };
            return self.shared.bases.expect(id, size, held, Contents::Own(own));
        }
        let Some((directory, name)) = self.place_of(id, basis) else { return };
        // An unfinished file of an earlier run has what that wrote.
        let is_continued = matches!(self.claimed.get(&id), Some(Claimed::Part(_))) && held.is_some();
        let basis = match size >= OPENED_FIRST && !is_continued {
            true => Contents::UntilOpened { directory, name, is_awaited: false },
            false => Contents::Named(directory, name),
        };
        self.shared.bases.expect(id, size, held, basis);
    }

    /// Registers the existing files in which content of the large item `id` may be, wherever it is there:
    /// the one at this place, if there is one, and those that the user has named.
    fn expect_bases(&mut self, id: EntryId, place: Option<ReferencePlace>) {
        let counterpart = place.and_then(|place| self.place_of(id, place));
        let named = self.named_counterparts_of(id).into_iter();
        let by_name =
            counterpart.into_iter().chain(named).map(|(directory, name)| delta::Place::Named(directory, name));
        let files = self.named_bases.iter().flat_map(|bases| bases.files().iter().cloned()).map(delta::Place::Open);
        self.shared.delta.expect(id, by_name.chain(files).collect());
    }

    /// Directory and name of the file at this place.
    fn place_of(&mut self, id: EntryId, place: ReferencePlace) -> Option<(Directory, Name)> {
        let references = match place {
            ReferencePlace::Older(_) => self.references_of(id),
            ReferencePlace::Itself => Default::default(),
        };
        let (directory, name) = self.target(self.item(id).ok()?).ok()?;
        let directory = match place {
            ReferencePlace::Older(number) => references.get(number)?.as_ref()?,
            ReferencePlace::Itself => directory,
        };
        Some((directory.clone(), name))
    }

    /// Files of the item's path in the directories that the user has named as bases, if they are as long as
    /// is worth reading.
    fn named_counterparts_of(&mut self, id: EntryId) -> Vec<(Directory, Name)> {
        let Some(item) = self.book.item(id) else { return Vec::new() };
        let (start, place) = (self.directories.get(DirectoryId::Source(item.source)), item.directory);
        let (Ok(start), Ok(directory), Some(bases)) = (start, self.directories.get(place), &mut self.named_bases)
        else {
            return Vec::new();
        };
        let found = bases.directories.beside(place, start, directory);
        let Ok((_, name)) = self.item(id).and_then(|item| self.target(item)) else { return Vec::new() };
        let has_file = |directory: &&Directory| {
            directory.stat(&name).is_ok_and(|stat| stat.kind == Kind::File && stat.size >= LEAF_SIZE as u64)
        };
        found.iter().flatten().filter(has_file).map(|directory| (directory.clone(), name.clone())).collect()
    }

    /// Whether the user has named a file, or a directory with a file of the item's path, as a basis of the
    /// item, a large one.
    pub(super) fn has_named_basis(&mut self, id: EntryId) -> bool {
        let is_large = self.book.item(id).is_some_and(|item| item.size() > ByteCount::new(PACK_FILE_LIMIT));
        if self.named_bases.is_none() || !is_large {
            return false;
        }
        let has_files = self.named_bases.as_ref().is_some_and(|bases| !bases.files().is_empty());
        has_files || !self.named_counterparts_of(id).is_empty()
    }

    /// Notes that these blocks do not arrive, as they are holes at the source.
    pub(super) fn on_holes(&self, id: EntryId, blocks: &[u32]) {
        self.compare_on(self.shared.bases.on_holes(id, blocks));
    }

    /// Begins to describe to the sender the files in which content of an item may be that has moved.
    pub(super) fn describe_chunks(&self, id: EntryId) {
        self.shared.delta.begin(id);
        self.compare_on(true);
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
