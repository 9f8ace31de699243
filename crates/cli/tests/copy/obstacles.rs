//! `--delete` where the destination has a directory in place of a file, or the reverse: it is replaced with everything
//! else that is deleted, or it stays.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::delete::{files, listing, pipe};
use crate::support::mounts::Mount;
use crate::support::{MIB, Route, RoutedSite, Site, Start, assert_same, data, skip};

/// A tree, and a destination that has each of its names for something of another kind: 9 items.
fn obstructed(routed: &RoutedSite) {
    let (tree, copy) = (routed.path("tree"), routed.path("copy"));
    files(&tree, &["small", "directory/x", "deep/er/y", "to a link/z", "same"]);
    fs::write(tree.join("large"), vec![7; 5 * MIB as usize]).unwrap();
    fs::hard_link(tree.join("small"), tree.join("further")).unwrap();
    symlink("same", tree.join("link")).unwrap();
    files(&routed.path("outside"), &["precious"]);
    files(&copy, &["small/a", "large/b", "link/c", "directory", "deep/er", "same"]);
    symlink(routed.path("outside"), copy.join("to a link")).unwrap();
}

fn has_leftovers(directory: &Path) -> bool {
    listing(directory).iter().any(|path| path.contains(".icdc-"))
}

#[test]
fn what_is_of_another_kind_is_replaced_after_everything_else() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        obstructed(&routed);
        pipe(&routed.path("copy/further"));
        let plain = routed.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(1);
        assert!(plain.stderr.contains("copy with --delete, which replaces it at the end"), "{route:?}: {plain}");
        assert!(
            plain.stderr.contains("not a directory") && plain.stderr.contains("a directory is in the way"),
            "{plain}"
        );
        assert!(routed.path("copy/small/a").exists() && routed.path("copy/directory").is_file(), "{route:?}");
        let ended = routed.copy(&["--skip-equal", "--delete"], &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        // Three directories with a file in each, the pipe, and three that are to be directories.
        assert_eq!(ended.number("deleted"), 10, "{route:?}: {ended}");
        assert_eq!(listing(&routed.path("outside")), ["precious"], "{route:?}");
        assert!(!has_leftovers(&routed.path("copy")), "{route:?}: {:?}", listing(&routed.path("copy")));
        let again = routed.copy(&["--skip-equal", "--delete"], &["tree/"], "copy").expect_code(0);
        assert_eq!((again.number("files"), again.number("deleted")), (0, 0), "{route:?}: {again}");
    }
}

#[test]
fn over_the_limit_everything_stays_and_the_same_command_goes_on_without_it() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        obstructed(&routed);
        let options = ["--skip-equal", "--delete", "--max-delete"];
        let ended = routed.copy(&[&options[..], &["8"]].concat(), &["tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("9 items of the destination are not at the source"), "{route:?}: {ended}");
        assert!(ended.stderr.contains("has its name, and nothing is deleted"), "{route:?}: {ended}");
        assert_eq!(ended.number("deleted"), 0, "{ended}");
        for path in ["small/a", "large/b", "link/c", "directory", "deep/er", "to a link/precious"] {
            assert!(routed.path("copy").join(path).exists(), "{route:?}: {path} is gone: {ended}");
        }
        let ended = routed.copy(&[&options[..], &["9"]].concat(), &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        assert!(!has_leftovers(&routed.path("copy")), "{route:?}: {ended}");
    }
}

#[test]
fn a_dry_run_counts_and_lists_what_is_in_the_way() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        obstructed(&routed);
        let before = listing(&routed.path("copy"));
        let ended = routed.copy(&["--skip-equal", "--delete", "--dry-run"], &["tree/"], "copy").expect_code(0);
        let told = ended.all("deleted").map(|event| event["path"].as_str().unwrap().to_owned());
        let mut told: Vec<_> = told.collect();
        told.sort();
        let expected = ["deep/er", "directory", "large", "large/b", "link", "link/c", "small", "small/a", "to a link"];
        assert_eq!(told, expected, "{route:?}: {ended}");
        assert_eq!(listing(&routed.path("copy")), before, "{route:?}");
    }
}

#[test]
fn what_a_rule_keeps_or_is_a_source_keeps_what_is_in_the_way() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "b/c"]);
        files(&routed.path("copy"), &["a/x.keep", "a/y", "extra"]);
        let options = ["--delete", "--exclude", "*.keep"];
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("a: is in the way of an item of the source"), "{route:?}: {ended}");
        for path in ["a/x.keep", "a/y", "b/c", "extra"] {
            assert!(routed.path("copy").join(path).exists(), "{route:?}: {path} is gone: {ended}");
        }

        files(&routed.path("into"), &["x/source/x", "x/other"]);
        let ended = routed.copy(&["--delete"], &["into/x/source/"], "into").expect_code(1);
        assert!(ended.stderr.contains("x/source: is a source of this copy"), "{route:?}: {ended}");
        for path in ["x/other", "x/source/x"] {
            assert!(routed.path("into").join(path).exists(), "{route:?}: {path} is gone: {ended}");
        }
    }
}

#[test]
fn what_another_source_brings_is_not_in_the_way() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        files(&routed.path("one"), &["x", "y/in", "z"]);
        files(&routed.path("two"), &["x/in", "y"]);
        files(&routed.path("copy"), &["extra", "z/old"]);
        for sources in [["one/", "two/"], ["two/", "one/"]] {
            let ended = routed.copy(&["--delete"], &sources, "copy").expect_code(1);
            assert!(routed.path("copy/extra").exists() && routed.path("copy/z/old").exists(), "{route:?}: {ended}");
            assert_eq!(ended.number("deleted"), 0, "{route:?}: {ended}");
        }
    }
}

#[test]
fn what_is_mounted_in_the_way_stays() {
    let routed = RoutedSite::new(Route::Local);
    files(&routed.path("tree"), &["a", "b/c"]);
    files(&routed.path("copy"), &["extra", "a/file"]);
    let Some(_mount) = Mount::tmpfs(routed.path("copy/a/mounted"), MIB) else { return skip("mounts need root") };
    files(&routed.path("copy/a/mounted"), &["precious"]);
    let ended = routed.copy(&["--delete"], &["tree/"], "copy").expect_code(1);
    assert!(ended.stderr.contains("a file system is mounted there"), "{ended}");
    for path in ["a/mounted/precious", "a/file", "extra"] {
        assert!(routed.path("copy").join(path).exists(), "{path} is gone: {ended}");
    }
}

#[test]
fn the_directory_of_a_large_file_that_was_in_the_way_keeps_its_time() {
    let site = Site::new();
    fs::create_dir_all(site.path("tree/inner")).unwrap();
    data::file(&site.path("tree/inner/item"), 4 * MIB + 1, 3);
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    fs::File::open(site.path("tree/inner")).unwrap().set_modified(then).unwrap();
    fs::create_dir_all(site.path("copy/inner/item/extra")).unwrap();

    site.copy(&["--skip-equal", "--delete", "tree/", "copy"]).run().expect_code(0);
    assert_same(&site.path("tree"), &site.path("copy"));
}
