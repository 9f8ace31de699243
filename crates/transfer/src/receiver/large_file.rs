//! One large file on its way to the disk: what has arrived, what is written, what is durable.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use icdc_disk::tree::{Directory, Name};
use icdc_disk::{DiskFile, Job, sparse};
use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::{BlockMap, block_length, block_offset};
use icdc_protocol::digest;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_HASHED_HOLES};
use icdc_protocol::message::{Digest, Entry, EntryId, EntryKind, FileDigest};

use super::Shared;
use super::batch::Made;
use super::compare::digest_like;
use super::failure::{self, Failure};
use super::pending::{Pending, metadata};
use super::resume::{self, FileJournal};
use super::staging::Staging;

/// Bytes written between two checkpoints: what a power cut may cost besides the ring.
pub(super) const CHECKPOINT: u64 = 64 << 20;

/// What an earlier run has left of a file.
pub(super) struct Continued {
    pub(super) staging: Staging,
    pub(super) file: File,
    pub(super) journal: FileJournal,
    pub(super) held: BlockMap,
}

/// A file that will come, before anything of it is opened.
pub(super) struct Plan {
    pub(super) id: EntryId,
    entry: Entry,
    directory: Directory,
    name: Name,
    header: Header,
    continued: Option<Continued>,
}

impl Plan {
    pub(super) fn new(pending: &Pending, header: Header) -> Self {
        Self {
            id: pending.entry.id,
            entry: pending.entry.clone(),
            directory: pending.directory.clone(),
            name: pending.name.clone(),
            header,
            continued: None,
        }
    }

    /// Uses what an earlier run left.
    pub(super) fn continue_with(&mut self, continued: Continued) {
        self.continued = Some(continued);
    }

    pub(super) fn is_continued(&self) -> bool {
        self.continued.is_some()
    }
}

/// What to do next for a file.
pub(super) enum Next {
    Wait,
    Checkpoint,
    LastSync,
    Publish { made: Made, digest: FileDigest },
}

/// What a block has to contain.
pub(super) enum Contents {
    /// What has this value.
    Value(Digest),
    /// Nothing but zeros: a hole of the source.
    Zeros,
}

impl Contents {
    /// Whether `data` is right for block `index` of a file of `size` bytes.
    pub(super) fn fits(&self, data: &[u8], index: u32, size: u64) -> bool {
        data.len() == block_length(size, index)
            && match self {
                Self::Value(value) => digest::block_value(block_offset(index), data, size) == *value,
                Self::Zeros => data.iter().all(|byte| *byte == 0),
            }
    }
}

/// A block to read and to compare.
pub(super) struct Comparison {
    pub(super) index: u32,
    pub(super) contents: Contents,
    /// It is of an earlier run; otherwise the complete file is read back.
    pub(super) held: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Receiving,
    /// Everything is written; a last sync is under way.
    Syncing {
        /// Then everything is read back.
        verify: bool,
    },
    ReadingBack,
    Publishing,
    /// It has failed; what is on its way to the disk still arrives there.
    GivenUp,
}

pub(super) struct LargeFile {
    entry: Entry,
    directory: Directory,
    name: Name,
    staging: Staging,
    size: u64,
    /// It may have holes.
    sparse: bool,
    disk: Arc<DiskFile>,
    journal: Option<FileJournal>,
    /// Every block that is there: held from an earlier run, or arrived.
    blocks: BlockMap,
    arrived: u32,
    asked_again: u32,
    ended: Option<(u32, FileDigest)>,
    pub(super) writing: u32,
    unsynced: Vec<(u32, Digest)>,
    unsynced_bytes: u64,
    syncing: Option<(Vec<(u32, Digest)>, u64)>,
    held: VecDeque<(u32, Digest)>,
    checking: u32,
    to_read_back: VecDeque<(u32, Contents)>,
    reading_back: u32,
    /// A sync has failed. The system tells of data that it has lost but once: a later sync proves nothing.
    sync_failed: bool,
    phase: Phase,
}

impl LargeFile {
    /// Opens or makes the part file and its journal, and reserves the space; `buffered` writes go through the page cache.
    pub(super) fn open(plan: Plan, buffered: bool) -> Result<Self, Failure> {
        let Plan { entry, directory, name, header, continued, .. } = plan;
        let EntryKind::File { size, sparse, .. } = entry.kind else {
            return Err(format!("{} is not a file", directory.path_of(&name)).into());
        };
        let (file, journal, staging, blocks) = match continued {
            Some(Continued { staging, file, journal, held }) => (file, Some(journal), staging, held),
            None => {
                let shown = directory.path_of(&name);
                // One that another process is writing must not be taken away from it.
                let _left = resume::find_part(&directory, &name, &shown)?;
                let journaled = size > BLOCK_SIZE as u64;
                let (file, journal, staging) = resume::make_files(&directory, &name, journaled)?;
                resume::lock(&file, &shown).map_err(|error| error.to_string())?;
                let journal = journal.map(|file| FileJournal::begin(file, &header, &shown)).transpose();
                let journal = journal.inspect_err(|_| resume::discard(&directory, staging))?;
                (file, journal, staging, BlockMap::new(size))
            }
        };
        let held = blocks.iter().collect();
        let disk = DiskFile::for_writing(file).map_err(|error| error.to_string())?.through_page_cache(buffered);
        let file = Self {
            entry,
            directory,
            name,
            staging,
            size,
            sparse,
            disk: Arc::new(disk),
            journal,
            blocks,
            arrived: 0,
            asked_again: 0,
            ended: None,
            writing: 0,
            unsynced: Vec::new(),
            unsynced_bytes: 0,
            syncing: None,
            held,
            checking: 0,
            to_read_back: VecDeque::new(),
            reading_back: 0,
            sync_failed: false,
            phase: Phase::Receiving,
        };
        // What an earlier run has left counts only as far as the medium has it.
        if !file.held.is_empty() {
            file.disk.forget_cache();
        }
        file.reserve().inspect_err(|_| file.leave())?;
        Ok(file)
    }

    fn reserve(&self) -> Result<(), Failure> {
        let outcome =
            if self.sparse { self.disk.set_len(self.size) } else { self.disk.preallocate(0..self.size).map(|_| ()) };
        outcome.map_err(|error| {
            if error.is_out_of_space() {
                let path = self.path();
                let size = self.size;
                Failure::Passing(format!(
                    "{path}: no room for its {size} bytes; make room and run the same command again"
                ))
            } else {
                Failure::Passing(error.to_string())
            }
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn path(&self) -> String {
        self.directory.path_of(&self.name)
    }

    pub(super) fn disk_file(&self) -> &Arc<DiskFile> {
        &self.disk
    }

    /// Notes a block; false if it is there already.
    pub(super) fn arrived(&mut self, index: u32, value: Digest) -> bool {
        if self.phase != Phase::Receiving || self.blocks.contains(index) || self.blocks.insert(index, value).is_err() {
            return false;
        }
        self.arrived += 1;
        true
    }

    /// A write is through.
    pub(super) fn written(&mut self, index: u32, value: Digest, bytes: u64) {
        self.writing -= 1;
        self.unsynced.push((index, value));
        self.unsynced_bytes += bytes;
    }

    /// No more blocks will come but those asked for again.
    pub(super) fn end(&mut self, blocks: u32, digest: FileDigest) {
        self.ended = Some((blocks, digest));
    }

    /// A checkpoint's sync is through: the journal may name its blocks. Gives their bytes.
    pub(super) fn checkpointed(&mut self) -> Result<u64, Failure> {
        let Some((blocks, bytes)) = self.syncing.take() else { return Ok(0) };
        self.note_durable(&blocks)?;
        Ok(bytes)
    }

    /// A sync has failed: what no earlier one has made durable may be lost, and is not noted any more.
    pub(super) fn sync_failed(&mut self) {
        self.sync_failed = true;
    }

    /// The last sync is through. Gives the bytes that no checkpoint had made durable.
    pub(super) fn synced(&mut self) -> Result<u64, Failure> {
        self.phase = match self.phase {
            Phase::Syncing { verify: true } => {
                // Only now are the pages clean, so that they can be dropped and the reads go to the medium.
                self.disk.forget_cache();
                self.to_read_back = self.everything()?;
                Phase::ReadingBack
            }
            _ => Phase::Publishing,
        };
        // A run that is stopped while it reads back, or before it has told of its success, goes on from here.
        let blocks = std::mem::take(&mut self.unsynced);
        self.note_durable(&blocks)?;
        Ok(std::mem::take(&mut self.unsynced_bytes))
    }

    /// All blocks, and the holes too where the medium holds anything.
    fn everything(&self) -> Result<VecDeque<(u32, Contents)>, Failure> {
        let mut all: VecDeque<_> = self.blocks.iter().map(|(index, value)| (index, Contents::Value(value))).collect();
        let mut next = 0;
        for range in sparse::data_ranges(self.disk.as_file(), self.size) {
            let (offset, length) = range.map_err(|error| failure::of_disk(&self.path(), "read", &error))?;
            let first = (offset / BLOCK_SIZE as u64) as u32;
            let end = (offset + length).div_ceil(BLOCK_SIZE as u64) as u32;
            let holes = (first.max(next)..end).filter(|index| !self.blocks.contains(*index));
            all.extend(holes.map(|index| (index, Contents::Zeros)));
            next = end.max(next);
        }
        Ok(all)
    }

    fn note_durable(&mut self, blocks: &[(u32, Digest)]) -> Result<(), Failure> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.append(blocks).map_err(|error| failure::of_disk(&self.path(), "write", &error))
    }

    /// Whether there are blocks to compare.
    pub(super) fn has_comparisons(&self) -> bool {
        !self.held.is_empty() || (self.phase == Phase::ReadingBack && !self.to_read_back.is_empty())
    }

    /// The next block to compare.
    pub(super) fn next_comparison(&mut self) -> Option<Comparison> {
        if let Some((index, value)) = self.held.pop_front() {
            self.checking += 1;
            return Some(Comparison { index, contents: Contents::Value(value), held: true });
        }
        if self.phase != Phase::ReadingBack {
            return None;
        }
        let (index, contents) = self.to_read_back.pop_front()?;
        self.reading_back += 1;
        Some(Comparison { index, contents, held: false })
    }

    /// A held block was compared; false if it has to come again.
    pub(super) fn held_checked(&mut self, index: u32, good: bool) -> bool {
        self.checking -= 1;
        if !good {
            self.blocks.remove(index);
            self.asked_again += 1;
        }
        good
    }

    /// A block of the complete file was read back and is right.
    pub(super) fn read_back(&mut self) {
        self.reading_back -= 1;
    }

    /// What is next; an error gives the file up.
    pub(super) fn next(&mut self, shared: &Shared<'_>) -> Result<Next, Failure> {
        match self.phase {
            Phase::Receiving if self.is_all_written() => self.complete(shared),
            Phase::Receiving if self.syncing.is_none() && self.unsynced_bytes >= CHECKPOINT => {
                self.syncing = Some((std::mem::take(&mut self.unsynced), std::mem::take(&mut self.unsynced_bytes)));
                Ok(Next::Checkpoint)
            }
            Phase::Receiving | Phase::Syncing { .. } | Phase::GivenUp => Ok(Next::Wait),
            Phase::ReadingBack if self.to_read_back.is_empty() && self.reading_back == 0 => self.publish(),
            Phase::ReadingBack => Ok(Next::Wait),
            Phase::Publishing => self.publish(),
        }
    }

    fn is_all_written(&self) -> bool {
        let Some((blocks, _)) = self.ended else { return false };
        u64::from(self.arrived) == u64::from(blocks) + u64::from(self.asked_again)
            && self.writing == 0
            && self.syncing.is_none()
            && self.held.is_empty()
            && self.checking == 0
    }

    fn complete(&mut self, shared: &Shared<'_>) -> Result<Next, Failure> {
        let Some((_, announced)) = self.ended else { return Ok(Next::Wait) };
        if self.digest(&announced) != Some(announced) {
            return Err(format!("{}: what arrived is not what was sent (digests differ)", self.path()).into());
        }
        self.disk.set_len(self.size).map_err(|error| Failure::Passing(error.to_string()))?;
        let wanted = metadata(&self.entry, shared.options.preserve);
        self.restore(&wanted)?;
        if self.size <= BLOCK_SIZE as u64 {
            // One block: made durable together with the small files.
            self.phase = Phase::Publishing;
            return self.publish();
        }
        self.phase = Phase::Syncing { verify: shared.options.verify };
        Ok(Next::LastSync)
    }

    fn restore(&self, wanted: &icdc_disk::tree::Metadata<'_>) -> Result<(), Failure> {
        let mut wanted = wanted.clone();
        wanted.mode = wanted.mode.or(Some(0o666 & !super::umask()));
        self.directory.set_metadata(&self.staging.part(), self.disk.as_file(), &wanted).map_err(|error| {
            let failure = failure::of_tree(&error);
            // All data is there: a run that asks for less need only give it its name.
            if self.journal.is_some() { failure.passing() } else { failure }
        })
    }

    /// Digest of what is there, in the way in which `announced` was made.
    fn digest(&self, announced: &FileDigest) -> Option<FileDigest> {
        let hashed = matches!(announced, FileDigest::Blake3(_));
        // A hole where none was announced would show what is beneath. And a sender names a file of so many zeros by its
        // map; to hash them would keep the store for hours.
        if (!self.sparse && !self.blocks.is_complete()) || (hashed && self.hole_bytes() > MAX_HASHED_HOLES) {
            return None;
        }
        digest_like(announced, &self.blocks)
    }

    /// Bytes of whole blocks that are not there.
    fn hole_bytes(&self) -> u64 {
        u64::from(self.blocks.blocks() - self.blocks.count()) * BLOCK_SIZE as u64
    }

    fn publish(&mut self) -> Result<Next, Failure> {
        let Some((_, digest)) = self.ended else { return Ok(Next::Wait) };
        let made = if self.size > BLOCK_SIZE as u64 {
            Made::durable(self.staging, self.disk.clone())?
        } else {
            Made::file(self.staging.part(), self.disk.as_file(), self.unsynced_bytes)?
        };
        Ok(Next::Publish { made, digest })
    }

    /// A sync for everything that is written, at the end of a session.
    pub(super) fn force_checkpoint(&mut self) -> Option<Job> {
        if self.unsynced.is_empty() || self.journal.is_none() || self.syncing.is_some() || self.sync_failed {
            return None;
        }
        self.syncing = Some((std::mem::take(&mut self.unsynced), std::mem::take(&mut self.unsynced_bytes)));
        Some(Job::Sync { file: self.disk.clone() })
    }

    /// Nothing more becomes of it. False if that is known already.
    pub(super) fn give_up(&mut self) -> bool {
        std::mem::replace(&mut self.phase, Phase::GivenUp) != Phase::GivenUp
    }

    /// Whether a later run can go on from what is there.
    pub(super) fn is_resumable(&self) -> bool {
        self.journal.as_ref().is_some_and(FileJournal::names_blocks)
    }

    /// Leaves what a later run can go on from, and otherwise nothing.
    pub(super) fn leave(&self) {
        if !self.is_resumable() {
            self.discard();
        }
    }

    /// Removes what is there of the file.
    pub(super) fn discard(&self) {
        resume::discard(&self.directory, self.staging);
    }
}

#[cfg(test)]
mod tests {
    use icdc_disk::tree::Tree;
    use icdc_protocol::message::Parent;

    use super::*;

    #[test]
    fn nothing_is_noted_after_a_sync_that_failed() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Tree::open(temporary.path()).unwrap().root().clone();
        let size = 4 * BLOCK_SIZE as u64;
        let kind = EntryKind::File { size, version: [1; 16], sparse: true, linked: false };
        let (parent, name) = (Parent::Source(0), b"file".to_vec());
        let entry = Entry {
            id: 0,
            parent,
            name,
            kind,
            mode: 0o600,
            mtime_seconds: 0,
            mtime_nanos: 0,
            owner: None,
            xattrs: vec![],
        };
        let name = Name::new(b"file").unwrap();
        let header = Header { version: [1; 16], size, path: [2; 32] };
        let plan = || Plan {
            id: 0,
            entry: entry.clone(),
            directory: directory.clone(),
            name: name.clone(),
            header,
            continued: None,
        };
        let write = |file: &mut LargeFile, index| {
            assert!(file.arrived(index, [3; 32]));
            file.writing += 1;
            file.written(index, [3; 32], BLOCK_SIZE as u64);
        };
        for fails in [false, true] {
            let mut file = LargeFile::open(plan(), false).unwrap();
            write(&mut file, 0);
            if fails {
                // The last one, which leaves what it was for where it is.
                file.sync_failed();
            } else {
                assert!(file.force_checkpoint().is_some());
                file.checkpointed().unwrap();
            }
            write(&mut file, 1);
            assert_eq!(file.force_checkpoint().is_none(), fails);
            assert_eq!(file.is_resumable(), !fails);
            file.discard();
        }
    }
}
