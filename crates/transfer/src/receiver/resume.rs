//! What an interrupted run leaves behind, and how the next one finds it.
//!
//! Beside a large file: `.icdc-ID.part` (its data so far) and `.icdc-ID.blocks` (which blocks of it
//! are durable); `ID` follows from the final name alone, so a later run of any kind finds it. In the
//! directory where the first source lands: `.icdc-ID.run`, what the run has published so far.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use icdc_disk::tree::{Directory, Name, StagingKind, StagingName, try_lock};
use icdc_protocol::block_journal::{self, BlockJournal, Header};
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{Digest, FileDigest};
use icdc_protocol::run_journal::{Published, Record, RunJournal};
use icdc_units::Span;

use crate::clock;

/// How long a lock of an earlier session that is coming to its end is waited for.
const LOCK_PATIENCE: Span = Span::from_secs(10);

/// Names of the files beside the item with the final name `name`.
pub(super) fn staging(kind: StagingKind, name: &Name) -> Name {
    StagingName::new(kind, staging_id(name)).name()
}

/// The part of the staging names that follows from the final name.
pub(super) fn staging_id(name: &Name) -> [u8; 8] {
    short(&blake3::Hasher::new_derive_key("icdc staging name 1").update(name.as_bytes()).finalize())
}

fn short(hash: &blake3::Hash) -> [u8; 8] {
    let mut id = [0; 8];
    id.copy_from_slice(&hash.as_bytes()[..8]);
    id
}

/// Takes the lock of a file that an earlier session may still hold for a moment.
pub(super) fn lock(file: &File, what: &str) -> io::Result<()> {
    let deadline = clock::now() + LOCK_PATIENCE;
    while !try_lock(file)? {
        if clock::now() >= deadline {
            let reason = format!("{what}: another copy is writing it; wait for its end or stop it");
            return Err(io::Error::new(io::ErrorKind::WouldBlock, reason));
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    Ok(())
}

/// Journal of the durable blocks of one file.
pub(super) struct FileJournal {
    codec: BlockJournal,
    file: File,
    length: u64,
}

impl FileJournal {
    /// What the journal of `name` has, if it is about this version of the source.
    pub(super) fn find(directory: &Directory, name: &Name, header: &Header) -> Option<(Self, BlockMap)> {
        let (file, stat) = directory.reopen_file(&staging(StagingKind::Blocks, name)).ok()?;
        let codec = BlockJournal::new(header);
        let mut reader = codec.reader();
        feed(&file, stat.size.min(codec.longest()), |bytes| reader.feed(bytes)).ok()?;
        if reader.is_foreign() {
            return None;
        }
        let parsed = reader.finish();
        if parsed.blocks.is_empty() {
            return None;
        }
        Some((Self { codec, file, length: parsed.valid_length }, parsed.blocks))
    }

    /// A new journal in place of whatever is there.
    pub(super) fn create(directory: &Directory, name: &Name, header: &Header) -> Result<Self, String> {
        let journal = staging(StagingKind::Blocks, name);
        let file = create_anew(directory, &journal)?;
        let codec = BlockJournal::new(header);
        file.write_all_at(codec.header(), 0).map_err(|error| format!("{}: {error}", directory.path_of(&journal)))?;
        Ok(Self { codec, file, length: block_journal::HEADER_LENGTH as u64 })
    }

    /// Notes blocks that are durable.
    pub(super) fn append(&mut self, blocks: &[(u32, Digest)]) -> io::Result<()> {
        let bytes: Vec<u8> = blocks.iter().flat_map(|(index, value)| self.codec.record(*index, value)).collect();
        self.file.write_all_at(&bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

fn feed(mut file: &File, limit: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut left = limit;
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = file.read(&mut buffer[..most])?;
        if read == 0 {
            break;
        }
        take(&buffer[..read]);
        left -= read as u64;
    }
    Ok(())
}

/// A fresh file under a staging name, whatever an earlier run left there.
pub(super) fn create_anew(directory: &Directory, name: &Name) -> Result<File, String> {
    create_with_mode(directory, name, 0o600)
}

/// [`create_anew`] with permission bits.
pub(super) fn create_with_mode(directory: &Directory, name: &Name, mode: u16) -> Result<File, String> {
    match directory.create_file(name, mode) {
        Err(error) if error.is_existing() => {
            directory.remove_file(name).map_err(|error| error.to_string())?;
            directory.create_file(name, mode)
        }
        outcome => outcome,
    }
    .map_err(|error| error.to_string())
}

/// Journal of a run: created with its first entry, removed with the end of the run.
pub(super) struct RunLog {
    codec: RunJournal,
    directory: Directory,
    name: Name,
    file: Option<File>,
    published: Published,
    pending: Vec<u8>,
    /// An interrupted run was found.
    pub(super) resuming: bool,
}

impl RunLog {
    /// Looks for the journal of an earlier run of `job` in `directory`.
    pub(super) fn find(directory: &Directory, job: &Digest, resume: bool) -> Result<Self, String> {
        let name = StagingName::new(StagingKind::Run, short(&blake3::hash(job))).name();
        let codec = RunJournal::new(job);
        let mut log = Self {
            directory: directory.clone(),
            name,
            file: None,
            published: codec.parse(&[]).published,
            codec,
            pending: Vec::new(),
            resuming: false,
        };
        let Ok((file, stat)) = directory.reopen_file(&log.name) else { return Ok(log) };
        let shown = directory.path_of(&log.name);
        lock(&file, &shown).map_err(|error| error.to_string())?;
        if resume {
            let mut reader = log.codec.reader();
            feed(&file, stat.size, |bytes| reader.feed(bytes)).map_err(|error| format!("{shown}: {error}"))?;
            if !reader.is_foreign() {
                let parsed = reader.finish();
                file.set_len(parsed.valid_length).map_err(|error| format!("{shown}: {error}"))?;
                log.published = parsed.published;
                log.resuming = true;
                log.file = Some(file);
            }
        }
        Ok(log)
    }

    /// Digest under which an earlier run published this item.
    pub(super) fn published(&self, key: &[u8; 16]) -> Option<FileDigest> {
        self.published.get(key)
    }

    /// Notes something; [`write`](Self::write) puts it on the disk.
    pub(super) fn note(&mut self, record: &Record<'_>) {
        self.codec.encode(record, &mut self.pending);
    }

    /// Appends what was noted.
    pub(super) fn write(&mut self) -> Result<(), String> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let failed = |error: io::Error| format!("{}: {error}", self.directory.path_of(&self.name));
        if self.file.is_none() {
            let mut file = create_anew(&self.directory, &self.name)?;
            lock(&file, "the run's journal").map_err(failed)?;
            file.write_all(self.codec.header()).map_err(failed)?;
            self.file = Some(file);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.pending).map_err(failed)?;
        }
        self.pending.clear();
        Ok(())
    }

    /// The run is complete.
    pub(super) fn remove(&mut self) {
        if self.file.take().is_some() {
            let _ = self.directory.remove_file(&self.name);
        }
    }
}
