//! The watcher over real directories.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use icdc_watch::{Event, Place, Watcher, What};

fn place(path: &str) -> Place {
    Place { tree: 3, path: path.into() }
}

fn watch(watcher: &mut Watcher, root: &Path, path: &str) {
    watcher.watch(File::open(root.join(path)).unwrap(), &place(path)).unwrap();
}

/// The events as (path, change), attributes left out.
fn taken(watcher: &mut Watcher) -> Vec<(String, What)> {
    let events = watcher.take().unwrap().into_iter();
    let told = events.filter(|Event { what, .. }| *what != What::Touched);
    told.map(|Event { place, what, .. }| (String::from_utf8(place.path).unwrap(), what)).collect()
}

#[test]
fn a_file_is_made_written_closed_renamed_and_removed() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("d")).unwrap();
    let mut watcher = Watcher::new().unwrap();
    for path in ["", "d"] {
        watch(&mut watcher, root.path(), path);
    }
    let mut file = File::create(root.path().join("a")).unwrap();
    file.write_all(b"x").unwrap();
    let told = |path: &str, what| (path.to_owned(), what);
    assert_eq!(taken(&mut watcher), [told("a", What::Created), told("a", What::Written)]);
    drop(file);
    fs::rename(root.path().join("a"), root.path().join("d/b")).unwrap();
    assert_eq!(taken(&mut watcher), [told("a", What::Closed), told("d/b", What::Moved(place("a")))]);
    fs::remove_file(root.path().join("d/b")).unwrap();
    assert_eq!(taken(&mut watcher), [told("d/b", What::Gone)]);
    assert!(taken(&mut watcher).is_empty());
}

#[test]
fn what_leaves_or_enters_the_tree_is_gone_or_has_arrived() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut watcher = Watcher::new().unwrap();
    watch(&mut watcher, root.path(), "");
    let (inside, outside) = (root.path().join("x"), elsewhere.path().join("x"));
    fs::write(&outside, "1").unwrap();
    fs::rename(&outside, &inside).unwrap();
    fs::rename(&inside, &outside).unwrap();
    assert_eq!(taken(&mut watcher), [("x".to_owned(), What::Arrived), ("x".to_owned(), What::Gone)]);
}

#[test]
fn a_directory_that_is_forgotten_or_removed_tells_nothing_more() {
    let root = tempfile::tempdir().unwrap();
    for path in ["a", "a/b", "ab"] {
        fs::create_dir(root.path().join(path)).unwrap();
    }
    let mut watcher = Watcher::new().unwrap();
    for path in ["a", "a/b", "ab"] {
        watch(&mut watcher, root.path(), path);
    }
    watcher.forget(&place("a"));
    assert_eq!(watcher.watched(), 1);
    for path in ["a/1", "a/b/2", "ab/3"] {
        File::create(root.path().join(path)).unwrap();
    }
    let made = taken(&mut watcher);
    assert!(made.iter().all(|(path, _)| path == "ab/3") && !made.is_empty(), "{made:?}");
    fs::remove_dir_all(root.path().join("ab")).unwrap();
    assert_eq!(taken(&mut watcher), [("ab/3".to_owned(), What::Gone)]);
    assert_eq!(watcher.watched(), 0);
}
