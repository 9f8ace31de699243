//! Where things arrive: the table of docs/copying.md, for every way that a copy can take, and what is
//! refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::process::Start;
use crate::support::{Ended, MIB, Route, RoutedSite, Shape, Site, assert_no_leftovers, assert_same, data, succeed};

/// Makes `file`, `dir/{inner,sub/deep}` and links to both.
fn sources(routed: &RoutedSite) {
    data::file(&routed.path("file"), 300_000, 1);
    fs::create_dir_all(routed.path("dir/sub")).unwrap();
    fs::write(routed.path("dir/inner"), "inner").unwrap();
    fs::write(routed.path("dir/sub/deep"), "deep").unwrap();
    symlink("dir", routed.path("to-dir")).unwrap();
    symlink("file", routed.path("to-file")).unwrap();
}

/// The whole table for one way.
fn table(route: Route) {
    let routed = RoutedSite::new(route);
    sources(&routed);
    let [file, dir, inner] = ["file", "dir", "dir/inner"].map(|name| routed.path(name));
    let copy = |sources: &[&str], destination: &str| routed.copy(&[], sources, destination).expect_code(0);
    let lands = |source: &Path, destination: &str| assert_same(source, &routed.path(destination));

    fs::create_dir(routed.path("a")).unwrap();
    copy(&["file"], "a");
    lands(&file, "a/file");
    copy(&["file"], "b");
    lands(&file, "b");
    copy(&["file"], "c/");
    lands(&file, "c/file");

    // The old file is not written to: who has it open, or another name of it, keeps it.
    fs::write(routed.path("d"), "old").unwrap();
    fs::hard_link(routed.path("d"), routed.path("d-kept")).unwrap();
    copy(&["file"], "d");
    lands(&file, "d");
    assert_eq!(fs::read(routed.path("d-kept")).unwrap(), b"old");

    fs::create_dir(routed.path("e")).unwrap();
    copy(&["dir"], "e");
    lands(&dir, "e/dir");
    copy(&["dir"], "f");
    lands(&dir, "f");
    copy(&["dir"], "g/");
    lands(&dir, "g/dir");

    fs::create_dir_all(routed.path("h/sub")).unwrap();
    fs::write(routed.path("h/inner"), "another").unwrap();
    fs::write(routed.path("h/stays"), "stays").unwrap();
    fs::write(routed.path("h/sub/stays"), "stays").unwrap();
    copy(&["dir/"], "h");
    lands(&inner, "h/inner");
    lands(&routed.path("dir/sub/deep"), "h/sub/deep");
    assert_eq!(fs::read(routed.path("h/stays")).unwrap(), b"stays");
    assert_eq!(fs::read(routed.path("h/sub/stays")).unwrap(), b"stays");
    copy(&["dir/"], "i");
    lands(&dir, "i");

    copy(&["file", "dir", "to-dir"], "j");
    lands(&file, "j/file");
    lands(&dir, "j/dir");
    lands(&routed.path("to-dir"), "j/to-dir");
    copy(&["file", "dir/"], "k");
    lands(&file, "k/file");
    lands(&inner, "k/inner");

    // Links are copied as links, whether or not they lead anywhere; with a slash they stand for the
    // directory.
    copy(&["to-dir", "to-file"], "l/");
    lands(&routed.path("to-dir"), "l/to-dir");
    lands(&routed.path("to-file"), "l/to-file");
    copy(&["to-dir/"], "m");
    lands(&dir, "m");

    // A destination that is a link to a directory stands for it; a link to a file is replaced, not
    // followed.
    symlink("a", routed.path("n")).unwrap();
    copy(&["dir/inner"], "n");
    lands(&inner, "a/inner");
    symlink("d-kept", routed.path("o")).unwrap();
    copy(&["file"], "o");
    lands(&file, "o");
    assert_eq!(fs::read(routed.path("d-kept")).unwrap(), b"old");
    assert_no_leftovers(routed.site.root());
}

#[test]
fn things_arrive_where_the_table_says_locally() {
    table(Route::Local);
}

#[test]
fn things_arrive_where_the_table_says_when_pushed_by_ssh() {
    table(Route::Push);
}

#[test]
fn things_arrive_where_the_table_says_when_pulled_by_ssh() {
    table(Route::Pull);
}

#[test]
fn things_arrive_where_the_table_says_to_a_daemon() {
    table(Route::ToDaemon);
}

#[test]
fn things_arrive_where_the_table_says_from_a_daemon() {
    table(Route::FromDaemon);
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
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let imagined = routed.copy(&["--mkpath", "--dry-run"], &["file"], "a/b/c").expect_code(0);
        assert_eq!(imagined.all("would_send").count(), 1, "{imagined}");
        assert!(!routed.path("a").exists(), "a dry run makes nothing");
        routed.copy(&["--mkpath"], &["file"], "a/b/c").expect_code(0);
        routed.copy(&["--mkpath"], &["dir/"], "d//e/./f/").expect_code(0);
        routed.copy(&["--mkpath"], &["file", "dir"], "d/e/f").expect_code(0);
        assert_same(&routed.path("file"), &routed.path("a/b/c"));
        assert_same(&routed.path("dir"), &routed.path("d/e/f/dir"));
        assert_eq!(
            fs::read_dir(routed.path("d/e/f")).unwrap().count(),
            fs::read_dir(routed.path("dir")).unwrap().count() + 2
        );
        // Not through what is no directory, and not as an unfinished file.
        refused(routed.copy(&["--mkpath"], &["file"], "file/x/y"), 2, &["file"]);
        refused(routed.copy(&["--mkpath"], &["file"], "new/.icdc-0123456789abcdef.part/x"), 2, &["unfinished"]);
        assert!(!routed.path("new").exists());
    }
}

#[test]
fn what_cannot_be_placed_is_refused_and_changes_nothing() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        sources(&routed);
        fs::write(routed.path("old"), "old").unwrap();
        let copy = |sources: &[&str], destination: &str| routed.copy(&[], sources, destination);
        refused(copy(&["dir"], "old"), 2, &["old", "dir"]);
        refused(copy(&["dir/"], "old"), 2, &["old", "not a directory"]);
        refused(copy(&["file"], "old/"), 2, &["old", "not a directory"]);
        refused(copy(&["file", "dir"], "old"), 2, &["old", "not a directory"]);
        refused(copy(&["file"], "missing/parent/x"), 2, &["missing", "--mkpath"]);
        refused(copy(&["file"], "old/x"), 2, &["old"]);
        fs::create_dir(routed.path("other")).unwrap();
        fs::write(routed.path("other/file"), "other").unwrap();
        refused(copy(&["file", "other/file"], "new"), 2, &["two sources are named file"]);
        assert!(!routed.path("new").exists(), "a directory was made for nothing");
        assert_eq!(fs::read(routed.path("old")).unwrap(), b"old");
        assert_no_leftovers(routed.site.root());
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
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        sources(&routed);
        data::file(&routed.path("dir/large"), 5 * MIB, 2);
        for name in ["in-the-route/inner", "in-the-route/large"] {
            fs::create_dir_all(routed.path(name)).unwrap();
        }
        fs::write(routed.path("in-the-route/sub"), "a file").unwrap();
        let ended = routed.copy(&[], &["dir/"], "in-the-route").expect_code(1);
        let failures = ended.failures();
        assert_eq!(failures.len(), 4, "inner, large, sub and what is in it: {ended}");
        assert!(
            failures.iter().all(|(path, reason)| reason.contains("directory") && !path.starts_with('/')),
            "{ended}"
        );
        assert_eq!(ended.number("errors"), 4, "{ended}");
        assert!(routed.path("in-the-route/inner").is_dir() && routed.path("in-the-route/large").is_dir());
        assert_eq!(fs::read(routed.path("in-the-route/sub")).unwrap(), b"a file");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn copying_into_or_onto_itself_is_refused() {
    let routed = RoutedSite::new(Route::Local);
    sources(&routed);
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
        let before = fs::metadata(routed.path("file")).unwrap();
        let ended = routed.copy(&[], &[source], destination);
        assert_eq!(ended.code, Some(2), "{source} {destination}: {ended}");
        assert!(ended.stderr.contains("into itself"), "{source} {destination}: {ended}");
        let after = fs::metadata(routed.path("file")).unwrap();
        assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()), "{source} {destination}");
    }
    assert!(routed.path("to-file").is_symlink() && !routed.path("dir/new").exists());
    assert_eq!(fs::read_dir(routed.path("dir")).unwrap().count(), 2);
    assert_no_leftovers(routed.site.root());
    // A name that only begins alike is another directory.
    routed.copy(&[], &["dir"], "dir2").expect_code(0);
    assert_same(&routed.path("dir"), &routed.path("dir2"));
}

#[test]
fn one_missing_source_is_named_and_the_others_arrive() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        sources(&routed);
        let ended = routed.copy(&[], &["file", "not-there", "dir"], "copy").expect_code(1);
        assert!(ended.stderr.contains("not-there"), "{ended}");
        assert_eq!(ended.number("errors"), 1, "{ended}");
        assert_same(&routed.path("file"), &routed.path("copy/file"));
        assert_same(&routed.path("dir"), &routed.path("copy/dir"));
        assert_eq!(fs::read_dir(routed.path("copy")).unwrap().count(), 2);
        // Of two sources of which one is missing, the other still goes into a directory.
        routed.copy(&[], &["not-there", "file"], "pair").expect_code(1);
        assert_same(&routed.path("file"), &routed.path("pair/file"));
    }
}

#[test]
fn sources_that_are_all_missing_are_an_error_and_make_nothing() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let ended = routed.copy(&[], &["nothing", "nowhere"], "copy/");
        assert!(matches!(ended.code, Some(1 | 2)), "{ended}");
        assert!(ended.stderr.contains("nothing"), "{ended}");
        let ended = routed.copy(&[], &["nothing"], "copy");
        assert!(matches!(ended.code, Some(1 | 2)), "{ended}");
        assert!(ended.stderr.contains("nothing"), "{ended}");
        assert!(!routed.path("copy").is_file());
    }
}

#[test]
fn devices_pipes_and_sockets_are_named_and_the_rest_arrives() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        sources(&routed);
        succeed(Command::new("mkfifo").arg(routed.path("dir/pipe")));
        let _socket = UnixListener::bind(routed.path("dir/socket")).unwrap();
        let mut expected = vec!["pipe", "socket"];
        let device = Command::new("mknod").arg(routed.path("dir/device")).args(["c", "1", "3"]).output().unwrap();
        if device.status.success() {
            expected.push("device");
        } else {
            support::skip("a device node needs root");
        }
        let ended = routed.copy(&[], &["dir"], "copy").expect_code(1);
        assert_eq!(ended.number("errors"), expected.len() as u64, "{ended}");
        for name in &expected {
            assert!(ended.stderr.contains(&format!("dir/{name}")), "{name}: {ended}");
            assert!(!routed.path("copy").join(name).exists(), "{name}");
        }
        assert_eq!(fs::read(routed.path("copy/inner")).unwrap(), b"inner");
        assert_eq!(fs::read(routed.path("copy/sub/deep")).unwrap(), b"deep");
        let ended = routed.copy(&[], &["dir/pipe"], "alone/").expect_code(2);
        assert!(ended.stderr.contains("pipe"), "{ended}");
        assert!(!routed.path("alone").exists());
        assert_no_leftovers(routed.site.root());
    }
}

/// The contents of two directories into one: as if they had been copied one after the other.
#[test]
fn of_equal_names_in_merged_directories_the_last_one_stays() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        for (number, parent) in ["a", "b", "c"].into_iter().enumerate() {
            let seed = number as u64 * 10;
            fs::create_dir_all(routed.path(parent).join("sub")).unwrap();
            for (name, size) in [("small", 1000), ("large", 20 * MIB), ("sub/small", 2000), ("sub/packed", 200_000)] {
                data::file(&routed.path(parent).join(name), size + seed, seed + size);
            }
            symlink(format!("target-{parent}"), routed.path(parent).join("link")).unwrap();
            fs::write(routed.path(parent).join(format!("only-{parent}")), parent).unwrap();
        }
        let ended = routed.copy(&[], &["a/", "b/", "c/"], "merged").expect_code(0);
        assert_eq!(ended.number("errors"), 0, "{ended}");
        for name in ["small", "large", "sub/small", "sub/packed", "link"] {
            assert_same(&routed.path("c").join(name), &routed.path("merged").join(name));
        }
        for parent in ["a", "b", "c"] {
            assert_eq!(fs::read(routed.path("merged").join(format!("only-{parent}"))).unwrap(), parent.as_bytes());
        }
        assert_no_leftovers(routed.site.root());
    }
}

/// Each name holds one of the two, whole, at every moment; a copy that lost says so.
#[test]
fn two_copies_to_one_place_at_once_never_mix() {
    let routed = RoutedSite::new(Route::Push);
    for (number, side) in ["one", "two"].into_iter().enumerate() {
        let shape = Shape { small: 300, large: vec![24 * MIB, 9 * MIB], oddities: false, ..Shape::default() };
        data::tree(&routed.path(side), number as u64, &shape);
    }
    let copies = |name: &str| ["one", "two"].map(|side| fs::read(routed.path(side).join(name)).unwrap());
    let large = copies("large0");
    for round in 0..3 {
        let runs = ["one/", "two/"].map(|side| routed.start(&["--rate", "500mbit"], &[side], "both"));
        let mut seen = 0;
        while !runs.iter().all(|run| run.has_ended()) {
            if let Ok(found) = fs::read(routed.path("both/large0")) {
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
            let found = fs::read(routed.path("both").join(entry)).unwrap();
            assert!(copies(entry).contains(&found), "round {round}: {entry}");
        }
    }
    routed.copy(&[], &["one/"], "both").expect_code(0);
    assert_same(&routed.path("one"), &routed.path("both"));
    assert_no_leftovers(routed.site.root());
}

#[test]
fn a_directory_named_by_dots_means_its_contents() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        sources(&routed);
        for (number, source) in ["dir/.", "dir/./", "dir/sub/..", "dir/sub/../"].into_iter().enumerate() {
            let copy = format!("copy-{number}");
            let ended = routed.copy(&[], &[source], &copy).expect_code(0);
            assert_same(&routed.path("dir"), &routed.path(&copy));
            assert!(ended.all("item").all(|event| !event["path"].as_str().unwrap().starts_with('/')), "{ended}");
        }
        routed.copy(&[], &["dir/."], "more/").expect_code(0);
        assert_same(&routed.path("dir"), &routed.path("more"));
        routed.copy(&[], &["dir/.", "file"], "both").expect_code(0);
        assert_same(&routed.path("dir/sub"), &routed.path("both/sub"));
        assert_same(&routed.path("file"), &routed.path("both/file"));
        fs::create_dir(routed.path("dir/into")).unwrap();
        routed.copy(&[], &["file"], "dir/into/.").expect_code(0);
        assert_same(&routed.path("file"), &routed.path("dir/into/file"));
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
