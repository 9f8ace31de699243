//! `--prune-empty-dirs`: directories that would hold nothing are not made.

use std::fs;

use super::delete::{files, listing};
use crate::support::{Route, RoutedSite};

const ONLY_NC: [&str; 6] = ["--include", "*.nc", "--include", "*/", "--exclude", "*"];

#[test]
fn only_directories_with_something_in_them_are_made() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        files(&tree, &["a/b/x.nc", "a/other", "c/d/e/other", "f/large", "top"]);
        fs::create_dir_all(tree.join("empty/deep")).unwrap();
        std::os::unix::fs::symlink("nowhere", tree.join("empty/deep/link")).unwrap();
        fs::create_dir_all(tree.join("bare/deep")).unwrap();
        for (options, expected) in [
            (
                &["-m"] as &[&str],
                &[
                    "a",
                    "a/b",
                    "a/b/x.nc",
                    "a/other",
                    "c",
                    "c/d",
                    "c/d/e",
                    "c/d/e/other",
                    "empty",
                    "empty/deep",
                    "empty/deep/link",
                    "f",
                    "f/large",
                    "top",
                ] as &[&str],
            ),
            (&[&["--prune-empty-dirs"], ONLY_NC.as_slice()].concat(), &["a", "a/b", "a/b/x.nc"]),
            (&["-m", "--max-size", "6"], &["empty", "empty/deep", "empty/deep/link", "top"]),
        ] {
            let copy = routed.path("copy");
            let _ = fs::remove_dir_all(&copy);
            let ended = routed.copy(options, &["tree/"], "copy").expect_code(0);
            assert_eq!(listing(&copy), expected, "{route:?} {options:?}: {ended}");
        }
        // A source whose name is copied may be left out itself.
        let ended = routed.copy(&["-m", "--include", "*/", "--exclude", "*"], &["tree"], "none").expect_code(0);
        assert!(!routed.path("none").exists(), "{route:?}: {ended}");
    }
}

#[test]
fn a_mirror_deletes_what_is_pruned_and_keeps_what_is_left_out() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        files(&tree, &["a/x.nc", "gone/deep/x.log", "large/of a size"]);
        files(&copy, &["a/x.nc", "gone/deep/x.nc", "kept/x.log", "large/of a size", "large/extra.nc"]);
        let options = ["-m", "--delete", "--exclude", "*.log", "--max-size", "12"];
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
        let expected = ["a", "a/x.nc", "kept", "kept/x.log", "large", "large/of a size"];
        assert_eq!(listing(&copy), expected, "{route:?}: {ended}");
    }
}

#[test]
fn directories_of_listed_names_that_are_missing_are_not_made() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a/b/x", "c/d/y"]);
        fs::write(routed.path("list"), "a/b/none\nc/d/y\n").unwrap();
        let list = routed.path("list");
        let ended = routed.copy(&["-m", "--files-from", list.to_str().unwrap()], &["tree"], "copy").expect_code(1);
        assert_eq!(listing(&routed.path("copy")), ["c", "c/d", "c/d/y"], "{route:?}: {ended}");
    }
}
