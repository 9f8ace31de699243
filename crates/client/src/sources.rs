//! Checks of a copy's sources: all on one host, and none copied into itself.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::CopyError;
use crate::location::Location;

/// Paths of the sources; an error unless all are on the host of `first`.
pub(crate) fn paths_on_one_host(sources: &[Location], first: &Location) -> Result<Vec<Vec<u8>>, CopyError> {
    let on_host = |source: &Location| match (source, first) {
        (Location::Ssh { host, path }, Location::Ssh { host: first, .. }) if host == first => Some(path.clone()),
        (Location::Daemon { host, port, path }, Location::Daemon { host: first, port: first_port, .. })
            if host == first && port == first_port =>
        {
            Some(path.clone())
        }
        _ => None,
    };
    let paths: Option<Vec<Vec<u8>>> = sources.iter().map(on_host).collect();
    paths.ok_or_else(|| {
        CopyError::Usage("all sources of one run must be on one host; run icdc once for each host".into())
    })
}

/// Returns an error if the destination lies within one of the sources, or is a source itself.
pub(crate) fn refuse_into_itself(sources: &[Vec<u8>], destination: &Path) -> Result<(), CopyError> {
    let Some(target) = place(destination) else { return Ok(()) };
    for source in sources {
        let path = Path::new(std::ffi::OsStr::from_bytes(source));
        let contents = source.ends_with(b"/") || path.file_name().is_none();
        let found = if contents { path.canonicalize().ok() } else { place_of_name(path) };
        let Some(found) = found else { continue };
        let lands = match path.file_name() {
            Some(name) if !contents && target.is_dir() => target.join(name),
            _ => target.clone(),
        };
        // A link counts as what it is, not as the directory that it points to.
        let is_directory = found.symlink_metadata().is_ok_and(|found| found.is_dir());
        let same_file = || matches!((found.canonicalize(), lands.canonicalize()), (Ok(one), Ok(other)) if one == other);
        if (is_directory && lands.starts_with(&found)) || (!is_directory && same_file()) {
            let reason = format!("{} cannot be copied into itself ({})", path.display(), destination.display());
            return Err(CopyError::Usage(reason));
        }
    }
    Ok(())
}

/// Real path of what is or will be at `path`, a final link followed if it leads to a directory;
/// `None` if its directory cannot be found.
#[must_use]
pub fn place(path: &Path) -> Option<PathBuf> {
    if path.is_dir() { path.canonicalize().ok() } else { place_of_name(path) }
}

/// Real path of what is or will be at `path`, a final link not followed; `None` if it cannot be
/// found.
fn place_of_name(path: &Path) -> Option<PathBuf> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Some(parent.canonicalize().ok()?.join(path.file_name()?))
}
