//! Copies onto themselves, whatever the path or the host by which the destination is named.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::support::mounts::Mount;
use crate::support::{Road, Way, assert_no_leftovers, assert_same};

/// Makes `file`, with a second name, and `dir/{inner,sub}`.
fn sources(road: &Road) {
    fs::write(road.path("file"), "contents").unwrap();
    fs::hard_link(road.path("file"), road.path("second")).unwrap();
    fs::set_permissions(road.path("file"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::create_dir_all(road.path("dir/sub")).unwrap();
    fs::write(road.path("dir/inner"), "inner").unwrap();
    symlink("dir", road.path("to-dir")).unwrap();
}

/// Asserts that this copy is refused before anything is touched.
#[track_caller]
fn refused(road: &Road, sources: &[&str], destination: &str) {
    let look = |name: &str| {
        fs::symlink_metadata(road.path(name)).map(|found| (found.ino(), found.ctime(), found.ctime_nsec())).unwrap()
    };
    let names = ["file", "second", "dir", "dir/inner", "dir/sub"];
    let before = names.map(look);
    let ended = road.copy(&[], sources, destination).expect_code(2);
    assert!(ended.stderr.contains("into itself"), "{sources:?} {destination}: {ended}");
    assert_eq!(names.map(look), before, "{sources:?} {destination}");
    assert_no_leftovers(road.site.root());
}

#[test]
fn nothing_is_copied_onto_itself_by_any_way() {
    for way in Way::ALL {
        let road = Road::new(way);
        sources(&road);
        for (source, destination) in [
            ("file", "file"),
            ("file", "."),
            ("file", "second"),
            ("dir", "dir"),
            ("dir", "."),
            ("dir", "dir/sub"),
            ("dir", "dir/new"),
            ("dir/", "dir"),
            ("dir/", "dir/sub"),
            ("dir/", "dir/new/"),
            ("dir", "to-dir/sub"),
            ("to-dir/", "dir"),
            ("dir/inner", "to-dir"),
        ] {
            refused(&road, &[source], destination);
        }
        refused(&road, &["to-dir", "file"], ".");
        // Names that only begin alike are others.
        road.copy(&[], &["dir"], "dir2").expect_code(0);
        assert_same(&road.path("dir"), &road.path("dir2"));
    }
}

#[test]
fn no_directory_is_made_for_a_copy_that_is_refused() {
    for way in Way::ALL {
        let road = Road::new(way);
        sources(&road);
        let Some(_mount) = Mount::bind(road.site.root(), road.path("again")) else { return };
        let refused = |sources: &[&str], destination: &str| {
            let ended = road.copy(&["--mkpath"], sources, destination).expect_code(2);
            let name = destination.rsplit_once("new").unwrap().0;
            assert!(!road.path(name).join("new").exists(), "{way:?} {sources:?} {destination}: {ended}");
        };
        for place in ["dir", "to-dir", "again/dir"] {
            refused(&["dir"], &format!("{place}/new/a/b"));
            refused(&["dir/"], &format!("{place}/new/a/"));
            refused(&["file", "dir"], &format!("{place}/new/a/b"));
        }
        refused(&["missing"], "new/a/b");
        refused(&["dir/inner", "dir/sub/../inner"], "new/a/b");
        refused(&["file"], "new/a/.icdc-0123456789abcdef.part");
        refused(&["file"], "file/new/a");
        assert_no_leftovers(road.site.root());
    }
}

#[test]
fn nothing_is_copied_onto_itself_through_a_bind_mount() {
    for way in [Way::Local, Way::Push, Way::Pull] {
        let road = Road::new(way);
        sources(&road);
        let Some(mount) = Mount::bind(road.site.root(), road.path("again")) else { return };
        for (source, destination) in [
            ("dir", "again"),
            ("dir/", "again/dir"),
            ("file", "again/file"),
            ("file", "again"),
            ("dir", "again/dir/sub"),
        ] {
            refused(&road, &[source], destination);
        }
        drop(mount);
    }
}
