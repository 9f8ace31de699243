//! What has a name at the destination and must not be taken for something else, or be replaced.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::process::eventually;
use crate::support::{MIB, Route, RoutedSite, assert_no_leftovers, data, leftovers, skip, succeed};

#[test]
fn a_further_name_never_gets_what_a_later_source_has_put_in_place_of_the_first() {
    for route in Route::ALL {
        for size in [5, 3 * MIB, 9 * MIB] {
            let routed = RoutedSite::new(route);
            ["a", "b", "c"].iter().for_each(|name| fs::create_dir(routed.path(name)).unwrap());
            // The further name waits for this one, and the later source for nothing.
            data::file(&routed.path("c/y"), 24 * MIB, 1);
            data::file(&routed.path("a/x"), size, 2);
            fs::hard_link(routed.path("a/x"), routed.path("a/y")).unwrap();
            data::file(&routed.path("b/x"), size, 3);
            routed.copy(&[], &["c/", "a/", "b/"], "copy").expect_code(0);
            let same = |source: &str, copy: &str| {
                fs::read(routed.path(source)).unwrap() == fs::read(routed.path(copy)).unwrap()
            };
            assert!(same("a/y", "copy/y"), "{route:?} {size}");
            assert!(same("b/x", "copy/x"), "{route:?} {size}");
            assert_no_leftovers(routed.site.root());
        }
    }
}

#[test]
fn a_further_name_never_gets_what_another_process_has_put_in_place_of_the_first() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir_all(routed.path("tree/a")).unwrap();
        fs::create_dir_all(routed.path("tree/z")).unwrap();
        fs::write(routed.path("tree/a/x"), "ours").unwrap();
        data::file(&routed.path("tree/m"), 40 * MIB, 1);
        fs::hard_link(routed.path("tree/a/x"), routed.path("tree/z/y")).unwrap();
        fs::write(routed.path("other"), "another's").unwrap();
        let run = routed.start(&["--rate", "200mbit"], &["tree"], "copy");
        let first = routed.path("copy/a/x");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !first.exists() {
            assert!(Instant::now() < deadline, "the first name does not appear");
            std::thread::yield_now();
        }
        fs::rename(routed.path("other"), &first).unwrap();
        run.finish().expect_code(0);
        assert_eq!(fs::read(routed.path("copy/z/y")).unwrap(), b"ours", "{route:?}");
        assert_eq!(fs::read(&first).unwrap(), b"another's", "{route:?}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn a_further_name_never_gets_what_has_replaced_a_first_name_that_was_found() {
    // What was there is skipped, or taken over from an interrupted run.
    for (route, skips) in [(Route::Push, true), (Route::Push, false), (Route::ToDaemon, true), (Route::ToDaemon, false)]
    {
        let routed = RoutedSite::new(route);
        fs::create_dir_all(routed.path("tree/a")).unwrap();
        fs::create_dir_all(routed.path("tree/z")).unwrap();
        fs::write(routed.path("tree/a/x"), "ours").unwrap();
        data::file(&routed.path("tree/m"), 40 * MIB, 1);
        fs::create_dir(routed.path("copy")).unwrap();
        if skips {
            routed.copy(&[], &["tree/a"], "copy/").expect_code(0);
            fs::hard_link(routed.path("tree/a/x"), routed.path("tree/z/y")).unwrap();
        } else {
            fs::hard_link(routed.path("tree/a/x"), routed.path("tree/z/y")).unwrap();
            let run = routed.start(&["--rate", "100mbit"], &["tree/"], "copy");
            let noted = || {
                let mut left = leftovers(&routed.path("copy")).into_iter();
                left.any(|path| path.extension().is_some_and(|kind| kind == "run"))
                    && routed.path("copy/a/x").exists()
                    && run.wait_for_bytes(9 * MIB)
            };
            assert!(eventually(noted), "the first name does not appear");
            run.kill();
        }
        let options: &[&str] = if skips { &["--rate", "100mbit", "--skip-equal"] } else { &["--rate", "100mbit"] };
        let run = routed.start(options, &["tree/"], "copy");
        assert!(run.wait_for_bytes(MIB), "{route:?}");
        fs::write(routed.path("other"), "another's").unwrap();
        fs::rename(routed.path("other"), routed.path("copy/a/x")).unwrap();
        let ended = run.finish().expect_code(0);
        let found = if skips { ended.number("skipped") } else { ended.number("taken_over_files") };
        assert!(found > 0, "the first name was not found: {ended}");
        assert_eq!(fs::read(routed.path("copy/z/y")).unwrap(), b"ours", "{route:?} {skips}");
        assert_eq!(fs::read(routed.path("copy/a/x")).unwrap(), b"another's", "{route:?} {skips}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn a_directory_of_the_destination_that_is_removed_is_told_as_that() {
    for route in [Route::Push, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        fs::create_dir_all(routed.path("tree/sub")).unwrap();
        data::file(&routed.path("tree/sub/large"), 24 * MIB, 1);
        let run = routed.start(&["--rate", "100mbit"], &["tree"], "copy");
        let is_begun = || routed.path("copy/sub").exists() && !leftovers(&routed.path("copy/sub")).is_empty();
        assert!(eventually(is_begun), "{route:?}");
        fs::remove_dir_all(routed.path("copy/sub")).unwrap();
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
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        fs::create_dir(routed.path("into")).unwrap();
        fs::write(routed.path("tree/null"), "small").unwrap();
        succeed(Command::new("mkfifo").arg(routed.path("pipe")));
        std::os::unix::fs::symlink("../pipe", routed.path("into/null")).unwrap();
        std::os::unix::fs::symlink("pipe", routed.path("link")).unwrap();
        let ended = routed.copy(&[], &["tree/null"], "link").expect_code(2);
        assert!(ended.stderr.contains("is a symbolic link to a named pipe, which is neither"), "{ended}");
        assert!(fs::symlink_metadata(routed.path("link")).unwrap().is_symlink(), "{route:?}");
        routed.copy(&[], &["tree/"], "into").expect_code(0);
        assert!(fs::symlink_metadata(routed.path("into/null")).unwrap().is_file(), "{route:?}");
        assert!(fs::symlink_metadata(routed.path("pipe")).unwrap().file_type().is_fifo());
    }
}

#[test]
fn devices_pipes_and_sockets_at_the_destination_are_not_replaced() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::write(routed.path("file"), "file").unwrap();
        fs::create_dir(routed.path("tree")).unwrap();
        fs::create_dir(routed.path("into")).unwrap();
        fs::write(routed.path("tree/pipe"), "small").unwrap();
        data::file(&routed.path("tree/socket"), 9 * MIB, 1);
        std::os::unix::fs::symlink("file", routed.path("tree/link")).unwrap();
        fs::write(routed.path("tree/rest"), "rest").unwrap();
        for name in ["alone", "into/pipe", "into/link"] {
            succeed(Command::new("mkfifo").arg(routed.path(name)));
        }
        let _socket = UnixListener::bind(routed.path("into/socket")).unwrap();
        let ended = routed.copy(&[], &["file"], "alone").expect_code(2);
        assert!(ended.stderr.contains("is a named pipe, which is not replaced"), "{ended}");
        // Null of Linux.
        let made = Command::new("mknod").arg(routed.path("into/device")).args(["c", "1", "3"]).output().unwrap();
        let has_device = made.status.success();
        if has_device {
            fs::write(routed.path("tree/device"), "small").unwrap();
        } else {
            skip(&format!("no device can be made: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let ended = routed.copy(&[], &["tree/"], "into").expect_code(1);
        assert!(ended.stderr.contains("is a socket, which is not replaced"), "{ended}");
        assert!(ended.number("bytes_sent") < MIB, "what cannot be made was sent: {ended}");
        if has_device {
            assert!(ended.stderr.contains("into/device is a character device, which is not replaced"), "{ended}");
            assert!(fs::symlink_metadata(routed.path("into/device")).unwrap().file_type().is_char_device());
        }
        assert_no_leftovers(routed.site.root());
        let kind = |name: &str| fs::symlink_metadata(routed.path(name)).unwrap().file_type();
        assert!(kind("alone").is_fifo() && kind("into/pipe").is_fifo() && kind("into/link").is_fifo(), "{route:?}");
        assert!(kind("into/socket").is_socket(), "{route:?}");
        assert_eq!(fs::read(routed.path("into/rest")).unwrap(), b"rest");
    }
}

#[test]
fn names_of_unfinished_files_are_neither_written_nor_read() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::write(routed.path("file"), "file").unwrap();
        for name in [".icdc-0123456789abcdef.run", ".icdc-0123456789abcdef.part", ".ICDC-0123456789ABCDEF.Blocks"] {
            let ended = routed.copy(&[], &["file"], name).expect_code(2);
            assert!(ended.stderr.contains("keeps for unfinished files"), "{ended}");
            assert!(!routed.path(name).exists(), "{route:?}");
            fs::create_dir(routed.path(name)).unwrap();
            routed.copy(&[], &["file"], &format!("{name}/")).expect_code(2);
            assert_eq!(fs::metadata(routed.path(name)).unwrap().nlink(), 2);
            assert!(!routed.path(name).join("file").exists(), "{route:?}");
            fs::write(routed.path(name).join("inner"), "inner").unwrap();
            for source in [name.to_owned(), format!("{name}/"), format!("{name}/inner")] {
                let ended = routed.copy(&[], &[&source], "out/").expect_code(2);
                assert!(ended.stderr.contains("keeps for unfinished files"), "{ended}");
                assert!(!routed.path("out").exists(), "{route:?} {source}");
            }
            fs::remove_dir_all(routed.path(name)).unwrap();
        }
    }
}
