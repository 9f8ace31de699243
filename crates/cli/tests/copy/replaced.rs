//! What has a name at the destination and must not be taken for something else, or be replaced.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::process::eventually;
use crate::support::{MIB, Road, Way, assert_no_leftovers, data, leftovers, skip, succeed};

#[test]
fn a_further_name_never_gets_what_a_later_source_has_put_in_place_of_the_first() {
    for way in Way::ALL {
        for size in [5, 3 * MIB, 9 * MIB] {
            let road = Road::new(way);
            ["a", "b", "c"].iter().for_each(|name| fs::create_dir(road.path(name)).unwrap());
            // The further name waits for this one, and the later source for nothing.
            data::file(&road.path("c/y"), 24 * MIB, 1);
            data::file(&road.path("a/x"), size, 2);
            fs::hard_link(road.path("a/x"), road.path("a/y")).unwrap();
            data::file(&road.path("b/x"), size, 3);
            road.copy(&[], &["c/", "a/", "b/"], "copy").expect_code(0);
            let same =
                |source: &str, copy: &str| fs::read(road.path(source)).unwrap() == fs::read(road.path(copy)).unwrap();
            assert!(same("a/y", "copy/y"), "{way:?} {size}");
            assert!(same("b/x", "copy/x"), "{way:?} {size}");
            assert_no_leftovers(road.site.root());
        }
    }
}

#[test]
fn a_further_name_never_gets_what_another_process_has_put_in_place_of_the_first() {
    for way in Way::ALL {
        let road = Road::new(way);
        fs::create_dir_all(road.path("tree/a")).unwrap();
        fs::create_dir_all(road.path("tree/z")).unwrap();
        fs::write(road.path("tree/a/x"), "ours").unwrap();
        data::file(&road.path("tree/m"), 40 * MIB, 1);
        fs::hard_link(road.path("tree/a/x"), road.path("tree/z/y")).unwrap();
        fs::write(road.path("other"), "another's").unwrap();
        let run = road.start(&["--rate", "200mbit"], &["tree"], "copy");
        let first = road.path("copy/a/x");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !first.exists() {
            assert!(Instant::now() < deadline, "the first name does not appear");
            std::thread::yield_now();
        }
        fs::rename(road.path("other"), &first).unwrap();
        run.finish().expect_code(0);
        assert_eq!(fs::read(road.path("copy/z/y")).unwrap(), b"ours", "{way:?}");
        assert_eq!(fs::read(&first).unwrap(), b"another's", "{way:?}");
        assert_no_leftovers(road.site.root());
    }
}

#[test]
fn a_further_name_never_gets_what_has_replaced_a_first_name_that_was_found() {
    // What was there is skipped, or taken over from an interrupted run.
    for (way, skips) in [(Way::Push, true), (Way::Push, false), (Way::ToDaemon, true), (Way::ToDaemon, false)] {
        let road = Road::new(way);
        fs::create_dir_all(road.path("tree/a")).unwrap();
        fs::create_dir_all(road.path("tree/z")).unwrap();
        fs::write(road.path("tree/a/x"), "ours").unwrap();
        data::file(&road.path("tree/m"), 40 * MIB, 1);
        fs::create_dir(road.path("copy")).unwrap();
        if skips {
            road.copy(&[], &["tree/a"], "copy/").expect_code(0);
            fs::hard_link(road.path("tree/a/x"), road.path("tree/z/y")).unwrap();
        } else {
            fs::hard_link(road.path("tree/a/x"), road.path("tree/z/y")).unwrap();
            let run = road.start(&["--rate", "100mbit"], &["tree/"], "copy");
            let noted = || {
                let mut left = leftovers(&road.path("copy")).into_iter();
                left.any(|path| path.extension().is_some_and(|kind| kind == "run"))
                    && road.path("copy/a/x").exists()
                    && run.wait_for_bytes(9 * MIB)
            };
            assert!(eventually(noted), "the first name does not appear");
            run.kill();
        }
        let options: &[&str] = if skips { &["--rate", "100mbit", "--skip-equal"] } else { &["--rate", "100mbit"] };
        let run = road.start(options, &["tree/"], "copy");
        assert!(run.wait_for_bytes(MIB), "{way:?}");
        fs::write(road.path("other"), "another's").unwrap();
        fs::rename(road.path("other"), road.path("copy/a/x")).unwrap();
        let ended = run.finish().expect_code(0);
        let found = if skips { ended.number("skipped") } else { ended.number("taken_over_files") };
        assert!(found > 0, "the first name was not found: {ended}");
        assert_eq!(fs::read(road.path("copy/z/y")).unwrap(), b"ours", "{way:?} {skips}");
        assert_eq!(fs::read(road.path("copy/a/x")).unwrap(), b"another's", "{way:?} {skips}");
        assert_no_leftovers(road.site.root());
    }
}

#[test]
fn a_directory_of_the_destination_that_is_removed_is_told_as_that() {
    for way in [Way::Push, Way::ToDaemon] {
        let road = Road::new(way);
        fs::create_dir_all(road.path("tree/sub")).unwrap();
        data::file(&road.path("tree/sub/large"), 24 * MIB, 1);
        let run = road.start(&["--rate", "100mbit"], &["tree"], "copy");
        let is_begun = || road.path("copy/sub").exists() && !leftovers(&road.path("copy/sub")).is_empty();
        assert!(eventually(is_begun), "{way:?}");
        fs::remove_dir_all(road.path("copy/sub")).unwrap();
        let ended = run.finish().expect_code(1);
        assert!(
            ended.stderr.contains("copy/sub/large: the directory that it was to be in has been removed"),
            "{ended}"
        );
        assert!(!ended.stderr.contains("another program"), "{ended}");
    }
}

#[test]
fn links_to_devices_are_replaced_inside_trees_and_refused_as_destinations() {
    for way in Way::ALL {
        let road = Road::new(way);
        fs::create_dir(road.path("tree")).unwrap();
        fs::create_dir(road.path("into")).unwrap();
        fs::write(road.path("tree/null"), "small").unwrap();
        succeed(Command::new("mkfifo").arg(road.path("pipe")));
        std::os::unix::fs::symlink("../pipe", road.path("into/null")).unwrap();
        std::os::unix::fs::symlink("pipe", road.path("link")).unwrap();
        let ended = road.copy(&[], &["tree/null"], "link").expect_code(2);
        assert!(ended.stderr.contains("is a symbolic link to a named pipe, which is neither"), "{ended}");
        assert!(fs::symlink_metadata(road.path("link")).unwrap().is_symlink(), "{way:?}");
        road.copy(&[], &["tree/"], "into").expect_code(0);
        assert!(fs::symlink_metadata(road.path("into/null")).unwrap().is_file(), "{way:?}");
        assert!(fs::symlink_metadata(road.path("pipe")).unwrap().file_type().is_fifo());
    }
}

#[test]
fn devices_pipes_and_sockets_at_the_destination_are_not_replaced() {
    for way in Way::ALL {
        let road = Road::new(way);
        fs::write(road.path("file"), "file").unwrap();
        fs::create_dir(road.path("tree")).unwrap();
        fs::create_dir(road.path("into")).unwrap();
        fs::write(road.path("tree/pipe"), "small").unwrap();
        data::file(&road.path("tree/socket"), 9 * MIB, 1);
        std::os::unix::fs::symlink("file", road.path("tree/link")).unwrap();
        fs::write(road.path("tree/rest"), "rest").unwrap();
        for name in ["alone", "into/pipe", "into/link"] {
            succeed(Command::new("mkfifo").arg(road.path(name)));
        }
        let _socket = UnixListener::bind(road.path("into/socket")).unwrap();
        let ended = road.copy(&[], &["file"], "alone").expect_code(2);
        assert!(ended.stderr.contains("is a named pipe, which is not replaced"), "{ended}");
        // Null of Linux.
        let made = Command::new("mknod").arg(road.path("into/device")).args(["c", "1", "3"]).output().unwrap();
        let has_device = made.status.success();
        if has_device {
            fs::write(road.path("tree/device"), "small").unwrap();
        } else {
            skip(&format!("no device can be made: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let ended = road.copy(&[], &["tree/"], "into").expect_code(1);
        assert!(ended.stderr.contains("is a socket, which is not replaced"), "{ended}");
        assert!(ended.number("bytes_sent") < MIB, "what cannot be made was sent: {ended}");
        if has_device {
            assert!(ended.stderr.contains("into/device is a character device, which is not replaced"), "{ended}");
            assert!(fs::symlink_metadata(road.path("into/device")).unwrap().file_type().is_char_device());
        }
        assert_no_leftovers(road.site.root());
        let kind = |name: &str| fs::symlink_metadata(road.path(name)).unwrap().file_type();
        assert!(kind("alone").is_fifo() && kind("into/pipe").is_fifo() && kind("into/link").is_fifo(), "{way:?}");
        assert!(kind("into/socket").is_socket(), "{way:?}");
        assert_eq!(fs::read(road.path("into/rest")).unwrap(), b"rest");
    }
}

#[test]
fn names_of_unfinished_files_are_neither_written_nor_read() {
    for way in Way::ALL {
        let road = Road::new(way);
        fs::write(road.path("file"), "file").unwrap();
        for name in [".icdc-0123456789abcdef.run", ".icdc-0123456789abcdef.part", ".ICDC-0123456789ABCDEF.Blocks"] {
            let ended = road.copy(&[], &["file"], name).expect_code(2);
            assert!(ended.stderr.contains("keeps for unfinished files"), "{ended}");
            assert!(!road.path(name).exists(), "{way:?}");
            fs::create_dir(road.path(name)).unwrap();
            road.copy(&[], &["file"], &format!("{name}/")).expect_code(2);
            assert_eq!(fs::metadata(road.path(name)).unwrap().nlink(), 2);
            assert!(!road.path(name).join("file").exists(), "{way:?}");
            fs::write(road.path(name).join("inner"), "inner").unwrap();
            for source in [name.to_owned(), format!("{name}/"), format!("{name}/inner")] {
                let ended = road.copy(&[], &[&source], "out/").expect_code(2);
                assert!(ended.stderr.contains("keeps for unfinished files"), "{ended}");
                assert!(!road.path("out").exists(), "{way:?} {source}");
            }
            fs::remove_dir_all(road.path(name)).unwrap();
        }
    }
}
