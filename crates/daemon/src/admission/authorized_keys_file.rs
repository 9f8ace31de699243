//! The `authorized_keys` file as it stands now.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_tcp::clock;
use icdc_trust::{AuthorizedKeys, Grant, TrustError};

use icdc_session_process::User;

/// The file of authorized keys, read again whenever it has changed.
pub(super) struct AuthorizedKeysFile {
    path: PathBuf,
    cached: Mutex<(Stamp, Arc<AuthorizedKeys>)>,
    looks: Mutex<Looks>,
}

/// Value that changes whenever the file is written or replaced: device, inode, size, and ctime (s,
/// ns).
type Stamp = (u64, u64, u64, i64, i64);

/// State of the regular checks of the file for changes. In its stamps, `None` stands for a missing
/// file.
struct Looks {
    last: Option<Stamp>,
    /// State of the file on which the daemon has acted last; it may have been missing then.
    settled: Option<Stamp>,
    /// The last error of reading that was logged.
    told: Option<(Option<Stamp>, String)>,
}

impl AuthorizedKeysFile {
    /// Reads the file for the first time, and logs a warning for each directory or user that its
    /// lines name and that does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, TrustError> {
        let stamp = stamp(path)?;
        let looks = Mutex::new(Looks { last: Some(stamp), settled: Some(stamp), told: None });
        let keys = read(path)?;
        warn_of_missing(path, &keys);
        Ok(Self { path: path.to_owned(), cached: Mutex::new((stamp, keys)), looks })
    }

    /// The keys as they stand in the file now; it is read again if its stamp has changed. A file
    /// that cannot be read is an error and admits no key, because one may just have been removed
    /// from it.
    pub(super) fn latest(&self) -> Result<Arc<AuthorizedKeys>, TrustError> {
        // The stamp is taken before the read: a change in between is seen the next time.
        let stamp = stamp(&self.path)?;
        let mut cached = self.cached();
        if cached.0 != stamp {
            *cached = (stamp, read(&self.path)?);
            tracing::info!(file = %self.path.display(), keys = cached.1.len(), "authorized keys read again");
        }
        Ok(Arc::clone(&cached.1))
    }

    /// The keys as they were last read: for threads that act as a user who may not read the file.
    pub(super) fn last_read(&self) -> Arc<AuthorizedKeys> {
        Arc::clone(&self.cached().1)
    }

    /// Reads the file whether it looks changed or not; returns its keys.
    pub(super) fn read_again(&self) -> Result<Arc<AuthorizedKeys>, TrustError> {
        let stamp = stamp(&self.path)?;
        let keys = read(&self.path)?;
        *self.looks() = Looks { last: Some(stamp), settled: Some(stamp), told: None };
        *self.cached() = (stamp, Arc::clone(&keys));
        tracing::info!(file = %self.path.display(), keys = keys.len(), "authorized keys read again");
        Ok(keys)
    }

    /// The keys, once after each change of the file that two checks in a row have seen: a
    /// half-written file is not acted on. `None` without such a change, or while the file cannot be
    /// read. A missing file holds no keys. To be called a few times a second.
    pub(super) fn changed(&self) -> Option<Arc<AuthorizedKeys>> {
        let found = match stamp(&self.path) {
            Ok(stamp) => Some(stamp),
            Err(TrustError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.tell_unread(None, &error);
                return None;
            }
        };
        {
            let mut looks = self.looks();
            if std::mem::replace(&mut looks.last, found) != found || looks.settled == found {
                return None;
            }
        }
        if found.is_none() {
            *self.looks() = Looks { last: None, settled: None, told: None };
            tracing::error!(file = %self.path.display(), "the authorized keys are gone: nobody is let in, and sessions end");
            return Some(Arc::default());
        }
        // Not from the cache: two changes within one tick of the file system's clock have the same
        // stamp.
        match self.read_again() {
            Ok(keys) => Some(keys),
            Err(error) => {
                self.tell_unread(found, &error);
                None
            }
        }
    }

    /// Logs that the file cannot be read: once for each state of the file and each reason.
    fn tell_unread(&self, found: Option<Stamp>, error: &TrustError) {
        let now = Some((found, error.to_string()));
        if std::mem::replace(&mut self.looks().told, now.clone()) != now {
            tracing::error!("new clients are refused until this is repaired, and running sessions continue: {error}");
        }
    }

    /// Locks the keys as they were last read, with the stamp of the file at that time.
    fn cached(&self) -> MutexGuard<'_, (Stamp, Arc<AuthorizedKeys>)> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state of the checks for changes.
    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The present stamp of the file.
fn stamp(path: &Path) -> Result<Stamp, TrustError> {
    let of = |meta: Metadata| (meta.dev(), meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec());
    std::fs::metadata(path).map(of).map_err(|cause| TrustError::Io { path: path.to_owned(), call: "stat", cause })
}

/// Reads the file, and logs the lines that will not be served.
fn read(path: &Path) -> Result<Arc<AuthorizedKeys>, TrustError> {
    let keys = AuthorizedKeys::load(path)?;
    for grant in keys.grants() {
        if let Some(reason) = unserved(grant) {
            tracing::error!("{}:{}: this line is not served: {reason}", path.display(), grant.line);
        }
        if grant.has_expired(clock::wall()) {
            tracing::warn!("{}:{}: this line has expired; its key is not let in", path.display(), grant.line);
        }
    }
    Ok(Arc::new(keys))
}

/// Warns of directories and users that lines name and that do not exist: they may be missing for
/// now, such as a file system that is not mounted.
fn warn_of_missing(path: &Path, keys: &AuthorizedKeys) {
    for grant in keys.grants() {
        let place = format!("{}:{}", path.display(), grant.line);
        if std::fs::metadata(&grant.root).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            tracing::warn!("{place}: root={} does not exist; create it, or correct the line", grant.root.display());
        }
        if let Some(Err(error)) = grant.user.as_deref().map(User::of_name) {
            tracing::warn!("{place}: {error}");
        }
    }
}

/// Checks a line of the authorized keys for one reason to refuse its key: this daemon is
/// run by root, and the line permits writing without naming a user, so that new files
/// would belong to root. Returns the reason as text for log and refusal, `None` if it
/// does not apply. Whether the line's user exists, or the line has expired, is not
/// checked.
pub(super) fn unserved(grant: &Grant) -> Option<String> {
    let writes_as_root = grant.access.writes() && grant.user.is_none() && rustix::process::geteuid().is_root();
    writes_as_root.then(|| {
        "it lets the key write and names no user, and this daemon is run by root; add user=NAME to the line (user=root if it shall write as root)"
            .to_owned()
    })
}
