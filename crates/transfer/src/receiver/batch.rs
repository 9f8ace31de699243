//! Publishing many items at once.
//!
//! Small files are written aside, then made durable together by one `syncfs`, and only then renamed
//! to their final names: a file is complete under its name or not there, and thousands of files cost
//! one flush of the disk.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use icdc_disk::DiskFile;
use icdc_disk::tree::{Directory, Name, Stat};
use icdc_protocol::message::{EntryId, EntryKind, FileDigest, Preserve};
use icdc_protocol::run_journal::{Record, item_key};

use super::Shared;
use super::failure::{self, Failure};
use super::pending::{Pending, metadata};
use super::resume::{self, RunLog};
use super::staging::Staging;

/// Items that make a batch full.
const ITEMS: usize = 4096;
/// Bytes that make a batch full.
const BYTES: u64 = 256 << 20;
/// Directories that are flushed one by one; more are flushed by one `syncfs`.
const DIRECTORIES: usize = 4;

/// A large file that needs nothing more but its name.
struct Durable {
    _file: Arc<DiskFile>,
    /// `None` where no later run would find it.
    journal: Option<Name>,
}

/// An item that is complete under a staging name.
pub(super) struct Made {
    staging: Name,
    /// The file, if its contents and metadata are durable already. It stays open
    /// until it is renamed, because its lock keeps others away from the name.
    durable: Option<Durable>,
    bytes: u64,
    /// Device and inode, for what must not be mixed up with the work of another copy to the same place.
    inode: Option<(u64, u64)>,
}

impl Made {
    /// A link, or anything else without contents of its own to flush.
    pub(super) fn unsynced(staging: Name) -> Self {
        Self { staging, durable: None, bytes: 0, inode: None }
    }

    /// `file`, which has `bytes` bytes that are not durable.
    pub(super) fn file(staging: Name, file: &File, bytes: u64) -> Result<Self, String> {
        let stat = Stat::of(file).map_err(|error| format!("its size and time cannot be read: {error}"))?;
        Ok(Self { staging, durable: None, bytes, inode: Some((stat.dev, stat.ino)) })
    }

    /// `file`, which is durable and has a journal of blocks where a later run finds one.
    pub(super) fn durable(staging: Staging, file: Arc<DiskFile>) -> Result<Self, String> {
        let made = Self::file(staging.part(), file.as_file(), 0)?;
        let journal = staging.is_found_again().then(|| staging.blocks());
        Ok(Self { durable: Some(Durable { _file: file, journal }), ..made })
    }

    /// Whether it need not be flushed.
    pub(super) fn is_durable(&self) -> bool {
        self.durable.is_some()
    }

    /// Removes it, unless a later run can publish it as it is.
    fn discard(&self, at: &Pending) {
        if self.durable.as_ref().is_none_or(|durable| durable.journal.is_none()) {
            let _ = at.directory.remove_file(&self.staging);
        }
    }
}

/// An item to publish.
pub(super) struct Publication {
    pub(super) id: EntryId,
    pub(super) made: Made,
    pub(super) digest: Option<FileDigest>,
}

/// What became of a batch.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) published: Vec<(EntryId, Option<FileDigest>)>,
    pub(super) failed: Vec<(EntryId, Failure)>,
}

#[derive(Default)]
pub(super) struct Batch {
    items: Vec<Publication>,
    bytes: u64,
    /// A directory in which a name was made that is not durable.
    touched: Option<Directory>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.touched.is_none()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.items.len() >= ITEMS || self.bytes >= BYTES
    }

    pub(super) fn add(&mut self, publication: Publication) {
        self.bytes += publication.made.bytes;
        self.items.push(publication);
    }

    /// Notes that a directory was made in `directory`.
    pub(super) fn touch(&mut self, directory: &Directory) {
        if self.touched.is_none() {
            self.touched = Some(directory.clone());
        }
    }

    /// Writes a small file under its staging name.
    pub(super) fn stage(&self, pending: &Pending, contents: &[u8], preserve: Preserve) -> Result<Made, Failure> {
        let Pending { entry, directory, name, .. } = pending;
        let wanted = metadata(entry, preserve);
        let mode = wanted.mode.map_or(0o666, |mode| mode & 0o777);
        let (file, staging) = resume::make_part(directory, name, |part| directory.create_file(part, mode))?;
        let written =
            file.write_all_at(contents, 0).map_err(|error| failure::of_disk(&directory.path_of(name), "write", &error));
        let written = written
            .and_then(|()| directory.set_metadata(&staging, &file, &wanted).map_err(|error| failure::of_tree(&error)));
        if let Err(failure) = written {
            let _ = directory.remove_file(&staging);
            return Err(failure);
        }
        Made::file(staging, &file, contents.len() as u64).map_err(Failure::from)
    }

    /// Flushes, verifies if asked to, renames, and flushes the names.
    pub(super) fn publish(
        &mut self,
        shared: &Shared<'_>,
        pending: &HashMap<EntryId, Pending>,
        run: Option<&mut RunLog>,
    ) -> Outcome {
        let items = std::mem::take(&mut self.items);
        let touched = self.touched.take();
        self.bytes = 0;
        let mut outcome = Outcome::default();
        let unsynced = items.iter().find(|item| !item.made.is_durable()).and_then(|item| pending.get(&item.id));
        if let Some(directory) = unsynced.map(|pending| &pending.directory).or(touched.as_ref())
            && let Err(error) = directory.sync_filesystem()
        {
            for item in items {
                if let Some(at) = pending.get(&item.id) {
                    item.made.discard(at);
                }
                outcome.failed.push((item.id, Failure::Passing(error.to_string())));
            }
            return outcome;
        }
        let mut directories: Vec<&Pending> = Vec::new();
        let mut journals: Vec<(&Pending, &Name)> = Vec::new();
        for item in &items {
            let Some(at) = pending.get(&item.id) else { continue };
            if let Err(reason) = is_ours(at, &item.made) {
                outcome.failed.push((item.id, reason.into()));
                continue;
            }
            match publish_one(shared, at, item) {
                Ok(()) => {
                    if directories.last().is_none_or(|last| last.entry.parent != at.entry.parent) {
                        directories.push(at);
                    }
                    shared.durable(item.made.bytes);
                    journals
                        .extend(item.made.durable.iter().filter_map(|durable| Some((at, durable.journal.as_ref()?))));
                    outcome.published.push((item.id, item.digest));
                }
                Err(failure) => {
                    item.made.discard(at);
                    outcome.failed.push((item.id, failure));
                }
            }
        }
        if let Err(reason) = flush_names(&directories) {
            tracing::warn!(%reason, "names may not survive a power cut");
        }
        if let Some(run) = run
            && let Err(reason) = note(run, pending, &outcome.published)
        {
            tracing::warn!(%reason, "an interrupted run will not be continued from here");
        }
        // Up to here a file's journal tells whoever comes after a kill that the file is complete.
        for (at, journal) in journals {
            let _ = at.directory.remove_file(journal);
        }
        outcome
    }
}

/// Another process that copies to the same place at the same time puts its own unfinished file under the staging
/// name: that one must neither be published nor be removed.
fn is_ours(at: &Pending, made: &Made) -> Result<(), String> {
    let Some(inode) = made.inode else { return Ok(()) };
    match at.directory.stat(&made.staging) {
        Ok(stat) if (stat.dev, stat.ino) == inode => Ok(()),
        _ => {
            let path = at.directory.path_of(&at.name);
            Err(format!(
                "{path}: another copy has written it at the same time; run the same command again when that is through"
            ))
        }
    }
}

fn publish_one(shared: &Shared<'_>, at: &Pending, item: &Publication) -> Result<(), Failure> {
    let Publication { made, digest, .. } = item;
    if let (true, false, Some(FileDigest::Blake3(digest))) = (shared.options.verify, made.is_durable(), digest) {
        verify(at, &made.staging, digest)?;
    }
    at.directory.rename(&made.staging, &at.directory, &at.name).map_err(|error| {
        let failure = failure::of_tree(&error);
        if made.is_durable() { failure.passing() } else { failure }
    })?;
    if matches!(at.entry.kind, EntryKind::HardLink { .. }) {
        // A rename onto a name of the same file does nothing and leaves the staging name behind.
        let _ = at.directory.remove_file(&made.staging);
    }
    Ok(())
}

/// Reads a small file back from the medium.
fn verify(at: &Pending, staging: &Name, digest: &[u8; 32]) -> Result<(), String> {
    let EntryKind::File { size, .. } = at.entry.kind else { return Ok(()) };
    let (file, _) = at.directory.open_file(staging).map_err(|error| error.to_string())?;
    let file = DiskFile::for_reading(file).map_err(|error| error.to_string())?;
    // The pages are clean after the flush, so they can be dropped: the read goes to the medium.
    file.forget_cache();
    let mut contents = vec![0; size as usize];
    file.as_file().read_exact_at(&mut contents, 0).map_err(|error| format!("read back: {error}"))?;
    if blake3::hash(&contents).as_bytes() == digest {
        Ok(())
    } else {
        Err("what the medium gives back differs from what was written; check the disk".into())
    }
}

/// Flushes the directories that hold these items.
fn flush_names(items: &[&Pending]) -> Result<(), String> {
    let outcome = match items {
        [first, .., _] if items.len() > DIRECTORIES => first.directory.sync_filesystem(),
        few => few.iter().try_for_each(|item| item.directory.sync()),
    };
    outcome.map_err(|error| error.to_string())
}

fn note(
    run: &mut RunLog,
    pending: &HashMap<EntryId, Pending>,
    published: &[(EntryId, Option<FileDigest>)],
) -> Result<(), String> {
    for (id, digest) in published {
        if let (Some(at), Some(digest)) = (pending.get(id), digest)
            && let EntryKind::File { version, .. } = &at.entry.kind
        {
            run.note(&Record::Published { key: item_key(&at.path, version), digest: *digest });
        }
    }
    run.write()
}
