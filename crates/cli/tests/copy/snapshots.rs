//! `--snapshot` and `--keep`: complete copies by time, linked to the one before, which never changes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::delete::{files, listing, pipe};
use crate::rights::mark;
use crate::support::compare::{inode, leftovers, state};
use crate::support::daemon::Daemon;
use crate::support::mounts::Mount;
use crate::support::process::eventually;
use crate::support::{Ended, MIB, Route, RoutedSite, Shape, Site, Start, assert_no_leftovers, assert_same, data, skip};

/// Snapshots in a directory, the oldest first: names of the form `YYYY-MM-DDTHH:MM:SSZ`.
fn snapshots(place: &Path) -> Vec<String> {
    let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.len() == 20 && name.ends_with('Z')).collect();
    names.sort();
    names
}

fn latest(place: &Path) -> String {
    fs::read_link(place.join("latest")).unwrap().into_os_string().into_string().unwrap()
}

/// The unfinished snapshots in a directory.
fn unfinished(place: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "snapshot")).collect()
}

/// Makes a snapshot of the source in `backup`.
fn snapshot(routed: &RoutedSite, options: &[&str], sources: &[&str]) -> Ended {
    routed.copy(&[&["--skip-equal", "--snapshot"], options].concat(), sources, "backup")
}

#[test]
fn each_snapshot_is_the_source_as_it_was_and_an_older_one_never_changes() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, backup) = (routed.path("tree"), routed.path("backup"));
        data::tree(&tree, 3, &Shape { small: 20, large: vec![5 * MIB], ..Shape::default() });
        fs::hard_link(tree.join("d000/f00001"), tree.join("second name")).unwrap();
        symlink("d000/f00001", tree.join("symlink")).unwrap();
        let first = snapshot(&routed, &[], &["tree/"]).expect_code(0);
        let names = snapshots(&backup);
        assert_eq!(names.len(), 1, "{route:?}: {first}");
        assert_eq!(latest(&backup), names[0]);
        assert_same(&tree, &backup.join(&names[0]));
        let told: Vec<_> = first.all("snapshot").map(|event| event["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(told, names, "{route:?}: {first}");
        assert_no_leftovers(&backup);
        let before = state(&backup.join(&names[0]));

        data::age(&tree.join("d000/f00003"), 77, 7);
        fs::write(tree.join("d000/f00004"), "of another size").unwrap();
        fs::remove_file(tree.join("d000/f00005")).unwrap();
        fs::set_permissions(tree.join("d000/f00006"), Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(tree.join("d000"), Permissions::from_mode(0o750)).unwrap();
        fs::write(tree.join("new"), "new").unwrap();
        let second = snapshot(&routed, &[], &["tree/"]).expect_code(0);
        let both = snapshots(&backup);
        assert_eq!((both.len(), &both[0]), (2, &names[0]), "{route:?}: {second}");
        assert_eq!(latest(&backup), both[1], "{route:?}: {second}");
        let (old, new) = (backup.join(&both[0]), backup.join(&both[1]));
        assert_same(&tree, &new);
        assert!(state(&old) == before, "{route:?}: {second}");
        for name in ["d000/f00001", "second name", "large0"] {
            assert_eq!(inode(new.join(name)), inode(old.join(name)), "{route:?} {name}: {second}");
        }
        for name in ["d000/f00003", "d000/f00004", "d000/f00006"] {
            assert_ne!(inode(new.join(name)), inode(old.join(name)), "{route:?} {name}: {second}");
        }
        assert_eq!(second.number("files"), 3, "{route:?}: {second}");
        assert!(second.number("bytes_sent") < MIB, "{route:?}: {second}");
        assert_no_leftovers(&backup);
    }
}

#[test]
fn what_was_renamed_since_the_snapshot_before_is_linked_from_there_and_not_sent() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, backup) = (routed.path("tree"), routed.path("backup"));
        files(&tree, &["moved/a", "moved/deep/b", "name", "mode", "stays"]);
        data::file(&tree.join("large"), 6 * MIB + 1, 9);
        data::file(&tree.join("alike"), 5 * MIB, 1);
        data::age(&tree.join("alike"), 77, 7);
        snapshot(&routed, &[], &["tree"]).expect_code(0);
        let first = backup.join(latest(&backup));
        let before = state(&first);

        let renamed = [("moved", "a new place"), ("name", "0"), ("large", "z"), ("mode", "y")];
        renamed.iter().for_each(|(from, to)| fs::rename(tree.join(from), tree.join(to)).unwrap());
        fs::set_permissions(tree.join("y"), Permissions::from_mode(0o600)).unwrap();
        // Its name is free, its size and time are those of another file, and its contents are not.
        fs::remove_file(tree.join("alike")).unwrap();
        data::file(&tree.join("twin"), 5 * MIB, 2);
        data::age(&tree.join("twin"), 77, 7);
        let second = snapshot(&routed, &[], &["tree"]).expect_code(0);
        let new = backup.join(latest(&backup));
        assert_same(&tree, &new.join("tree"));
        assert_eq!(second.number("renamed"), 5, "{route:?}: {second}");
        assert_eq!(second.number("bytes_sent"), 5 * MIB, "{route:?}: {second}");
        let linked =
            [("moved/a", "a new place/a"), ("moved/deep/b", "a new place/deep/b"), ("name", "0"), ("large", "z")];
        for (old, name) in linked {
            assert_eq!(inode(new.join("tree").join(name)), inode(first.join("tree").join(old)), "{route:?} {name}");
        }
        assert_ne!(inode(new.join("tree/y")), inode(first.join("tree/mode")), "{route:?}: its mode is another");
        assert!(state(&first) == before, "{route:?}: {second}");

        // A file of several snapshots is renamed once more, and with --verify nothing is taken.
        fs::rename(tree.join("z"), tree.join("large")).unwrap();
        let third = snapshot(&routed, &[], &["tree"]).expect_code(0);
        assert_eq!((third.number("renamed"), third.number("bytes_sent")), (1, 0), "{route:?}: {third}");
        assert_eq!(inode(backup.join("latest/tree/large")), inode(first.join("tree/large")), "{route:?}: {third}");
        fs::rename(tree.join("large"), tree.join("z")).unwrap();
        let fourth = snapshot(&routed, &["--verify"], &["tree"]).expect_code(0);
        assert_eq!(fourth.number("renamed"), 0, "{route:?}: {fourth}");
        assert_same(&tree, &backup.join("latest/tree"));
        assert!(state(&first) == before, "{route:?}: {fourth}");
        assert_no_leftovers(&backup);
    }
}

#[test]
fn between_two_other_hosts_a_snapshot_is_made_at_the_destinations() {
    let site = Site::new();
    data::tree(&site.path("tree"), 4, &Shape { small: 5, ..Shape::default() });
    let copy = || {
        let mut command = site.copy(&["--ssh", &site.ssh(), "--snapshot", "--keep", "1d"]);
        command.arg(site.by_ssh("tree")).arg(site.by_ssh("backup")).start().finish().expect_code(0)
    };
    copy();
    fs::create_dir(site.path("backup/2001-02-03T04:05:06Z")).unwrap();
    let ended = copy();
    assert!(ended.number("linked") > 5 && ended.number("files") == 0, "{ended}");
    assert_eq!(ended.all("snapshot").count(), 1, "{ended}");
    let removed: Vec<_> = ended.all("snapshot_removed").map(|event| event["name"].as_str().unwrap()).collect();
    assert!(removed.contains(&"2001-02-03T04:05:06Z"), "{ended}");
    assert_same(&site.path("tree"), &site.path("backup/latest/tree"));
}

#[test]
fn directories_files_and_several_sources_go_into_a_snapshot_under_their_names() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "d/b"]);
        fs::write(routed.path("single"), "single").unwrap();
        for (sources, expected) in [
            (["single"].as_slice(), ["single"].as_slice()),
            (&["tree"], &["tree", "tree/a", "tree/d", "tree/d/b"]),
            (&["tree/", "single"], &["a", "d", "d/b", "single"]),
        ] {
            for _ in 0..2 {
                let ended = snapshot(&routed, &[], sources).expect_code(0);
                assert_eq!(listing(&routed.path("backup/latest/")), expected, "{route:?} {sources:?}: {ended}");
            }
        }
        assert_eq!(snapshots(&routed.path("backup")).len(), 6, "{route:?}");
        assert_no_leftovers(&routed.path("backup"));
    }
}

/// The journal of an unfinished file in the unfinished snapshot in `place`; `None` if there is none.
fn block_journal(place: &Path) -> Option<PathBuf> {
    let inside = place.exists().then(|| unfinished(place)).into_iter().flatten().flat_map(|path| leftovers(&path));
    inside.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "blocks"))
}

#[test]
fn a_snapshot_with_something_unfinished_that_cannot_be_removed_has_no_name_until_it_can() {
    let site = Site::new();
    data::tree(&site.path("tree"), 5, &Shape { small: 5, large: vec![24 * MIB], ..Shape::default() });
    let Some(mount) = Mount::ext4(site.path("backups"), 96 * MIB, &[]) else { return };
    let backup = mount.path().join("daily");
    let snapshot = |rate| {
        let mut copy = site.copy(&["--ssh", &site.ssh(), "--skip-equal", "--snapshot", "--rate", rate]);
        copy.arg(format!("{}/", site.path("tree").display())).arg(site.by_ssh("backups/daily")).start()
    };
    let running = snapshot("100mbit");
    assert!(eventually(|| block_journal(&backup).is_some()), "{:?}", running.events());
    // It can be written to as it is open, and not be removed.
    if !mark("+a", &block_journal(&backup).unwrap()) {
        return;
    }
    let ended = running.finish().expect_code(1);
    let left = block_journal(&backup).unwrap();
    assert!(ended.stderr.contains(left.file_name().unwrap().to_str().unwrap()), "{ended}");
    assert!(ended.stderr.contains("no snapshot was made, and the same command goes on"), "{ended}");
    assert!(snapshots(&backup).is_empty() && !backup.join("latest").exists(), "{ended}");
    let ended = snapshot("auto").finish().expect_code(1);
    assert!(snapshots(&backup).is_empty(), "it is still there: {ended}");
    assert!(mark("-a", &left));
    let ended = snapshot("auto").finish().expect_code(0);
    assert_eq!(snapshots(&backup).len(), 1, "{ended}");
    assert_same(&site.path("tree"), &backup.join(latest(&backup)));
    assert_no_leftovers(&backup);
}

#[test]
fn a_snapshot_with_a_failure_has_no_name_and_the_next_run_goes_on_with_it() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, backup) = (routed.path("tree"), routed.path("backup"));
        data::tree(&tree, 3, &Shape { small: 20, large: vec![5 * MIB], ..Shape::default() });
        files(&tree, &["gone/deep/file", "d000/gone", "becomes/a directory"]);
        fs::write(tree.join("becomes a file"), "of which").unwrap();
        pipe(&tree.join("pipe"));
        let failed = snapshot(&routed, &["--keep", "1d"], &["tree/"]).expect_code(1);
        assert!(failed.stderr.contains("no snapshot was made, and the same command goes on"), "{route:?}: {failed}");
        assert!(failed.stderr.contains("pipe: it was not copied"), "{route:?}: {failed}");
        assert!(snapshots(&backup).is_empty() && !backup.join("latest").exists(), "{route:?}: {failed}");
        let left = unfinished(&backup);
        assert_eq!(left.len(), 1, "{route:?}: {failed}");
        let large = inode(left[0].join("large0"));

        // What the source no longer has, and what a killed run has left.
        fs::remove_file(tree.join("pipe")).unwrap();
        fs::remove_dir_all(tree.join("gone")).unwrap();
        fs::remove_file(tree.join("d000/gone")).unwrap();
        fs::remove_dir_all(tree.join("becomes")).unwrap();
        fs::write(tree.join("becomes"), "a file").unwrap();
        fs::remove_file(tree.join("becomes a file")).unwrap();
        files(&tree, &["becomes a file/no"]);
        for place in ["d000", "gone/deep"] {
            fs::write(left[0].join(place).join(".icdc-0123456789abcdef.part"), "left").unwrap();
        }
        let ended = snapshot(&routed, &[], &["tree/"]).expect_code(0);
        let names = snapshots(&backup);
        assert_eq!((names.len(), latest(&backup)), (1, names[0].clone()), "{route:?}: {ended}");
        assert_same(&tree, &backup.join(&names[0]));
        assert_eq!(inode(backup.join(&names[0]).join("large0")), large, "{route:?}: it was begun anew: {ended}");
        assert_no_leftovers(&backup);
    }
}

#[test]
fn what_else_has_the_name_of_the_link_is_refused_before_anything_is_copied() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a"]);
        let backup = routed.path("backup");
        let link = backup.join("latest");
        fs::create_dir(&backup).unwrap();
        for make in [
            |link: &Path| fs::write(link, "mine").unwrap(),
            |link: &Path| symlink("elsewhere", link).unwrap(),
            |link: &Path| symlink("2001-02-03T04:05:06Z/in", link).unwrap(),
            |link: &Path| fs::create_dir(link).unwrap(),
        ] {
            make(&link);
            let ended = snapshot(&routed, &[], &["tree/"]).expect_code(2);
            assert!(ended.stderr.contains("not the symbolic link to the newest snapshot"), "{route:?}: {ended}");
            assert_eq!(listing(&backup), ["latest"], "{route:?}: {ended}");
            let _ = fs::remove_file(&link).or_else(|_| fs::remove_dir(&link));
        }
        // One that leads to a snapshot that is gone is ours.
        symlink("2001-02-03T04:05:06Z", &link).unwrap();
        snapshot(&routed, &[], &["tree/"]).expect_code(0);
        assert_eq!(latest(&backup), snapshots(&backup)[0], "{route:?}");
    }
}

#[test]
fn a_snapshot_of_a_time_to_come_is_named_and_none_is_made() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a"]);
        files(&routed.path("backup"), &["9876-05-04T03:02:01Z/a", "2026-02-30T00:00:00Z/a", "9999/a"]);
        let before = listing(&routed.path("backup"));
        let ended = snapshot(&routed, &[], &["tree/"]).expect_code(2);
        assert!(ended.stderr.contains("9876-05-04T03:02:01Z: is a snapshot of a time that is yet to come"), "{ended}");
        assert_eq!(listing(&routed.path("backup")), before, "{route:?}");
    }
}

#[test]
fn what_is_not_kept_is_removed_after_the_snapshot_and_named() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, backup) = (routed.path("tree"), routed.path("backup"));
        files(&tree, &["a", "d/b"]);
        snapshot(&routed, &[], &["tree/"]).expect_code(0);
        let own = snapshots(&backup)[0].clone();
        let old = ["2001-01-31T10:00:00Z", "2001-02-01T10:00:00Z", "2001-02-01T11:00:00Z", "2002-01-01T00:00:00Z"];
        for name in old {
            files(&backup.join(name), &["a", "shut/b"]);
            symlink("../../tree", backup.join(name).join("link")).unwrap();
            fs::set_permissions(backup.join(name).join("shut"), Permissions::from_mode(0o500)).unwrap();
        }
        // Not snapshots, whatever they look like.
        files(&backup, &["2001-02-01/a", "2001-02-01T10:00:00Z.old/a", "2001-02-30T10:00:00Z/a"]);
        fs::write(backup.join("2001-02-01T12:00:00Z"), "a file").unwrap();
        let keep = ["--keep", "2m,3y"];

        let dry = snapshot(&routed, &[&keep[..], &["--dry-run"]].concat(), &["tree/"]).expect_code(0);
        let told = |ended: &Ended| -> Vec<String> {
            ended.all("snapshot_removed").map(|event| event["name"].as_str().unwrap().to_owned()).collect()
        };
        // This month and January of 2002; besides, the newest of 2001.
        let mut expected: Vec<String> = old[..2].iter().map(|name| (*name).to_owned()).collect();
        expected.push(own);
        assert_eq!(told(&dry), expected, "{route:?}: {dry}");
        assert_eq!(snapshots(&backup).len(), 7, "{route:?}: {dry}");

        let ended = snapshot(&routed, &keep, &["tree/"]).expect_code(0);
        assert_eq!(told(&ended), expected, "{route:?}: {ended}");
        let made = latest(&backup);
        let left = [old[2], "2001-02-01T12:00:00Z", "2001-02-30T10:00:00Z", old[3], made.as_str()];
        assert_eq!(snapshots(&backup), left, "{route:?}: {ended}");
        assert_eq!(listing(&backup.join(old[2])), ["a", "link", "shut", "shut/b"], "{route:?}: {ended}");
        assert!(backup.join("2001-02-01/a").exists() && backup.join("2001-02-01T10:00:00Z.old/a").exists());
        assert_same(&tree, &backup.join(made));
        assert_no_leftovers(&backup);
    }
}

#[test]
fn a_snapshot_that_cannot_be_counted_stays_whole() {
    let routed = RoutedSite::new(Route::Push);
    let backup = routed.path("backup");
    files(&routed.path("tree"), &["a"]);
    files(&backup, &["2001-01-01T00:00:00Z/a", "2001-01-01T00:00:00Z/d/b", "2002-01-01T00:00:00Z/a"]);
    files(&backup, &["2003-01-01T00:00:00Z/a", "2003-01-01T00:00:00Z/.icdc-0123456789abcdef.part"]);
    let Some(_mount) = Mount::tmpfs(backup.join("2001-01-01T00:00:00Z/d"), MIB) else {
        return skip("mounts need root");
    };
    let ended = snapshot(&routed, &["--keep", "1d"], &["tree/"]).expect_code(1);
    let kept = ["2001-01-01T00:00:00Z", "2003-01-01T00:00:00Z", &latest(&backup)];
    assert_eq!(snapshots(&backup), kept, "{ended}");
    assert!(backup.join("2001-01-01T00:00:00Z/a").exists(), "{ended}");
    assert!(ended.stderr.contains("2001-01-01T00:00:00Z: is not removed"), "{ended}");
    assert!(ended.stderr.contains("2003-01-01T00:00:00Z: is not removed"), "{ended}");
}

#[test]
fn what_is_left_of_a_removal_is_removed_by_the_next() {
    let routed = RoutedSite::new(Route::Local);
    let backup = routed.path("backup");
    files(&routed.path("tree"), &["a"]);
    files(&backup, &["2001-01-01T00:00:00Z/a"]);
    snapshot(&routed, &["--keep", "1d"], &["tree/"]).expect_code(0);
    assert_eq!(snapshots(&backup).len(), 1);
    // The name under which it was removed is that of any other removal there.
    let left = unfinished(&backup);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_dry_run_tells_what_differs_from_the_newest_snapshot_and_makes_nothing() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, backup) = (routed.path("tree"), routed.path("backup"));
        files(&tree, &["a", "d/b"]);
        let dry = snapshot(&routed, &["--dry-run"], &["tree/"]).expect_code(0);
        assert!(!backup.exists() && dry.all("would_send").count() == 2, "{route:?}: {dry}");
        snapshot(&routed, &[], &["tree/"]).expect_code(0);
        let before = listing(&backup);
        fs::write(tree.join("d/new"), "new").unwrap();
        fs::remove_file(tree.join("a")).unwrap();
        let dry = snapshot(&routed, &["--dry-run"], &["tree/"]).expect_code(0);
        let told: Vec<_> = dry.all("would_send").map(|event| event["path"].as_str().unwrap()).collect();
        assert!(told.len() == 1 && told[0].ends_with("d/new"), "{route:?}: {dry}");
        assert_eq!(dry.all("deleted").count(), 0, "{route:?}: {dry}");
        assert_eq!(listing(&backup), before, "{route:?}: {dry}");
    }
}

#[test]
fn an_empty_source_makes_no_snapshot_unless_it_is_meant() {
    for route in [Route::Local, Route::Pull, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        let backup = routed.path("backup");
        files(&routed.path("tree"), &["a"]);
        snapshot(&routed, &[], &["tree/"]).expect_code(0);
        fs::remove_file(routed.path("tree/a")).unwrap();
        let ended = snapshot(&routed, &["--keep", "1d"], &["tree/"]).expect_code(1);
        assert!(ended.stderr.contains("--yes-empty"), "{route:?}: {ended}");
        assert_eq!(listing(&backup.join("latest/")), ["a"], "{route:?}: {ended}");
        snapshot(&routed, &["--yes-empty"], &["tree/"]).expect_code(0);
        assert!(listing(&backup.join("latest/")).is_empty(), "{route:?}");
        assert_eq!(snapshots(&backup).len(), 2, "{route:?}");
    }
}

#[test]
fn rules_of_this_run_decide_what_is_in_a_snapshot_that_is_continued() {
    let routed = RoutedSite::new(Route::Push);
    let tree = routed.path("tree");
    files(&tree, &["a", "b.tmp", "d/c.tmp", "large"]);
    pipe(&tree.join("pipe"));
    snapshot(&routed, &[], &["tree/"]).expect_code(1);
    let options = ["--exclude", "*.tmp", "--exclude", "pipe", "--max-size", "4"];
    let ended = snapshot(&routed, &options, &["tree/"]).expect_code(0);
    assert_eq!(listing(&routed.path("backup/latest/")), ["a", "d"], "{ended}");
}

#[test]
fn a_snapshot_that_is_being_made_is_waited_for_or_left_alone() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        let (tree, backup) = (routed.path("tree"), routed.path("backup"));
        fs::create_dir(&tree).unwrap();
        data::file(&tree.join("large"), 24 * MIB, 1);
        let options = |more: &'static [&'static str]| [&["--skip-equal", "--snapshot"], more].concat();
        let first = routed.start(&options(&["--rate", "80mbit"]), &["tree/"], "backup");
        assert!(first.wait_for_bytes(2 * MIB), "{}", first.stderr());
        let skipped = routed.copy(&options(&["--if-running", "skip"]), &["tree/"], "backup").expect_code(0);
        assert_eq!(skipped.all("running").count(), 1, "{route:?}: {skipped}");
        let failed = routed.copy(&options(&["--if-running", "fail"]), &["tree/"], "backup").expect_code(2);
        assert!(failed.stderr.contains("is writing"), "{route:?}: {failed}");
        let second = routed.copy(&options(&[]), &["tree/"], "backup").expect_code(0);
        first.finish().expect_code(0);
        let names = snapshots(&backup);
        assert_eq!(names.len(), 2, "{route:?}: {second}");
        assert_eq!(second.number("linked"), 1, "{route:?}: {second}");
        assert_eq!(latest(&backup), names[1], "{route:?}: {second}");
        names.iter().for_each(|name| assert_same(&tree, &backup.join(name)));
        assert_no_leftovers(&backup);
    }
}

#[test]
fn a_source_among_the_snapshots_is_not_removed() {
    let routed = RoutedSite::new(Route::Local);
    let backup = routed.path("backup");
    files(&backup, &["2001-01-01T00:00:00Z/a", "2002-01-01T00:00:00Z/a"]);
    let ended = snapshot(&routed, &["--keep", "1d"], &["backup/2001-01-01T00:00:00Z/"]).expect_code(1);
    assert_eq!(snapshots(&backup), ["2001-01-01T00:00:00Z", &latest(&backup)], "{ended}");
    assert!(ended.stderr.contains("is a source of this copy"), "{ended}");
}

#[test]
fn a_drop_box_takes_no_snapshots() {
    let site = Site::new();
    files(&site.path("tree"), &["a"]);
    fs::create_dir(site.path("box")).unwrap();
    let grant = format!("root=\"{}\",rights=drop-box", site.path("box").display());
    let daemon = Daemon::named(&site, "daemon", &grant);
    let mut copy = site.copy(&["--snapshot"]);
    let ended = copy.arg(site.path("tree/")).arg(daemon.location("/new")).start().finish().expect_code(3);
    assert!(ended.stderr.contains("leave --snapshot out"), "{ended}");
}

#[test]
fn what_a_snapshot_cannot_be_together_with_is_refused() {
    let site = Site::new();
    files(&site.path("tree"), &["a"]);
    let refused = |options: &[&str], words: &str| {
        let mut copy = site.copy(options);
        let ended = copy.arg(site.path("tree/")).arg(site.path("backup")).start().finish().expect_code(2);
        assert!(ended.stderr.contains(words), "{options:?}: {ended}");
        assert!(!site.path("backup").exists(), "{options:?}: {ended}");
    };
    for other in
        ["--delete", "--move", "--update", "--existing", "--ignore-existing", "--files-from=list", "--files-from0=list"]
    {
        refused(&["--snapshot", other], "cannot be used with");
    }
    refused(&["--keep", "7d"], "--snapshot");
    for keep in ["", "7", "7x", "0d", "7d,7d", "7d;4w", "-1d", "1.5d", "70000d", "d", "7d,", "7ä"] {
        refused(&["--snapshot", &format!("--keep={keep}")], "7d,4w,12m,5y");
    }
}
