//! Digests of files that earlier runs of this user have read, for copies that compare contents
//! (`--checksum`): a file that is as it was then is not read again.
//!
//! ```text
//! look up   device, inode, size, mtime, ctime equal ─► the digest, and the file is not opened
//! note      flush, stat, read, stat: equal, and the ctime far enough back that the next change gets another
//! ```
//!
//! An end has the cache of its user, and each session reads it before its threads are confined to the
//! files of the copy. What this one has found is added after they have ended, to what other processes
//! have written meanwhile. Whatever is wrong with the cache, files are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use icdc_disk::tree::{FileTime, Stat, tells_changes};
use icdc_protocol::digest_cache::{Digests, FileNumbers, FileVersion, KnownDigest, MAX_ENTRIES, MAX_LENGTH};
use icdc_protocol::message::FileDigest;
use icdc_tuning::state_file::StateFile;

use crate::clock;

const NO_PANIC: &str = "no panic while a digest is noted";
/// Seconds of a day.
const DAY: i64 = 86_400;

/// Cache of file digests that earlier runs of this user have computed, as one session uses it: an
/// unchanged file is not read again (`--checksum`).
#[derive(Debug, Default)]
pub(crate) struct KnownDigests {
    /// The cache file; `None` if the session neither uses nor makes one.
    file: Option<PathBuf>,
    known: Digests,
    /// Entries to be written: of files that were read, or were not met for a while.
    found: Mutex<BTreeMap<FileNumbers, KnownDigest>>,
    /// The present day since 1970.
    today: u16,
}

/// Attributes of a file at the moment when reading it begins, with which its digest is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadVersion(Stat);

/// Path of the cache file of this user: `$XDG_CACHE_HOME/icdc/digests`, else `~/.cache/icdc/digests`;
/// `None` if neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
fn file() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("icdc/digests"))
}

/// Directory of the cache file, which is made if it is missing, so that a process that is to be
/// confined can be permitted to use it; `None` where there can be none.
#[must_use]
pub fn directory() -> Option<PathBuf> {
    let file = file()?;
    match StateFile::lock(&file) {
        Ok(_) => file.parent().map(Path::to_owned),
        Err(error) => {
            tracing::debug!(%error, "{}: digests are not kept", file.display());
            None
        }
    }
}

impl KnownDigests {
    /// Reads the cache of this user, if it is `wanted`; no digest is known where there is none, or it
    /// cannot be used.
    pub(crate) fn open(wanted: bool) -> Self {
        let Some(file) = wanted.then(file).flatten() else { return Self::default() };
        let read = StateFile::lock(&file).and_then(|locked| read(&locked));
        match read {
            Ok(known) => Self { file: Some(file), known, found: Mutex::default(), today: today() },
            Err(error) => {
                tracing::debug!(%error, "{}: digests are not kept", file.display());
                Self::default()
            }
        }
    }

    /// Digest that is known of the file with these attributes; `None` if there is none, or the file
    /// has changed since it was read.
    pub(crate) fn of(&self, stat: &Stat) -> Option<FileDigest> {
        let numbers = numbers(stat);
        let known = self.known.get(numbers).filter(|known| known.version == version(stat))?;
        if known.is_to_be_noted(self.today) {
            self.add(numbers, KnownDigest { met: self.today, ..known });
        }
        Some(known.digest)
    }

    /// Flushes a file that is about to be read, and takes its attributes, so that its digest can be
    /// noted later; `None` if it is not to be, because a change might not show.
    pub(crate) fn begin(&self, file: &File) -> Option<ReadVersion> {
        self.file.as_ref()?;
        // What was written to a memory mapping shows in the times from now on.
        file.sync_data().ok()?;
        let stat = Stat::of(file).ok()?;
        tells_changes(file, stat.ctime, clock::file_time()).then_some(ReadVersion(stat))
    }

    /// Notes the digest of a file that was read and has not changed meanwhile; [`keep`](Self::keep)
    /// writes it to the cache file.
    pub(crate) fn note(&self, ReadVersion(stat): ReadVersion, digest: FileDigest) {
        self.add(numbers(&stat), KnownDigest { version: version(&stat), met: self.today, digest });
    }

    /// Writes what the session has noted to the cache file, after the session; a failure is only
    /// logged.
    pub(crate) fn keep(self) {
        let found = self.found.into_inner().expect(NO_PANIC);
        let Some(file) = self.file.filter(|_| !found.is_empty()) else { return };
        // Another process may have written it since.
        let kept =
            StateFile::lock(&file).and_then(|locked| locked.replace(&read(&locked)?.with(&found, self.today).encode()));
        if let Err(error) = kept {
            tracing::debug!(%error, "{}: digests are not kept", file.display());
        }
    }

    /// Keeps an entry that is to be written to the cache file, unless there are too many.
    fn add(&self, numbers: FileNumbers, known: KnownDigest) {
        let mut found = self.found.lock().expect(NO_PANIC);
        if found.len() < MAX_ENTRIES {
            found.insert(numbers, known);
        }
    }
}

impl ReadVersion {
    /// The file as it was when it was begun to be read.
    pub(crate) fn stat(&self) -> &Stat {
        &self.0
    }
}

/// Reads the cache; one that is damaged has no entries.
fn read(locked: &StateFile) -> std::io::Result<Digests> {
    let bytes = locked.read(MAX_LENGTH as u64 + 1)?;
    Ok(bytes.and_then(Digests::parse).unwrap_or_default())
}

/// Device and inode of a file, by which the cache finds its entry.
fn numbers(stat: &Stat) -> FileNumbers {
    FileNumbers { device: stat.dev, inode: stat.ino }
}

/// Size and times of a file, by which the cache notices that it has changed.
fn version(stat: &Stat) -> FileVersion {
    let time = |FileTime { seconds, nanos }| (seconds, nanos);
    FileVersion { size: stat.size, mtime: time(stat.mtime), ctime: time(stat.ctime) }
}

/// Present day, in days since 1970.
fn today() -> u16 {
    u16::try_from(clock::file_time().seconds / DAY).unwrap_or_default()
}
