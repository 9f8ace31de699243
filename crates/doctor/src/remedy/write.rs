//! Writing files whole, or not at all.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

/// Replaces a file, durably; its directory is made if it is missing.
pub(super) fn atomically(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let directory = directory(path);
    DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    // Of the names in a directory of settings, only those that end in .conf are read.
    let mut file = tempfile::Builder::new().prefix(".icdc-doctor-").tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

/// Removes a file, durably.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    File::open(directory(path))?.sync_all()
}

/// Writes to a file that must be there, as the kernel wants its settings written.
pub(super) fn in_place(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).truncate(true).open(path)?;
    file.write_all(format!("{text}\n").as_bytes())
}

/// Directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}
