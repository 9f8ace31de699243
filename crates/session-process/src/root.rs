//! Directory beneath which the paths of the other end are resolved.

use std::io;
use std::path::{Path, PathBuf};

use icdc_disk::tree::{Tree, TreeError};
use icdc_protocol::message::RefusalKind;
use serde::{Deserialize, Serialize};

/// Directory beneath which paths of the other end are resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Root {
    /// The whole tree, as in a login of this user: relative paths start at home.
    Unconfined {
        /// Path of the home directory.
        #[serde(with = "bytes")]
        home: PathBuf,
    },
    /// Beneath this directory of a key's line and nowhere else. It is resolved as the user that
    /// opens it: the daemon itself may not see what its users may.
    Granted {
        /// Path of the directory.
        #[serde(with = "bytes")]
        directory: PathBuf,
        /// The daemon's own root, which narrows this directory; `None` if it has none.
        #[serde(with = "bytes::optional")]
        within: Option<PathBuf>,
    },
}

impl Root {
    /// Whether all of the host's files are beneath it.
    #[must_use]
    pub fn is_whole_host(&self) -> bool {
        let is_all = |directory: &PathBuf| directory.as_os_str() == "/";
        match self {
            Self::Unconfined { .. } => true,
            Self::Granted { directory, within } => is_all(directory) && within.as_ref().is_none_or(is_all),
        }
    }

    /// Path of the directory beneath which all paths are; `None` if it cannot be found.
    pub(crate) fn directory(&self) -> Option<PathBuf> {
        match self {
            Self::Unconfined { .. } => Some(PathBuf::from("/")),
            Self::Granted { directory, within } => narrower(directory, within.as_deref()).ok(),
        }
    }

    /// Opens the tree in which paths of the other end are resolved.
    ///
    /// # Errors
    /// See [`RootError`].
    pub(crate) fn tree(&self) -> Result<Tree, RootError> {
        match self {
            Self::Unconfined { home } => Ok(Tree::unconfined(home).map_err(RootError::Home)?.with_home(home)),
            Self::Granted { directory, within } => {
                let root = narrower(directory, within.as_deref()).map_err(RootError::Granted)?;
                Tree::open(&root).map_err(RootError::Closed)
            }
        }
    }
}

/// Reason for which paths of the other end cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RootError {
    /// The home directory cannot be opened.
    #[error(transparent)]
    Home(TreeError),
    /// The path to which a daemon confines a key is no directory, or leads to another one.
    #[error("the daemon cannot grant what its authorized keys say for this key: {0}")]
    Granted(String),
    /// The directory cannot be opened.
    #[error(
        "{0}. This is the root= of this key's line: the daemon's operator must make it a directory that the key's \
         user may open, or change the line"
    )]
    Closed(TreeError),
}

impl RootError {
    /// Kind of the refusal for the other end.
    pub(crate) fn kind(&self) -> RefusalKind {
        match self {
            Self::Home(_) | Self::Closed(_) => RefusalKind::Path,
            Self::Granted(_) => RefusalKind::NotAllowed,
        }
    }
}

/// The inner one of two directories, of which one must contain the other; the error is the reason
/// why there is none.
fn narrower(granted: &Path, confined: Option<&Path>) -> Result<PathBuf, String> {
    let granted_is = || {
        granted.canonicalize().map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "let the key's user reach it (a systemd service sees /home and /root as its ProtectHome= says)"
                }
                _ => "make the directory",
            };
            let (path, error) = (granted.display(), described(&error));
            format!("root={path}: {error}; the daemon's operator must {remedy}, or change the root= of this key's line")
        })
    };
    let Some(confined) = confined else {
        return granted_is();
    };
    let confined = confined.canonicalize().map_err(|error| {
        let remedy = "the daemon's operator must make the directory, or start the daemon with another one";
        format!("the daemon's --root {}: {}; {remedy}", confined.display(), described(&error))
    })?;
    // A root that contains the daemon's need not be accessible itself.
    if confined.starts_with(granted) {
        return Ok(confined);
    }
    let granted = granted_is()?;
    if granted.starts_with(&confined) {
        Ok(granted)
    } else if confined.starts_with(&granted) {
        Ok(confined)
    } else {
        Err(format!("root={} lies outside the daemon's --root {}", granted.display(), confined.display()))
    }
}

/// Description of the error for which a directory's path cannot be followed.
fn described(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Serialization of paths as bytes, whatever they mean.
mod bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(OsString::from_vec(Vec::deserialize(deserializer)?).into())
    }

    pub(super) mod optional {
        use super::*;

        pub(in super::super) fn serialize<S: Serializer>(
            path: &Option<PathBuf>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            path.as_ref().map(|path| path.as_os_str().as_bytes()).serialize(serializer)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<PathBuf>, D::Error> {
            let bytes = Option::<Vec<u8>>::deserialize(deserializer)?;
            Ok(bytes.map(|bytes| OsString::from_vec(bytes).into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let missing = inner.join("missing");
        let remedy = "the daemon's operator must make the directory";
        let of_key =
            format!("root={}: no such directory; {remedy}, or change the root= of this key's line", missing.display());
        assert_eq!(narrower(&missing, None).unwrap_err(), of_key);
        assert_eq!(narrower(&missing, Some(&inner)).unwrap_err(), of_key);
        let of_daemon = narrower(&inner, Some(&missing)).unwrap_err();
        assert!(
            of_daemon.contains(&format!("--root {}: no such directory; {remedy}", missing.display())),
            "{of_daemon}"
        );
        std::os::unix::fs::symlink("/", inner.join("escape")).unwrap();
        assert!(narrower(&inner.join("escape/proc"), Some(&inner)).unwrap_err().contains("outside"));
    }
}
