//! What is at the destination already, whatever it is: `--existing`, `--ignore-existing`; and what
//! counts as equal by its size or its contents: `--size-only`, `--checksum`.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{MIB, Route, RoutedSite, Shape, Start, assert_no_leftovers, assert_same, data};

fn at(path: &Path, seconds: u64) {
    let time: SystemTime = UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// A tree, and a destination that has a part of it with other contents.
fn partly_there(route: Route) -> RoutedSite {
    let routed = RoutedSite::new(route);
    let tree = data::tree(&routed.path("tree"), 3, &Shape { small: 20, large: vec![5 * MIB], ..Shape::default() });
    fs::create_dir(tree.join("new")).unwrap();
    fs::create_dir(tree.join("new/deeper")).unwrap();
    data::file(&tree.join("new/deeper/large"), 5 * MIB, 4);
    fs::write(tree.join("new/small"), "small").unwrap();
    std::os::unix::fs::symlink("small", tree.join("new/link")).unwrap();
    fs::create_dir_all(routed.path("copy/d000")).unwrap();
    fs::write(routed.path("copy/d000/f00003"), "of the destination").unwrap();
    std::os::unix::fs::symlink("nowhere", routed.path("copy/d000/f00004")).unwrap();
    routed
}

fn text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn existing_writes_what_is_there_and_makes_nothing() {
    for route in Route::ALL {
        let routed = partly_there(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        let dry = routed.copy(&["--existing", "--dry-run"], &["tree/"], "copy").expect_code(0);
        assert_eq!(dry.all("would_send").filter(|event| event["bytes"] != 0).count(), 2, "{route:?}: {dry}");
        let ended = routed.copy(&["--existing"], &["tree/"], "copy").expect_code(0);
        for name in ["d000/f00003", "d000/f00004"] {
            assert!(fs::symlink_metadata(copy.join(name)).unwrap().is_file(), "{route:?} {name}: {ended}");
            assert_eq!(fs::read(copy.join(name)).unwrap(), fs::read(tree.join(name)).unwrap(), "{route:?} {name}");
        }
        let found: Vec<_> = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(found, ["d000"], "{route:?}: {ended}");
        assert_eq!(fs::read_dir(copy.join("d000")).unwrap().count(), 2, "{route:?}: {ended}");
        assert_eq!((ended.number("files"), ended.number("errors")), (2, 0), "{route:?}: {ended}");
        let not_made = ended.all("item").filter(|item| item["outcome"] == "not_made").count() as u64;
        assert!(not_made >= 20 && not_made == ended.number("not_made"), "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
        // What is written may be chosen in addition.
        at(&copy.join("d000/f00003"), 4_000_000_000);
        let ended = routed.copy(&["--existing", "--update"], &["tree/"], "copy").expect_code(0);
        let counts = ["files", "skipped", "kept_newer"].map(|count| ended.number(count));
        assert_eq!(counts, [0, 1, 1], "{route:?}: {ended}");
    }
}

#[test]
fn existing_makes_no_destination() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        fs::write(routed.path("tree/file"), "file").unwrap();
        for (source, destination) in [("tree/", "copy"), ("tree", "copy"), ("tree", "copy/"), ("tree/file", "copy/")] {
            for options in [&["--existing"][..], &["--existing", "--mkpath"], &["--existing", "--dry-run"]] {
                let ended = routed.copy(options, &[source], destination).expect_code(2);
                assert!(
                    ended.stderr.contains("does not exist, and with --existing nothing new is made"),
                    "{route:?}: {ended}"
                );
                assert!(!routed.path("copy").exists(), "{route:?} {source}: {ended}");
            }
        }
        // A file that is not there is left out as in a tree.
        let ended = routed.copy(&["--existing"], &["tree/file"], "copy").expect_code(0);
        assert_eq!((ended.number("not_made"), routed.path("copy").exists()), (1, false), "{route:?}: {ended}");
    }
}

#[test]
fn ignore_existing_makes_what_is_not_there_and_keeps_the_rest() {
    for route in Route::ALL {
        let routed = partly_there(route);
        let copy = routed.path("copy");
        let ended = routed.copy(&["--ignore-existing"], &["tree/"], "copy").expect_code(0);
        assert_eq!(text(&copy.join("d000/f00003")).as_deref(), Some("of the destination"), "{route:?}: {ended}");
        assert_eq!(fs::read_link(copy.join("d000/f00004")).unwrap(), Path::new("nowhere"), "{route:?}: {ended}");
        assert_eq!((ended.number("kept_existing"), ended.number("errors")), (2, 0), "{route:?}: {ended}");
        assert_same(&routed.path("tree/new"), &copy.join("new"));
        let again = routed.copy(&["--ignore-existing"], &["tree/"], "copy").expect_code(0);
        assert_eq!((again.number("files"), again.number("bytes_sent")), (0, 0), "{route:?}: {again}");
        for name in ["f00003", "f00004"] {
            fs::remove_file(copy.join("d000").join(name)).unwrap();
        }
        routed.copy(&["--ignore-existing"], &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &copy);
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn size_only_takes_equal_sizes_for_equal_and_sets_times() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for (side, contents) in [("tree", "source"), ("copy", "target")] {
            fs::create_dir(routed.path(side)).unwrap();
            for name in ["same", "newer", "shorter"] {
                fs::write(routed.path(side).join(name), contents).unwrap();
                at(&routed.path(side).join(name), 2000);
            }
        }
        fs::write(routed.path("copy/shorter"), "other").unwrap();
        at(&routed.path("copy/shorter"), 2000);
        at(&routed.path("copy/same"), 1000);
        at(&routed.path("copy/newer"), 3000);
        let read = |name: &str| text(&routed.path("copy").join(name)).unwrap();
        let ended = routed.copy(&["--size-only", "--update"], &["tree/"], "copy").expect_code(0);
        assert_eq!(["same", "newer", "shorter"].map(read), ["target", "target", "source"], "{route:?}: {ended}");
        let counts = ["files", "skipped", "kept_newer"].map(|count| ended.number(count));
        assert_eq!(counts, [1, 1, 1], "{route:?}: {ended}");
        let time = |name: &str| fs::metadata(routed.path("copy").join(name)).unwrap().modified().unwrap();
        let seconds = |name| time(name).duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert_eq!([seconds("same"), seconds("newer")], [2000, 3000], "{route:?}: {ended}");
        let ended = routed.copy(&["--size-only", "--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!((ended.number("bytes_sent"), seconds("newer")), (0, 2000), "{route:?}: {ended}");
    }
}

#[test]
fn size_only_alone_means_nothing() {
    let routed = RoutedSite::new(Route::Local);
    fs::write(routed.path("file"), "file").unwrap();
    let ended = routed.site.copy(&["--size-only", "file", "copy"]).run().expect_code(2);
    assert!(ended.stderr.contains("give one of them, or use icdc sync"), "{ended}");
    routed.site.icdc(&["sync", "--size-only", "file", "copy"]).run().expect_code(0);
}

#[test]
fn checksum_takes_equal_contents_for_equal_and_replaces_what_differs_in_them_alone() {
    let large = |last: u8| -> Vec<u8> { [vec![7; 9 << 20], vec![last]].concat() };
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for (side, last) in [("tree", 1), ("copy", 2)] {
            fs::create_dir(routed.path(side)).unwrap();
            for (name, contents) in
                [("equal", large(1)), ("damaged", large(last)), ("small", vec![last]), ("empty", vec![])]
            {
                fs::write(routed.path(side).join(name), contents).unwrap();
                at(&routed.path(side).join(name), 2000);
            }
        }
        at(&routed.path("copy/equal"), 1000);
        at(&routed.path("copy/empty"), 1000);
        let by_time = routed.copy(&["--skip-equal"], &["tree/"], "other").expect_code(0);
        assert_eq!(by_time.number("files"), 4, "{route:?}: {by_time}");
        let dry = routed.copy(&["--skip-equal", "--checksum", "--dry-run"], &["tree/"], "copy").expect_code(0);
        assert_eq!(["skipped", "bytes_sent"].map(|count| dry.number(count)), [2, 0], "{route:?}: {dry}");
        assert_eq!(fs::read(routed.path("copy/damaged")).unwrap(), large(2), "{route:?}: {dry}");

        let ended = routed.copy(&["--skip-equal", "-c"], &["tree/"], "copy").expect_code(0);
        assert_eq!(["files", "skipped"].map(|count| ended.number(count)), [2, 2], "{route:?}: {ended}");
        assert_eq!(ended.compared_or_sent(), (9 << 20) + 2, "{route:?}: {ended}");
        for name in ["equal", "damaged", "small", "empty"] {
            let [source, copy] = ["tree", "copy"].map(|side| routed.path(side).join(name));
            assert!(fs::read(&source).unwrap() == fs::read(&copy).unwrap(), "{route:?}: {name}: {ended}");
            assert_eq!(
                fs::metadata(&copy).unwrap().modified().unwrap(),
                fs::metadata(&source).unwrap().modified().unwrap()
            );
        }
        let again = routed.copy(&["--skip-equal", "--checksum"], &["tree/"], "copy").expect_code(0);
        assert_eq!(["bytes_sent", "skipped"].map(|count| again.number(count)), [0, 4], "{route:?}: {again}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn checksum_alone_means_nothing_and_does_not_go_with_what_looks_at_times() {
    let routed = RoutedSite::new(Route::Local);
    fs::write(routed.path("file"), "file").unwrap();
    let ended = routed.site.copy(&["--checksum", "file", "copy"]).run().expect_code(2);
    assert!(ended.stderr.contains("give one of them, or use icdc sync"), "{ended}");
    for option in ["--size-only", "--snapshot"] {
        routed.site.icdc(&["sync", "--checksum", option, "file", "copy"]).run().expect_code(2);
    }
    routed.site.icdc(&["sync", "--checksum", "file", "copy"]).run().expect_code(0);
}
