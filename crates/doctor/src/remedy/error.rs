//! Why nothing was changed.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A change could not be made or taken back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RemedyError {
    /// This user may not.
    #[error("{call} {}: {cause}", .path.display())]
    Denied {
        /// What was tried.
        call: &'static str,
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// It cannot be written, read or removed.
    #[error("{call} {}: {cause}", .path.display())]
    Io {
        /// What was tried.
        call: &'static str,
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The kernel took the value and has another one.
    #[error("{name} was to become {wanted}, and the kernel keeps {kept}")]
    Kept {
        /// The setting.
        name: &'static str,
        /// What was written.
        wanted: String,
        /// What is there.
        kept: String,
    },
    /// A file of somebody else has the name of ours.
    #[error("{} was not written by `icdc doctor`: move it away, or add to it what the findings name", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The note of what was before is damaged.
    #[error("{} is no note of `icdc doctor --apply` ({reason}): move it away", .path.display())]
    Note {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl RemedyError {
    pub(super) fn io(call: &'static str, path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        match cause.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied { call, path, cause },
            _ => Self::Io { call, path, cause },
        }
    }
}
