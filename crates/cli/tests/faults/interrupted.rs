//! The state that an interrupted copy has left, to be damaged and continued any number of times.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Ended, KIB, MIB, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, leftovers, succeed,
};

pub(crate) const SIZE: u64 = 28 * MIB + 77;
/// Bytes after whose arrival a copy is interrupted.
pub(crate) const BREAK: u64 = 14 * MIB;
pub(crate) const BLOCK: u64 = 4 * MIB;

/// A copy that was interrupted, and can be continued any number of times from the same state.
pub(crate) struct Interrupted {
    pub(crate) site: Site,
    pub(crate) source: PathBuf,
    words: [OsString; 2],
}

impl Interrupted {
    pub(crate) fn file() -> Self {
        Self::of_file(|path| {
            data::file(path, SIZE, 50);
        })
    }

    /// A copy of the file that `make` makes.
    pub(crate) fn of_file(make: impl FnOnce(&Path)) -> Self {
        let site = Site::new();
        let source = site.path("source");
        make(&source);
        site.directory("copy");
        let words = [source.clone().into(), site.by_ssh("copy/source")];
        Self { site, source, words }.interrupt()
    }

    pub(crate) fn tree() -> Self {
        let site = Site::new();
        let shape = Shape { small: 400, largest_small: 8 * KIB, large: vec![6 * MIB, SIZE], oddities: true };
        data::tree(&site.path("source"), 51, &shape);
        site.directory("copy");
        let words = [site.path("source/").into(), site.by_ssh("copy/")];
        Self { source: site.path("source"), site, words }.interrupt()
    }

    pub(crate) fn interrupt(self) -> Self {
        let run = self.site.copy(&["--rate", "160mbit", "--ssh", &self.site.ssh()]).args(&self.words).start();
        assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
        run.signal(Signal::INT);
        run.finish().expect_code(4);
        self.keep();
        self
    }

    pub(crate) fn copy(&self) -> PathBuf {
        self.site.path("copy")
    }

    /// Makes the present state the one that every test begins with.
    pub(crate) fn keep(&self) {
        let _ = fs::remove_dir_all(self.site.path("kept"));
        succeed(Command::new("cp").arg("-a").arg(self.copy()).arg(self.site.path("kept")));
    }

    /// The file of the unfinished copy whose name ends like this.
    pub(crate) fn left(&self, ending: &str) -> PathBuf {
        let found = leftovers(&self.copy());
        let mut fitting = found.iter().filter(|path| path.to_str().unwrap().ends_with(ending));
        let first = fitting.next().unwrap_or_else(|| panic!("no {ending} among {found:?}"));
        assert!(fitting.next().is_none(), "more than one {ending}: {found:?}");
        first.clone()
    }

    /// Does some damage to the state after the interruption, and continues.
    pub(crate) fn continue_after(&self, what: &str, damage: impl FnOnce(&Self)) -> Ended {
        self.continue_with(&[], what, damage).0
    }

    /// Does some damage to the state after the interruption, and continues with further options; the copy must be
    /// identical then. Answers also what is at the destination.
    pub(crate) fn continue_with(&self, options: &[&str], what: &str, damage: impl FnOnce(&Self)) -> (Ended, PathBuf) {
        let (ended, copy) = self.end_with(options, what, damage);
        assert_same(&self.source, &copy);
        (ended, copy)
    }

    /// As [`continue_with`](Self::continue_with), whatever the copy then is like.
    pub(crate) fn end_with(&self, options: &[&str], what: &str, damage: impl FnOnce(&Self)) -> (Ended, PathBuf) {
        fs::remove_dir_all(self.copy()).unwrap();
        succeed(Command::new("cp").arg("-a").arg(self.site.path("kept")).arg(self.copy()));
        eprintln!("{what} {options:?}");
        damage(self);
        let ended = self.site.copy(&["--ssh", &self.site.ssh()]).args(options).args(&self.words).run();
        assert_eq!(ended.code, Some(0), "{what}: {ended}");
        assert_no_leftovers(&self.copy());
        let copy = if self.source.is_dir() { self.copy() } else { self.copy().join("source") };
        (ended, copy)
    }
}

/// Flips a bit of a file.
pub(crate) fn flip(path: &Path, offset: u64, bit: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], offset).unwrap();
}

/// Cuts or extends a file.
pub(crate) fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Writes behind the end of a file.
pub(crate) fn append(path: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, file.metadata().unwrap().len()).unwrap();
}

/// Length of a file.
pub(crate) fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}
