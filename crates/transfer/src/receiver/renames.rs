//! Files of a mirror's destination that are taken for new items, each for one.

use std::collections::HashSet;
use std::sync::Arc;

use icdc_disk::tree::{FileTime, Kind, Name};
use icdc_protocol::limits::MAX_CANDIDATES;
use icdc_protocol::message::{CandidatePlace, EntryId};
use icdc_session::ById;
use icdc_session::receiver::book::resume::facts::Lookup;

use super::candidates::{Candidates, FoundFile, Location};

/// Most files that are looked at for one item.
const MAX_LOOKS: usize = 2 * MAX_CANDIDATES;
/// Most bytes of the paths of the files that are found for one item: they travel in one message.
const MAX_PATHS: usize = 256 << 10;

/// Files of the destination that may have become new items.
#[derive(Default)]
pub(super) struct Renames {
    /// The files; `None` until they are found.
    index: Option<Arc<Candidates>>,
    /// Positions of those that were taken for an item.
    taken: HashSet<usize>,
    /// The files that were found for each item.
    found: ById<Vec<FoundFile>>,
}

impl Renames {
    /// Has [`find`](Self::find) find nothing from now on: no file may become another item.
    pub(super) fn find_none(&mut self) {
        self.index = Some(Arc::default());
    }

    /// Takes the finished index, in which [`find`](Self::find) looks from now on.
    pub(super) fn know(&mut self, index: Candidates) {
        self.index = Some(Arc::new(index));
    }

    /// Looks for files that have this size and one of these times and were not taken; those of this
    /// name come first. `None` while the files are not known.
    pub(super) fn find(&self, name: &Name, size: u64, [time, shown]: [FileTime; 2]) -> Option<Vec<FoundFile>> {
        let index = self.index.as_ref()?;
        let look = |position: usize| {
            let stat = index.stat(position).ok()?;
            let is_alike = stat.kind == Kind::File && stat.size == size && [time, shown].contains(&stat.mtime);
            is_alike.then_some(FoundFile { position, stat })
        };
        let exact = index.of(size, time, name.as_bytes());
        let rounded = (shown != time).then(|| index.of(size, shown, name.as_bytes()));
        let alike = exact.chain(rounded.into_iter().flatten());
        let free = alike.filter(|position| !self.taken.contains(position)).take(MAX_LOOKS);
        let mut bytes = 0;
        let has_room = |file: &FoundFile| {
            bytes += index.path(file.position).1.len();
            bytes <= MAX_PATHS
        };
        Some(free.filter_map(look).take(MAX_CANDIDATES).take_while(has_room).collect())
    }

    /// Answer to an examination for which [`find`](Self::find) has returned `found`: unknown as
    /// long as there is no index.
    pub(super) fn lookup(&self, found: Option<&[FoundFile]>) -> Lookup {
        match (&self.index, found) {
            (None, _) | (_, None) => Lookup::Unknown,
            (_, Some([])) => Lookup::Nothing,
            (Some(index), Some(found)) => {
                let place = |(source, path)| CandidatePlace { source, path };
                Lookup::Found(found.iter().map(|file| place(index.path(file.position))).collect())
            }
        }
    }

    /// Keeps the files that were found for an item.
    pub(super) fn keep(&mut self, id: EntryId, found: Vec<FoundFile>) {
        self.found.insert(id, found);
    }

    /// The file of this number among those that were found for an item; `None` if it was taken for
    /// another meanwhile.
    pub(super) fn of(&self, id: EntryId, number: usize) -> Option<&FoundFile> {
        self.found.get(&id)?.get(number).filter(|file| !self.taken.contains(&file.position))
    }

    /// Takes the file of this number among those that were found for an item; `None` if it was
    /// taken for another before.
    pub(super) fn take(&mut self, id: EntryId, number: usize) -> Option<FoundFile> {
        let file = self.of(id, number).cloned()?;
        self.taken.insert(file.position);
        self.found.remove(&id);
        Some(file)
    }

    /// Drops what was found for an item.
    pub(super) fn forget(&mut self, id: EntryId) {
        self.found.remove(&id);
    }

    /// Location of the file at this position of the index; `None` while there is no index.
    pub(super) fn location(&self, position: usize) -> Option<Location> {
        Some(Location::Indexed(Arc::clone(self.index.as_ref()?), position))
    }
}
