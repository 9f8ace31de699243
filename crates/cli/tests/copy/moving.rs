//! `--move`: what the destination has durably goes at the source, and nothing else does.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::daemon::Daemon;
use crate::support::{
    Ended, KIB, MIB, Route, RoutedSite, Shape, Site, Start, assert_no_leftovers, assert_same, data, open_to_all,
    succeed,
};

/// Makes files with their names as contents, and the directories above them.
fn files(directory: &Path, names: &[&str]) {
    for name in names {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

/// Number of items below a directory, that included.
fn items(directory: &Path) -> u64 {
    let inner = fs::read_dir(directory).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() { items(&path) } else { 1 }
    });
    1 + inner.sum::<u64>()
}

/// A copy of a tree as it was before it is moved.
fn keep(tree: &Path, before: &Path) {
    succeed(Command::new("cp").arg("-a").arg(tree).arg(before));
}

/// Paths of removed items, as they are told.
fn removed(ended: &Ended) -> Vec<String> {
    let mut paths: Vec<String> = ended.all("removed").map(|event| event["path"].as_str().unwrap().into()).collect();
    paths.sort();
    paths
}

#[test]
fn a_tree_is_moved_with_all_that_is_in_it() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, before) = (routed.path("tree"), routed.path("before"));
        data::tree(&tree, 7, &Shape { small: 300, largest_small: 20 * KIB, large: vec![5 * MIB + 1], oddities: true });
        keep(&tree, &before);
        let ended = routed.copy(&["--move"], &["tree"], "copy/").expect_code(0);
        assert!(!tree.exists(), "{route:?}: {ended}");
        assert_same(&before, &routed.path("copy/tree"));
        assert_eq!(ended.number("removed"), items(&before), "{route:?}: {ended}");
        assert_eq!(ended.all("removed").count() as u64, items(&before), "{route:?}: {ended}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn of_a_directory_whose_contents_are_moved_the_directory_stays() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "d/b"]);
        fs::create_dir(routed.path("tree/empty")).unwrap();
        let ended = routed.copy(&["--move"], &["tree/"], "copy").expect_code(0);
        assert_eq!(removed(&ended), ["tree/a", "tree/d", "tree/d/b", "tree/empty"], "{route:?}");
        assert_eq!(items(&routed.path("tree")), 1, "{route:?}: {ended}");
        assert_eq!(items(&routed.path("copy")), 5, "{route:?}: {ended}");
    }
}

#[test]
fn sync_moves_and_a_second_run_moves_what_has_come_since() {
    let routed = RoutedSite::new(Route::Local);
    let sync = || {
        let mut command = routed.site.icdc(&["sync", "--json", "--move"]);
        command.arg(routed.path("tree/")).arg(routed.path("copy")).start().finish().expect_code(0)
    };
    files(&routed.path("tree"), &["d/a"]);
    assert_eq!(sync().number("removed"), 2);
    files(&routed.path("tree"), &["d/b"]);
    assert_eq!(sync().number("removed"), 2);
    assert_eq!([routed.path("copy"), routed.path("tree")].map(|path| items(&path)), [4, 1]);
}

#[test]
fn what_is_left_out_stays_with_its_directories() {
    for route in [Route::Local, Route::Pull, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a.dat", "d/b.dat", "d/b.log", "e/c.dat"]);
        let ended = routed.copy(&["--move", "--exclude", "*.log"], &["tree"], "copy/").expect_code(0);
        assert_eq!(removed(&ended), ["tree/a.dat", "tree/d/b.dat", "tree/e", "tree/e/c.dat"], "{route:?}: {ended}");
        assert_eq!(fs::read(routed.path("tree/d/b.log")).unwrap(), b"d/b.log");
        assert_eq!(items(&routed.path("tree")), 3, "{route:?}: {ended}");
    }
}

/// A named source goes when everything else is done.
#[test]
fn what_changes_after_it_was_copied_stays() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(routed.site.root(), &["log"]);
        data::file(&routed.path("big"), 24 * MIB, 3);
        let run = routed.start(&["--move", "--rate", "100mbit"], &["log", "big"], "copy/");
        assert!(run.wait_for(|event| event["type"] == "item" && event["path"] == "log"), "{route:?}");
        fs::write(routed.path("log"), "more than before").unwrap();
        let ended = run.finish().expect_code(1);
        assert!(ended.failures()["log"].contains("has changed at the source since"), "{route:?}: {ended}");
        assert_eq!(fs::read(routed.path("log")).unwrap(), b"more than before");
        assert_eq!(fs::read(routed.path("copy/log")).unwrap(), b"log");
        assert_eq!(removed(&ended), ["big"], "{route:?}: {ended}");
        assert!(!routed.path("big").exists());
    }
}

#[test]
fn what_is_only_equal_by_size_and_time_stays() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["d/a", "d/b"]);
        symlink("a", routed.path("tree/d/link")).unwrap();
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        files(&routed.path("tree"), &["d/new"]);
        let ended = routed.copy(&["--move", "--skip-equal"], &["tree/"], "copy").expect_code(0);
        // The target of a link was compared.
        assert_eq!(removed(&ended), ["tree/d/link", "tree/d/new"], "{route:?}: {ended}");
        assert!(routed.path("tree/d/a").exists() && routed.path("tree/d/b").exists(), "{route:?}");
        let notices = ended.summary()["notices"].as_array().unwrap();
        let kept = notices.iter().find(|notice| notice["kind"] == "kept_at_source").unwrap();
        assert_eq!(kept["count"], 2, "{route:?}: {ended}");
        let ended = routed.copy(&["--move"], &["tree/"], "copy").expect_code(0);
        assert_eq!(removed(&ended), ["tree/d", "tree/d/a", "tree/d/b"], "{route:?}: {ended}");
    }
}

#[test]
fn what_would_replace_an_item_of_an_earlier_source_stays() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        for source in ["one", "two"] {
            fs::create_dir(routed.path(source)).unwrap();
            fs::write(routed.path(source).join("x"), source).unwrap();
        }
        let ended = routed.copy(&["--move"], &["one/", "two/"], "copy").expect_code(1);
        assert_eq!(fs::read_to_string(routed.path("copy/x")).unwrap(), "one", "{route:?}: {ended}");
        assert_eq!(fs::read_to_string(routed.path("two/x")).unwrap(), "two", "{route:?}: {ended}");
    }
}

#[test]
fn names_of_one_file_go_together_and_one_elsewhere_stays() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a/first", "single"]);
        for name in ["tree/b", "tree/c"] {
            fs::create_dir(routed.path(name)).unwrap();
            fs::hard_link(routed.path("tree/a/first"), routed.path(name).join("further")).unwrap();
        }
        fs::hard_link(routed.path("tree/single"), routed.path("elsewhere")).unwrap();
        let ended = routed.copy(&["--move"], &["tree"], "copy/").expect_code(0);
        assert!(!routed.path("tree").exists(), "{route:?}: {ended}");
        assert_eq!(fs::read(routed.path("elsewhere")).unwrap(), b"single");
        let inode = |name: &str| fs::metadata(routed.path("copy/tree").join(name)).unwrap().ino();
        assert!(inode("a/first") == inode("b/further") && inode("a/first") == inode("c/further"), "{route:?}");
    }
}

#[test]
fn a_dry_run_tells_what_would_go_and_removes_nothing() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "d/b"]);
        let ended = routed.copy(&["--move", "--dry-run"], &["tree"], "copy/").expect_code(0);
        assert_eq!(removed(&ended), ["tree/a", "tree/d/b"], "{route:?}: {ended}");
        assert!(ended.all("removed").all(|event| event["dry_run"] == true), "{ended}");
        assert_eq!(items(&routed.path("tree")), 4, "{route:?}");
    }
}

#[test]
fn a_key_that_may_only_read_does_not_move_away() {
    let site = Site::new();
    files(&site.path("data"), &["a"]);
    let grant = format!("root=\"{}\",rights=r", site.path("data").display());
    let daemon = Daemon::named(&site, "daemon", &grant);
    let mut copy = site.copy(&["--move"]);
    let ended = copy.arg(daemon.location("a")).arg(site.path("copy")).start().finish().expect_code(3);
    assert!(ended.stderr.contains("may not remove what it reads; leave --move out"), "{ended}");
    assert!(site.path("data/a").exists() && !site.path("copy").exists());
}

#[test]
fn between_two_daemons_the_sending_one_removes() {
    let site = Site::new();
    let before = site.path("before");
    data::tree(&site.path("data/tree"), 9, &Shape { small: 40, large: vec![5 * MIB], ..Shape::default() });
    keep(&site.path("data/tree"), &before);
    let grant = |name: &str, rights: &str| format!("root=\"{}\",rights={rights}", site.directory(name).display());
    let to = Daemon::named(&site, "to", &grant("other", "rw"));
    for (name, rights, code) in [("reads", "r", 3), ("moves", "rw", 0)] {
        let from = Daemon::named(&site, name, &grant("data", rights));
        let mut copy = site.copy(&["--move"]);
        let ended = copy.arg(from.location("tree")).arg(to.location("")).start().finish().expect_code(code);
        assert_eq!(site.path("data/tree").exists(), code != 0, "{ended}");
        if code == 0 {
            assert_same(&before, &site.path("other/tree"));
            assert_eq!(ended.number("removed"), items(&before), "{ended}");
            assert_eq!(removed(&ended).len() as u64, items(&before), "{ended}");
        }
    }
}

#[test]
fn what_may_not_be_removed_is_told() {
    let site = Site::new();
    open_to_all(&site.directory("target"));
    files(&site.path("tree"), &["a"]);
    fs::set_permissions(site.path("tree"), Permissions::from_mode(0o555)).unwrap();
    let mut copy = site.unprivileged();
    copy.args(["copy", "--json", "--move"]).arg(site.path("tree/")).arg(site.path("target/copy"));
    let ended = copy.start().finish().expect_code(1);
    assert!(ended.failures()["tree/a"].contains("cannot be removed at the source"), "{ended}");
    assert_eq!(fs::read(site.path("target/copy/a")).unwrap(), b"a", "{ended}");
    assert!(site.path("tree/a").exists());
}

#[test]
fn a_file_that_is_open_for_writing_stays() {
    for route in [Route::Local, Route::Push, Route::Pull] {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("source")).unwrap();
        for name in ["open", "closed"] {
            fs::write(routed.path("source").join(name), name).unwrap();
        }
        let mut open = fs::OpenOptions::new().append(true).open(routed.path("source/open")).unwrap();
        let ended = routed.copy(&["--move"], &["source/"], "copy").expect_code(1);
        let failures = ended.failures();
        assert!(failures.len() == 1 && failures.values().all(|reason| reason.contains("open for writing")), "{ended}");
        assert!(!fs::exists(routed.path("source/closed")).unwrap(), "{route:?}");
        std::io::Write::write_all(&mut open, b" and more").unwrap();
        drop(open);
        routed.copy(&["--move"], &["source/"], "copy").expect_code(0);
        assert_eq!(fs::read(routed.path("copy/open")).unwrap(), b"open and more", "{route:?}");
        assert!(!fs::exists(routed.path("source/open")).unwrap(), "{route:?}");
    }
}
