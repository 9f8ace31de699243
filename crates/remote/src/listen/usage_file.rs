//! Keeps what the keys of a daemon have moved between its runs: in `usage-ID.json` beside what is
//! known of paths, where `ID` follows from the file of authorized keys.
//!
//! A kill costs what was moved in the last second. A file that makes no sense is put aside and told:
//! counting begins anew, because nobody would be let in otherwise.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest;
use icdc_tuning::known_paths;
use icdc_units::{Span, Time};
use rustix::fs::{Mode, OFlags};

use super::usage::Usage;

/// Longest file that is read: [`Usage`] keeps fewer keys than fill it.
const MAX_LENGTH: u64 = 8 << 20;
/// How often it is written at most.
const INTERVAL: Span = Span::from_secs(1);

/// See the module's description.
pub(super) struct UsageFile {
    /// `None` where the daemon has no place for it: then it counts until it ends.
    path: Option<PathBuf>,
    usage: Mutex<Usage>,
    /// When it may be written again, and why it could not be the last time.
    written: Mutex<(Time, Option<String>)>,
}

impl UsageFile {
    /// The file of the daemon with this file of authorized keys.
    pub(super) fn beside_known_paths(authorized_keys: &Path) -> Self {
        let real = authorized_keys.canonicalize().unwrap_or_else(|_| authorized_keys.to_owned());
        let hash = digest::digest(&digest::SHA256, real.as_os_str().as_bytes());
        let id: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self::open(known_paths::file().map(|paths| paths.with_file_name(format!("usage-{id}.json"))))
    }

    /// Counts until the daemon ends.
    #[cfg(test)]
    pub(super) fn in_memory() -> Self {
        Self::open(None)
    }

    fn open(path: Option<PathBuf>) -> Self {
        let usage = path.as_deref().map(load).unwrap_or_default();
        Self { path, usage: Mutex::new(usage), written: Mutex::new((Time::ORIGIN, None)) }
    }

    /// Does something with what is counted.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Usage) -> T) -> T {
        act(&mut self.usage.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes what has changed, unless that was done just now.
    pub(super) fn store(&self, now: Time) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= written.0 {
            written.0 = now + INTERVAL;
            self.write(&mut written.1);
        }
    }

    /// Writes what has changed; each reason why that fails is told once.
    fn write(&self, told: &mut Option<String>) {
        let Some(path) = &self.path else { return };
        let Some(text) = self.with(Usage::changed) else { return };
        match replace(path, &text) {
            Ok(()) => *told = None,
            Err(error) => {
                let reason = error.to_string();
                if told.as_ref() != Some(&reason) {
                    tracing::error!("{}: what keys have moved is counted, but not kept: {reason}", path.display());
                    *told = Some(reason);
                }
            }
        }
    }
}

impl Drop for UsageFile {
    fn drop(&mut self) {
        self.write(&mut None);
    }
}

fn load(path: &Path) -> Usage {
    let mut text = Vec::new();
    let read = known_paths::own_directory(directory_of(path)).and_then(|directory| {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&directory, name, flags, Mode::empty())?);
        file.take(MAX_LENGTH).read_to_end(&mut text)
    });
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Usage::default(),
        Err(error) => {
            tracing::error!("{}: what keys have moved cannot be read, and counts anew: {error}", path.display());
            return Usage::default();
        }
    }
    Usage::parse(&text).unwrap_or_else(|reason| {
        let aside = path.with_extension("damaged");
        let kept = fs::rename(path, &aside);
        let place = kept.map_or_else(|error| error.to_string(), |()| format!("it is kept as {}", aside.display()));
        tracing::error!("{}: what keys have moved is damaged ({reason}), and counts anew; {place}", path.display());
        Usage::default()
    })
}

/// Writes a file in place of the one that is there, at once and durably.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let directory = known_paths::own_directory(directory_of(path))?;
    let aside = path.with_extension("new");
    let (name, aside) = (path.file_name(), aside.file_name());
    let (name, aside) = name.zip(aside).ok_or(io::ErrorKind::InvalidInput)?;
    known_paths::replace(&directory, aside, name, text)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
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
        let left = |file: &UsageFile| file.with(|usage| usage.left(&key, &limits, now)).unwrap().as_u64();
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
        drop(file);
        fs::write(&path, "{ half").unwrap();
        assert_eq!(left(&UsageFile::open(Some(path.clone()))), 100);
        assert_eq!(fs::read(path.with_extension("damaged")).unwrap(), b"{ half");
        assert_eq!(left(&UsageFile::open(None)), 100);
    }
}
