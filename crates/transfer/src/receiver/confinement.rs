//! Files that a receiving end may open.

use icdc_confine::files::Files;
use icdc_disk::tree::{Directory, Kind, StagingKind, StagingName, Tree};

/// Everything beneath the destination, to read and to change; beneath the directory that holds it where it is
/// not there yet or a file, or an interrupted run left its journal there. Nothing where it cannot be: that is
/// found again, and told, when the session begins.
pub(super) fn files(tree: &Tree, destination: &[u8]) -> Files {
    let files = Files::of_end();
    let Ok(located) = tree.resolve(destination) else {
        return match above_missing(tree, destination) {
            Some(directory) => files.change(&directory),
            None => files,
        };
    };
    let existing = match (&located.name, located.stat.map(|stat| stat.kind)) {
        (None, _) => return files.change(&located.directory),
        (Some(_), Some(Kind::Directory | Kind::Symlink)) => located.open_directory().ok(),
        (Some(_), _) => None,
    };
    match existing {
        Some(existing) if located.trailing_slash || !may_hold_journal(&located.directory) => files.change(&existing),
        Some(existing) => files.change(&existing).change(&located.directory),
        None => files.change(&located.directory),
    }
}

/// The directory in which the first missing one of those above the destination is to be made.
fn above_missing(tree: &Tree, destination: &[u8]) -> Option<Directory> {
    let slashes = (1..destination.len()).filter(|at| destination[*at] == b'/' && destination[at - 1] != b'/');
    let above = slashes.map_while(|slash| tree.resolve(&destination[..slash]).ok());
    above.into_iter().find(|located| located.stat.is_none()).map(|located| located.directory)
}

/// True if a run's journal is in this directory, or cannot be seen.
fn may_hold_journal(directory: &Directory) -> bool {
    let is_journal = |name: &[u8]| StagingName::parse(name).is_some_and(|name| name.kind == StagingKind::Run);
    directory.entries().map_or(true, |entries| entries.iter().any(|entry| is_journal(entry.name)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use std::fs;

    use super::*;

    /// Where a receiver for `destination` beneath a tree with `there/` may make a directory, of `places`.
    fn makes(destination: &[u8], places: &[&str]) -> Vec<bool> {
        let temporary = tempfile::tempdir().unwrap();
        fs::create_dir_all(temporary.path().join("there/deep")).unwrap();
        let tree = Tree::open(temporary.path()).unwrap();
        let files = files(&tree, destination);
        std::thread::scope(|scope| {
            let confined = scope.spawn(|| {
                files.enforce();
                places.iter().map(|place| fs::create_dir_all(temporary.path().join(place)).is_ok()).collect()
            });
            confined.join().unwrap()
        })
    }

    #[test]
    fn a_receiver_changes_its_destination_and_nothing_beside_it() {
        if let Some(why) = icdc_confine::files::obstacle() {
            return eprintln!("skipped: {why}");
        }
        assert_eq!(makes(b"there", &["there/new", "beside"]), [true, false]);
        assert_eq!(makes(b"there/deep/", &["there/deep/new", "there/beside"]), [true, false]);
        assert_eq!(makes(b"there/new", &["there/new", "beside"]), [true, false]);
        assert_eq!(makes(b"there/a/b//c/", &["there/a/b/c", "beside"]), [true, false]);
        assert_eq!(makes(b"", &["anywhere"]), [true]);
    }
}
