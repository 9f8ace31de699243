//! Trees nested so deep that no path leads to their bottom.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use crate::support::{Route, RoutedSite};

const DEPTH: usize = 3000;
/// As long a name as makes each path of a hundred levels longer than a tenth of `PATH_MAX`.
const NAME: &str = "eleven-long";

/// A tree that only a program that descends can remove; gone when dropped.
struct Deep(PathBuf);

impl Drop for Deep {
    fn drop(&mut self) {
        let _ = Command::new("rm").arg("-rf").arg(&self.0).status();
    }
}

fn open(directory: &OwnedFd, name: &str) -> OwnedFd {
    openat(directory, name, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

fn top(path: &Path) -> OwnedFd {
    openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// Directories in directories, with a file in every hundredth and in the last.
fn make(path: &Path) -> Deep {
    std::fs::create_dir(path).unwrap();
    let deep = Deep(path.to_owned());
    let mut directory = top(path);
    for level in 1..=DEPTH {
        mkdirat(&directory, NAME, Mode::RWXU).unwrap();
        directory = open(&directory, NAME);
        if level % 100 == 0 {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            let mut file = File::from(openat(&directory, "file", flags, Mode::RUSR).unwrap());
            write!(file, "level {level}").unwrap();
        }
    }
    deep
}

/// Descends and finds every file.
fn assert_complete(path: &Path) {
    let mut directory = top(path);
    for level in 1..=DEPTH {
        directory = open(&directory, NAME);
        if level % 100 == 0 {
            let mut text = String::new();
            let file = openat(&directory, "file", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
            File::from(file).read_to_string(&mut text).unwrap();
            assert_eq!(text, format!("level {level}"));
        }
    }
}

fn copies_by(route: Route) {
    let routed = RoutedSite::new(route);
    let _source = make(&routed.path("deep"));
    let _copy = Deep(routed.path("copy"));
    let ended = routed.copy(&[], &["deep"], "copy").expect_code(0);
    assert_complete(&routed.path("copy"));
    assert_eq!(ended.number("files"), (DEPTH / 100) as u64, "{ended}");
    // And once more, over what is there.
    routed.copy(&["--skip-equal"], &["deep/"], "copy").expect_code(0);
}

#[test]
fn a_tree_of_three_thousand_levels_is_copied_here() {
    copies_by(Route::Local);
}

#[test]
fn a_tree_of_three_thousand_levels_is_pushed() {
    copies_by(Route::Push);
}
