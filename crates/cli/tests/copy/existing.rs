//! Files that are at the destination already: `--skip-equal` and `--update`.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::options::snapshot;
use crate::support::Start;
use crate::support::mounts::Mount;
use crate::support::{MIB, Road, Shape, Signal, Way, assert_no_leftovers, assert_same, data, skip};

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
    for way in Way::ALL {
        let road = Road::new(way);
        fs::create_dir(road.path("tree")).unwrap();
        std::os::unix::fs::symlink("one", road.path("tree/link")).unwrap();
        std::os::unix::fs::symlink("two", road.path("tree/other")).unwrap();
        road.copy(&[], &["tree/"], "copy").expect_code(0);
        let inode = |name: &str| fs::symlink_metadata(road.path("copy").join(name)).unwrap().ino();
        let before = (inode("link"), inode("other"));
        fs::remove_file(road.path("tree/other")).unwrap();
        std::os::unix::fs::symlink("three", road.path("tree/other")).unwrap();
        let ended = road.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!(inode("link"), before.0, "{way:?}: {ended}");
        assert_ne!(inode("other"), before.1, "{way:?}: {ended}");
        assert_eq!(fs::read_link(road.path("copy/other")).unwrap(), std::path::Path::new("three"));
        assert_same(&road.path("tree"), &road.path("copy"));
    }
}

#[test]
fn skip_equal_skips_what_has_the_same_size_and_time() {
    for way in Way::ALL {
        let road = Road::new(way);
        let tree = data::tree(&road.path("tree"), 3, &Shape { small: 20, large: vec![5 * MIB], ..Shape::default() });
        road.copy(&[], &["tree"], "copy").expect_code(0);
        let before = snapshot(&road.path("copy/d000"));
        let ended = road.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!((ended.number("files"), ended.number("bytes_sent")), (0, 0), "{ended}");
        assert!(ended.number("skipped") > 20, "{ended}");
        assert_eq!(snapshot(&road.path("copy/d000")), before, "{way:?}: what is skipped is not touched");

        data::age(&tree.join("d000/f00003"), 77, 7);
        fs::write(tree.join("d000/f00004"), "of another size").unwrap();
        fs::remove_file(road.path("copy/d000/f00005")).unwrap();
        let ended = road.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!(ended.number("files"), 3, "{ended}");
        assert_same(&tree, &road.path("copy"));
        // Without it, everything travels.
        let ended = road.copy(&[], &["tree/"], "copy").expect_code(0);
        assert!(ended.number("bytes_sent") > 5 * MIB, "{ended}");
    }
}

#[test]
fn update_keeps_what_is_newer_and_skips_what_is_equal() {
    for way in Way::ALL {
        let road = Road::new(way);
        for (side, contents) in [("tree", "source"), ("copy", "target")] {
            fs::create_dir(road.path(side)).unwrap();
            for name in ["older", "newer", "second", "equal", "shorter"] {
                fs::write(road.path(side).join(name), contents).unwrap();
            }
            data::file(&road.path(side).join("large"), 5 * MIB, side.len() as u64);
        }
        fs::write(road.path("copy/shorter"), "other").unwrap();
        fs::write(road.path("tree/absent"), "absent").unwrap();
        let times = [
            ("older", at(2000, 0), at(1999, 0)),
            ("newer", at(2000, 0), at(2000, 1)),
            ("large", at(2000, 0), at(3000, 0)),
            ("equal", at(2000, 5), at(2000, 5)),
            ("shorter", at(2000, 0), at(2000, 0)),
            ("second", at(2000, 0), at(4000, 0)),
        ];
        for (name, source, target) in times {
            set_time(&road.path("tree").join(name), source);
            set_time(&road.path("copy").join(name), target);
        }
        let read = |name: &str| fs::read(road.path("copy").join(name)).unwrap();
        let before: Vec<_> = ["newer", "large", "second", "equal"].map(|name| (name, read(name))).into();
        let ended = road.copy(&["-u"], &["tree/"], "copy").expect_code(0);
        for (name, contents) in before {
            assert_eq!(read(name), contents, "{way:?} {name}: {ended}");
        }
        for (name, contents) in [("older", "source"), ("shorter", "source"), ("absent", "absent")] {
            assert_eq!(read(name), contents.as_bytes(), "{way:?} {name}: {ended}");
        }
        let counts = ["files", "skipped", "kept_newer", "errors"].map(|count| ended.number(count));
        assert_eq!(counts, [3, 1, 3, 0], "{way:?}: {ended}");
        let kept = ended.all("item").filter(|item| item["outcome"] == "kept_newer").count();
        assert_eq!(kept, 3, "{way:?}: {ended}");
        // A newer file is replaced by --skip-equal.
        let ended = road.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!((read("newer").as_slice(), ended.number("kept_newer")), (&b"source"[..], 0), "{way:?}: {ended}");
        assert_no_leftovers(road.site.root());
    }
}

#[test]
fn update_keeps_newer_names_of_files_with_several_and_gives_the_others_their_own_contents() {
    for way in Way::ALL {
        let road = Road::new(way);
        ["tree", "copy"].iter().for_each(|side| fs::create_dir(road.path(side)).unwrap());
        for (file, names) in [("a1", ["a2", "a3"]), ("b1", ["b2", "b3"])] {
            fs::write(road.path("tree").join(file), file).unwrap();
            set_time(&road.path("tree").join(file), at(2000, 0));
            names
                .iter()
                .for_each(|name| fs::hard_link(road.path("tree").join(file), road.path("tree").join(name)).unwrap());
        }
        // Of one file the first name is newer there, of the other one a further name.
        for (name, time) in [("a1", 3000), ("a2", 1000), ("b1", 1000), ("b2", 3000)] {
            fs::write(road.path("copy").join(name), "target").unwrap();
            set_time(&road.path("copy").join(name), at(time, 0));
        }
        let ended = road.copy(&["--update"], &["tree/"], "copy").expect_code(0);
        let read = |name: &str| fs::read_to_string(road.path("copy").join(name)).unwrap();
        let contents = ["a1", "a2", "a3", "b1", "b2", "b3"].map(read);
        assert_eq!(contents, ["target", "a1", "a1", "b1", "target", "b1"], "{way:?}: {ended}");
        let inode = |name: &str| fs::metadata(road.path("copy").join(name)).unwrap().ino();
        assert_eq!(inode("b1"), inode("b3"), "{way:?}");
        assert_eq!(ended.number("kept_newer"), 2, "{way:?}: {ended}");
        assert_eq!(crate::noticed::noticed(&ended, "first_name_newer"), (2, 2), "{way:?}: {ended}");
    }
}

#[test]
fn attributes_of_equal_files_are_set_without_their_contents() {
    for way in Way::ALL {
        let road = Road::new(way);
        fs::create_dir(road.path("tree")).unwrap();
        data::file(&road.path("tree/large"), 5 * MIB, 1);
        ["small", "same"].iter().for_each(|name| fs::write(road.path("tree").join(name), name).unwrap());
        let has_attributes = setxattr(road.path("tree/small"), "user.color", b"red", XattrFlags::empty()).is_ok();
        if !has_attributes {
            skip("the file system has no extended attributes");
        }
        let preserved = if has_attributes { "mode,times,links,xattr" } else { "mode,times,links" };
        road.copy(&["--preserve", preserved], &["tree/"], "copy").expect_code(0);
        for (number, option) in (1..).zip(["--skip-equal", "--update"]) {
            let wanted = 0o600 + number;
            ["small", "large"].iter().for_each(|name| {
                fs::set_permissions(road.path("tree").join(name), Permissions::from_mode(wanted)).unwrap()
            });
            if has_attributes {
                setxattr(road.path("tree/small"), "user.color", option.as_bytes(), XattrFlags::empty()).unwrap();
                setxattr(road.path("copy/large"), "user.foreign", b"x", XattrFlags::empty()).unwrap();
            }
            let inode = |name: &str| fs::metadata(road.path("copy").join(name)).unwrap().ino();
            let before = ["small", "large"].map(inode);
            let same = snapshot(&road.path("copy"))[&road.path("copy/same")];
            let ended = road.copy(&[option, "--preserve", preserved], &["tree/"], "copy").expect_code(0);
            assert_eq!(["small", "large"].map(inode), before, "{way:?}: {ended}");
            assert_eq!((ended.number("bytes_sent"), ended.number("skipped")), (0, 3), "{way:?} {option}: {ended}");
            assert_eq!(
                ["small", "large"].map(|name| mode(&road.path("copy").join(name))),
                [wanted; 2],
                "{way:?} {option}"
            );
            assert_eq!(snapshot(&road.path("copy"))[&road.path("copy/same")], same, "{way:?}: it had everything");
            if has_attributes {
                let mut value = [0; 64];
                let length = getxattr(road.path("copy/small"), "user.color", &mut value[..]).unwrap();
                assert_eq!(&value[..length], option.as_bytes(), "{way:?}");
                assert!(getxattr(road.path("copy/large"), "user.foreign", &mut value[..]).is_err(), "{way:?}");
            }
            assert_same(&road.path("tree"), &road.path("copy"));
        }
    }
}

#[test]
fn attributes_that_cannot_be_set_in_place_come_with_the_contents() {
    let road = Road::new(Way::Local);
    let site = &road.site;
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
    for way in [Way::Local, Way::Push, Way::FromDaemon] {
        let road = Road::new(way);
        let Some(coarse) = Mount::ext4(road.path("coarse"), 64 << 20, &["-I", "128"]) else { return };
        let tree = data::tree(&road.path("tree"), 3, &Shape { small: 20, large: vec![5 * MIB], ..Shape::default() });
        for (name, time) in
            [("exact", at(2000, 0)), ("within", at(2000, 999_999_999)), ("distant", at(4_102_444_800, 7))]
        {
            fs::write(tree.join(name), name).unwrap();
            set_time(&tree.join(name), time);
        }
        std::os::unix::fs::symlink("exact", tree.join("link")).unwrap();
        road.copy(&[], &["tree/"], "coarse/copy").expect_code(0);
        let shown = fs::metadata(coarse.path().join("copy/within")).unwrap();
        assert_eq!((shown.mtime(), shown.mtime_nsec()), (2000, 0), "the file system keeps whole seconds");
        for option in ["--skip-equal", "--update"] {
            let dry = road.copy(&["--dry-run", option], &["tree/"], "coarse/copy").expect_code(0);
            let would_send: Vec<_> = dry.all("would_send").filter(|event| event["bytes"] != 0).collect();
            assert!(would_send.is_empty(), "{way:?} {option}: {dry}");
            let ended = road.copy(&[option], &["tree/"], "coarse/copy").expect_code(0);
            let counts = ["files", "bytes_sent", "kept_newer"].map(|count| ended.number(count));
            assert_eq!(counts, [0; 3], "{way:?} {option}: {ended}");
        }
        // A second earlier is another time.
        set_time(&coarse.path().join("copy/within"), at(1999, 0));
        let ended = road.copy(&["--update"], &["tree/"], "coarse/copy").expect_code(0);
        assert_eq!((ended.number("files"), ended.number("kept_newer")), (1, 0), "{way:?}: {ended}");
        assert_no_leftovers(coarse.path());
    }
}

#[test]
fn without_preserved_times_an_equal_size_is_not_enough() {
    let road = Road::new(Way::Local);
    fs::create_dir(road.path("tree")).unwrap();
    fs::write(road.path("tree/file"), "first").unwrap();
    set_time(&road.path("tree/file"), at(2000, 500));
    road.copy(&["--preserve", "none"], &["tree/"], "copy").expect_code(0);
    fs::write(road.path("tree/file"), "other").unwrap();
    set_time(&road.path("tree/file"), at(2000, 500));
    let ended = road.copy(&["--preserve", "none", "--skip-equal"], &["tree/"], "copy").expect_code(0);
    assert_eq!(fs::read(road.path("copy/file")).unwrap(), b"other", "{ended}");
}

/// The times that files show are those of the copy, or of the source as far as they can be kept.
#[test]
fn finished_files_are_taken_over_whatever_times_they_show() {
    for (way, preserved) in [(Way::Push, "none"), (Way::FromDaemon, "mode"), (Way::Pull, "mode,times,links")] {
        let road = Road::new(way);
        let Some(_coarse) = Mount::ext4(road.path("coarse"), 256 << 20, &["-I", "128"]) else { return };
        let place = if preserved == "mode,times,links" { "coarse/copy" } else { "copy" };
        fs::create_dir_all(road.path("tree/a")).unwrap();
        for number in 0..300 {
            fs::write(road.path("tree/a").join(number.to_string()), format!("{number}")).unwrap();
        }
        data::file(&road.path("tree/b"), 5 * MIB, 1);
        data::file(&road.path("tree/z"), 64 * MIB, 2);
        let run = road.start(&["--preserve", preserved, "--ring", "64MiB", "--rate", "60mbit"], &["tree/"], place);
        let done =
            || road.path(place).join("b").exists() && fs::read_dir(road.path(place).join("a")).unwrap().count() >= 300;
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "{way:?}: the first files do not appear");
            std::thread::yield_now();
        }
        run.signal(Signal::INT);
        run.finish().expect_code(4);
        let altered = road.path(place).join("a/7");
        let shown = fs::metadata(&altered).unwrap().modified().unwrap();
        fs::write(&altered, "X").unwrap();
        set_time(&altered, shown + Duration::from_secs(1));
        let ended = road.copy(&["--preserve", preserved, "--ring", "64MiB"], &["tree/"], place).expect_code(0);
        assert_eq!(ended.number("taken_over_files"), 300, "{way:?} {preserved}: {ended}");
        assert_eq!(fs::read(&altered).unwrap(), b"7", "{way:?}: it was altered");
        assert_no_leftovers(road.site.root());
    }
}
