//! Files that are at the destination already: `--skip-equal` and `--update`.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::options::snapshot;
use crate::support::Start;
use crate::support::mounts::Mount;
use crate::support::{MIB, Route, RoutedSite, Shape, Signal, assert_no_leftovers, assert_same, data, skip};

/// Gives a file that time of modification.
fn set_time(path: &Path, time: SystemTime) {
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn at(seconds: u64, nanos: u32) -> SystemTime {
    UNIX_EPOCH + Duration::new(seconds, nanos)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn skip_equal_skips_links_that_are_there() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        std::os::unix::fs::symlink("one", routed.path("tree/link")).unwrap();
        std::os::unix::fs::symlink("two", routed.path("tree/other")).unwrap();
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        let inode = |name: &str| fs::symlink_metadata(routed.path("copy").join(name)).unwrap().ino();
        let before = (inode("link"), inode("other"));
        fs::remove_file(routed.path("tree/other")).unwrap();
        std::os::unix::fs::symlink("three", routed.path("tree/other")).unwrap();
        let ended = routed.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!(inode("link"), before.0, "{route:?}: {ended}");
        assert_ne!(inode("other"), before.1, "{route:?}: {ended}");
        assert_eq!(fs::read_link(routed.path("copy/other")).unwrap(), std::path::Path::new("three"));
        assert_same(&routed.path("tree"), &routed.path("copy"));
    }
}

#[test]
fn skip_equal_skips_what_has_the_same_size_and_time() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = data::tree(&routed.path("tree"), 3, &Shape { small: 20, large: vec![5 * MIB], ..Shape::default() });
        routed.copy(&[], &["tree"], "copy").expect_code(0);
        let before = snapshot(&routed.path("copy/d000"));
        let ended = routed.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!((ended.number("files"), ended.number("bytes_sent")), (0, 0), "{ended}");
        assert!(ended.number("skipped") > 20, "{ended}");
        assert_eq!(snapshot(&routed.path("copy/d000")), before, "{route:?}: what is skipped is not touched");

        data::age(&tree.join("d000/f00003"), 77, 7);
        fs::write(tree.join("d000/f00004"), "of another size").unwrap();
        fs::remove_file(routed.path("copy/d000/f00005")).unwrap();
        let ended = routed.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!(ended.number("files"), 3, "{ended}");
        assert_same(&tree, &routed.path("copy"));
        // Without it, everything travels.
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(0);
        assert!(ended.compared_or_sent() > 5 * MIB, "{ended}");
    }
}

#[test]
fn update_keeps_what_is_newer_and_skips_what_is_equal() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for (side, contents) in [("tree", "source"), ("copy", "target")] {
            fs::create_dir(routed.path(side)).unwrap();
            for name in ["older", "newer", "second", "equal", "shorter"] {
                fs::write(routed.path(side).join(name), contents).unwrap();
            }
            data::file(&routed.path(side).join("large"), 5 * MIB, side.len() as u64);
        }
        fs::write(routed.path("copy/shorter"), "other").unwrap();
        fs::write(routed.path("tree/absent"), "absent").unwrap();
        let times = [
            ("older", at(2000, 0), at(1999, 0)),
            ("newer", at(2000, 0), at(2000, 1)),
            ("large", at(2000, 0), at(3000, 0)),
            ("equal", at(2000, 5), at(2000, 5)),
            ("shorter", at(2000, 0), at(2000, 0)),
            ("second", at(2000, 0), at(4000, 0)),
        ];
        for (name, source, target) in times {
            set_time(&routed.path("tree").join(name), source);
            set_time(&routed.path("copy").join(name), target);
        }
        let read = |name: &str| fs::read(routed.path("copy").join(name)).unwrap();
        let before: Vec<_> = ["newer", "large", "second", "equal"].map(|name| (name, read(name))).into();
        let ended = routed.copy(&["-u"], &["tree/"], "copy").expect_code(0);
        for (name, contents) in before {
            assert_eq!(read(name), contents, "{route:?} {name}: {ended}");
        }
        for (name, contents) in [("older", "source"), ("shorter", "source"), ("absent", "absent")] {
            assert_eq!(read(name), contents.as_bytes(), "{route:?} {name}: {ended}");
        }
        let counts = ["files", "skipped", "kept_newer", "errors"].map(|count| ended.number(count));
        assert_eq!(counts, [3, 1, 3, 0], "{route:?}: {ended}");
        let kept = ended.all("item").filter(|item| item["outcome"] == "kept_newer").count();
        assert_eq!(kept, 3, "{route:?}: {ended}");
        // A newer file is replaced by --skip-equal.
        let ended = routed.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!((read("newer").as_slice(), ended.number("kept_newer")), (&b"source"[..], 0), "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn update_keeps_newer_names_of_files_with_several_and_gives_the_others_their_own_contents() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        ["tree", "copy"].iter().for_each(|side| fs::create_dir(routed.path(side)).unwrap());
        for (file, names) in [("a1", ["a2", "a3"]), ("b1", ["b2", "b3"])] {
            fs::write(routed.path("tree").join(file), file).unwrap();
            set_time(&routed.path("tree").join(file), at(2000, 0));
            names.iter().for_each(|name| {
                fs::hard_link(routed.path("tree").join(file), routed.path("tree").join(name)).unwrap()
            });
        }
        // Of one file the first name is newer there, of the other one a further name.
        for (name, time) in [("a1", 3000), ("a2", 1000), ("b1", 1000), ("b2", 3000)] {
            fs::write(routed.path("copy").join(name), "target").unwrap();
            set_time(&routed.path("copy").join(name), at(time, 0));
        }
        let ended = routed.copy(&["--update"], &["tree/"], "copy").expect_code(0);
        let read = |name: &str| fs::read_to_string(routed.path("copy").join(name)).unwrap();
        let contents = ["a1", "a2", "a3", "b1", "b2", "b3"].map(read);
        assert_eq!(contents, ["target", "a1", "a1", "b1", "target", "b1"], "{route:?}: {ended}");
        let inode = |name: &str| fs::metadata(routed.path("copy").join(name)).unwrap().ino();
        assert_eq!(inode("b1"), inode("b3"), "{route:?}");
        assert_eq!(ended.number("kept_newer"), 2, "{route:?}: {ended}");
        assert_eq!(crate::noticed::noticed(&ended, "first_name_kept"), (2, 2), "{route:?}: {ended}");
    }
}

#[test]
fn attributes_of_equal_files_are_set_without_their_contents() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        data::file(&routed.path("tree/large"), 5 * MIB, 1);
        ["small", "same"].iter().for_each(|name| fs::write(routed.path("tree").join(name), name).unwrap());
        let has_attributes = setxattr(routed.path("tree/small"), "user.color", b"red", XattrFlags::empty()).is_ok();
        if !has_attributes {
            skip("the file system has no extended attributes");
        }
        let preserved = if has_attributes { "mode,times,links,xattr" } else { "mode,times,links" };
        routed.copy(&["--preserve", preserved], &["tree/"], "copy").expect_code(0);
        for (number, option) in (1..).zip(["--skip-equal", "--update"]) {
            let wanted = 0o600 + number;
            ["small", "large"].iter().for_each(|name| {
                fs::set_permissions(routed.path("tree").join(name), Permissions::from_mode(wanted)).unwrap()
            });
            if has_attributes {
                setxattr(routed.path("tree/small"), "user.color", option.as_bytes(), XattrFlags::empty()).unwrap();
                setxattr(routed.path("copy/large"), "user.foreign", b"x", XattrFlags::empty()).unwrap();
            }
            let inode = |name: &str| fs::metadata(routed.path("copy").join(name)).unwrap().ino();
            let before = ["small", "large"].map(inode);
            let same = snapshot(&routed.path("copy"))[&routed.path("copy/same")];
            let ended = routed.copy(&[option, "--preserve", preserved], &["tree/"], "copy").expect_code(0);
            assert_eq!(["small", "large"].map(inode), before, "{route:?}: {ended}");
            assert_eq!((ended.number("bytes_sent"), ended.number("skipped")), (0, 3), "{route:?} {option}: {ended}");
            assert_eq!(
                ["small", "large"].map(|name| mode(&routed.path("copy").join(name))),
                [wanted; 2],
                "{route:?} {option}"
            );
            assert_eq!(snapshot(&routed.path("copy"))[&routed.path("copy/same")], same, "{route:?}: it had everything");
            if has_attributes {
                let mut value = [0; 64];
                let length = getxattr(routed.path("copy/small"), "user.color", &mut value[..]).unwrap();
                assert_eq!(&value[..length], option.as_bytes(), "{route:?}");
                assert!(getxattr(routed.path("copy/large"), "user.foreign", &mut value[..]).is_err(), "{route:?}");
            }
            assert_same(&routed.path("tree"), &routed.path("copy"));
        }
    }
}

#[test]
fn attributes_that_cannot_be_set_in_place_come_with_the_contents() {
    let routed = RoutedSite::new(Route::Local);
    let site = &routed.site;
    let (source, target) = (site.directory("source"), site.directory("target"));
    crate::support::open_to_all(&target);
    fs::write(source.join("file"), "file").unwrap();
    set_time(&source.join("file"), at(2000, 0));
    // Root's own, in a directory of the ordinary user.
    fs::write(target.join("file"), "elif").unwrap();
    set_time(&target.join("file"), at(2000, 0));
    fs::set_permissions(target.join("file"), Permissions::from_mode(0o400)).unwrap();
    if !crate::support::is_root() {
        return skip("files of another user need root");
    }
    site.unprivileged().args(["copy", "--json", "--skip-equal", "source/file", "target"]).run().expect_code(0);
    assert_eq!(fs::read(target.join("file")).unwrap(), b"file");
    assert_eq!(mode(&target.join("file")), mode(&source.join("file")));
}

#[test]
fn times_are_compared_as_exactly_as_the_destination_keeps_them() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        let Some(coarse) = Mount::ext4(routed.path("coarse"), 64 << 20, &["-I", "128"]) else { return };
        let tree = data::tree(&routed.path("tree"), 3, &Shape { small: 20, large: vec![5 * MIB], ..Shape::default() });
        for (name, time) in
            [("exact", at(2000, 0)), ("within", at(2000, 999_999_999)), ("distant", at(4_102_444_800, 7))]
        {
            fs::write(tree.join(name), name).unwrap();
            set_time(&tree.join(name), time);
        }
        std::os::unix::fs::symlink("exact", tree.join("link")).unwrap();
        routed.copy(&[], &["tree/"], "coarse/copy").expect_code(0);
        let shown = fs::metadata(coarse.path().join("copy/within")).unwrap();
        assert_eq!((shown.mtime(), shown.mtime_nsec()), (2000, 0), "the file system keeps whole seconds");
        for option in ["--skip-equal", "--update"] {
            let dry = routed.copy(&["--dry-run", option], &["tree/"], "coarse/copy").expect_code(0);
            let would_send: Vec<_> = dry.all("would_send").filter(|event| event["bytes"] != 0).collect();
            assert!(would_send.is_empty(), "{route:?} {option}: {dry}");
            let ended = routed.copy(&[option], &["tree/"], "coarse/copy").expect_code(0);
            let counts = ["files", "bytes_sent", "kept_newer"].map(|count| ended.number(count));
            assert_eq!(counts, [0; 3], "{route:?} {option}: {ended}");
        }
        // A second earlier is another time.
        set_time(&coarse.path().join("copy/within"), at(1999, 0));
        let ended = routed.copy(&["--update"], &["tree/"], "coarse/copy").expect_code(0);
        assert_eq!((ended.number("files"), ended.number("kept_newer")), (1, 0), "{route:?}: {ended}");
        assert_no_leftovers(coarse.path());
    }
}

#[test]
fn without_preserved_times_an_equal_size_is_not_enough() {
    let routed = RoutedSite::new(Route::Local);
    fs::create_dir(routed.path("tree")).unwrap();
    fs::write(routed.path("tree/file"), "first").unwrap();
    set_time(&routed.path("tree/file"), at(2000, 500));
    routed.copy(&["--preserve", "none"], &["tree/"], "copy").expect_code(0);
    fs::write(routed.path("tree/file"), "other").unwrap();
    set_time(&routed.path("tree/file"), at(2000, 500));
    let ended = routed.copy(&["--preserve", "none", "--skip-equal"], &["tree/"], "copy").expect_code(0);
    assert_eq!(fs::read(routed.path("copy/file")).unwrap(), b"other", "{ended}");
}

/// The times that files show are those of the copy, or of the source as far as they can be kept.
#[test]
fn finished_files_are_taken_over_whatever_times_they_show() {
    for (route, preserved) in [(Route::Push, "none"), (Route::FromDaemon, "mode"), (Route::Pull, "mode,times,links")] {
        let routed = RoutedSite::new(route);
        let Some(_coarse) = Mount::ext4(routed.path("coarse"), 256 << 20, &["-I", "128"]) else { return };
        let place = if preserved == "mode,times,links" { "coarse/copy" } else { "copy" };
        fs::create_dir_all(routed.path("tree/a")).unwrap();
        for number in 0..300 {
            fs::write(routed.path("tree/a").join(number.to_string()), format!("{number}")).unwrap();
        }
        data::file(&routed.path("tree/b"), 5 * MIB, 1);
        data::file(&routed.path("tree/z"), 64 * MIB, 2);
        let run = routed.start(&["--preserve", preserved, "--ring", "64MiB", "--rate", "60mbit"], &["tree/"], place);
        let done = || {
            routed.path(place).join("b").exists() && fs::read_dir(routed.path(place).join("a")).unwrap().count() >= 300
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "{route:?}: the first files do not appear");
            std::thread::yield_now();
        }
        run.signal(Signal::INT);
        run.finish().expect_code(4);
        let altered = routed.path(place).join("a/7");
        let shown = fs::metadata(&altered).unwrap().modified().unwrap();
        fs::write(&altered, "X").unwrap();
        set_time(&altered, shown + Duration::from_secs(1));
        let ended = routed.copy(&["--preserve", preserved, "--ring", "64MiB"], &["tree/"], place).expect_code(0);
        assert_eq!(ended.number("taken_over_files"), 300, "{route:?} {preserved}: {ended}");
        assert_eq!(fs::read(&altered).unwrap(), b"7", "{route:?}: it was altered");
        assert_no_leftovers(routed.site.root());
    }
}
