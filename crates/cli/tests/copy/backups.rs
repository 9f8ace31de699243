//! `--backup-dir` and `--suffix`: what is replaced or deleted at the destination is kept.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::delete::{files, listing, pipe};
use crate::support::compare::{inode, state};
use crate::support::daemon::Daemon;
use crate::support::mounts::Mount;
use crate::support::{MIB, Route, RoutedSite, Shape, Site, Start, assert_no_leftovers, assert_same, data, skip};

fn contents(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

/// A source, and a destination in which everything is replaced, deleted, or of another kind.
fn outdated(routed: &RoutedSite) {
    let (tree, copy) = (routed.path("tree"), routed.path("copy"));
    files(&tree, &["same", "changed", "d/changed", "a file", "a directory/in", "link", "from link"]);
    data::file(&tree.join("d/large"), 5 * MIB, 1);
    fs::remove_file(tree.join("link")).unwrap();
    symlink("new target", tree.join("link")).unwrap();
    routed.copy(&[], &["tree/"], "copy").expect_code(0);
    for name in ["changed", "d/changed", "d/large"] {
        fs::write(copy.join(name), format!("old {name}")).unwrap();
    }
    files(&copy, &["gone", "d/gone", "deep/er/gone"]);
    fs::create_dir(copy.join("empty")).unwrap();
    symlink("nowhere", copy.join("d/gone link")).unwrap();
    for name in ["link", "from link", "a file"] {
        fs::remove_file(copy.join(name)).unwrap();
    }
    fs::remove_dir_all(copy.join("a directory")).unwrap();
    symlink("old target", copy.join("link")).unwrap();
    symlink("old target", copy.join("from link")).unwrap();
    files(&copy, &["a file/inside", "a directory"]);
    fs::set_permissions(copy.join("deep"), Permissions::from_mode(0o500)).unwrap();
    data::age(&copy.join("deep"), 1_000_000_000, 0);
}

#[test]
fn what_is_replaced_or_deleted_is_kept_under_its_path() {
    for route in Route::ALL {
        for suffix in ["", ".old"] {
            let routed = RoutedSite::new(route);
            outdated(&routed);
            let (tree, copy, kept) = (routed.path("tree"), routed.path("copy"), routed.path("kept"));
            let before = ["changed", "d/large", "gone", "deep/er/gone", "link"].map(|name| inode(copy.join(name)));
            let mut options = vec!["--skip-equal", "--delete", "--backup-dir", "kept"];
            if !suffix.is_empty() {
                options.extend(["--suffix", suffix]);
            }
            let dry = routed.copy(&[&options[..], &["--dry-run"]].concat(), &["tree/"], "copy").expect_code(0);
            assert!(!kept.exists(), "{route:?}: {dry}");
            let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
            assert_same(&tree, &copy);
            let named = |name: &str| kept.join(format!("{name}{suffix}"));
            for name in ["changed", "d/changed", "d/large"] {
                assert_eq!(contents(named(name)), format!("old {name}"), "{route:?}: {ended}");
            }
            for name in ["gone", "d/gone", "deep/er/gone", "a file/inside", "a directory"] {
                assert_eq!(contents(named(name)), name, "{route:?}: {ended}");
            }
            for name in ["link", "from link"] {
                assert_eq!(fs::read_link(named(name)).unwrap(), Path::new("old target"), "{route:?}: {ended}");
            }
            assert_eq!(fs::read_link(named("d/gone link")).unwrap(), Path::new("nowhere"), "{route:?}: {ended}");
            let after = ["changed", "d/large", "gone", "deep/er/gone", "link"].map(|name| inode(named(name)));
            assert_eq!(after, before, "{route:?}: it is moved, with all that it has: {ended}");
            assert!(kept.join("empty").is_dir() && !named("same").exists(), "{route:?}: {ended}");
            let found = listing(&kept);
            assert_eq!(found.iter().filter(|path| !kept.join(path).is_dir()).count(), 11, "{route:?}: {found:?}");
            let deep = fs::metadata(kept.join("deep")).unwrap();
            assert_eq!((deep.mode() & 0o777, deep.mtime()), (0o700, 1_000_000_000), "{route:?}: {ended}");
            assert_no_leftovers(routed.site.root());
            // Nothing more is replaced.
            let before = state(&kept);
            let again = routed.copy(&options, &["tree/"], "copy").expect_code(0);
            assert_eq!((again.number("files"), again.number("deleted")), (0, 0), "{route:?}: {again}");
            assert_eq!(state(&kept), before, "{route:?}");
        }
    }
}

#[test]
fn with_a_suffix_alone_it_is_kept_beside_and_a_mirror_leaves_it_there() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        files(&tree, &["changed", "d/changed", "a directory/in"]);
        files(&copy, &["gone", "d/gone", "old/gone", "a directory"]);
        for name in ["changed", "d/changed"] {
            fs::write(copy.join(name), format!("old {name}")).unwrap();
        }
        let options = ["--skip-equal", "--delete", "--suffix", ".[*]~"];
        for round in 0..2 {
            let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
            let found = listing(&copy);
            let expected = [
                "a directory",
                "a directory.[*]~",
                "a directory/in",
                "changed",
                "changed.[*]~",
                "d",
                "d/changed",
                "d/changed.[*]~",
                "d/gone.[*]~",
                "gone.[*]~",
                "old",
                "old/gone.[*]~",
            ];
            assert_eq!(found, expected, "{route:?}, {round}: {ended}");
            assert_eq!(contents(copy.join("d/changed.[*]~")), "old d/changed", "{route:?}");
            assert_eq!(contents(copy.join("d/changed")), "d/changed", "{route:?}");
            assert_eq!(ended.number("deleted"), if round == 0 { 4 } else { 0 }, "{route:?}, {round}: {ended}");
        }
        // An item could not be told from what is kept.
        files(&tree, &["d/new.[*]~"]);
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("choose another --suffix"), "{route:?}: {ended}");
        assert!(!copy.join("d/new.[*]~").exists(), "{route:?}: {ended}");
    }
}

#[test]
fn a_single_file_and_a_directory_by_another_name_have_their_backups_beside_the_destination() {
    for route in [Route::Local, Route::Push, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["d/file"]);
        files(&routed.path("copy/tree"), &["d/file"]);
        files(&routed.path("into/tree"), &["d/file"]);
        fs::write(routed.path("single"), "single").unwrap();
        fs::write(routed.path("named"), "old").unwrap();
        for name in ["copy/tree/d/file", "into/tree/d/file"] {
            fs::write(routed.path(name), "old").unwrap();
        }
        routed.copy(&["--backup-dir", "one"], &["single"], "named").expect_code(0);
        assert_eq!(contents(routed.path("one/named")), "old", "{route:?}");
        routed.copy(&["--backup-dir", "two"], &["tree"], "into").expect_code(0);
        assert_eq!(contents(routed.path("two/tree/d/file")), "old", "{route:?}");
        let absolute = match route {
            Route::ToDaemon => "/three/".to_owned(),
            _ => routed.path("three/").display().to_string(),
        };
        routed.copy(&["--backup-dir", &absolute, "--verify"], &["tree", "single"], "copy").expect_code(0);
        assert_eq!(listing(&routed.path("three")), ["tree", "tree/d", "tree/d/file"], "{route:?}");
        // An item of the second would replace one of the first, and its backup that of the old one.
        let ended = routed.copy(&["--backup-dir", "four"], &["tree/", "single"], "copy").expect_code(2);
        assert!(ended.stderr.contains("each must arrive under its own name"), "{route:?}: {ended}");
        // An empty directory is no place for anything that was not replaced.
        routed.copy(&["--backup-dir", "four"], &["tree"], "new").expect_code(0);
        assert!(!routed.path("four").exists(), "{route:?}");
    }
}

#[test]
fn an_older_backup_is_replaced_but_never_by_what_equals_the_new_file() {
    for route in [Route::Local, Route::Push, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        let write = |name: &str, text: &str| fs::write(routed.path(name), text).unwrap();
        files(&routed.path("tree"), &["file"]);
        fs::create_dir(routed.path("copy")).unwrap();
        symlink("b", routed.path("tree/link")).unwrap();
        symlink("a", routed.path("copy/link")).unwrap();
        write("copy/file", "first");
        write("tree/file", "second");
        let copy = || routed.copy(&["--backup-dir", "kept"], &["tree/"], "copy").expect_code(0);
        copy();
        // As after an interrupted run, which has replaced it and has not noted that.
        let ended = copy();
        assert_eq!(ended.number("files"), 1, "it was sent and replaced again: {ended}");
        assert_eq!(contents(routed.path("kept/file")), "first", "{route:?}");
        assert_eq!(fs::read_link(routed.path("kept/link")).unwrap(), Path::new("a"), "{route:?}");
        write("tree/file", "third!");
        copy();
        assert_eq!(contents(routed.path("kept/file")), "second", "{route:?}");
        // Nothing that is in a directory for backups goes for one.
        fs::remove_file(routed.path("kept/file")).unwrap();
        files(&routed.path("kept"), &["file/precious"]);
        write("tree/file", "fourth.");
        let ended = routed.copy(&["--backup-dir", "kept"], &["tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("a directory has the name of a backup"), "{route:?}: {ended}");
        assert_eq!(contents(routed.path("copy/file")), "third!", "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn a_directory_for_backups_that_is_not_beside_the_destination_is_refused_at_the_start() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["file"]);
        files(&routed.path("copy/in"), &["file"]);
        fs::write(routed.path("plain"), "").unwrap();
        symlink("copy/in", routed.path("link")).unwrap();
        for (directory, words) in [
            ("copy", "is the destination, or lies in it"),
            ("copy/in", "is the destination, or lies in it"),
            ("copy/new", "is the destination, or lies in it"),
            ("link", "is the destination, or lies in it"),
            (".", "the destination lies in it"),
            ("missing/new", "the directories above it must exist"),
            ("plain", "--backup-dir plain"),
            (".icdc-0123456789abcdef.part", "keeps for unfinished files"),
        ] {
            for dry in [&[][..], &["--dry-run"]] {
                let options = [&["--delete", "--backup-dir", directory], dry].concat();
                let ended = routed.copy(&options, &["tree/"], "copy").expect_code(2);
                assert!(ended.stderr.contains(words), "{route:?} {directory}: {ended}");
                assert!(!routed.path("copy/file").exists(), "{route:?} {directory}: {ended}");
                assert!(!routed.path("copy/new").exists(), "{route:?} {directory}: {ended}");
            }
        }
        // What the destination is to become.
        let ended = routed.copy(&["--backup-dir", "new"], &["tree/"], "new").expect_code(2);
        assert!(ended.stderr.contains("is the destination, or lies in it"), "{route:?}: {ended}");
        assert!(!routed.path("new").exists(), "{route:?}: {ended}");
        let ended = routed.copy(&["--backup-dir", "tree"], &["tree/"], "copy").expect_code(2);
        assert!(ended.stderr.contains("is a source of this copy"), "{route:?}: {ended}");
        if let Some(mount) = Mount::tmpfs(routed.path("mounted"), MIB) {
            for directory in ["mounted", "mounted/new"] {
                let ended = routed.copy(&["--backup-dir", directory], &["tree/"], "copy").expect_code(2);
                assert!(ended.stderr.contains("is not on the file system of"), "{route:?}: {ended}");
            }
            assert!(listing(mount.path()).is_empty(), "{route:?}");
        }
    }
}

#[test]
fn what_is_on_another_file_system_is_neither_replaced_nor_deleted() {
    let routed = RoutedSite::new(Route::Local);
    files(&routed.path("tree"), &["m/file", "file"]);
    let Some(_mount) = Mount::tmpfs(routed.path("copy/m"), MIB) else { return skip("mounts need root") };
    fs::write(routed.path("copy/m/file"), "old").unwrap();
    fs::write(routed.path("copy/file"), "old").unwrap();
    let ended = routed.copy(&["--backup-dir", "kept"], &["tree/"], "copy").expect_code(1);
    assert!(ended.stderr.contains("is on another file system than its backup would be"), "{ended}");
    assert_eq!(contents(routed.path("copy/m/file")), "old", "{ended}");
    assert_eq!(contents(routed.path("kept/file")), "old", "{ended}");
}

#[test]
fn the_limit_of_deletions_counts_what_is_kept_and_a_pipe_that_cannot_be_stays() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a"]);
        files(&routed.path("copy"), &["a", "b", "c"]);
        for path in ["tree/a", "copy/a"] {
            data::age(&routed.path(path), 1_000_000, 0);
        }
        let options = ["--skip-equal", "--delete", "--backup-dir", "kept"];
        let limited = [&options[..], &["--max-delete", "1"]].concat();
        let ended = routed.copy(&limited, &["tree/"], "copy").expect_code(1);
        assert!(routed.path("copy/b").exists() && !routed.path("kept").exists(), "{route:?}: {ended}");
        pipe(&routed.path("copy/pipe"));
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("pipe: is a named pipe, of which no backup can be made"), "{route:?}: {ended}");
        assert_eq!(listing(&routed.path("copy")), ["a", "pipe"], "{route:?}: {ended}");
        assert_eq!(listing(&routed.path("kept")), ["b", "c"], "{route:?}: {ended}");
    }
}

/// rsync moves it to the directory for backups.
#[test]
fn a_pipe_that_a_file_would_replace_stays_where_backups_are_kept() {
    for route in [Route::Local, Route::Push, Route::ToDaemon] {
        for more in [&[][..], &["--preserve", "mode,times,specials"]] {
            for kept in [&["--backup-dir", "kept"], &["--suffix", ".old"]] {
                for delete in [&[][..], &["--delete"]] {
                    let routed = RoutedSite::new(route);
                    files(&routed.path("tree"), &["pipe", "other"]);
                    files(&routed.path("copy"), &["other"]);
                    fs::write(routed.path("copy/other"), "another one").unwrap();
                    pipe(&routed.path("copy/pipe"));
                    let inode = || fs::symlink_metadata(routed.path("copy/pipe")).map(|found| found.ino()).unwrap();
                    let before = inode();
                    let options = [&["--skip-equal"], more, kept, delete].concat();
                    let ended = routed.copy(&options, &["tree/"], "copy").expect_code(1);
                    assert_eq!(inode(), before, "{route:?}: {ended}");
                    assert!(ended.stderr.contains("is a named pipe"), "{route:?}: {ended}");
                    // The others are copied and kept.
                    let backup = if kept[0] == "--suffix" { "copy/other.old" } else { "kept/other" };
                    assert_eq!(contents(routed.path(backup)), "another one", "{route:?}: {ended}");
                    assert!(contents(routed.path("copy/other")) != "another one", "{route:?}: {ended}");
                }
            }
        }
    }
}

#[test]
fn the_backup_of_a_renamed_file_shares_nothing_with_it() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        data::tree(&routed.path("tree"), 3, &Shape { small: 3, large: vec![5 * MIB], ..Shape::default() });
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        fs::rename(routed.path("tree/d000"), routed.path("tree/moved")).unwrap();
        let options = ["--skip-equal", "--delete", "--backup-dir", "kept"];
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &routed.path("copy"));
        assert_eq!(ended.number("bytes_sent"), 0, "{route:?}: {ended}");
        for path in state(&routed.path("copy")).keys() {
            let stat = fs::symlink_metadata(path).unwrap();
            assert!(stat.is_dir() || stat.nlink() == 1, "{route:?} {}: {ended}", path.display());
        }
        assert!(routed.path("kept/d000/f00001").exists(), "{route:?}: {ended}");
    }
}

#[test]
fn private_directories_have_private_backups() {
    let routed = RoutedSite::new(Route::Push);
    files(&routed.path("tree"), &["d/file"]);
    files(&routed.path("copy"), &["d/file", "d/shut/file"]);
    for (name, mode) in [("copy", 0o750), ("copy/d", 0o711), ("copy/d/shut", 0o700)] {
        fs::set_permissions(routed.path(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::write(routed.path("copy/d/file"), "old").unwrap();
    // Modes of the source are not copied, so that those of the destination stay.
    let options = ["--preserve", "times", "--delete", "--backup-dir", "kept"];
    routed.copy(&options, &["tree/"], "copy").expect_code(0);
    for (name, mode) in [("kept", 0o750), ("kept/d", 0o711), ("kept/d/shut", 0o700)] {
        assert_eq!(fs::metadata(routed.path(name)).unwrap().mode() & 0o777, mode, "{name}");
    }
}

#[test]
fn a_directory_for_backups_outside_of_a_daemons_root_is_not_reached() {
    let site = Site::new();
    files(&site.path("tree"), &["file"]);
    files(&site.path("outside"), &["x"]);
    files(&site.path("root/copy"), &["file", "extra"]);
    fs::write(site.path("root/copy/file"), "old").unwrap();
    symlink(site.path("outside"), site.path("root/out")).unwrap();
    files(&site.path("root"), &["kept/x"]);
    let grant = format!("root=\"{}\",rights=rw", site.path("root").display());
    let daemon = Daemon::named(&site, "daemon", &grant);
    let outside = site.path("outside").display().to_string();
    for directory in ["../outside", "out", "out/new", "kept/../../outside", &outside] {
        let mut copy = site.copy(&["--delete", "--backup-dir", directory]);
        let ended = copy.arg(site.path("tree/")).arg(daemon.location("/copy")).start().finish().expect_code(2);
        assert_eq!(listing(&site.path("root/copy")), ["extra", "file"], "{directory}: {ended}");
        assert_eq!(listing(&site.path("outside")), ["x"], "{directory}: {ended}");
    }
    // A link in the directory for backups is not followed either.
    files(&site.path("root/copy"), &["d/extra"]);
    symlink(site.path("outside"), site.path("root/kept/d")).unwrap();
    let mut copy = site.copy(&["--delete", "--backup-dir", "kept"]);
    let ended = copy.arg(site.path("tree/")).arg(daemon.location("/copy")).start().finish().expect_code(1);
    assert!(site.path("root/copy/d/extra").exists(), "{ended}");
    assert_eq!(listing(&site.path("outside")), ["x"], "{ended}");
}

#[test]
fn a_drop_box_keeps_nothing_and_neither_does_a_snapshot() {
    let site = Site::new();
    files(&site.path("tree"), &["file"]);
    files(&site.path("box/copy"), &["file"]);
    let grant = format!("root=\"{}\",rights=drop-box", site.path("box").display());
    let daemon = Daemon::named(&site, "daemon", &grant);
    for options in [["--backup-dir", "old"], ["--suffix", "~"]] {
        let mut copy = site.copy(&options);
        let ended = copy.arg(site.path("tree/")).arg(daemon.location("/copy")).start().finish().expect_code(3);
        assert!(ended.stderr.contains("leave --backup-dir and --suffix out"), "{ended}");
        let mut copy = site.copy(&options);
        copy.arg("--snapshot").arg(site.path("tree/")).arg(site.path("new")).start().finish().expect_code(2);
    }
    for (option, value) in [("--suffix", ""), ("--suffix", "a/b"), ("--backup-dir", "")] {
        let mut copy = site.copy(&[option, value]);
        let ended = copy.arg(site.path("tree/")).arg(site.path("new")).start().finish().expect_code(2);
        assert!(ended.stderr.contains(option), "{ended}");
    }
}
