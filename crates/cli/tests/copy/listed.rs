//! Names that are listed one by one: `--files-from` and `--files-from0`.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::support::{HERE, MIB, Route, RoutedSite, Start, assert_no_leftovers, assert_same, data, succeed};

/// A tree of which lists name a part.
fn tree(path: &Path) {
    for directory in ["a/b/c", "a/whole/inner", "d"] {
        fs::create_dir_all(path.join(directory)).unwrap();
    }
    for name in ["a/b/c/x", "a/b/c/y", "a/b/z", "a/whole/1", "a/whole/inner/2", "a-", "d/ x ", "d/# y", "d/*", "top"] {
        fs::write(path.join(name), name).unwrap();
    }
    data::file(&path.join("d/large"), 5 * MIB, 1);
    std::os::unix::fs::symlink("a", path.join("link")).unwrap();
    fs::set_permissions(path.join("a/b"), Permissions::from_mode(0o750)).unwrap();
    for directory in ["a/b/c", "a/b", "a/whole/inner", "a/whole", "a", "d", ""] {
        data::age(&path.join(directory), 1_000_000_000 + directory.len() as u64, 0);
    }
}

/// Names below a directory, in order.
fn found(path: &Path) -> Vec<String> {
    let found = succeed(Command::new("find").current_dir(path).args([".", "-mindepth", "1", "-printf", "%P\\n"]));
    let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
    found.sort_unstable();
    found
}

#[test]
fn only_listed_names_are_copied_with_the_directories_above_them() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        tree(&routed.path("tree"));
        let list = routed.path("list");
        fs::write(&list, "d/large\nd/# y\nd/ x \nlink\na/whole\n./a/b//c/x\na/whole/inner/2\nd/*\nd/large\n").unwrap();
        for (number, source) in (0..).zip(["tree", "tree/"]) {
            let copy = format!("copy{number}");
            let ended = routed.copy(&["--files-from", list.to_str().unwrap()], &[source], &copy).expect_code(0);
            let expected = [
                "a",
                "a/b",
                "a/b/c",
                "a/b/c/x",
                "a/whole",
                "a/whole/1",
                "a/whole/inner",
                "a/whole/inner/2",
                "d",
                "d/ x ",
                "d/# y",
                "d/*",
                "d/large",
                "link",
            ];
            assert_eq!(found(&routed.path(&copy)), expected, "{route:?}: {ended}");
            assert_same(&routed.path("tree/a/whole"), &routed.path(&copy).join("a/whole"));
            for name in ["a/b", "a/b/c", "a", "d", ""] {
                let [there, here] = [routed.path("tree").join(name), routed.path(&copy).join(name)];
                let attributes = |path: &Path| fs::metadata(path).map(|found| (found.mode(), found.mtime())).unwrap();
                assert_eq!(attributes(&here), attributes(&there), "{route:?} {name}: {ended}");
            }
            assert_eq!(ended.number("files"), 7, "{route:?}: {ended}");
            let again = routed.copy(&["--skip-equal", "--files-from", list.to_str().unwrap()], &[source], &copy);
            assert_eq!(again.expect_code(0).number("bytes_sent"), 0, "{route:?}");
        }
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn what_is_not_there_fails_and_the_rest_arrives() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        tree(&routed.path("tree"));
        let list = routed.path("list");
        fs::write(&list, "none\nnone/1\nnone/2\ntop/x\ntop\nlink/b/z\na/b/none\na/b/z\n").unwrap();
        let ended = routed.copy(&["--files-from", list.to_str().unwrap()], &["tree"], "copy").expect_code(1);
        assert_eq!(found(&routed.path("copy")), ["a", "a/b", "a/b/z", "top"], "{route:?}: {ended}");
        let failed: Vec<String> = ended
            .all("item")
            .filter(|item| item["outcome"] == "failed")
            .map(|item| item["path"].as_str().unwrap().trim_start_matches("tree/").to_owned())
            .collect();
        for name in ["none", "none/1", "none/2", "top/x", "link/b/z", "a/b/none"] {
            assert_eq!(failed.iter().filter(|failed| *failed == name).count(), 1, "{route:?} {name}: {ended}");
        }
        assert_eq!(ended.number("errors"), 6, "{route:?}: {ended}");
    }
}

#[test]
fn rules_leave_out_of_what_is_listed() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        tree(&routed.path("tree"));
        let list = routed.path("list");
        fs::write(&list, "a/b/c/x\na/b/c/y\na/b/z\nd\n").unwrap();
        let options = ["--exclude", "/a/b/c/", "--exclude", "large", "--files-from", list.to_str().unwrap()];
        let ended = routed.copy(&options, &["tree"], "copy").expect_code(0);
        assert_eq!(
            found(&routed.path("copy")),
            ["a", "a/b", "a/b/z", "d", "d/ x ", "d/# y", "d/*"],
            "{route:?}: {ended}"
        );
    }
}

#[test]
fn names_in_a_cache_are_left_out_with_it() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        tree(&routed.path("tree"));
        fs::write(routed.path("tree/a/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
        fs::write(routed.path("list"), "a/b/z\na/whole\nd\ntop\n").unwrap();
        let list = routed.path("list");
        let options = ["--exclude-caches", "--max-size", "6", "--files-from", list.to_str().unwrap()];
        let ended = routed.copy(&options, &["tree"], "copy").expect_code(0);
        assert_eq!(found(&routed.path("copy")), ["a", "d", "d/ x ", "d/# y", "d/*", "top"], "{route:?}: {ended}");
    }
}

#[test]
fn names_may_come_from_standard_input_and_end_in_nuls() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        fs::write(routed.path("tree/two\nlines"), "x").unwrap();
        fs::write(routed.path("tree/other"), "y").unwrap();
        fs::write(routed.path("list"), b"two\nlines\0").unwrap();
        let mut copy = routed.site.copy(&["--ssh", &routed.site.ssh(), "--files-from0", "-", "--"]);
        copy.arg(routed.source("tree")).arg(routed.destination("copy"));
        let ended = copy.stdin(File::open(routed.path("list")).unwrap()).run().expect_code(0);
        assert_eq!(fs::read_dir(routed.path("copy")).unwrap().count(), 1, "{route:?}: {ended}");
        assert_eq!(fs::read(routed.path("copy/two\nlines")).unwrap(), b"x", "{route:?}: {ended}");
    }
}

#[test]
fn many_names_in_no_order_are_asked_for_in_parts() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        for directory in 0..20 {
            fs::create_dir_all(tree.join(format!("d{directory}"))).unwrap();
        }
        // Longer in all than the parts that are asked for ahead; most are not there.
        let name = |number: u32| format!("d{}/{number:07}-{}", number % 20, "n".repeat(200));
        let numbers: Vec<u32> = (0..20_000).map(|number| number * 7919 % 20_000).collect();
        for number in numbers.iter().filter(|number| *number % 100 == 0) {
            fs::write(tree.join(name(*number)), "x").unwrap();
        }
        let names: Vec<String> = numbers.iter().map(|number| name(*number)).collect();
        fs::write(routed.path("list"), names.join("\n")).unwrap();
        let list = routed.path("list");
        let ended = routed.copy(&["--files-from", list.to_str().unwrap()], &["tree"], "copy").expect_code(1);
        assert_eq!((ended.number("files"), ended.number("errors")), (200, 19_800), "{route:?}");
        assert_same(&tree, &routed.path("copy"));
    }
}

#[test]
fn between_two_far_ends_the_names_come_from_here() {
    let routed = RoutedSite::new(Route::Push);
    tree(&routed.path("tree"));
    fs::write(routed.path("list"), "a/b/z\nd/large\n").unwrap();
    let far = |name: &str| format!("{HERE}:{}", routed.path(name).display());
    let list = routed.path("list");
    let options = ["--ssh", &routed.site.ssh(), "--files-from", list.to_str().unwrap(), "--"];
    let ended = routed.site.copy(&options).args([far("tree"), far("copy")]).run().expect_code(0);
    assert_eq!(found(&routed.path("copy")), ["a", "a/b", "a/b/z", "d", "d/large"], "{ended}");
}

#[test]
fn a_list_that_is_none_is_refused_before_anything_is_made() {
    let routed = RoutedSite::new(Route::Local);
    tree(&routed.path("tree"));
    for (list, options, refusal) in [
        ("top\n../x\n", &[][..], "bad:2: ../x: a name with `..`"),
        ("top\n\n", &[], "bad:2: a name is empty"),
        ("/top\n", &[], "bad:1: /top: names are relative"),
        ("", &[], "has no name"),
        ("top\n", &["--delete"], "what is not in the list would count as gone"),
        ("top\n", &["--move"], "a name that an earlier run has moved"),
        ("top\n", &["other"], "lists names below one source"),
    ] {
        fs::write(routed.path("bad"), list).unwrap();
        let mut copy = routed.site.copy(&["--files-from", "bad"]);
        let ended = copy.args(options).args(["tree", "copy"]).run().expect_code(2);
        assert!(ended.stderr.contains(refusal), "{refusal}: {ended}");
        assert!(!routed.path("copy").exists(), "{ended}");
    }
    let ended = routed.site.copy(&["--files-from", "bad", "tree/top", "copy"]).run().expect_code(2);
    assert!(ended.stderr.contains("top"), "{ended}");
}
