//! Copies onto themselves, whatever the path or the host by which the destination is named.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::support::mounts::Mount;
use crate::support::{Route, RoutedSite, assert_no_leftovers, assert_same};

/// Makes `file`, with a second name, and `dir/{inner,sub}`.
fn sources(routed: &RoutedSite) {
    fs::write(routed.path("file"), "contents").unwrap();
    fs::hard_link(routed.path("file"), routed.path("second")).unwrap();
    fs::set_permissions(routed.path("file"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::create_dir_all(routed.path("dir/sub")).unwrap();
    fs::write(routed.path("dir/inner"), "inner").unwrap();
    symlink("dir", routed.path("to-dir")).unwrap();
}

/// Asserts that this copy is refused before anything is touched.
#[track_caller]
fn refused(routed: &RoutedSite, sources: &[&str], destination: &str) {
    let look = |name: &str| {
        fs::symlink_metadata(routed.path(name)).map(|found| (found.ino(), found.ctime(), found.ctime_nsec())).unwrap()
    };
    let names = ["file", "second", "dir", "dir/inner", "dir/sub"];
    let before = names.map(look);
    let ended = routed.copy(&[], sources, destination).expect_code(2);
    assert!(ended.stderr.contains("into itself"), "{sources:?} {destination}: {ended}");
    assert_eq!(names.map(look), before, "{sources:?} {destination}");
    assert_no_leftovers(routed.site.root());
}

#[test]
fn nothing_is_copied_onto_itself_by_any_way() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        sources(&routed);
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
            refused(&routed, &[source], destination);
        }
        refused(&routed, &["to-dir", "file"], ".");
        // Names that only begin alike are others.
        routed.copy(&[], &["dir"], "dir2").expect_code(0);
        assert_same(&routed.path("dir"), &routed.path("dir2"));
    }
}

#[test]
fn no_directory_is_made_for_a_copy_that_is_refused() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let Some(_mount) = Mount::bind(routed.site.root(), routed.path("again")) else { return };
        let refused = |sources: &[&str], destination: &str| {
            let ended = routed.copy(&["--mkpath"], sources, destination).expect_code(2);
            let name = destination.rsplit_once("new").unwrap().0;
            assert!(!routed.path(name).join("new").exists(), "{route:?} {sources:?} {destination}: {ended}");
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
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn nothing_is_copied_onto_itself_through_a_bind_mount() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let Some(mount) = Mount::bind(routed.site.root(), routed.path("again")) else { return };
        for (source, destination) in [
            ("dir", "again"),
            ("dir/", "again/dir"),
            ("file", "again/file"),
            ("file", "again"),
            ("dir", "again/dir/sub"),
        ] {
            refused(&routed, &[source], destination);
        }
        drop(mount);
    }
}
