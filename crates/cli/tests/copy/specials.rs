//! `--preserve specials`: named pipes, sockets and device nodes, made anew and never opened.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Timespec, Timestamps, makedev, mknodat};

use crate::delete::pipe;
use crate::support::{
    MIB, Route, RoutedSite, Site, Start, assert_no_leftovers, assert_same, data, is_root, open_to_all, skip,
};

const SPECIALS: [&str; 2] = ["--preserve", "mode,times,links,specials"];

fn socket(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
}

/// Makes a node of `/dev/null`; false where that is not permitted.
fn null(path: &Path) -> bool {
    mknodat(CWD, path, FileType::CharacterDevice, 0o640.into(), makedev(1, 3)).is_ok()
}

pub(super) fn touch(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 5 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    rustix::fs::chmod(path, mode.into()).unwrap();
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// A tree with pipes and sockets beside files.
fn tree(path: &Path) {
    fs::create_dir_all(path.join("directory")).unwrap();
    fs::write(path.join("file"), "file").unwrap();
    data::file(&path.join("directory/large"), 5 * MIB, 1);
    for (name, mode, seconds) in [("pipe", 0o622, 1), ("directory/pipe", 0o000, 2)] {
        pipe(&path.join(name));
        set_mode(&path.join(name), mode);
        touch(&path.join(name), seconds);
    }
    socket(&path.join("socket"));
    touch(&path.join("socket"), 3);
    touch(&path.join("directory"), 4);
    touch(path, 5);
}

#[test]
fn pipes_and_sockets_are_made_and_stay_the_second_time() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        tree(&routed.path("tree"));
        routed.copy(&SPECIALS, &["tree/"], "copy").expect_code(0);
        let copy = routed.path("copy");
        assert_same(&routed.path("tree"), &copy);
        assert_no_leftovers(&copy);
        let inodes = || ["pipe", "directory/pipe", "socket"].map(|name| inode(&copy.join(name)));
        let before = inodes();
        let again = [&SPECIALS[..], &["--skip-equal"]].concat();
        let ended = routed.copy(&again, &["tree/"], "copy").expect_code(0);
        assert_eq!((ended.number("bytes_sent"), inodes()), (0, before), "{route:?}: {ended}");
        // What a program may have open keeps its place when its attributes are set.
        set_mode(&copy.join("pipe"), 0o600);
        touch(&copy.join("socket"), 77);
        let ended = routed.copy(&again, &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &copy);
        assert_eq!(inodes(), before, "{route:?}: {ended}");
        // Alone, in a mirror, and what the source has no longer.
        routed.copy(&SPECIALS, &["tree/pipe"], "alone").expect_code(0);
        assert_same(&routed.path("tree/pipe"), &routed.path("alone"));
        pipe(&copy.join("extra"));
        routed.copy(&[&again[..], &["--delete"]].concat(), &["tree/"], "copy").expect_code(0);
        assert_same(&routed.path("tree"), &copy);
        assert_eq!(inodes(), before, "{route:?}");
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn without_the_word_each_is_a_failed_item() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        tree(&routed.path("tree"));
        let ended = routed.copy(&[], &["tree/"], "copy").expect_code(1);
        for name in ["pipe", "socket", "directory/pipe"] {
            assert!(ended.failures().keys().any(|path| path.ends_with(name)), "{route:?}: {ended}");
            assert!(fs::symlink_metadata(routed.path("copy").join(name)).is_err());
        }
        assert_eq!(fs::read(routed.path("copy/file")).unwrap(), b"file");
    }
}

#[test]
fn one_takes_the_place_of_what_is_there() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.path("tree");
        fs::create_dir(&tree).unwrap();
        for name in ["was-file", "was-link", "was-pipe"] {
            pipe(&tree.join(name));
        }
        socket(&tree.join("was-other"));
        fs::write(tree.join("small"), "small").unwrap();
        data::file(&tree.join("large"), 5 * MIB, 1);
        std::os::unix::fs::symlink("small", tree.join("link")).unwrap();
        let copy = routed.site.directory("copy");
        fs::write(copy.join("was-file"), "file").unwrap();
        std::os::unix::fs::symlink("nowhere", copy.join("was-link")).unwrap();
        for name in ["was-pipe", "was-other", "small", "large", "link"] {
            pipe(&copy.join(name));
        }
        routed.copy(&SPECIALS, &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        // A directory is in the way, and is replaced by a mirror only.
        fs::remove_file(copy.join("was-pipe")).unwrap();
        fs::create_dir(copy.join("was-pipe")).unwrap();
        fs::write(copy.join("was-pipe/inner"), "inner").unwrap();
        let ended = routed.copy(&SPECIALS, &["tree/"], "copy").expect_code(1);
        assert!(ended.stderr.contains("was-pipe: a directory is in the way"), "{route:?}: {ended}");
        for name in ["small", "large"] {
            fs::remove_file(copy.join(name)).unwrap();
            socket(&copy.join(name));
        }
        routed.copy(&[&SPECIALS[..], &["--delete"]].concat(), &["tree/"], "copy").expect_code(0);
        assert_same(&tree, &copy);
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn devices_go_with_the_owner_and_are_made_by_root() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        let tree = routed.site.directory("tree");
        if !null(&tree.join("null")) {
            return skip("no device can be made here");
        }
        fs::write(tree.join("file"), "file").unwrap();
        let ended = routed.copy(&SPECIALS, &["tree/"], "without").expect_code(1);
        assert!(ended.stderr.contains("a character device is not copied without its owner"), "{route:?}: {ended}");
        assert!(!routed.path("without/null").exists());
        for _ in 0..2 {
            let ended = routed.copy(&["--preserve", "all", "--skip-equal"], &["tree/"], "with").expect_code(0);
            let made = fs::symlink_metadata(routed.path("with/null")).unwrap();
            assert!(made.file_type().is_char_device(), "{route:?}: {ended}");
            assert_eq!((made.rdev(), made.mode() & 0o7777), (makedev(1, 3), 0o640), "{route:?}");
        }
        assert_no_leftovers(routed.site.root());
    }
}

#[test]
fn an_ordinary_user_gets_pipes_and_is_told_of_devices() {
    let site = Site::new();
    let (source, target) = (site.directory("source"), site.directory("target"));
    open_to_all(&target);
    pipe(&source.join("pipe"));
    if !is_root() || !null(&source.join("null")) {
        return skip("no device can be made here");
    }
    let words = ["copy", "--json", "--preserve", "specials", "source/", "target/copy"];
    let ended = site.unprivileged().args(words).run().expect_code(1);
    assert!(site.path("target/copy/pipe").symlink_metadata().unwrap().file_type().is_fifo(), "{ended}");
    assert_eq!(ended.failures().len(), 1, "{ended}");
    // The kernel says so, too.
    let words = ["copy", "--json", "--preserve", "specials,owner", "source/null", "target/node"];
    let ended = site.unprivileged().args(words).run();
    assert!(ended.code != Some(0) && ended.stderr.contains("root alone"), "{ended}");
    assert_no_leftovers(site.root());
}

#[test]
fn pipes_are_moved() {
    for route in Route::ALL {
        let routed = RoutedSite::new(route);
        tree(&routed.path("tree"));
        let ended = routed.copy(&[&SPECIALS[..], &["--move"]].concat(), &["tree"], "copy").expect_code(0);
        assert!(!routed.path("tree").exists(), "{route:?}: {ended}");
        assert!(fs::symlink_metadata(routed.path("copy/directory/pipe")).unwrap().file_type().is_fifo());
    }
}
