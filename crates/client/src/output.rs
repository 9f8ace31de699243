//! A pull to a stream: one file of a far end goes to standard output.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use icdc_transfer::Summary;
use icdc_transfer::receiver::Output;
use rustix::fs::{CWD, Mode, OFlags, openat};
use tempfile::TempDir;

use crate::error::CopyError;

/// Name of the received file in its temporary directory.
const NAME: &str = "stream";

/// Temporary directory in which the receiver works while the file goes to a stream: it has blocks
/// that come too early, and a file that is sent in one piece. It is removed when this is dropped.
pub(crate) struct ReceivingDirectory(TempDir);

impl ReceivingDirectory {
    /// Makes the directory where this user keeps temporary files.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn new() -> Result<Self, CopyError> {
        let made = tempfile::Builder::new().prefix("icdc-").permissions(Permissions::from_mode(0o700)).tempdir();
        made.map(Self).map_err(|error| {
            let place = std::env::temp_dir();
            CopyError::Failed(format!(
                "{}: blocks that come too early for standard output have no place: {error}; name a directory by TMPDIR",
                place.display()
            ))
        })
    }

    /// Path under which the receiver writes the file in the directory.
    pub(crate) fn destination(&self) -> Vec<u8> {
        self.0.path().join(NAME).into_os_string().as_os_str().as_bytes().to_vec()
    }

    /// Writes the received file from the directory to the output, if it came in one piece and
    /// nothing was written yet.
    ///
    /// # Errors
    /// The output takes nothing more, or the source is no regular file.
    pub(crate) fn complete(&self, output: &Output, summary: &Summary) -> Result<(), CopyError> {
        if output.has_begun() || summary.errors > 0 {
            return Ok(());
        }
        let file = open(&self.0.path().join(NAME)).map_err(|error| {
            CopyError::Failed(format!(
                "standard output takes the contents of a regular file, and the source is none ({error})"
            ))
        })?;
        output.write_file(&file).map_err(|error| CopyError::StreamBroken(format!("standard output: {error}")))
    }
}

/// Opens a regular file for reading, not through a link and without waiting.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a file")) }
}
