//! Files that a receiving end may open.

use icdc_confine::files::Files;
use icdc_disk::tree::{DeviceNode, Directory, Kind, StagingKind, StagingName, Tree};
use icdc_protocol::message::{ReceiveOptions, SourcePosition};

use super::beside::path_beside;
use super::named_bases::{self, NamedBasis};

/// Files that a receiver for `destination` may read and change: everything beneath the
/// destination; beneath its parent directory where the destination is missing or a file, an
/// interrupted run left its journal there, or an earlier session has made the destination the copy
/// itself (its `place`); the reference directories and, for reading, the named bases, those that kept links may lead into, and the directory for backups, or the one in which
/// that is to be made; nothing but the device where one is written. Empty where the destination cannot be resolved: the session finds and
/// reports that when it begins.
pub(super) fn files(tree: &Tree, destination: &[u8], options: &ReceiveOptions) -> Files {
    let change = |files: Files, directory: &Directory| match options.preserve.specials {
        true => files.change_with_specials(directory),
        false => files.change(directory),
    };
    // Linking from a directory takes as many rights there as at the destination.
    let linked = options.directory_links.iter().flat_map(|links| &links.into);
    let references = options.link_dest.iter().chain(linked).filter_map(|path| {
        tree.resolve(&path_beside(destination, path)).and_then(|located| located.open_directory()).ok()
    });
    let bases = options.bases.iter().filter_map(|path| named_bases::find(tree, destination, path).ok());
    let files = bases.fold(Files::of_end(), |files, basis| match basis {
        NamedBasis::File(file) => files.read(&file),
        NamedBasis::Directory(directory) => files.read(&directory),
    });
    let files = references.fold(files, |files, directory| change(files, &directory));
    let files = match backups(tree, destination, options) {
        Some(directory) => change(files, &directory),
        None => files,
    };
    if options.write_device {
        return device(tree, destination).map_or_else(Files::of_end, |node| Files::of_end().change(&node));
    }
    let place = options.place;
    let Ok(located) = tree.resolve(destination) else {
        return match above_missing(tree, destination) {
            Some(directory) => change(files, &directory),
            None => files,
        };
    };
    let existing = match (&located.name, located.stat.map(|stat| stat.kind)) {
        (None, _) => return change(files, &located.directory),
        (Some(_), Some(Kind::Directory | Kind::Symlink)) => located.open_directory().ok(),
        (Some(_), _) => None,
    };
    let is_above_needed = || place == Some(SourcePosition::Named) || may_hold_journal(&located.directory);
    match existing {
        Some(existing) if located.trailing_slash || !is_above_needed() => change(files, &existing),
        Some(existing) => change(change(files, &existing), &located.directory),
        None => change(files, &located.directory),
    }
}

/// Node of the device that is the destination; `None` if there is none.
fn device(tree: &Tree, destination: &[u8]) -> Option<DeviceNode> {
    let located = tree.resolve(destination).ok()?;
    located.directory.find_device(located.name.as_ref()?).ok()
}

/// The directory for backups, or that in which it is to be made; `None` if there is none, or it cannot
/// be resolved.
fn backups(tree: &Tree, destination: &[u8], options: &ReceiveOptions) -> Option<Directory> {
    let path = options.backup.as_ref()?.directory.as_ref()?;
    let located = tree.resolve(&path_beside(destination, path)).ok()?;
    match located.stat {
        Some(_) => located.open_directory().ok(),
        None => Some(located.directory),
    }
}

/// Existing directory in which the first missing one of those above the destination is to be made;
/// `None` if none is missing.
fn above_missing(tree: &Tree, destination: &[u8]) -> Option<Directory> {
    let slashes = (1..destination.len()).filter(|at| destination[*at] == b'/' && destination[at - 1] != b'/');
    let above = slashes.map_while(|slash| tree.resolve(&destination[..slash]).ok());
    above.into_iter().find(|located| located.stat.is_none()).map(|located| located.directory)
}

/// Whether a run's journal is in this directory, or the directory cannot be examined.
fn may_hold_journal(directory: &Directory) -> bool {
    let is_journal = |name: &[u8]| StagingName::parse(name).is_some_and(|name| name.kind == StagingKind::Run);
    directory.entries().map_or(true, |entries| entries.iter().any(|entry| is_journal(entry.name)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use std::fs;

    use super::*;

    /// Whether a receiver for `destination` beneath a tree with `there/` may make each of the
    /// directories `places`.
    fn makes(destination: &[u8], place: Option<SourcePosition>, places: &[&str]) -> Vec<bool> {
        let temporary = tempfile::tempdir().unwrap();
        fs::create_dir_all(temporary.path().join("there/deep")).unwrap();
        let tree = Tree::open(temporary.path()).unwrap();
        let files = files(&tree, destination, &ReceiveOptions { place, ..ReceiveOptions::default() });
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
        assert_eq!(makes(b"there", None, &["there/new", "beside"]), [true, false]);
        assert_eq!(makes(b"there", Some(SourcePosition::Named), &["there/new", "beside"]), [true, true]);
        assert_eq!(makes(b"there/deep/", None, &["there/deep/new", "there/beside"]), [true, false]);
        assert_eq!(makes(b"there/new", None, &["there/new", "beside"]), [true, false]);
        assert_eq!(makes(b"there/a/b//c/", None, &["there/a/b/c", "beside"]), [true, false]);
        assert_eq!(makes(b"", None, &["anywhere"]), [true]);
    }
}
