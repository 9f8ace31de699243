//! `--link-dest`: what is unchanged in an older copy is linked from there, and the older copy never changes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};

use crate::support::compare::{inode, state};
use crate::support::daemon::Daemon;
use crate::support::mounts::Mount;
use crate::support::{MIB, Route, RoutedSite, Shape, Site, Start, assert_no_leftovers, assert_same, data, skip};

/// Makes a file, and the directories above it.
fn file(path: &Path, size: u64, seed: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    data::file(path, size, seed);
}

#[test]
fn what_is_unchanged_is_linked_and_the_older_copy_stays_as_it_is() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let shape = Shape { small: 20, large: vec![5 * MIB, 6 * MIB], ..Shape::default() };
        let tree = data::tree(&routed.path("tree"), 3, &shape);
        fs::write(tree.join("empty"), "").unwrap();
        fs::hard_link(tree.join("d000/f00001"), tree.join("second name")).unwrap();
        symlink("d000/f00001", tree.join("symlink")).unwrap();
        routed.copy(&[], &["tree/"], "old").expect_code(0);
        let (old, new) = (routed.path("old"), routed.path("new"));
        let before = state(&old);
        data::age(&tree.join("d000/f00003"), 77, 7);
        fs::write(tree.join("d000/f00004"), "of another size").unwrap();
        fs::write(tree.join("d000/new"), "new").unwrap();
        fs::set_permissions(tree.join("d000/f00005"), Permissions::from_mode(0o600)).unwrap();

        let dry = routed.copy(&["--link-dest", "old", "--dry-run"], &["tree/"], "new").expect_code(0);
        assert!(!new.exists(), "{route:?}: {dry}");
        let ended = routed.copy(&["--link-dest", "old"], &["tree/"], "new").expect_code(0);
        assert_same(&tree, &new);
        assert_eq!(state(&old), before, "{route:?}: {ended}");
        for name in ["d000/f00001", "second name", "empty"] {
            assert_eq!(inode(new.join(name)), inode(old.join(name)), "{route:?} {name}: {ended}");
        }
        for name in ["d000/f00003", "d000/f00004", "d000/f00005", "symlink"] {
            assert_ne!(inode(new.join(name)), inode(old.join(name)), "{route:?} {name}: {ended}");
        }
        assert_eq!(ended.number("files"), 3, "{route:?}: {ended}");
        assert!(ended.number("linked") > 20, "{route:?}: {ended}");
        assert!(ended.number("bytes_sent") < MIB, "{route:?}: {ended}");
        let told = ended.all("item").filter(|item| item["outcome"] == "linked").count() as u64;
        assert_eq!(told, ended.number("linked"), "{route:?}: {ended}");

        // Once more into the same copy, whether what is equal is skipped there or not.
        let again = routed.copy(&["--link-dest", "old", "--skip-equal"], &["tree/"], "new").expect_code(0);
        assert_eq!((again.number("files"), again.number("linked")), (0, 0), "{route:?}: {again}");
        let again = routed.copy(&["--link-dest", "old"], &["tree/"], "new").expect_code(0);
        assert_eq!(again.number("linked"), ended.number("linked"), "{route:?}: {again}");
        assert_same(&tree, &new);
        assert_eq!(state(&old), before, "{route:?}: {again}");
        assert_no_leftovers(routed.site.root());
        let dry = routed.copy(&["--link-dest", "old", "--dry-run"], &["tree/"], "new").expect_code(0);
        assert_eq!(dry.number("linked"), ended.number("linked"), "{route:?}: {dry}");
    }
}

#[test]
fn a_reference_is_the_counterpart_of_the_destination() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        data::tree(&routed.path("tree"), 4, &Shape { small: 5, ..Shape::default() });
        file(&routed.path("single"), 300_000, 1);
        let same =
            |old: &str, new: &str| assert_eq!(inode(routed.path(old)), inode(routed.path(new)), "{route:?} {new}");
        // A directory that becomes the destination, one that goes into it, a file by a name of its own.
        routed.copy(&[], &["tree"], "one").expect_code(0);
        routed.copy(&["--link-dest", "one"], &["tree"], "two").expect_code(0);
        same("one/d000/f00001", "two/d000/f00001");
        routed.copy(&[], &["tree", "single"], "in/").expect_code(0);
        routed.copy(&["--link-dest", "in"], &["tree", "single"], "out/").expect_code(0);
        same("in/tree/d000/f00001", "out/tree/d000/f00001");
        same("in/single", "out/single");
        fs::create_dir(routed.path("singles")).unwrap();
        fs::rename(routed.path("out/single"), routed.path("singles/named")).unwrap();
        routed.copy(&["--link-dest", "singles"], &["single"], "named").expect_code(0);
        same("singles/named", "named");
    }
}

#[test]
fn attributes_that_change_later_do_not_reach_an_older_copy() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let (tree, old, new) = (routed.path("tree"), routed.path("old"), routed.path("new"));
        fs::create_dir(&tree).unwrap();
        for name in ["a", "b"] {
            fs::write(tree.join(name), name).unwrap();
            fs::set_permissions(tree.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        routed.copy(&[], &["tree/"], "old").expect_code(0);
        routed.copy(&["--link-dest", "old"], &["tree/"], "new").expect_code(0);
        let before = state(&old);
        fs::set_permissions(tree.join("a"), Permissions::from_mode(0o600)).unwrap();
        let ended = routed.copy(&["--skip-equal", "--link-dest", "old"], &["tree/"], "new").expect_code(0);
        assert_eq!((ended.number("linked"), ended.number("bytes_sent")), (1, 0), "{route:?}: {ended}");
        assert_same(&tree, &new);
        assert_eq!(state(&old), before, "{route:?}: {ended}");
        // Nor where nobody tells of the older copy.
        fs::set_permissions(tree.join("b"), Permissions::from_mode(0o600)).unwrap();
        let ended = routed.copy(&["--skip-equal"], &["tree/"], "new").expect_code(0);
        assert_same(&tree, &new);
        assert_eq!(state(&old), before, "{route:?}: {ended}");
    }
}

#[test]
fn extended_attributes_are_compared_where_they_are_preserved() {
    for route in [Route::Local, Route::Pull, Route::ToDaemon] {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        fs::create_dir(&tree).unwrap();
        for name in ["same", "other"] {
            fs::write(tree.join(name), name).unwrap();
            if setxattr(tree.join(name), "user.colour", b"red", XattrFlags::empty()).is_err() {
                return skip("the file system takes no attributes");
            }
        }
        let preserve = ["--preserve", "mode,times,links,xattr"];
        routed.copy(&preserve, &["tree/"], "old").expect_code(0);
        setxattr(tree.join("other"), "user.colour", b"blue", XattrFlags::empty()).unwrap();
        let ended = routed.copy(&[&preserve[..], &["--link-dest", "old"]].concat(), &["tree/"], "new").expect_code(0);
        assert_eq!((ended.number("linked"), ended.number("bytes_sent")), (2, 0), "{route:?}: {ended}");
        assert_eq!(inode(routed.path("new/same")), inode(routed.path("old/same")), "{route:?}: {ended}");
        let colour = |name: &str| {
            let mut value = [0; 8];
            let length = rustix::fs::getxattr(routed.path(name), "user.colour", &mut value[..]).unwrap();
            value[..length].to_vec()
        };
        assert_eq!(colour("new/other"), b"blue", "{route:?}");
        assert_eq!(colour("old/other"), b"red", "{route:?}");
    }
}

#[test]
fn of_several_references_the_first_equal_one_counts() {
    let routed = RoutedSite::new(Route::Push);
    data::tree(&routed.path("tree"), 4, &Shape { small: 5, ..Shape::default() });
    for old in ["one", "two"] {
        routed.copy(&[], &["tree/"], old).expect_code(0);
    }
    fs::remove_file(routed.path("one/d000/f00001")).unwrap();
    fs::set_permissions(routed.path("one/d000/f00002"), Permissions::from_mode(0o600)).unwrap();
    let absolute = routed.path("two").display().to_string();
    let ended = routed.copy(&["--link-dest", "one", "--link-dest", &absolute], &["tree/"], "new").expect_code(0);
    assert_eq!((ended.number("files"), ended.number("bytes_sent")), (0, 0), "{ended}");
    for (name, old) in [("d000/f00000", "one"), ("d000/f00001", "two"), ("d000/f00002", "two")] {
        assert_eq!(inode(routed.path("new").join(name)), inode(routed.path(old).join(name)), "{name}");
    }
}

#[test]
fn between_two_other_hosts_the_reference_lies_at_the_destinations() {
    let site = Site::new();
    data::tree(&site.path("tree"), 4, &Shape { small: 5, ..Shape::default() });
    let copy = |options: &[&str], place: &str| {
        let mut command = site.copy(&["--ssh", &site.ssh()]);
        command.args(options).arg(site.by_ssh("tree/")).arg(site.by_ssh(place)).start().finish().expect_code(0)
    };
    copy(&[], "old");
    let ended = copy(&["--link-dest", "old"], "new");
    assert!(ended.number("linked") > 5 && ended.number("files") == 0, "{ended}");
    assert_eq!(inode(site.path("new/d000/f00001")), inode(site.path("old/d000/f00001")), "{ended}");
}

#[test]
fn with_verify_contents_travel_because_size_and_time_prove_nothing() {
    for route in [Route::Local, Route::Push, Route::FromDaemon] {
        let routed = RoutedSite::new(route);
        file(&routed.path("tree/file"), 300_000, 1);
        routed.copy(&[], &["tree/"], "old").expect_code(0);
        // Rot: other contents of equal size and time.
        let rotten = routed.path("old/file");
        file(&rotten, 300_000, 2);
        data::age_as(&rotten, &routed.path("tree/file"));
        let ended = routed.copy(&["--verify", "--link-dest", "old"], &["tree/"], "new").expect_code(0);
        assert_eq!((ended.number("linked"), ended.number("files")), (0, 1), "{route:?}: {ended}");
        assert_same(&routed.path("tree"), &routed.path("new"));
    }
}

#[test]
fn a_reference_that_cannot_be_linked_from_is_refused_at_the_start() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        file(&routed.path("tree/file"), 10, 1);
        file(&routed.path("copy/in/file"), 10, 1);
        file(&routed.path("plain"), 10, 1);
        for (reference, words) in [
            ("missing", "beside the destination"),
            ("plain", "--link-dest plain"),
            ("copy", "is the destination, or lies in it"),
            ("copy/in", "is the destination, or lies in it"),
        ] {
            let ended = routed.copy(&["--link-dest", reference], &["tree/"], "copy").expect_code(2);
            assert!(ended.stderr.contains(words), "{route:?} {reference}: {ended}");
            assert!(!routed.path("copy/file").exists(), "{route:?} {reference}: {ended}");
        }
        if let Some(mount) = Mount::tmpfs(routed.path("mounted"), MIB) {
            file(&mount.path().join("file"), 10, 1);
            let ended = routed.copy(&["--link-dest", "mounted"], &["tree/"], "copy").expect_code(2);
            assert!(ended.stderr.contains("is not on the file system of"), "{route:?}: {ended}");
        }
    }
}

#[test]
fn a_reference_outside_a_daemons_root_is_not_reached() {
    let site = Site::new();
    file(&site.path("tree/file"), 10, 1);
    file(&site.path("outside/file"), 10, 1);
    file(&site.path("root/old/file"), 10, 1);
    symlink(site.path("outside"), site.path("root/out")).unwrap();
    let grant = format!("root=\"{}\",rights=rw", site.path("root").display());
    let daemon = Daemon::named(&site, "daemon", &grant);
    let outside = site.path("outside").display().to_string();
    for reference in ["../outside", "out", "old/../../outside", &outside] {
        let mut copy = site.copy(&["--link-dest", reference]);
        copy.arg(site.path("tree/")).arg(daemon.location("/new")).start().finish().expect_code(2);
        assert!(!site.path("root/new").exists(), "{reference}");
    }
}

#[test]
fn a_drop_box_does_not_link() {
    let site = Site::new();
    file(&site.path("tree/file"), 10, 1);
    file(&site.path("box/old/file"), 10, 1);
    let grant = format!("root=\"{}\",rights=drop-box", site.path("box").display());
    let daemon = Daemon::named(&site, "daemon", &grant);
    let mut copy = site.copy(&["--link-dest", "old"]);
    let ended = copy.arg(site.path("tree/")).arg(daemon.location("/new")).start().finish().expect_code(3);
    assert!(ended.stderr.contains("leave --link-dest out"), "{ended}");
}

#[test]
fn too_many_references_are_refused() {
    let site = Site::new();
    file(&site.path("tree/file"), 10, 1);
    let words: Vec<&str> = ["--link-dest", "old"].into_iter().cycle().take(42).collect();
    let mut copy = site.copy(&words);
    let ended = copy.arg(site.path("tree/")).arg(site.path("new")).start().finish().expect_code(2);
    assert!(ended.stderr.contains("at most 20"), "{ended}");
}

#[test]
fn a_file_behind_a_mount_in_the_reference_is_not_taken_from_there() {
    let routed = RoutedSite::new(Route::Local);
    file(&routed.path("tree/in/file"), 300_000, 1);
    routed.copy(&[], &["tree/"], "old").expect_code(0);
    let Some(_mount) = Mount::bind(&routed.path("tree/in"), routed.path("old/in")) else {
        return skip("mounts need root");
    };
    let ended = routed.copy(&["--link-dest", "old"], &["tree/"], "new").expect_code(0);
    assert_eq!((ended.number("linked"), ended.number("files")), (0, 1), "{ended}");
    assert_same(&routed.path("tree"), &routed.path("new"));
}
