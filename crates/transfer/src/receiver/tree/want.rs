//! What is wanted of a file: all of it, what an earlier run has not left, or nothing.

use icdc_disk::tree::{FileTime, Kind, StagingKind};
use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::{BlockMap, block_count};
use icdc_protocol::digest::RootHasher;
use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{EntryKind, FileDigest, Message, Want};
use icdc_protocol::run_journal::item_key;

use super::super::failure::Failure;
use super::super::pending::Pending;
use super::super::resume::{self, FileJournal};
use super::super::store::{Plan, StoreJob};
use super::Keeper;
use super::links::State;
use crate::event::Outcome;

impl Keeper<'_> {
    /// Decides what is to come of an item, and prepares the store for a large file.
    pub(super) fn want(&mut self, pending: &Pending) -> Result<Want, Failure> {
        let options = &self.shared.options;
        let Pending { directory, name, path, entry, .. } = pending;
        let EntryKind::File { size, version, .. } = &pending.entry.kind else {
            if options.update && is_same_link(pending, options.preserve.times) {
                self.shared.report(entry, path, Outcome::Skipped, None, None);
                return Ok(Want::Skip);
            }
            return Ok(Want::All);
        };
        if let Some(digest) = self.run.as_ref().and_then(|run| run.published(&item_key(path, version)))
            && is_there(pending, *size)
        {
            self.links.remember(pending, State::Published);
            self.shared.resumed(*size);
            self.shared.count_published(*size, Some(&digest));
            return Ok(Want::Have(digest));
        }
        if options.update && is_there(pending, *size) {
            self.links.remember(pending, State::Published);
            self.shared.skipped();
            self.shared.report(entry, path, Outcome::Skipped, None, None);
            return Ok(Want::Skip);
        }
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
        if options.resume && *size > BLOCK_SIZE as u64 {
            let part = resume::staging(StagingKind::Part, name);
            let claimed = resume::claim(directory, &part, &directory.path_of(name))?;
            match (claimed, FileJournal::find(directory, name, &header)) {
                (Some(file), Some((journal, held))) => {
                    for held in held.held(entry.id) {
                        self.shared.reply(Message::Held(held));
                    }
                    want = Want::Rest;
                    self.shared.resumed(held.bytes());
                    plan.continue_with(file, journal, held);
                }
                // Killed after the file got its name and before that was told.
                (None, Some((_, held))) if is_there(pending, *size) => {
                    if let Some(digest) = whole_digest(&held, *size) {
                        resume::remove_blocks(directory, name);
                        self.links.remember(pending, State::Published);
                        self.shared.resumed(*size);
                        self.shared.count_published(*size, Some(&digest));
                        return Ok(Want::Have(digest));
                    }
                }
                _ => {}
            }
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
            let _ = store.send(StoreJob::Expect(Box::new(plan)));
        }
        Ok(want)
    }
}

/// Whether a file of that size and time of modification has the name already.
fn is_there(pending: &Pending, size: u64) -> bool {
    let entry = &pending.entry;
    let mtime = FileTime { seconds: entry.mtime_seconds, nanos: entry.mtime_nanos };
    let stat = pending.directory.stat(&pending.name);
    stat.is_ok_and(|stat| stat.kind == Kind::File && stat.size == size && stat.mtime == mtime)
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
