//! `--delete`: what the sources do not have goes, after everything else, or nothing goes.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::support::daemon::Daemon;
use crate::support::mounts::Mount;
use crate::support::terminal::Terminal;
use crate::support::{MIB, Route, RoutedSite, Shape, Site, Start, assert_same, data, skip};

/// Makes a named pipe.
pub(super) fn pipe(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
}

/// Makes files with their names as contents, and the directories above them.
pub(super) fn files(directory: &Path, names: &[&str]) {
    for name in names {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

/// All paths below a directory, sorted.
pub(super) fn listing(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path().strip_prefix(directory).unwrap().display().to_string());
        }
    }
    found.sort();
    found
}

#[test]
fn what_the_sources_do_not_have_is_deleted_and_links_are_not_followed() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        data::tree(&tree, 3, &Shape { small: 20, large: vec![5 * MIB], ..Shape::default() });
        files(&routed.path("outside"), &["precious", "deep/too"]);
        routed.copy(&[], &["tree/"], "copy").expect_code(0);
        files(&copy, &["old", "gone/deep/er/file", "d000/extra", "shut/inside"]);
        fs::write(copy.join(OsStr::from_bytes(b"\xff\xfe")), "no UTF-8").unwrap();
        fs::create_dir(copy.join("empty")).unwrap();
        symlink(routed.path("outside"), copy.join("link")).unwrap();
        symlink(routed.path("outside"), copy.join("gone/link")).unwrap();
        fs::set_permissions(copy.join("shut"), Permissions::from_mode(0o500)).unwrap();
        let extra = listing(&copy).len() - listing(&tree).len();
        fs::write(tree.join("new"), "new").unwrap();

        let plain = routed.copy(&["--skip-equal"], &["tree/"], "copy").expect_code(0);
        assert_eq!(listing(&copy).len(), listing(&tree).len() + extra, "{route:?}: nothing goes unasked: {plain}");
        let ended = routed.copy(&["--skip-equal", "--delete"], &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_eq!(ended.number("deleted"), extra as u64, "{route:?}: {ended}");
        assert_eq!(ended.all("deleted").count(), extra, "{route:?}: {ended}");
        assert_eq!(listing(&routed.path("outside")), ["deep", "deep/too", "precious"]);
    }
}

#[test]
fn a_dry_run_lists_what_would_go_by_its_path_at_the_destination() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["same/a"]);
        files(&routed.path("copy"), &["same/a", "same/old/x", "old"]);
        files(&routed.path("into/tree"), &["same/a", "same/old", "old"]);
        for (sources, destination, expected) in [
            ("tree/", "copy", ["old", "same/old", "same/old/x"].as_slice()),
            ("tree", "into", &["tree/old", "tree/same/old"]),
        ] {
            let before = listing(&routed.path(destination));
            let ended = routed.copy(&["--delete", "--dry-run"], &[sources], destination).expect_code(0);
            let mut told: Vec<String> =
                ended.all("deleted").map(|event| event["path"].as_str().unwrap().into()).collect();
            told.sort();
            assert_eq!(told, expected, "{route:?}: {ended}");
            assert!(ended.all("deleted").all(|event| event["dry_run"] == true), "{ended}");
            assert_eq!(listing(&routed.path(destination)), before, "{route:?}");
        }
    }
}

#[test]
fn nothing_is_deleted_after_a_failure_and_the_first_failed_item_is_named() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "z/b"]);
        pipe(&routed.path("tree/z/pipe"));
        files(&routed.path("copy"), &["extra"]);
        let ended = routed.copy(&["--delete"], &["tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("nothing was deleted at the destination: "), "{route:?}: {ended}");
        assert!(ended.stderr.contains("z/pipe: it was not copied"), "{route:?}: {ended}");
        assert!(routed.path("copy/extra").exists(), "{route:?}: {ended}");
        assert_eq!(ended.number("deleted"), 0, "{ended}");
        // A source that is not there may have been all that the destination has.
        fs::remove_file(routed.path("tree/z/pipe")).unwrap();
        let ended = routed.copy(&["--delete"], &["tree/", "missing/"], "copy").expect_code(1);
        assert!(routed.path("copy/extra").exists(), "{route:?}: {ended}");
        assert!(ended.stderr.contains("nothing was deleted at the destination: "), "{route:?}: {ended}");
    }
}

#[test]
fn an_empty_source_deletes_nothing_unless_it_is_meant() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        fs::create_dir(routed.path("tree")).unwrap();
        files(&routed.path("copy"), &["a", "b/c"]);
        let ended = routed.copy(&["--delete"], &["tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("--yes-empty"), "{route:?}: {ended}");
        assert_eq!(listing(&routed.path("copy")), ["a", "b", "b/c"], "{route:?}");
        routed.copy(&["--delete", "--yes-empty"], &["tree/"], "copy").expect_code(0);
        assert!(listing(&routed.path("copy")).is_empty(), "{route:?}");
    }
}

#[test]
fn more_than_the_limit_deletes_none() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["1", "2", "3", "4", "5", "6"]);
        // 4 of 10 items are extra.
        files(&routed.path("copy"), &["1", "2", "3", "4", "5", "6", "old/a", "old/b", "c"]);
        for (limit, goes) in [("3", false), ("39%", false), ("0", false), ("0%", false), ("40%", true)] {
            let ended = routed.copy(&["--delete", "--max-delete", limit], &["tree/"], "copy");
            let ended = ended.expect_code(if goes { 0 } else { 1 });
            assert_eq!(routed.path("copy/c").exists(), !goes, "{route:?} {limit}: {ended}");
            assert_eq!(goes, !ended.stderr.contains("4 items of the destination"), "{ended}");
        }
        assert_same(&routed.path("tree"), &routed.path("copy"));
        files(&routed.path("copy"), &["d"]);
        routed.copy(&["--delete", "--max-delete", "1"], &["tree/"], "copy").expect_code(0);
        assert!(!routed.path("copy/d").exists());
    }
}

#[test]
fn what_any_of_several_sources_has_stays() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("one"), &["a", "both/x", "only/y"]);
        files(&routed.path("two"), &["b", "both/z"]);
        files(routed.site.root(), &["single", "named/n"]);
        let sources = ["one/", "two/", "single", "named"];
        routed.copy(&[], &sources, "copy/").expect_code(0);
        files(&routed.path("copy"), &["extra", "both/extra", "only/extra", "named/extra"]);
        let ended = routed.copy(&["--skip-equal", "--delete"], &sources, "copy/").expect_code(0);
        assert_eq!(ended.number("deleted"), 4, "{route:?}: {ended}");
        let expected = ["a", "b", "both", "both/x", "both/z", "named", "named/n", "only", "only/y", "single"];
        assert_eq!(listing(&routed.path("copy")), expected, "{route:?}");
    }
}

#[test]
fn what_the_source_leaves_out_stays() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "keep.tmp", "d/keep.tmp"]);
        pipe(&routed.path("tree/pipe"));
        files(&routed.path("copy"), &["keep.tmp", "d/keep.tmp", "pipe", "extra"]);
        let ended =
            routed.copy(&["--delete", "--exclude", "*.tmp", "--exclude", "pipe"], &["tree/"], "copy").expect_code(0);
        assert_eq!(listing(&routed.path("copy")), ["a", "d", "d/keep.tmp", "keep.tmp", "pipe"], "{route:?}: {ended}");
    }
}

#[test]
fn what_rules_exclude_stays_though_the_source_has_nothing_of_it() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "d/b"]);
        files(
            &routed.path("copy/tree"),
            &["a", "d/x.keep", "gone/y.keep", "gone/z", "top/only", "d/top/not", "y.keep"],
        );
        let options = ["--delete", "--exclude", "*.keep", "--exclude", "/tree/top"];
        let ended = routed.copy(&options, &["tree"], "copy/").expect_code(0);
        let expected = ["a", "d", "d/b", "d/x.keep", "gone", "gone/y.keep", "top", "top/only", "y.keep"];
        assert_eq!(listing(&routed.path("copy/tree")), expected, "{route:?}: {ended}");
        assert_eq!(ended.number("deleted"), 3, "{route:?}: {ended}");
    }
}

#[test]
fn what_is_not_copied_by_size_or_age_stays_and_so_do_the_contents_of_a_cache() {
    for route in [Route::Local, Route::Pull, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "much longer", "cache/object"]);
        let tag = "Signature: 8a477f597d28d172789f06886806bc55";
        fs::write(routed.path("tree/cache/CACHEDIR.TAG"), tag).unwrap();
        files(&routed.path("copy"), &["much longer", "cache/old", "extra"]);
        let options = ["--delete", "--max-size", "5", "--exclude-caches"];
        let ended = routed.copy(&options, &["tree/"], "copy").expect_code(0);
        assert_eq!(listing(&routed.path("copy")), ["a", "cache", "cache/old", "much longer"], "{route:?}: {ended}");
    }
}

#[test]
fn a_source_that_lies_in_the_destination_is_not_deleted() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("copy"), &["in/tree/a", "in/tree/d/b", "other"]);
        let ended = routed.copy(&["--delete"], &["copy/in/tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("in/tree: is a source of this copy"), "{route:?}: {ended}");
        let expected = ["a", "d", "d/b", "in", "in/tree", "in/tree/a", "in/tree/d", "in/tree/d/b", "other"];
        assert_eq!(listing(&routed.path("copy")), expected, "{route:?}");
    }
}

#[test]
fn a_source_that_a_directory_of_the_copy_goes_into_is_not_deleted_from() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("copy"), &["in/a", "in/d/b", "in/in/c", "other"]);
        // What is in `in/in` goes into `in`, which is the source itself.
        let ended = routed.copy(&["--delete"], &["copy/in/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("in: is a source of this copy"), "{route:?}: {ended}");
        for path in ["in/a", "in/d/b", "in/in/c", "other"] {
            assert!(routed.path("copy").join(path).exists(), "{route:?}: {path} is gone: {ended}");
        }
    }
}

#[test]
fn a_drop_box_is_not_deleted_from() {
    let site = Site::new();
    files(&site.path("tree"), &["a"]);
    files(&site.path("box"), &["theirs"]);
    let grant = format!("root=\"{}\",rights=drop-box", site.path("box").display());
    let daemon = Daemon::named(&site, "daemon", &grant);
    let mut copy = site.copy(&["--delete"]);
    let ended = copy.arg(site.path("tree/")).arg(daemon.location("/")).start().finish().expect_code(3);
    assert!(ended.stderr.contains("nothing is deleted from a drop box"), "{ended}");
    assert!(site.path("box/theirs").exists());
}

#[test]
fn what_is_mounted_in_an_extra_directory_stays() {
    let routed = RoutedSite::new(Route::Local);
    files(&routed.path("tree"), &["a"]);
    files(&routed.path("copy"), &["old/file", "old/mounted/below"]);
    let Some(_mount) = Mount::tmpfs(routed.path("copy/old/mounted"), MIB) else { return skip("mounts need root") };
    files(&routed.path("copy/old/mounted"), &["precious"]);
    let ended = routed.copy(&["--delete"], &["tree/"], "copy").expect_code(1);
    assert!(ended.stderr.contains("a file system is mounted there"), "{ended}");
    assert_eq!(fs::read(routed.path("copy/old/mounted/precious")).unwrap(), b"precious");
    assert!(routed.path("copy/old/file").exists(), "what cannot be counted is not begun: {ended}");
}

#[test]
fn a_file_that_is_mounted_in_an_extra_directory_stays_with_everything_else() {
    let routed = RoutedSite::new(Route::Local);
    files(&routed.path("tree"), &["a"]);
    files(&routed.path("copy"), &["extra", "old/mounted"]);
    files(routed.site.root(), &["precious"]);
    let Some(_mount) = Mount::file(&routed.path("precious"), routed.path("copy/old/mounted")) else {
        return skip("mounts need root");
    };
    let ended = routed.copy(&["--delete"], &["tree/"], "copy").expect_code(1);
    assert!(ended.stderr.contains("a file system is mounted there"), "{ended}");
    assert!(routed.path("copy/extra").exists(), "what cannot be deleted is not begun: {ended}");
}

#[test]
fn what_rules_exclude_goes_as_well_if_that_is_meant_and_what_is_left_out_otherwise_stays() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        files(&routed.path("tree"), &["a", "d/b", "d/here.tmp", "much longer"]);
        files(&routed.path("copy/tree"), &["a", "d/here.tmp", "d/gone.tmp", "gone/z.tmp", "much longer"]);
        let options = ["--delete", "--exclude", "*.tmp", "--max-size", "6", "--delete-excluded"];
        let before = listing(&routed.path("copy/tree"));
        let refused = routed.copy(&options, &["tree"], "copy/").expect_code(2);
        assert!(refused.stderr.contains("see by --dry-run what that is, then give --yes"), "{route:?}: {refused}");
        let listed = routed.copy(&[&options[..], &["--dry-run"]].concat(), &["tree"], "copy/").expect_code(0);
        assert_eq!(listed.all("deleted").count(), 4, "{route:?}: {listed}");
        assert_eq!(listing(&routed.path("copy/tree")), before, "{route:?}");
        let ended = routed.copy(&[&options[..], &["--yes"]].concat(), &["tree"], "copy/").expect_code(0);
        assert_eq!(listing(&routed.path("copy/tree")), ["a", "d", "d/b", "much longer"], "{route:?}: {ended}");
        assert_eq!(ended.number("deleted"), 4, "{route:?}: {ended}");
    }
}

#[test]
fn at_a_terminal_what_would_go_is_listed_before_the_question() {
    for (answer, goes) in [("no", false), ("yes", true)] {
        let site = Site::new();
        files(&site.path("tree"), &["a"]);
        files(&site.path("copy"), &["a", "x.tmp"]);
        let words = ["copy", "--delete", "--exclude", "*.tmp", "--delete-excluded", "tree/", "copy"];
        let mut copy = site.icdc(&words);
        let mut terminal = Terminal::start(copy.current_dir(site.root()));
        terminal.wait_for("delete these items when everything else is copied? [yes/no]");
        assert!(terminal.screen().contains("delete x.tmp"), "{}", terminal.screen());
        assert!(site.path("copy/x.tmp").exists(), "nothing goes before the answer");
        terminal.write(&format!("{answer}\n"));
        assert_eq!(terminal.finish().code(), Some(if goes { 0 } else { 2 }));
        assert_eq!(site.path("copy/x.tmp").exists(), !goes, "{answer}");
    }
}
