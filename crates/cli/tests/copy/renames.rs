//! Renames of a mirror: what the destination has under a name that the source has no longer is not sent again.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::delete::{files, listing};
use crate::support::compare::inode;
use crate::support::{KIB, MIB, Noise, Route, RoutedSite, Shape, Site, Start, assert_no_leftovers, assert_same, data};

const MIRROR: [&str; 2] = ["--skip-equal", "--delete"];

fn rename(tree: &Path, pairs: &[(&str, &str)]) {
    for (from, to) in pairs {
        fs::create_dir_all(tree.join(to).parent().unwrap()).unwrap();
        fs::rename(tree.join(from), tree.join(to)).unwrap();
    }
}

/// A tree that the destination has, too.
fn mirrored(routed: &RoutedSite) {
    let shape = Shape { small: 12, large: vec![5 * MIB, 9 * MIB], ..Shape::default() };
    data::tree(&routed.path("tree"), 3, &shape);
    files(&routed.path("tree"), &["moved/a", "moved/deep/b", "moved/deep/c", "first", "last", "stays"]);
    data::file(&routed.path("tree/moved/large"), 6 * MIB + 1, 9);
    routed.copy(&[], &["tree/"], "copy").expect_code(0);
}

#[test]
fn renamed_files_and_moved_directories_are_not_sent_again() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        mirrored(&routed);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        let inodes = listing(&copy).into_iter().filter_map(|path| fs::symlink_metadata(copy.join(path)).ok());
        let before: BTreeSet<u64> = inodes.map(|stat| stat.ino()).collect();
        // Names that come before the old ones are announced before it is known that those are extra.
        rename(
            &tree,
            &[("moved", "a new place/moved"), ("first", "zz"), ("last", "00"), ("d000/f00001", "moved again")],
        );
        fs::remove_file(tree.join("d000/f00002")).unwrap();
        fs::write(tree.join("new"), "new").unwrap();

        let ended = routed.copy(&MIRROR, &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_no_leftovers(&copy);
        assert_eq!(ended.number("renamed"), 7, "{route:?}: {ended}");
        assert_eq!(ended.number("bytes_sent"), 3, "{route:?}: {ended}");
        assert_eq!(ended.number("files"), 1, "{route:?}: {ended}");
        let told = ended.all("item").filter(|item| item["outcome"] == "renamed" && item["digest"].is_string()).count();
        assert_eq!(told, 7, "{route:?}: {ended}");
        for name in ["a new place/moved/large", "a new place/moved/deep/b", "zz", "00", "moved again"] {
            assert!(before.contains(&inode(copy.join(name))), "{route:?} {name}: {ended}");
            assert_eq!(fs::metadata(copy.join(name)).unwrap().nlink(), 1, "{route:?} {name}");
        }
        let again = routed.copy(&MIRROR, &["tree/"], "copy").expect_code(0);
        assert_eq!((again.number("renamed"), again.number("bytes_sent")), (0, 0), "{route:?}: {again}");
    }
}

#[test]
fn a_copy_under_its_own_name_is_searched_for_renames_and_so_are_several() {
    let routed = RoutedSite::new(Route::Push);
    for name in ["one", "two"] {
        files(&routed.path(name), &["a", "b"]);
    }
    let sources = ["one", "two"];
    fs::create_dir(routed.path("copy")).unwrap();
    routed.copy(&[], &sources, "copy").expect_code(0);
    rename(routed.site.root(), &[("one/a", "one/0"), ("one/b", "two/from one")]);
    let ended = routed.copy(&MIRROR, &sources, "copy").expect_code(0);
    assert_eq!((ended.number("renamed"), ended.number("bytes_sent")), (2, 0), "{ended}");
    assert_same(&routed.path("two"), &routed.path("copy/two"));
}

#[test]
fn what_only_looks_alike_is_sent() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        mirrored(&routed);
        let (tree, copy) = (routed.path("tree"), routed.path("copy"));
        for (name, size) in [("small", 100 * KIB), ("large", 5 * MIB)] {
            data::file(&copy.join(format!("old {name}")), size, 1);
            data::file(&tree.join(format!("new {name}")), size, 2);
            data::age(&copy.join(format!("old {name}")), 77, 7);
            data::age(&tree.join(format!("new {name}")), 77, 7);
        }
        let ended = routed.copy(&MIRROR, &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_eq!(ended.number("renamed"), 0, "{route:?}: {ended}");
        assert_eq!(ended.number("bytes_sent"), 100 * KIB + 5 * MIB, "{route:?}: {ended}");
    }
}

#[test]
fn what_the_source_still_has_is_not_renamed_and_neither_is_what_a_rule_protects() {
    let routed = RoutedSite::new(Route::Push);
    mirrored(&routed);
    let (tree, copy) = (routed.path("tree"), routed.path("copy"));
    // A copy of what stays, and what the destination has only where nothing may be deleted.
    fs::copy(tree.join("stays"), tree.join("twin")).unwrap();
    files(&tree, &["new"]);
    files(&copy, &["kept/old"]);
    fs::write(copy.join("kept/old"), "new").unwrap();
    for (file, seconds) in [("stays", 70), ("twin", 70), ("new", 80)] {
        data::age(&tree.join(file), seconds, 5);
    }
    data::age(&copy.join("stays"), 70, 5);
    data::age(&copy.join("kept/old"), 80, 5);
    let ended = routed.copy(&["--skip-equal", "--delete", "--exclude", "kept/"], &["tree/"], "copy").expect_code(0);
    assert_eq!(ended.number("renamed"), 0, "{ended}");
    for name in ["stays", "twin", "new", "kept/old"] {
        assert_eq!(fs::metadata(copy.join(name)).unwrap().nlink(), 1, "{name}");
    }
    for name in ["twin", "new"] {
        assert_eq!(fs::read(copy.join(name)).unwrap(), fs::read(tree.join(name)).unwrap(), "{name}");
    }
}

#[test]
fn attributes_that_differ_are_set_in_a_copy_and_never_in_what_may_stay() {
    let routed = RoutedSite::new(Route::Local);
    mirrored(&routed);
    let (tree, copy) = (routed.path("tree"), routed.path("copy"));
    rename(&tree, &[("moved/large", "large"), ("first", "zz")]);
    for name in ["large", "zz"] {
        fs::set_permissions(tree.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    let before = fs::symlink_metadata(copy.join("moved/large")).unwrap();
    // Nothing is deleted: the old names stay as they were.
    let ended = routed.copy(&["--skip-equal", "--delete", "--max-delete", "0"], &["tree/"], "copy").expect_code(1);
    assert_eq!((ended.number("renamed"), ended.number("bytes_sent")), (2, 0), "{ended}");
    let after = fs::symlink_metadata(copy.join("moved/large")).unwrap();
    assert_eq!((after.ino(), after.mode(), after.mtime()), (before.ino(), before.mode(), before.mtime()));
    assert_ne!(inode(copy.join("large")), before.ino());
    routed.copy(&MIRROR, &["tree/"], "copy").expect_code(0);
    assert_same(&tree, &copy);
}

#[test]
fn a_dry_run_tells_what_seems_to_be_renamed_and_reads_nothing() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        mirrored(&routed);
        rename(&routed.path("tree"), &[("first", "zz"), ("moved/large", "d000/large")]);
        let before = listing(&routed.path("copy"));
        let ended = routed.copy(&["--skip-equal", "--delete", "--dry-run"], &["tree/"], "copy").expect_code(0);
        assert_eq!(ended.number("renamed"), 2, "{route:?}: {ended}");
        assert_eq!(ended.all("would_send").count(), 0, "{route:?}: {ended}");
        assert_eq!(listing(&routed.path("copy")), before, "{route:?}");
    }
}

#[test]
fn with_verify_what_is_renamed_is_read_from_the_medium_and_not_sent() {
    let routed = RoutedSite::new(Route::Push);
    mirrored(&routed);
    rename(&routed.path("tree"), &[("first", "zz"), ("moved", "deeper/moved")]);
    let ended = routed.copy(&["--skip-equal", "--delete", "--verify"], &["tree/"], "copy").expect_code(0);
    assert_eq!((ended.number("renamed"), ended.number("bytes_sent")), (5, 0), "{ended}");
    assert_same(&routed.path("tree"), &routed.path("copy"));
}

#[test]
fn a_file_of_several_names_that_moves_keeps_them() {
    let routed = RoutedSite::new(Route::Push);
    let (tree, copy) = (routed.path("tree"), routed.path("copy"));
    files(&tree, &["old/first", "old/other"]);
    fs::hard_link(tree.join("old/first"), tree.join("old/second")).unwrap();
    routed.copy(&[], &["tree/"], "copy").expect_code(0);
    rename(&tree, &[("old", "new")]);
    let ended = routed.copy(&MIRROR, &["tree/"], "copy").expect_code(0);
    assert_eq!((ended.number("renamed"), ended.number("links"), ended.number("bytes_sent")), (2, 1, 0), "{ended}");
    assert_same(&tree, &copy);
    assert_eq!(inode(copy.join("new/first")), inode(copy.join("new/second")));
}

/// Contents of all files below a directory.
fn contents(directory: &Path) -> BTreeSet<Vec<u8>> {
    listing(directory).iter().filter_map(|path| fs::read(directory.join(path)).ok()).collect()
}

#[test]
fn killed_at_any_moment_nothing_is_lost_and_the_next_run_completes() {
    let mut noise = Noise::logged("renames");
    let site = Site::new();
    let (tree, copy) = (site.path("tree"), site.path("copy"));
    data::tree(&tree, 3, &Shape { small: 150, large: vec![5 * MIB], ..Shape::default() });
    site.copy(&["tree/", "copy"]).start().finish().expect_code(0);
    for round in 0..8 {
        let all = contents(&tree);
        let names = listing(&tree);
        let mut left: Vec<&String> = names.iter().filter(|name| tree.join(name).is_file()).collect();
        for number in 0..60 {
            let name = left.swap_remove(noise.below(left.len() as u64) as usize);
            rename(&tree, &[(name, &format!("{}/{round} {number}", ["a", "z"][noise.below(2) as usize]))]);
        }
        let far = site.by_ssh("copy").into_string().unwrap();
        let run = site.copy(&["--skip-equal", "--delete", "--ssh", &site.ssh(), "tree/", &far]).start();
        let seen = noise.below(60) as usize;
        run.wait_for_more(0, seen, |event| event["type"] == "item" || event["type"] == "deleted");
        run.kill_either(noise.below(2) == 1);
        assert!(all.is_subset(&contents(&copy)), "round {round}: contents were lost");
        let run = site.copy(&["--skip-equal", "--delete", "--ssh", &site.ssh(), "tree/", &far]).start();
        run.finish().expect_code(0);
        assert_same(&tree, &copy);
        assert_no_leftovers(&copy);
    }
}

#[test]
fn files_with_several_names_are_copied_and_stay_apart() {
    let site = Site::new();
    files(&site.path("tree"), &["a1"]);
    fs::hard_link(site.path("tree/a1"), site.path("tree/a2")).unwrap();
    site.copy(&["tree/", "copy"]).run().expect_code(0);
    // A file of its own with the contents and the time of the others.
    let status = std::process::Command::new("cp").arg("-p").args([site.path("tree/a1"), site.path("tree/n1")]).status();
    assert!(status.unwrap().success());
    fs::remove_file(site.path("tree/a1")).unwrap();
    let mirror = || site.copy(&MIRROR).args(["tree/", "copy"]).run().expect_code(0);

    let ended = mirror();
    assert_eq!((ended.number("renamed"), ended.number("bytes_sent")), (1, 0), "{ended}");
    assert_same(&site.path("tree"), &site.path("copy"));
    assert_ne!(inode(site.path("copy/n1")), inode(site.path("copy/a2")));
    // A further name that is made changes the file's time of change, and so the candidate: not before now.
    fs::hard_link(site.path("tree/a2"), site.path("tree/a3")).unwrap();
    fs::set_permissions(site.path("tree/n1"), Permissions::from_mode(0o600)).unwrap();
    mirror();
    assert_same(&site.path("tree"), &site.path("copy"));
    assert_eq!(inode(site.path("copy/a2")), inode(site.path("copy/a3")));
}

#[test]
fn attributes_of_a_linked_group_do_not_reach_its_names_elsewhere() {
    let site = Site::new();
    files(&site.path("tree"), &["p1"]);
    fs::hard_link(site.path("tree/p1"), site.path("tree/p2")).unwrap();
    site.copy(&["tree/", "copy"]).run().expect_code(0);
    fs::hard_link(site.path("copy/p1"), site.path("elsewhere")).unwrap();
    let mode = |path: &str| fs::metadata(site.path(path)).unwrap().mode() & 0o777;
    let before = mode("elsewhere");
    fs::set_permissions(site.path("tree/p1"), Permissions::from_mode(0o600)).unwrap();

    site.copy(&MIRROR).args(["tree/", "copy"]).run().expect_code(0);
    assert_same(&site.path("tree"), &site.path("copy"));
    assert_eq!((mode("elsewhere"), mode("copy/p2")), (before, 0o600));
    assert_eq!(inode(site.path("copy/p1")), inode(site.path("copy/p2")));
}
