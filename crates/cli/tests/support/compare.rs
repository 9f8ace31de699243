//! Trees compared with everything that a copy carries by default, and what a copy must not leave
//! behind.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::MIB;

/// Asserts that two files or trees are equal: names, kinds, contents, link targets, modes,
/// modification times.
#[track_caller]
pub fn assert_same(source: &Path, copy: &Path) {
    let mut differences = differences(source, copy);
    let count = differences.len();
    differences.truncate(20);
    assert!(count == 0, "{} differs from {} in {count} ways: {differences:#?}", copy.display(), source.display());
}

/// What two files or trees differ in, each by `PATH OF THE COPY: what`.
pub fn differences(source: &Path, copy: &Path) -> Vec<String> {
    let mut differences = Vec::new();
    compare(source, copy, &mut differences);
    differences
}

/// A tree as it must stay: path → (inode, mode, owner, size, time, contents). Neither the number of names nor the change time,
/// which a further name changes.
pub type State = BTreeMap<PathBuf, ([i64; 6], Vec<u8>)>;

/// The state of a file, or of a directory with everything in it.
pub fn state(path: &Path) -> State {
    let stat = fs::symlink_metadata(path).unwrap();
    let mut found = State::new();
    let contents = match stat.file_type() {
        kind if kind.is_file() => fs::read(path).unwrap(),
        kind if kind.is_symlink() => fs::read_link(path).unwrap().into_os_string().into_encoded_bytes(),
        _ => {
            fs::read_dir(path).unwrap().for_each(|entry| found.extend(state(&entry.unwrap().path())));
            Vec::new()
        }
    };
    let (mode, owner) = (i64::from(stat.mode()), i64::from(stat.uid()));
    let numbers = [stat.ino() as i64, mode, owner, stat.size() as i64, stat.mtime(), stat.mtime_nsec()];
    found.insert(path.to_owned(), (numbers, contents));
    found
}

/// Inode number of a file, or of a symbolic link itself.
pub fn inode(path: impl AsRef<Path>) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// Asserts that nothing unfinished lies below `path`.
#[track_caller]
pub fn assert_no_leftovers(path: &Path) {
    assert_eq!(leftovers(path), Vec::<PathBuf>::new());
}

/// Everything below `path` that a running or interrupted copy keeps for itself.
pub fn leftovers(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().as_bytes().starts_with(b".icdc-") {
            found.push(entry.path());
        } else if entry.file_type().unwrap().is_dir() {
            found.extend(leftovers(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Whether two files have the same contents.
pub fn same_contents(one: &Path, other: &Path) -> bool {
    let (mut one, mut other) = (File::open(one).unwrap(), File::open(other).unwrap());
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        one.by_ref().take(MIB).read_to_end(&mut left).unwrap();
        other.by_ref().take(MIB).read_to_end(&mut right).unwrap();
        if left != right {
            return false;
        }
        if left.is_empty() {
            return true;
        }
    }
}

fn compare(source: &Path, copy: &Path, differences: &mut Vec<String>) {
    let mut differs = |what: String| differences.push(format!("{}: {what}", copy.display()));
    let (Ok(theirs), Ok(ours)) = (fs::symlink_metadata(source), fs::symlink_metadata(copy)) else {
        return differs(format!("exists {}, should {}", exists(copy), exists(source)));
    };
    if theirs.file_type() != ours.file_type() {
        return differs(format!("is a {:?}, not a {:?}", ours.file_type(), theirs.file_type()));
    }
    if theirs.is_symlink() {
        let (theirs, ours) = (fs::read_link(source).unwrap(), fs::read_link(copy).unwrap());
        if theirs != ours {
            differs(format!("points to {}, not {}", ours.display(), theirs.display()));
        }
        return;
    }
    let mode = |metadata: &Metadata| metadata.permissions().mode() & 0o777;
    if mode(&theirs) != mode(&ours) {
        differs(format!("has mode {:o}, not {:o}", mode(&ours), mode(&theirs)));
    }
    let time = |metadata: &Metadata| (metadata.mtime(), metadata.mtime_nsec());
    if time(&theirs) != time(&ours) {
        differs(format!("has time {:?}, not {:?}", time(&ours), time(&theirs)));
    }
    if theirs.rdev() != ours.rdev() {
        differs(format!("is the device {:x}, not {:x}", ours.rdev(), theirs.rdev()));
    }
    if theirs.is_dir() {
        for name in names(source).union(&names(copy)) {
            compare(&source.join(name), &copy.join(name), differences);
        }
    } else if theirs.is_file() {
        if theirs.len() != ours.len() {
            differs(format!("has {} bytes, not {}", ours.len(), theirs.len()));
        } else if !same_contents(source, copy) {
            differs("has other contents".into());
        }
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn names(directory: &Path) -> BTreeSet<OsString> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}
