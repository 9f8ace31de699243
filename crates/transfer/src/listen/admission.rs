//! Which keys a daemon lets in, and what they may do.
//!
//! Standing keys are those of the `authorized_keys` file, which is read again whenever it has changed.
//! Temporary keys are made for one transfer between two far ends: the holder of a standing key lets them
//! in for one job, within its own rights. They vanish when that job is done, when nobody comes, or
//! when a cut job is not resumed.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_protocol::TransferId;
use icdc_protocol::message::Job;
use icdc_trust::{AuthorizedKeys, Grant, PublicKey, TrustError};
use icdc_units::{Span, Time};

use super::Credentials;
use crate::clock;
use crate::session::{Ended, Rights, Root};

/// How long a temporary key waits for its first use.
const UNUSED: Span = Span::from_secs(60);
/// How long a temporary key whose job was cut waits for its next use.
const CUT: Span = Span::from_secs(15 * 60);
/// Most temporary keys at a time.
const MAX_TEMPORARY: usize = 256;

/// The keys of a daemon.
pub(crate) struct Admission {
    file: KeysFile,
    confined: Option<PathBuf>,
    temporary: Arc<Temporary>,
}

impl Admission {
    /// `confined` narrows every key's root; `temporary` are the keys that sessions let in.
    pub(crate) fn open(
        keys: &Path,
        confined: Option<PathBuf>,
        temporary: Arc<Temporary>,
    ) -> Result<Self, TrustError> {
        Ok(Self { file: KeysFile::open(keys)?, confined, temporary })
    }

    /// Number of standing keys.
    pub(crate) fn standing(&self) -> usize {
        self.file.latest().map_or(0, |keys| keys.len())
    }

    /// What the holder of `key` may do; else the sentence to refuse with.
    pub(crate) fn rights(&self, key: &PublicKey) -> Result<Rights, String> {
        if let Some(rights) = self.temporary.rights(key, clock::now()) {
            return Ok(rights);
        }
        let keys = self.file.latest().map_err(|error| {
            tracing::error!("nobody is let in: {error}");
            "the daemon cannot read its authorized keys; its log says why".to_owned()
        })?;
        let grant = keys.find(key).ok_or_else(|| {
            format!("the daemon does not know this key; have its operator add this line to the authorized keys: root=/DIR,rights=rw {key}")
        })?;
        self.granted(key, grant).map_err(|reason| {
            tracing::error!(key = key.fingerprint(), "not let in: {reason}");
            format!("the daemon cannot grant what its authorized keys say for this key: {reason}")
        })
    }

    fn granted(&self, key: &PublicKey, grant: &Grant) -> Result<Rights, String> {
        let label = match grant.comment.as_str() {
            "" => key.fingerprint(),
            comment => format!("{comment} ({})", key.fingerprint()),
        };
        Ok(Rights {
            read: grant.rights.read,
            write: grant.rights.write,
            root: Root::Confined(narrower(&grant.root, self.confined.as_deref())?),
            acting: acting(grant.user.as_deref())?,
            only: None,
            may_admit: true,
            label,
        })
    }
}

/// The smaller of two directories of which one contains the other.
fn narrower(granted: &Path, confined: Option<&Path>) -> Result<PathBuf, String> {
    let real = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let Some(confined) = confined else { return real(granted) };
    let confined = real(confined)?;
    // A root that contains the daemon's need not be accessible itself.
    if confined.starts_with(granted) {
        return Ok(confined);
    }
    let granted = real(granted)?;
    if granted.starts_with(&confined) {
        Ok(granted)
    } else if confined.starts_with(&granted) {
        Ok(confined)
    } else {
        Err(format!("root={} lies outside the daemon's --root {}", granted.display(), confined.display()))
    }
}

/// Whom a session acts as; `None` for the user that the daemon runs as.
fn acting(user: Option<&str>) -> Result<Option<Arc<Credentials>>, String> {
    let Some(user) = user else { return Ok(None) };
    let credentials = Credentials::of_user(user).map_err(|error| error.to_string())?;
    let own = rustix::process::geteuid();
    match credentials.uid() == own.as_raw() {
        true => Ok(None),
        false if own.is_root() => Ok(Some(Arc::new(credentials))),
        false => Err(format!("it says user={user}, and only a daemon that runs as root can act as another user")),
    }
}

/// The `authorized_keys` file, read again when it has changed.
struct KeysFile {
    path: PathBuf,
    cached: Mutex<(Stamp, Arc<AuthorizedKeys>)>,
}

/// Changes whenever the file is written or replaced: device, inode, size, and ctime (s, ns).
type Stamp = (u64, u64, u64, i64, i64);

impl KeysFile {
    fn open(path: &Path) -> Result<Self, TrustError> {
        let stamp = stamp(path)?;
        let keys = AuthorizedKeys::load(path)?;
        Ok(Self { path: path.to_owned(), cached: Mutex::new((stamp, Arc::new(keys))) })
    }

    /// The keys as they stand in the file now. A file that cannot be read admits nobody, because a key may
    /// just have been removed from it.
    fn latest(&self) -> Result<Arc<AuthorizedKeys>, TrustError> {
        // The stamp is taken before the read: a change in between is seen the next time.
        let stamp = stamp(&self.path)?;
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.0 != stamp {
            *cached = (stamp, Arc::new(AuthorizedKeys::load(&self.path)?));
            tracing::info!(file = %self.path.display(), keys = cached.1.len(), "authorized keys read again");
        }
        Ok(Arc::clone(&cached.1))
    }
}

fn stamp(path: &Path) -> Result<Stamp, TrustError> {
    let of = |meta: Metadata| (meta.dev(), meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec());
    std::fs::metadata(path).map(of).map_err(|source| TrustError::Io { path: path.to_owned(), call: "stat", source })
}

/// Keys that are let in for one job.
#[derive(Default)]
pub(crate) struct Temporary {
    keys: Mutex<HashMap<PublicKey, Guest>>,
}

struct Guest {
    rights: Rights,
    /// Connections that use the key now.
    connections: usize,
    /// When an unused key vanishes.
    expires: Time,
}

impl Temporary {
    /// Lets `key` in for one job of one transfer, within the rights of whom asks for it.
    pub(crate) fn admit(&self, key: PublicKey, transfer: TransferId, job: Job, asking: &Rights) -> Result<(), String> {
        let now = clock::now();
        let mut keys = self.keys(now);
        if keys.len() >= MAX_TEMPORARY {
            return Err("too many transfers between far ends are under way here; try again later".to_owned());
        }
        let label = format!("{} for {}", key.fingerprint(), asking.label);
        let rights = Rights { only: Some((transfer, job)), may_admit: false, label, ..asking.clone() };
        keys.insert(key, Guest { rights, connections: 0, expires: now + UNUSED });
        Ok(())
    }

    /// Rights of a connection with this key, which [`Temporary::ended`] has to be told the end of.
    fn rights(&self, key: &PublicKey, now: Time) -> Option<Rights> {
        let mut keys = self.keys(now);
        let guest = keys.get_mut(key)?;
        guest.connections += 1;
        Some(guest.rights.clone())
    }

    /// A connection with this key has ended.
    pub(crate) fn ended(&self, key: &PublicKey, how: &Ended) {
        let now = clock::now();
        let mut keys = self.keys(now);
        let Some(guest) = keys.get_mut(key) else { return };
        guest.connections = guest.connections.saturating_sub(1);
        guest.expires = now + CUT;
        if guest.connections == 0 && !matches!(how, Ended::Cut(_)) {
            keys.remove(key);
        }
    }

    fn keys(&self, now: Time) -> MutexGuard<'_, HashMap<PublicKey, Guest>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|_, guest| guest.connections > 0 || guest.expires > now);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> PublicKey {
        PublicKey::from_bytes([number; 32])
    }

    fn file(lines: &str) -> (tempfile::TempDir, PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("authorized_keys");
        std::fs::write(&path, lines).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        (directory, path)
    }

    fn directory(rights: &Rights) -> PathBuf {
        match &rights.root {
            Root::Confined(path) => path.clone(),
            Root::Unconfined { .. } => panic!("a daemon confines everybody"),
        }
    }

    #[test]
    fn a_key_gets_what_its_line_says_and_others_are_told_the_line_to_add() {
        let (directory_, path) = file("");
        let line = format!("root={},rights=w {} me", directory_.path().display(), key(1));
        std::fs::write(&path, line).unwrap();
        let admission = Admission::open(&path, None, Arc::default()).unwrap();
        let rights = admission.rights(&key(1)).unwrap();
        assert!(rights.write && !rights.read && rights.may_admit && rights.only.is_none());
        assert_eq!(directory(&rights), directory_.path().canonicalize().unwrap());
        assert!(rights.label.contains("me"));
        let refusal = admission.rights(&key(2)).unwrap_err();
        assert!(refusal.contains(&key(2).to_string()), "{refusal}");
    }

    #[test]
    fn the_file_is_read_again_when_it_changes_and_nobody_comes_in_when_it_is_broken() {
        let (_directory, path) = file(&format!("root=/ {}\n", key(1)));
        let admission = Admission::open(&path, None, Arc::default()).unwrap();
        assert!(admission.rights(&key(1)).is_ok() && admission.rights(&key(2)).is_err());
        std::fs::write(&path, format!("root=/ {}\n", key(2))).unwrap();
        assert!(admission.rights(&key(1)).is_err() && admission.rights(&key(2)).is_ok());
        std::fs::write(&path, "what is this").unwrap();
        assert!(admission.rights(&key(2)).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(admission.rights(&key(2)).is_err());
    }

    #[test]
    fn the_daemons_root_narrows_the_keys_root() {
        let outer = tempfile::tempdir().unwrap();
        let (outer, inner) = (outer.path().canonicalize().unwrap(), outer.path().join("inner"));
        std::fs::create_dir(&inner).unwrap();
        let inner = inner.canonicalize().unwrap();
        assert_eq!(narrower(&outer, None).unwrap(), outer);
        assert_eq!(narrower(&inner, Some(&outer)).unwrap(), inner);
        assert_eq!(narrower(&outer, Some(&inner)).unwrap(), inner);
        assert_eq!(narrower(Path::new("/"), Some(&inner)).unwrap(), inner);
        assert!(narrower(Path::new("/proc"), Some(&inner)).unwrap_err().contains("outside"));
        std::os::unix::fs::symlink("/", inner.join("escape")).unwrap();
        assert!(narrower(&inner.join("escape/proc"), Some(&inner)).unwrap_err().contains("outside"));
    }

    #[test]
    fn a_key_with_a_user_needs_a_daemon_that_is_root() {
        let own = rustix::process::geteuid();
        if own.is_root() {
            assert_eq!(acting(Some("nobody")).unwrap().unwrap().user(), "nobody");
            assert!(acting(Some("root")).unwrap().is_none());
        } else {
            assert!(acting(Some("root")).unwrap_err().contains("root"));
        }
        assert!(acting(None).unwrap().is_none());
        assert!(acting(Some("no-such-user-here")).unwrap_err().contains("no-such-user-here"));
    }

    #[test]
    fn a_temporary_key_has_one_job_and_the_rights_of_whom_asked() {
        let (directory_, path) = file("");
        std::fs::write(&path, format!("root={} {}", directory_.path().display(), key(1))).unwrap();
        let admission = Admission::open(&path, None, Arc::default()).unwrap();
        let asking = admission.rights(&key(1)).unwrap();
        admission.temporary.admit(key(9), [7; 16], Job::DriveKey, &asking).unwrap();
        let rights = admission.rights(&key(9)).unwrap();
        assert_eq!(rights.only, Some(([7; 16], Job::DriveKey)));
        assert!(rights.read && !rights.write && !rights.may_admit);
        // A further connection that ends leaves it, and so does a cut, the end of the job does not.
        assert!(admission.rights(&key(9)).is_ok());
        admission.temporary.ended(&key(9), &Ended::Finished);
        admission.temporary.ended(&key(9), &Ended::Cut("gone".into()));
        assert!(admission.rights(&key(9)).is_ok());
        admission.temporary.ended(&key(9), &Ended::Finished);
        assert!(admission.rights(&key(9)).is_err());
    }

    #[test]
    fn unused_temporary_keys_vanish() {
        let (directory_, path) = file("");
        std::fs::write(&path, format!("root={} {}", directory_.path().display(), key(1))).unwrap();
        let admission = Admission::open(&path, None, Arc::default()).unwrap();
        let asking = admission.rights(&key(1)).unwrap();
        let temporary = &admission.temporary;
        temporary.admit(key(9), [7; 16], Job::DriveKey, &asking).unwrap();
        let late = clock::now() + UNUSED + Span::from_secs(1);
        assert!(temporary.rights(&key(9), late).is_none());
        temporary.admit(key(9), [7; 16], Job::DriveKey, &asking).unwrap();
        assert!(temporary.rights(&key(9), clock::now()).is_some());
        assert!(temporary.rights(&key(9), late).is_some(), "in use, however long");
        let mut number = 0_u16;
        let mut admit_one_more = || {
            number += 1;
            let mut bytes = [0; 32];
            bytes[..2].copy_from_slice(&number.to_le_bytes());
            temporary.admit(PublicKey::from_bytes(bytes), [7; 16], Job::DriveKey, &asking)
        };
        let admitted = (0..2 * MAX_TEMPORARY).filter(|_| admit_one_more().is_ok()).count();
        assert_eq!(admitted, MAX_TEMPORARY - 1, "the number of temporary keys is bounded");
    }
}
