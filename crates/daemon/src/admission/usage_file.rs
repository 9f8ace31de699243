//! Keeps what the keys of a daemon have moved between its runs: in `usage-ID.json` beside what is
//! known of paths, where `ID` follows from the file of authorized keys.
//!
//! A kill costs what was moved in the last second. A file that makes no sense is put aside and
//! told: counting begins anew with what this daemon knows, because nobody would be let in
//! otherwise.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use aws_lc_rs::digest;
use icdc_tcp::clock;
use icdc_tuning::known_paths;
use icdc_tuning::state_file::StateFile;
use icdc_units::{Span, Time, hexadecimal};

use super::usage::Usage;

/// Longest file that is read, in bytes: [`Usage`] keeps fewer keys than fill it.
const MAX_LENGTH: u64 = 8 << 20;
/// Shortest interval between two checks of the file.
const INTERVAL: Span = Span::from_secs(1);

/// Usage of a daemon's keys, stored in a file between its runs.
pub(super) struct UsageFile {
    /// Path of the file; `None` where the daemon has no place for it: then it counts until it ends.
    path: Option<PathBuf>,
    usage: Mutex<Usage>,
    kept: Mutex<Keeping>,
}

/// State of the exchange with the file: when it is due again, the file as last seen, and the last
/// logged error.
struct Keeping {
    /// Time from which the file may be checked again.
    due: Time,
    /// State of the file when it was last read or written.
    seen: Option<Seen>,
    /// The last error that was logged.
    told: Option<String>,
}

/// Identity of a file's contents, which differs once the file has been replaced: inode, and
/// nanoseconds of its last change.
type Seen = (u64, i64, i64);

impl UsageFile {
    /// The usage file of the daemon with this file of authorized keys.
    pub(super) fn beside_known_paths(authorized_keys: &Path) -> Self {
        let real = authorized_keys.canonicalize().unwrap_or_else(|_| authorized_keys.to_owned());
        let hash = digest::digest(&digest::SHA256, real.as_os_str().as_bytes());
        let id = hexadecimal(&hash.as_ref()[..8]);
        Self::open(known_paths::file().map(|paths| paths.with_file_name(format!("usage-{id}.json"))))
    }

    /// Usage that is stored nowhere and counts until the daemon ends.
    #[cfg(test)]
    pub(super) fn in_memory() -> Self {
        Self::open(None)
    }

    /// Usage that is kept in the file at `path`, which is read now; `None` for usage that is kept
    /// in memory only.
    fn open(path: Option<PathBuf>) -> Self {
        let kept = Keeping { due: Time::ORIGIN, seen: None, told: None };
        let file = Self { path, usage: Mutex::default(), kept: Mutex::new(kept) };
        file.store_at_once();
        file
    }

    /// Locks the state of the exchange with the file.
    fn kept(&self) -> MutexGuard<'_, Keeping> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` with the usage of all keys in memory, which is locked meanwhile, and
    /// returns its result. `act` must not call this function again. The file is not written;
    /// see [`store`](Self::store).
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Usage) -> T) -> T {
        act(&mut self.usage.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Merges the usage with the file, as [`store_at_once`](Self::store_at_once), unless that was
    /// done within the last [`INTERVAL`].
    pub(super) fn store(&self, now: Time) {
        let mut kept = self.kept();
        if now >= kept.due {
            kept.due = now + INTERVAL;
            self.exchange(&mut kept);
        }
    }

    /// Writes to the file what has changed here, and reads what other daemons have written to it.
    pub(super) fn store_at_once(&self) {
        self.exchange(&mut self.kept());
    }

    /// Writes what has changed and reads what others have written; each error is logged once.
    fn exchange(&self, kept: &mut Keeping) {
        let Some(path) = &self.path else {
            // Nobody will want to know it.
            self.with(|usage| drop(usage.take_unkept()));
            return;
        };
        if !self.with(|usage| usage.is_changed()) && seen(path) == kept.seen {
            return;
        }
        match self.read_and_write(path) {
            Ok(seen) => (kept.seen, kept.told) = (seen, None),
            Err(error) => {
                let reason = error.to_string();
                if kept.told.as_ref() != Some(&reason) {
                    tracing::error!("{}: what keys have moved is counted, but not kept: {reason}", path.display());
                    kept.told = Some(reason);
                }
            }
        }
    }

    /// Merges the usage with the file under its lock; returns the state of the file, if there is
    /// one.
    fn read_and_write(&self, path: &Path) -> io::Result<Option<Seen>> {
        let file = StateFile::lock(path)?;
        let text = file.read(MAX_LENGTH)?;
        if let Some(kept) = text.and_then(|text| Usage::parse(&text).map_err(|reason| put_aside(path, &reason)).ok()) {
            self.with(|usage| usage.learn(kept, clock::wall()));
        }
        if self.with(|usage| usage.is_changed()) {
            let (text, unkept) = self.with(Usage::take_unkept);
            file.replace(&text).inspect_err(|_| self.with(|usage| usage.give_back(unkept, clock::wall())))?;
        }
        Ok(seen(path))
    }
}

impl Drop for UsageFile {
    fn drop(&mut self) {
        self.store_at_once();
    }
}

/// The present state of the file; `None` if there is none.
fn seen(path: &Path) -> Option<Seen> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec()))
}

/// Renames a damaged file and logs that.
fn put_aside(path: &Path, reason: &str) {
    let aside = path.with_extension("damaged");
    let kept = fs::rename(path, &aside);
    let place = kept.map_or_else(|error| error.to_string(), |()| format!("it is kept as {}", aside.display()));
    tracing::error!("{}: what keys have moved is damaged ({reason}), and counts anew; {place}", path.display());
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use icdc_trust::{Limits, PublicKey};
    use icdc_units::ByteCount;

    use super::*;

    #[test]
    fn what_was_moved_counts_over_restarts_and_a_damaged_file_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state/icdc/usage.json");
        let (key, now) = (PublicKey::from_bytes([7; 32]), UNIX_EPOCH + Duration::from_secs(1 << 30));
        let limits = Limits { quota: Some(ByteCount::new(100)), ..Limits::default() };
        let left = |file: &UsageFile| file.with(|usage| usage.left(&key, &limits, now)).unwrap().bytes.as_u64();
        let file = UsageFile::open(Some(path.clone()));
        file.with(|usage| usage.add(&key, ByteCount::new(30), now));
        let at = |seconds| Time::ORIGIN + Span::from_secs(seconds);
        file.store(at(1));
        let first = fs::read(&path).unwrap();
        file.with(|usage| usage.add(&key, ByteCount::new(30), now));
        file.store(at(1));
        assert_eq!(fs::read(&path).unwrap(), first, "it was written just now");
        drop(file);
        let file = UsageFile::open(Some(path.clone()));
        assert_eq!(left(&file), 40);
        // Another daemon beside it, which has begun before.
        let beside = UsageFile::open(Some(path.clone()));
        file.with(|usage| usage.add(&key, ByteCount::new(10), now));
        file.store(at(3));
        beside.store(at(3));
        assert_eq!(left(&beside), 30);
        beside.with(|usage| usage.add(&key, ByteCount::new(10), now));
        drop(file);
        drop(beside);
        assert_eq!(left(&UsageFile::open(Some(path.clone()))), 20);
        fs::write(&path, "{ half").unwrap();
        assert_eq!(left(&UsageFile::open(Some(path.clone()))), 100);
        assert_eq!(fs::read(path.with_extension("damaged")).unwrap(), b"{ half");
        assert_eq!(left(&UsageFile::open(None)), 100);
        // What cannot be kept is counted, and kept as soon as it can be.
        let file = UsageFile::open(Some(path.clone()));
        let aside = path.with_extension("new");
        fs::create_dir(&aside).unwrap();
        file.with(|usage| usage.add(&key, ByteCount::new(1), now));
        file.store(at(5));
        assert_eq!((left(&file), path.exists()), (99, false));
        fs::remove_dir(&aside).unwrap();
        file.store(at(7));
        assert_eq!(left(&UsageFile::open(Some(path))), 99);
    }
}
