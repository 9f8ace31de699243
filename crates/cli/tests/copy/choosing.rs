//! What of the sources is copied: by rules, size, age, file system and cache tags.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::mounts::Mount;
use crate::support::process::Start;
use crate::support::{Route, RoutedSite, Site, assert_same, data};

const CACHE: &str = "Signature: 8a477f597d28d172789f06886806bc55\n";

/// All items below `directory`, by their paths from there.
fn items(directory: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(directory.join(&path)).unwrap() {
            let path = path.join(entry.unwrap().file_name());
            if directory.join(&path).symlink_metadata().unwrap().is_dir() {
                open.push(path.clone());
            }
            found.insert(path.to_str().unwrap().to_owned());
        }
    }
    found
}

fn assert_items(directory: &Path, expected: &[&str], what: &str) {
    let expected: BTreeSet<String> = expected.iter().map(|path| (*path).to_owned()).collect();
    assert_eq!(items(directory), expected, "{what}");
}

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn rules_hold_on_every_route() {
    let files = ["a.nc", "a.log", "sub/b.nc", "sub/b.log", "scratch/c.nc"].map(|name| (name, name));
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        write(&routed.path("run"), &files);
        let rules = ["--exclude", "scratch/", "--include", "*.nc", "--include", "*/", "--exclude", "*"];
        routed.copy(&rules, &["run/"], "contents/").expect_code(0);
        assert_items(&routed.path("contents"), &["a.nc", "sub", "sub/b.nc"], &format!("{route:?}"));
        // Anchored at what holds `run`, not at `run`.
        for (rule, expected) in [
            ("/run/sub", vec!["run", "run/a.nc", "run/a.log", "run/scratch", "run/scratch/c.nc"]),
            (
                "/sub",
                vec![
                    "run",
                    "run/a.nc",
                    "run/a.log",
                    "run/scratch",
                    "run/scratch/c.nc",
                    "run/sub",
                    "run/sub/b.log",
                    "run/sub/b.nc",
                ],
            ),
        ] {
            let _ = fs::remove_dir_all(routed.path("named"));
            routed.copy(&["--exclude", rule], &["run"], "named/").expect_code(0);
            assert_items(&routed.path("named"), &expected, &format!("{route:?} {rule}"));
        }
        let ended = routed.copy(&["--exclude", "run"], &["run"], "nothing/").expect_code(0);
        assert_eq!(ended.number("files"), 0, "{route:?}: {ended}");
    }
}

#[test]
fn files_of_rules_are_read_in_their_place() {
    let site = Site::new();
    write(&site.path("tree"), &[("a.o", ""), ("keep.o", ""), ("b.c", ""), ("old/x.c", ""), ("old/keep.c", "")]);
    write(
        site.root(),
        &[("rules", "# objects\n+ keep.*\n\n- *.o\n"), ("list", "old/\n; comment\n"), ("taken-back", "*.c\n!\n")],
    );
    for (options, expected) in [
        (vec!["--filter-from", "rules"], vec!["b.c", "keep.o", "old", "old/keep.c", "old/x.c"]),
        (vec!["--filter-from", "rules", "--exclude-from", "list"], vec!["b.c", "keep.o"]),
        (vec!["--exclude", "*.o", "--filter-from", "rules"], vec!["b.c", "old", "old/keep.c", "old/x.c"]),
        (vec!["--filter-from", "taken-back", "-f", "- b.*"], vec!["a.o", "keep.o", "old", "old/keep.c", "old/x.c"]),
        (vec!["--include-from", "list", "--exclude", "*"], vec!["old"]),
    ] {
        let _ = fs::remove_dir_all(site.path("copy"));
        site.copy(&options).args(["tree/", "copy/"]).run().expect_code(0);
        assert_items(&site.path("copy"), &expected, &format!("{options:?}"));
    }
    for (text, told) in [
        ("a\n- b[c\n", "--filter-from bad: line 2, column 4: b[c: the bracket is not closed"),
        ("a\n\nmerge more\n", "--filter-from bad: line 3, column 1: the rule \"merge\" of rsync is not supported"),
        ("P *.keep\n", "line 1, column 1: the rule \"P\" of rsync is not supported"),
        ("!*.c\n", "line 1, column 2: ! stands alone"),
    ] {
        fs::write(site.path("bad"), text).unwrap();
        let ended = site.copy(&["--filter-from", "bad", "tree/", "bad-copy/"]).run().expect_code(2);
        assert!(ended.stderr.contains(told), "{told}: {ended}");
        assert!(!site.path("bad-copy").exists());
    }
    let ended = site.copy(&["--filter-from", "missing", "tree/", "bad-copy/"]).run().expect_code(2);
    assert!(ended.stderr.contains("--filter-from missing: cannot be read"), "{ended}");
}

#[test]
fn files_are_chosen_by_size_and_age() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        write(&tree, &[("sub/empty", ""), ("sub/small", "12345"), ("large", "1234567890")]);
        std::os::unix::fs::symlink("large", tree.join("link")).unwrap();
        for (name, seconds) in [("sub/empty", 1_000_000_000), ("sub/small", 1_100_000_000), ("large", 1_200_000_000)] {
            data::age(&tree.join(name), seconds, 0);
        }
        let reference = routed.path("reference");
        fs::write(&reference, "").unwrap();
        data::age(&reference, 1_100_000_000, 0);
        let reference = reference.to_str().unwrap();
        for (options, expected) in [
            (vec!["--max-size", "5B"], vec!["link", "sub", "sub/empty", "sub/small"]),
            (vec!["--max-size", "4B"], vec!["link", "sub", "sub/empty"]),
            (vec!["--max-size", "0"], vec!["link", "sub", "sub/empty"]),
            (vec!["--min-size", "5B"], vec!["large", "link", "sub", "sub/small"]),
            (vec!["--min-size", "5B", "--max-size", "9B"], vec!["link", "sub", "sub/small"]),
            (vec!["--newer-than", reference], vec!["large", "link", "sub"]),
            (vec!["--older-than", reference], vec!["link", "sub", "sub/empty"]),
            (
                vec!["--newer-than", "2001-09-10", "--older-than", "2004-11-09T13:46:40Z"],
                vec!["link", "sub", "sub/small"],
            ),
            (vec!["--newer-than", "7d"], vec!["link", "sub"]),
            (vec!["--older-than", "7d"], vec!["large", "link", "sub", "sub/empty", "sub/small"]),
        ] {
            let _ = fs::remove_dir_all(routed.path("copy"));
            routed.copy(&options, &["tree/"], "copy/").expect_code(0);
            assert_items(&routed.path("copy"), &expected, &format!("{route:?} {options:?}"));
        }
    }
}

#[test]
fn options_that_leave_nothing_are_refused() {
    let site = Site::new();
    fs::write(site.path("file"), "").unwrap();
    for options in [["--min-size", "5kB", "--max-size", "4kB"], ["--newer-than", "1d", "--older-than", "2d"]] {
        let ended = site.copy(&options).args(["file", "copy"]).run().expect_code(2);
        assert!(ended.stderr.contains("leave out every file"), "{ended}");
    }
}

#[test]
fn another_file_system_is_not_entered() {
    let routed = RoutedSite::new(Route::Push);
    let tree = routed.path("tree");
    write(&tree, &[("a", "a"), ("sub/b", "b")]);
    let Some(mounted) = Mount::tmpfs(tree.join("sub/mounted"), 1 << 20) else { return };
    write(mounted.path(), &[("x", "x"), ("deep/y", "y")]);
    for option in ["-x", "--one-file-system"] {
        let _ = fs::remove_dir_all(routed.path("copy"));
        routed.copy(&[option], &["tree/"], "copy/").expect_code(0);
        assert_items(&routed.path("copy"), &["a", "sub", "sub/b", "sub/mounted"], option);
    }
    // What is named is on its own file system, as is what is not told apart.
    routed.copy(&["-x"], &["tree/sub/mounted"], "named/").expect_code(0);
    assert_same(mounted.path(), &routed.path("named/mounted"));
    routed.copy(&[], &["tree/"], "whole/").expect_code(0);
    assert_same(&tree, &routed.path("whole"));
}

#[test]
fn caches_keep_their_tag_only() {
    for route in [Route::Local, Route::Pull] {
        let routed = RoutedSite::new(route);
        let files = [
            ("a", "a"),
            ("cache/CACHEDIR.TAG", CACHE),
            ("cache/x", "x"),
            ("cache/deep/y", "y"),
            ("no/CACHEDIR.TAG", "other"),
            ("no/z", "z"),
        ];
        write(&routed.path("tree"), &files);
        routed.copy(&["--exclude-caches"], &["tree/"], "copy/").expect_code(0);
        let expected = ["a", "cache", "cache/CACHEDIR.TAG", "no", "no/CACHEDIR.TAG", "no/z"];
        assert_items(&routed.path("copy"), &expected, &format!("{route:?}"));
        // The source itself is one, and a rule counts for the tag as well.
        let options = ["--exclude-caches", "--exclude", "*.TAG"];
        routed.copy(&options, &["tree/cache"], "named/").expect_code(0);
        assert_items(&routed.path("named"), &["cache"], &format!("{route:?}"));
    }
}
