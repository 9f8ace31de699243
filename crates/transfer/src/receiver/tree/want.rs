//! What is wanted of a file: all of it, what an earlier run has not left, or nothing.

use icdc_disk::tree::{FileTime, Kind, Stat};
use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::{BlockMap, block_count};
use icdc_protocol::digest::RootHasher;
use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{EntryKind, FileDigest, Message, Want};
use icdc_protocol::run_journal::item_key;

use super::super::compare::CompareJob;
use super::super::failure::Failure;
use super::super::large_file::Continued;
use super::super::pending::{Pending, metadata};
use super::super::resume::{self, FileJournal, PublishedBy};
use super::super::staging::Purpose;
use super::super::store::{Plan, StoreJob};
use super::Keeper;
use super::links::State;
use crate::event::Outcome;

/// What is to become of an item.
pub(super) enum Wanted {
    /// This can be answered.
    Known(Want),
    /// An earlier run seems to have published it with this digest: that is to be compared first.
    Compare(FileDigest),
}

impl Keeper<'_> {
    /// Decides what is to come of an item, and prepares the store for a large file.
    pub(super) fn want(&mut self, pending: &Pending) -> Result<Wanted, Failure> {
        let options = &self.shared.options;
        let EntryKind::File { size, version, .. } = &pending.entry.kind else {
            if options.update && is_same_link(pending, options.preserve.times) {
                self.shared.report(&pending.entry, &pending.path, Outcome::Skipped, None, None);
                return Ok(Wanted::Known(Want::Skip));
            }
            return Ok(Wanted::Known(Want::All));
        };
        if let Some((digest, by)) = self.run.as_ref().and_then(|run| run.published(&item_key(&pending.path, version)))
            && self.is_as_published(pending, *size)
        {
            match by {
                PublishedBy::ThisRun => return Ok(Wanted::Known(self.have(pending, digest))),
                PublishedBy::AnEarlierRun if options.verify => return Ok(Wanted::Compare(digest)),
                PublishedBy::AnEarlierRun => {
                    self.links.remember(pending, State::Published);
                    self.shared.take_over(*size);
                    return Ok(Wanted::Known(Want::TakenOver(digest)));
                }
            }
        }
        if options.update && stat_of(pending, *size).is_some() {
            self.links.remember(pending, State::Published);
            self.shared.skipped();
            self.shared.report(&pending.entry, &pending.path, Outcome::Skipped, None, None);
            return Ok(Wanted::Known(Want::Skip));
        }
        match self.renamed(pending, *size) {
            Some(digest) => Ok(Wanted::Compare(digest)),
            None => self.want_contents(pending).map(Wanted::Known),
        }
    }

    /// Nothing is wanted of an item that is published with this digest.
    pub(super) fn have(&mut self, pending: &Pending, digest: FileDigest) -> Want {
        if let EntryKind::File { size, .. } = pending.entry.kind {
            if size > BLOCK_SIZE as u64 {
                resume::remove_journals(&pending.directory, &pending.name);
            }
            self.links.remember(pending, State::Published);
            self.shared.resumed(size);
            self.shared.count_published(size, Some(&digest));
        }
        Want::Have(digest)
    }

    /// What is wanted of an item that no earlier run has published; prepares the store for a large file.
    pub(super) fn want_contents(&mut self, pending: &Pending) -> Result<Want, Failure> {
        let EntryKind::File { size, version, sparse, .. } = &pending.entry.kind else { return Ok(Want::All) };
        let options = &self.shared.options;
        let Pending { directory, name, path, entry, .. } = pending;
        if *size <= PACK_FILE_LIMIT || options.dry_run {
            return Ok(Want::All);
        }
        if let Ok(stat) = directory.stat(name)
            && stat.kind == Kind::Directory
        {
            return Err(format!("{} is a directory; a file cannot replace it", directory.path_of(name)).into());
        }
        let header = Header { version: *version, size: *size, path: *blake3::hash(name.as_bytes()).as_bytes() };
        let mut plan = Plan::new(pending, header);
        let mut want = Want::All;
        let mut left = None;
        if options.resume
            && *size > BLOCK_SIZE as u64
            && let Some((staging, file)) = resume::find_part(directory, name, &directory.path_of(name))?.part
            && let Some((journal, held)) = FileJournal::find(directory, staging, &header)
            // The blocks of a file without holes all arrive; they need no cleared place.
            && (!*sparse || resume::clear_beside(&file, &held).is_ok_and(|cleared| cleared))
        {
            for held in held.held(entry.id) {
                self.shared.reply(Message::Held(held));
            }
            want = Want::Rest;
            self.shared.resumed(held.bytes());
            plan.continue_with(Continued { staging, file, journal });
            left = Some(held);
        }
        if let Some(run) = &mut self.run
            && *size > BLOCK_SIZE as u64
        {
            run.staged(path);
            run.write()?;
        }
        self.shared.expect_large(entry.id, *size);
        // The store knows the file before its first block can be asked for.
        if let Some(store) = &self.store {
            let _ = store.send(StoreJob::Expect { plan: Box::new(plan), held: left });
        }
        Ok(want)
    }

    /// Digest of the file under the final name by a journal that names all its blocks while there is no unfinished
    /// file: an earlier run was killed after the file got its name and before that was told.
    fn renamed(&self, pending: &Pending, size: u64) -> Option<FileDigest> {
        let EntryKind::File { version, .. } = pending.entry.kind else { return None };
        let options = &self.shared.options;
        let Pending { directory, name, .. } = pending;
        if !options.resume || options.dry_run || size <= BLOCK_SIZE as u64 || !self.is_as_published(pending, size) {
            return None;
        }
        let header = Header { version, size, path: *blake3::hash(name.as_bytes()).as_bytes() };
        let left = Purpose::item(name).found_again();
        let renamed = left.into_iter().filter(|staging| directory.stat(&staging.part()).is_err());
        let mut journals = renamed.filter_map(|staging| FileJournal::find(directory, staging, &header));
        journals.find_map(|(_, held)| whole_digest(&held, size))
    }

    /// Whether the name has a file with the size, time, mode and owner that this item is to have.
    fn is_as_published(&self, pending: &Pending, size: u64) -> bool {
        let wanted = metadata(&pending.entry, self.shared.options.preserve);
        stat_of(pending, size).is_some_and(|stat| {
            wanted.mode.is_none_or(|mode| mode == stat.mode)
                && wanted.owner.is_none_or(|owner| owner == (stat.uid, stat.gid))
        })
    }
}

/// Items that an earlier run seems to have published.
impl Keeper<'_> {
    /// Has an item compared that an earlier run seems to have published; it holds its name meanwhile.
    pub(super) fn compare(&mut self, pending: Pending, digest: FileDigest) {
        let EntryKind::File { size, .. } = pending.entry.kind else { return };
        let id = pending.entry.id;
        self.links.remember(&pending, State::Coming);
        if let Some(compare) = &self.compare {
            let (directory, name) = (pending.directory.clone(), pending.name.clone());
            let _ = compare.send(CompareJob { id, directory, name, size, digest });
        }
        self.comparing.insert(id, (pending, digest));
    }

    /// An item was compared.
    pub(super) fn compared(&mut self, id: u32, same: bool) {
        let Some((pending, digest)) = self.comparing.remove(&id) else { return };
        if self.store.is_none() {
            // Nothing more comes from the link, and nobody waits for an answer.
            return;
        }
        let wanted = if same {
            Ok(self.have(&pending, digest))
        } else {
            tracing::warn!(path = %crate::path_text(&pending.path), "what an earlier run published was altered; it is replaced");
            self.want_contents(&pending)
        };
        self.go_on(pending, wanted);
    }
}

/// What the file system says of a file of that size and time of modification that has the name already.
fn stat_of(pending: &Pending, size: u64) -> Option<Stat> {
    let entry = &pending.entry;
    let mtime = FileTime { seconds: entry.mtime_seconds, nanos: entry.mtime_nanos };
    let stat = pending.directory.stat(&pending.name).ok()?;
    (stat.kind == Kind::File && stat.size == size && stat.mtime == mtime).then_some(stat)
}

/// Whether it is a symbolic link that is there already, with its time where times are preserved.
fn is_same_link(pending: &Pending, with_time: bool) -> bool {
    let Pending { directory, name, entry, .. } = pending;
    let EntryKind::Symlink { target } = &entry.kind else { return false };
    let mtime = FileTime { seconds: entry.mtime_seconds, nanos: entry.mtime_nanos };
    let stat = directory.stat(name);
    stat.is_ok_and(|stat| stat.kind == Kind::Symlink && (!with_time || stat.mtime == mtime))
        && directory.read_link(name).is_ok_and(|found| found == *target)
}

/// Digest of a file all of whose blocks are in the map.
fn whole_digest(held: &BlockMap, size: u64) -> Option<FileDigest> {
    let mut hasher = RootHasher::new(size);
    for index in 0..block_count(size) {
        hasher.push(held.get(index)?);
    }
    hasher.finish().map(FileDigest::Blake3)
}
