//! Items that are made from their counterparts in reference directories.

use std::sync::Arc;

use icdc_disk::tree::Directory;
use icdc_protocol::message::{EntryId, NoticeKind};
use icdc_session::receiver::book::action::{Apart, Method, Reference};
use icdc_session::receiver::book::item::DirectoryId;
use icdc_units::ByteCount;

use super::super::failure::{self, Failure};
use super::super::file_identity::FileIdentity;
use super::super::jobs::DiskJob;
use super::super::publishing::{Made, Staged};
use super::super::references::{CopyJob, Counterpart};
use super::FileExecutor;
use crate::clock;

impl FileExecutor<'_> {
    /// Directories in which the counterparts of an item may be, by the number of the reference
    /// directory.
    pub(super) fn references_of(&mut self, id: EntryId) -> Arc<[Option<Directory>]> {
        let (Some(references), Some(item)) = (&mut self.references, self.book.item(id)) else { return Arc::default() };
        let start = self.directories.get(DirectoryId::Source(item.source));
        match (start, self.directories.get(item.directory)) {
            (Ok(start), Ok(directory)) => references.beside(item.directory, start, directory),
            _ => Arc::default(),
        }
    }

    /// Makes an item from its counterpart in a reference directory, as a hard link or a copy, and
    /// reports to the book; what cannot be made travels.
    pub(super) fn take_reference(&mut self, id: EntryId, reference: Reference) {
        let taken = match (self.to_take.remove(&id), reference.method) {
            (None, _) => None,
            (Some(counterpart), Method::Copy) => return self.copy_reference(id, counterpart),
            (Some(counterpart), Method::Link) => match self.link_reference(id, &counterpart) {
                Ok(Ok(staged)) => {
                    self.staged.insert(id, staged);
                    Some(ByteCount::ZERO)
                }
                // It has as many names as the file system allows, or is behind a mount.
                Ok(Err(Apart::Refused)) => return self.copy_reference(id, counterpart),
                Ok(Err(_)) => None,
                Err(failure) => {
                    tracing::debug!(?failure, "a file cannot be linked from a reference directory, so it travels");
                    None
                }
            },
        };
        self.book.on_reference_taken(clock::now(), id, taken);
    }

    /// Makes the item under its staging name as a hard link to its counterpart; the inner error is
    /// the reason why it has to be another file.
    fn link_reference(&self, id: EntryId, counterpart: &Counterpart) -> Result<Result<Staged, Apart>, Failure> {
        let (directory, name) = self.target(self.item(id)?)?;
        let (above, from) = counterpart.location.open().map_err(|error| failure::of_tree(&error))?;
        Staged::stage_hard_link(
            directory,
            name,
            (&above, &from),
            FileIdentity::of(&counterpart.found),
            self.shared.whose(),
        )
    }

    /// Has the thread that reads files copy the counterpart, or the candidate.
    pub(super) fn copy_reference(&mut self, id: EntryId, counterpart: Counterpart) {
        let job = self.item(id).and_then(|item| {
            let (directory, name) = self.target(item)?;
            Ok(CopyJob { id, directory: directory.clone(), name, entry: item.entry.clone(), counterpart })
        });
        match (&self.reads, job) {
            (Some(reads), Ok(job)) => drop(reads.send(DiskJob::Copy(Box::new(job)))),
            _ => self.book.on_reference_taken(clock::now(), id, None),
        }
    }

    /// Handles the end of copying a counterpart: `made` is the item under its staging name, `None`
    /// if it could not be copied and has to travel.
    pub(super) fn on_reference_copied(&mut self, id: EntryId, made: Option<Made>) {
        let bytes = made.as_ref().map(Made::bytes);
        let place = self.book.item(id).and_then(|item| self.target(item).ok());
        if let (Some(made), Some((directory, name))) = (made, place) {
            let staged = Staged::new(directory, name, made);
            if staged.lacks_mode() {
                self.shared.notice(NoticeKind::ModeNotKept, staged.path().as_bytes());
            }
            self.staged.insert(id, staged);
        }
        self.book.on_reference_taken(clock::now(), id, bytes);
    }
}
