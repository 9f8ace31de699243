//! Errors of changing settings.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A change could not be made or taken back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RemedyError {
    /// This user lacks permission.
    #[error("{call} {}: {cause}", .path.display())]
    Denied {
        /// System call that failed.
        call: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A file cannot be written, read or removed.
    #[error("{call} {}: {cause}", .path.display())]
    Io {
        /// System call that failed.
        call: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The kernel took the value and has another one.
    #[error("{name} was to become {wanted}, and the kernel keeps {kept}")]
    Kept {
        /// Name of the setting.
        name: &'static str,
        /// Value that was written.
        wanted: String,
        /// Value that was read back.
        kept: String,
    },
    /// A file that icdc did not write has the name of icdc's.
    #[error("{} was not written by `icdc doctor`: move it away, or add to it what the findings name", .path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
    },
    /// The record of the settings before the changes is damaged, or was not written by icdc.
    #[error("{} is no note of `icdc doctor --apply` ({reason}): move it away", .path.display())]
    Note {
        /// Path of the file.
        path: PathBuf,
        /// Error in the file.
        reason: String,
    },
}

impl RemedyError {
    /// Error of a `call` on `path`: [`Self::Denied`] if permission is missing, else [`Self::Io`].
    pub(super) fn io(call: &'static str, path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        match cause.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { call, path, cause },
            _ => Self::Io { call, path, cause },
        }
    }
}
