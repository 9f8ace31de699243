//! Which keys a daemon lets in, and what they may do.
//!
//! Standing keys are those of the `authorized_keys` file, which is read again whenever it has changed.
//! The holder of a standing key may let [temporary](super::temporary) ones in, within its own rights.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_trust::{AuthorizedKeys, Grant, PublicKey, TrustError};

use super::Credentials;
use super::temporary::Temporary;
use crate::clock;
use crate::session::{Rights, Root};

/// The keys of a daemon.
pub(crate) struct Admission {
    file: KeysFile,
    confined: Option<PathBuf>,
    temporary: Arc<Temporary>,
}

impl Admission {
    /// `confined` narrows every key's root; `temporary` are the keys that sessions let in.
    pub(crate) fn open(keys: &Path, confined: Option<PathBuf>, temporary: Arc<Temporary>) -> Result<Self, TrustError> {
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
    let Some(confined) = confined else {
        return real(granted);
    };
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
    std::fs::metadata(path).map(of).map_err(|cause| TrustError::Io { path: path.to_owned(), call: "stat", cause })
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
}
