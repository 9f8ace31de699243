//! A text file for the textfile collector of a node exporter.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::Builder;

/// Replaces a file of metrics atomically, for the textfile collector of a node exporter: a reader
/// finds the old text or the new one, complete.
///
/// # Errors
/// The directory is not there or may not be written, or the disk is full; what was there stays.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    // A collector reads what ends in `.prom`: this does not. It runs as another user, so it needs
    // the permissions that any new file has.
    let mut aside = Builder::new()
        .prefix(".icdc-")
        .suffix(".new")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory.unwrap_or_else(|| Path::new(".")))?;
    aside.write_all(text.as_bytes())?;
    aside.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("copy.prom");
        for text in ["one\n", "two\n"] {
            replace(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        std::fs::write(directory.path().join("usual"), "").unwrap();
        let usual = std::fs::metadata(directory.path().join("usual")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, usual);
        std::fs::create_dir(directory.path().join("taken")).unwrap();
        assert!(replace(&directory.path().join("taken"), "text").is_err());
        assert!(replace(&directory.path().join("none/copy.prom"), "text").is_err());
        let mut names: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["copy.prom", "taken", "usual"]);
    }
}
