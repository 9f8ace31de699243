//! Where things arrive: the table of docs/copying.md, for every way that a copy can take, and what is
//! refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::process::Start;
use crate::support::{Ended, MIB, Road, Shape, Site, Way, assert_no_leftovers, assert_same, data, succeed};

/// Makes `file`, `dir/{inner,sub/deep}` and links to both.
fn sources(road: &Road) {
    data::file(&road.path("file"), 300_000, 1);
    fs::create_dir_all(road.path("dir/sub")).unwrap();
    fs::write(road.path("dir/inner"), "inner").unwrap();
    fs::write(road.path("dir/sub/deep"), "deep").unwrap();
    symlink("dir", road.path("to-dir")).unwrap();
    symlink("file", road.path("to-file")).unwrap();
}

/// The whole table for one way.
fn table(way: Way) {
    let road = Road::new(way);
    sources(&road);
    let [file, dir, inner] = ["file", "dir", "dir/inner"].map(|name| road.path(name));
    let copy = |sources: &[&str], destination: &str| road.copy(&[], sources, destination).expect_code(0);
    let lands = |source: &Path, destination: &str| assert_same(source, &road.path(destination));

    fs::create_dir(road.path("a")).unwrap();
    copy(&["file"], "a");
    lands(&file, "a/file");
    copy(&["file"], "b");
    lands(&file, "b");
    copy(&["file"], "c/");
    lands(&file, "c/file");

    // The old file is not written to: who has it open, or another name of it, keeps it.
    fs::write(road.path("d"), "old").unwrap();
    fs::hard_link(road.path("d"), road.path("d-kept")).unwrap();
    copy(&["file"], "d");
    lands(&file, "d");
    assert_eq!(fs::read(road.path("d-kept")).unwrap(), b"old");

    fs::create_dir(road.path("e")).unwrap();
    copy(&["dir"], "e");
    lands(&dir, "e/dir");
    copy(&["dir"], "f");
    lands(&dir, "f");
    copy(&["dir"], "g/");
    lands(&dir, "g/dir");

    fs::create_dir_all(road.path("h/sub")).unwrap();
    fs::write(road.path("h/inner"), "another").unwrap();
    fs::write(road.path("h/stays"), "stays").unwrap();
    fs::write(road.path("h/sub/stays"), "stays").unwrap();
    copy(&["dir/"], "h");
    lands(&inner, "h/inner");
    lands(&road.path("dir/sub/deep"), "h/sub/deep");
    assert_eq!(fs::read(road.path("h/stays")).unwrap(), b"stays");
    assert_eq!(fs::read(road.path("h/sub/stays")).unwrap(), b"stays");
    copy(&["dir/"], "i");
    lands(&dir, "i");

    copy(&["file", "dir", "to-dir"], "j");
    lands(&file, "j/file");
    lands(&dir, "j/dir");
    lands(&road.path("to-dir"), "j/to-dir");
    copy(&["file", "dir/"], "k");
    lands(&file, "k/file");
    lands(&inner, "k/inner");

    // Links are copied as links, whether or not they lead anywhere; with a slash they stand for the
    // directory.
    copy(&["to-dir", "to-file"], "l/");
    lands(&road.path("to-dir"), "l/to-dir");
    lands(&road.path("to-file"), "l/to-file");
    copy(&["to-dir/"], "m");
    lands(&dir, "m");

    // A destination that is a link to a directory stands for it; a link to a file is replaced, not
    // followed.
    symlink("a", road.path("n")).unwrap();
    copy(&["dir/inner"], "n");
    lands(&inner, "a/inner");
    symlink("d-kept", road.path("o")).unwrap();
    copy(&["file"], "o");
    lands(&file, "o");
    assert_eq!(fs::read(road.path("d-kept")).unwrap(), b"old");
    assert_no_leftovers(road.site.root());
}

#[test]
fn things_arrive_where_the_table_says_locally() {
    table(Way::Local);
}

#[test]
fn things_arrive_where_the_table_says_when_pushed_by_ssh() {
    table(Way::Push);
}

#[test]
fn things_arrive_where_the_table_says_when_pulled_by_ssh() {
    table(Way::Pull);
}

#[test]
fn things_arrive_where_the_table_says_to_a_daemon() {
    table(Way::ToDaemon);
}

#[test]
fn things_arrive_where_the_table_says_from_a_daemon() {
    table(Way::FromDaemon);
}

/// Asserts that a copy ended with `code` and said `words`.
#[track_caller]
fn refused(ended: Ended, code: i32, words: &[&str]) {
    let ended = ended.expect_code(code);
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not said: {ended}");
    }
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "one sentence: {ended}");
}

#[test]
fn directories_above_the_destination_are_made_on_request() {
    for way in Way::ALL {
        let road = Road::new(way);
        sources(&road);
        let imagined = road.copy(&["--mkpath", "--dry-run"], &["file"], "a/b/c").expect_code(0);
        assert_eq!(imagined.all("would_send").count(), 1, "{imagined}");
        assert!(!road.path("a").exists(), "a dry run makes nothing");
        road.copy(&["--mkpath"], &["file"], "a/b/c").expect_code(0);
        road.copy(&["--mkpath"], &["dir/"], "d//e/./f/").expect_code(0);
        road.copy(&["--mkpath"], &["file", "dir"], "d/e/f").expect_code(0);
        assert_same(&road.path("file"), &road.path("a/b/c"));
        assert_same(&road.path("dir"), &road.path("d/e/f/dir"));
        assert_eq!(
            fs::read_dir(road.path("d/e/f")).unwrap().count(),
            fs::read_dir(road.path("dir")).unwrap().count() + 2
        );
        // Not through what is no directory, and not as an unfinished file.
        refused(road.copy(&["--mkpath"], &["file"], "file/x/y"), 2, &["file"]);
        refused(road.copy(&["--mkpath"], &["file"], "new/.icdc-0123456789abcdef.part/x"), 2, &["unfinished"]);
        assert!(!road.path("new").exists());
    }
}

#[test]
fn what_cannot_be_placed_is_refused_and_changes_nothing() {
    for way in Way::ALL {
        let road = Road::new(way);
        sources(&road);
        fs::write(road.path("old"), "old").unwrap();
        let copy = |sources: &[&str], destination: &str| road.copy(&[], sources, destination);
        refused(copy(&["dir"], "old"), 2, &["old", "dir"]);
        refused(copy(&["dir/"], "old"), 2, &["old", "not a directory"]);
        refused(copy(&["file"], "old/"), 2, &["old", "not a directory"]);
        refused(copy(&["file", "dir"], "old"), 2, &["old", "not a directory"]);
        refused(copy(&["file"], "missing/parent/x"), 2, &["missing", "--mkpath"]);
        refused(copy(&["file"], "old/x"), 2, &["old"]);
        fs::create_dir(road.path("other")).unwrap();
        fs::write(road.path("other/file"), "other").unwrap();
        refused(copy(&["file", "other/file"], "new"), 2, &["two sources are named file"]);
        assert!(!road.path("new").exists(), "a directory was made for nothing");
        assert_eq!(fs::read(road.path("old")).unwrap(), b"old");
        assert_no_leftovers(road.site.root());
    }
}

#[test]
fn a_destination_in_which_this_user_makes_nothing_is_refused() {
    let site = Site::new();
    fs::create_dir_all(site.path("dir/sub")).unwrap();
    fs::write(site.path("dir/inner"), "inner").unwrap();
    let closed = site.directory("closed");
    fs::set_permissions(&closed, Permissions::from_mode(0o555)).unwrap();
    for destination in [closed.clone().into_os_string(), site.by_ssh("closed")] {
        for source in ["dir", "dir/"] {
            let mut command = site.unprivileged();
            command.args(["copy", "--json", "--ssh", &site.ssh(), "--remote-icdc"]).arg(site.path("icdc"));
            let ended = command.arg(source).arg(&destination).run();
            assert!(!ended.stderr.contains(".icdc-"), "no name of icdc's own: {ended}");
            refused(ended, 2, &["closed: permission denied"]);
        }
    }
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
}

#[test]
fn a_file_does_not_replace_a_directory_and_the_rest_arrives() {
    for way in Way::ALL {
        let road = Road::new(way);
        sources(&road);
        data::file(&road.path("dir/large"), 5 * MIB, 2);
        for name in ["in-the-way/inner", "in-the-way/large"] {
            fs::create_dir_all(road.path(name)).unwrap();
        }
        fs::write(road.path("in-the-way/sub"), "a file").unwrap();
        let ended = road.copy(&[], &["dir/"], "in-the-way").expect_code(1);
        let failures = ended.failures();
        assert_eq!(failures.len(), 4, "inner, large, sub and what is in it: {ended}");
        assert!(
            failures.iter().all(|(path, reason)| reason.contains("directory") && !path.starts_with('/')),
            "{ended}"
        );
        assert_eq!(ended.number("errors"), 4, "{ended}");
        assert!(road.path("in-the-way/inner").is_dir() && road.path("in-the-way/large").is_dir());
        assert_eq!(fs::read(road.path("in-the-way/sub")).unwrap(), b"a file");
        assert_no_leftovers(road.site.root());
    }
}

#[test]
fn copying_into_or_onto_itself_is_refused() {
    let road = Road::new(Way::Local);
    sources(&road);
    for (source, destination) in [
        ("dir", "dir"),
        ("dir", "dir/sub"),
        ("dir", "dir/new"),
        ("dir", "dir/sub/new/"),
        ("dir/", "dir"),
        ("dir/", "dir/sub"),
        ("dir", "to-dir/sub"),
        ("to-dir/", "dir/sub"),
        ("file", "file"),
        ("file", "to-file"),
        ("file", "."),
        ("dir/inner", "dir"),
        ("dir/inner", "to-dir"),
        ("dir", "."),
        ("dir", "dir/.."),
    ] {
        let before = fs::metadata(road.path("file")).unwrap();
        let ended = road.copy(&[], &[source], destination);
        assert_eq!(ended.code, Some(2), "{source} {destination}: {ended}");
        assert!(ended.stderr.contains("into itself"), "{source} {destination}: {ended}");
        let after = fs::metadata(road.path("file")).unwrap();
        assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()), "{source} {destination}");
    }
    assert!(road.path("to-file").is_symlink() && !road.path("dir/new").exists());
    assert_eq!(fs::read_dir(road.path("dir")).unwrap().count(), 2);
    assert_no_leftovers(road.site.root());
    // A name that only begins alike is another directory.
    road.copy(&[], &["dir"], "dir2").expect_code(0);
    assert_same(&road.path("dir"), &road.path("dir2"));
}

#[test]
fn one_missing_source_is_named_and_the_others_arrive() {
    for way in Way::ALL {
        let road = Road::new(way);
        sources(&road);
        let ended = road.copy(&[], &["file", "not-there", "dir"], "copy").expect_code(1);
        assert!(ended.stderr.contains("not-there"), "{ended}");
        assert_eq!(ended.number("errors"), 1, "{ended}");
        assert_same(&road.path("file"), &road.path("copy/file"));
        assert_same(&road.path("dir"), &road.path("copy/dir"));
        assert_eq!(fs::read_dir(road.path("copy")).unwrap().count(), 2);
        // Of two sources of which one is missing, the other still goes into a directory.
        road.copy(&[], &["not-there", "file"], "pair").expect_code(1);
        assert_same(&road.path("file"), &road.path("pair/file"));
    }
}

#[test]
fn sources_that_are_all_missing_are_an_error_and_make_nothing() {
    for way in Way::ALL {
        let road = Road::new(way);
        let ended = road.copy(&[], &["nothing", "nowhere"], "copy/");
        assert!(matches!(ended.code, Some(1 | 2)), "{ended}");
        assert!(ended.stderr.contains("nothing"), "{ended}");
        let ended = road.copy(&[], &["nothing"], "copy");
        assert!(matches!(ended.code, Some(1 | 2)), "{ended}");
        assert!(ended.stderr.contains("nothing"), "{ended}");
        assert!(!road.path("copy").is_file());
    }
}

#[test]
fn devices_pipes_and_sockets_are_named_and_the_rest_arrives() {
    for way in Way::ALL {
        let road = Road::new(way);
        sources(&road);
        succeed(Command::new("mkfifo").arg(road.path("dir/pipe")));
        let _socket = UnixListener::bind(road.path("dir/socket")).unwrap();
        let mut expected = vec!["pipe", "socket"];
        let device = Command::new("mknod").arg(road.path("dir/device")).args(["c", "1", "3"]).output().unwrap();
        if device.status.success() {
            expected.push("device");
        } else {
            support::skip("a device node needs root");
        }
        let ended = road.copy(&[], &["dir"], "copy").expect_code(1);
        assert_eq!(ended.number("errors"), expected.len() as u64, "{ended}");
        for name in &expected {
            assert!(ended.stderr.contains(&format!("dir/{name}")), "{name}: {ended}");
            assert!(!road.path("copy").join(name).exists(), "{name}");
        }
        assert_eq!(fs::read(road.path("copy/inner")).unwrap(), b"inner");
        assert_eq!(fs::read(road.path("copy/sub/deep")).unwrap(), b"deep");
        let ended = road.copy(&[], &["dir/pipe"], "alone/").expect_code(2);
        assert!(ended.stderr.contains("pipe"), "{ended}");
        assert!(!road.path("alone").exists());
        assert_no_leftovers(road.site.root());
    }
}

/// The contents of two directories into one: as if they had been copied one after the other.
#[test]
fn of_equal_names_in_merged_directories_the_last_one_stays() {
    for way in Way::ALL {
        let road = Road::new(way);
        for (number, parent) in ["a", "b", "c"].into_iter().enumerate() {
            let seed = number as u64 * 10;
            fs::create_dir_all(road.path(parent).join("sub")).unwrap();
            for (name, size) in [("small", 1000), ("large", 20 * MIB), ("sub/small", 2000), ("sub/packed", 200_000)] {
                data::file(&road.path(parent).join(name), size + seed, seed + size);
            }
            symlink(format!("target-{parent}"), road.path(parent).join("link")).unwrap();
            fs::write(road.path(parent).join(format!("only-{parent}")), parent).unwrap();
        }
        let ended = road.copy(&[], &["a/", "b/", "c/"], "merged").expect_code(0);
        assert_eq!(ended.number("errors"), 0, "{ended}");
        for name in ["small", "large", "sub/small", "sub/packed", "link"] {
            assert_same(&road.path("c").join(name), &road.path("merged").join(name));
        }
        for parent in ["a", "b", "c"] {
            assert_eq!(fs::read(road.path("merged").join(format!("only-{parent}"))).unwrap(), parent.as_bytes());
        }
        assert_no_leftovers(road.site.root());
    }
}

/// Each name holds one of the two, whole, at every moment; a copy that lost says so.
#[test]
fn two_copies_to_one_place_at_once_never_mix() {
    let road = Road::new(Way::Push);
    for (number, side) in ["one", "two"].into_iter().enumerate() {
        let shape = Shape { small: 300, large: vec![24 * MIB, 9 * MIB], oddities: false, ..Shape::default() };
        data::tree(&road.path(side), number as u64, &shape);
    }
    let copies = |name: &str| ["one", "two"].map(|side| fs::read(road.path(side).join(name)).unwrap());
    let large = copies("large0");
    for round in 0..3 {
        let runs = ["one/", "two/"].map(|side| road.start(&["--rate", "500mbit"], &[side], "both"));
        let mut seen = 0;
        while !runs.iter().all(|run| run.has_ended()) {
            if let Ok(found) = fs::read(road.path("both/large0")) {
                seen += 1;
                assert!(large.contains(&found), "round {round}: {} bytes that are neither", found.len());
            }
        }
        let ended = runs.map(support::Run::finish);
        eprintln!("round {round}: seen {seen} times, codes {:?}", ended.each_ref().map(|ended| ended.code));
        for ended in &ended {
            assert!(matches!(ended.code, Some(0 | 1)), "{ended}");
            // One that is overtaken between the check and the renaming finds its file gone.
            let lost = |reason: &String| {
                ["another icdc", "another copy", "another program", "no such file"].iter().any(|by| reason.contains(by))
            };
            assert!(ended.failures().values().all(lost), "{ended}");
        }
        for entry in ["large0", "large1", "d000/f00000", "d005/f00299"] {
            let found = fs::read(road.path("both").join(entry)).unwrap();
            assert!(copies(entry).contains(&found), "round {round}: {entry}");
        }
    }
    road.copy(&[], &["one/"], "both").expect_code(0);
    assert_same(&road.path("one"), &road.path("both"));
    assert_no_leftovers(road.site.root());
}

#[test]
fn a_directory_named_by_dots_means_its_contents() {
    for way in Way::ALL {
        let road = Road::new(way);
        sources(&road);
        for (number, source) in ["dir/.", "dir/./", "dir/sub/..", "dir/sub/../"].into_iter().enumerate() {
            let copy = format!("copy-{number}");
            let ended = road.copy(&[], &[source], &copy).expect_code(0);
            assert_same(&road.path("dir"), &road.path(&copy));
            assert!(ended.all("item").all(|event| !event["path"].as_str().unwrap().starts_with('/')), "{ended}");
        }
        road.copy(&[], &["dir/."], "more/").expect_code(0);
        assert_same(&road.path("dir"), &road.path("more"));
        road.copy(&[], &["dir/.", "file"], "both").expect_code(0);
        assert_same(&road.path("dir/sub"), &road.path("both/sub"));
        assert_same(&road.path("file"), &road.path("both/file"));
        fs::create_dir(road.path("dir/into")).unwrap();
        road.copy(&[], &["file"], "dir/into/.").expect_code(0);
        assert_same(&road.path("file"), &road.path("dir/into/file"));
    }
    let site = Site::new();
    fs::write(site.directory("here").join("file"), "file").unwrap();
    let mut command = site.copy(&[".", "../there"]);
    command.current_dir(site.path("here")).run().expect_code(0);
    assert_same(&site.path("here"), &site.path("there"));
    let mut command = site.copy(&["../there/file", "."]);
    command.current_dir(site.directory("empty")).run().expect_code(0);
    assert_same(&site.path("there/file"), &site.path("empty/file"));
}

#[test]
fn sources_on_two_hosts_are_refused() {
    let site = Site::new();
    for sources in [["one:a", "two:b"], ["one:a", "local"], ["icdc://one/a", "icdc://two/b"], ["icdc://one/a", "one:b"]]
    {
        fs::write(site.path("local"), "").unwrap();
        let ended = site.copy(&["--ssh", "false"]).args(sources).arg("copy").run().expect_code(2);
        assert!(ended.stderr.contains("one host"), "{ended}");
    }
}

#[test]
fn a_colon_is_local_behind_a_slash() {
    let site = Site::new();
    fs::write(site.path("a:b"), "colon").unwrap();
    site.copy(&["./a:b", "./c:d"]).run().expect_code(0);
    assert_eq!(fs::read(site.path("c:d")).unwrap(), b"colon");
    let ended = site.copy(&["--ssh", "false", "a:b", "copy"]).run().expect_code(3);
    assert!(ended.stderr.contains("a "), "{ended}");
}

#[test]
fn a_relative_path_on_a_host_begins_at_home() {
    let site = Site::new();
    fs::write(site.path("home/there"), "from home").unwrap();
    let ssh = site.ssh();
    site.copy(&["--ssh", &ssh, "127.0.0.1:there", "here"]).run().expect_code(0);
    assert_eq!(fs::read(site.path("here")).unwrap(), b"from home");
    site.copy(&["--ssh", &ssh, "here", "127.0.0.1:back"]).run().expect_code(0);
    site.copy(&["--ssh", &ssh, "here", "127.0.0.1:"]).run().expect_code(0);
    site.copy(&["--ssh", &ssh, "here", "127.0.0.1:~/tilde"]).run().expect_code(0);
    for name in ["back", "here", "tilde"] {
        assert_eq!(fs::read(site.path("home").join(name)).unwrap(), b"from home", "{name}");
    }
}
