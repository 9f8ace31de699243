//! Files at the destination that are compared with items by their contents.

use icdc_protocol::message::{EntryId, FileDigest};

use super::super::candidates::Location;
use super::super::jobs::{CompareJob, DiskJob, Subject};
use super::FileExecutor;
use crate::clock;

impl FileExecutor<'_> {
    /// Has the file that an examination has found under an item's name compared with the digest of
    /// the item.
    pub(super) fn compare_existing(&mut self, id: EntryId, digest: FileDigest) {
        let place = self.item(id).and_then(|item| Ok((self.target(item)?, item.size())));
        match (&self.reads, place, self.compared.get(&id)) {
            (Some(reads), Ok(((directory, name), size)), Some(stat)) => {
                let location = Location::In(directory.clone(), name);
                let subject = Subject::Candidate { location, stat: *stat };
                let _ = reads.send(DiskJob::Compare(CompareJob { id, subject, size, digest }));
            }
            _ => self.book.on_compared(clock::now(), id, false),
        }
    }

    /// Has the file that an earlier run published under an item's name compared with `digest`.
    pub(super) fn compare(&self, id: EntryId, digest: FileDigest) {
        let (Some(reads), Ok(item)) = (&self.reads, self.item(id)) else { return };
        let Ok((directory, name)) = self.target(item) else { return };
        let subject = Subject::Published(Location::In(directory.clone(), name));
        let job = CompareJob { id, subject, size: item.size(), digest };
        let _ = reads.send(DiskJob::Compare(job));
    }
}
