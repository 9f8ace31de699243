//! Damage to what an interrupted copy has left: whatever is flipped, cut or exchanged in the unfinished file and in
//! the journals, the next run ends with exit code 0 and a copy that is identical to its source.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Ended, KIB, MIB, Noise, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, data, leftovers, succeed,
};

const SIZE: u64 = 28 * MIB + 77;
const BREAK: u64 = 14 * MIB;
const BLOCK: u64 = 4 * MIB;
const HEADER: u64 = 76;
const RECORD: u64 = 44;
const SLOT: u64 = 64;

/// A copy that was interrupted, and can be continued any number of times from the same state.
struct Interrupted {
    site: Site,
    source: PathBuf,
    words: [std::ffi::OsString; 2],
}

impl Interrupted {
    fn file() -> Self {
        let site = Site::new();
        let source = data::file(&site.path("source"), SIZE, 50);
        site.directory("copy");
        let words = [source.clone().into(), site.by_ssh("copy/source")];
        Self { site, source, words }.interrupt()
    }

    fn tree() -> Self {
        let site = Site::new();
        let shape = Shape { small: 400, largest_small: 8 * KIB, large: vec![6 * MIB, SIZE], oddities: true };
        data::tree(&site.path("source"), 51, &shape);
        site.directory("copy");
        let words = [site.path("source/").into(), site.by_ssh("copy/")];
        Self { source: site.path("source"), site, words }.interrupt()
    }

    fn interrupt(self) -> Self {
        let run = self.site.copy(&["--rate", "160mbit", "--ssh", &self.site.ssh()]).args(&self.words).start();
        assert!(run.wait_for_bytes(BREAK), "{}", run.finish());
        run.signal(Signal::INT);
        run.finish().expect_code(4);
        self.keep();
        self
    }

    fn copy(&self) -> PathBuf {
        self.site.path("copy")
    }

    /// Makes the present state the one that every test begins with.
    fn keep(&self) {
        let _ = fs::remove_dir_all(self.site.path("kept"));
        succeed(Command::new("cp").arg("-a").arg(self.copy()).arg(self.site.path("kept")));
    }

    /// The file of the unfinished copy whose name ends like this.
    fn left(&self, ending: &str) -> PathBuf {
        let found = leftovers(&self.copy());
        let mut fitting = found.iter().filter(|path| path.to_str().unwrap().ends_with(ending));
        let first = fitting.next().unwrap_or_else(|| panic!("no {ending} among {found:?}"));
        assert!(fitting.next().is_none(), "more than one {ending}: {found:?}");
        first.clone()
    }

    /// Does some damage to the state after the interruption, and continues.
    fn continue_after(&self, what: &str, damage: impl FnOnce(&Self)) -> Ended {
        fs::remove_dir_all(self.copy()).unwrap();
        succeed(Command::new("cp").arg("-a").arg(self.site.path("kept")).arg(self.copy()));
        eprintln!("{what}");
        damage(self);
        self.finish(what)
    }

    fn finish(&self, what: &str) -> Ended {
        let ended = self.site.copy(&["--ssh", &self.site.ssh()]).args(&self.words).run();
        assert_eq!(ended.code, Some(0), "{what}: {ended}");
        let copy = if self.source.is_dir() { self.copy() } else { self.copy().join("source") };
        assert_same(&self.source, &copy);
        assert_no_leftovers(&self.copy());
        ended
    }
}

fn flip(path: &Path, offset: u64, bit: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], offset).unwrap();
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn append(path: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, file.metadata().unwrap().len()).unwrap();
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn damage_to_the_unfinished_file() {
    let mut noise = Noise::logged("the unfinished file");
    let state = Interrupted::file();
    let whole = state.continue_after("undamaged", |_| {});
    assert!(whole.resumed() >= 3 * BLOCK, "{whole}");
    // What the journal promises is compared with the file: of a flipped bit one block travels again.
    let blocks = whole.resumed() / BLOCK;
    let mut offsets = vec![0, BLOCK - 1, BLOCK];
    offsets.extend((0..5).map(|_| noise.below(blocks * BLOCK)));
    for offset in offsets {
        let bit = noise.below(8);
        let ended = state.continue_after(&format!("bit {bit} at {offset}"), |state| {
            flip(&state.left(".part"), offset, bit);
        });
        assert_eq!(ended.number("bytes_sent"), whole.number("bytes_sent") + BLOCK, "{ended}");
    }
    for length in [0, 1, BLOCK + 1, SIZE - 1, SIZE + MIB] {
        state.continue_after(&format!("{length} bytes long"), |state| cut(&state.left(".part"), length));
    }
    state.continue_after("zeros in place of data", |state| {
        cut(&state.left(".part"), 0);
        cut(&state.left(".part"), SIZE);
    });
    state.continue_after("removed", |state| fs::remove_file(state.left(".part")).unwrap());
    let victim = state.site.path("victim");
    fs::write(&victim, "not yours").unwrap();
    state.continue_after("a link to another file", |state| {
        let part = state.left(".part");
        fs::remove_file(&part).unwrap();
        symlink(&victim, part).unwrap();
    });
    assert_eq!(fs::read(victim).unwrap(), b"not yours");
}

#[test]
fn damage_to_the_journal_of_a_file() {
    let mut noise = Noise::logged("the journal of a file");
    let state = Interrupted::file();
    let journal = length(&state.left(".blocks"));
    assert!(journal >= HEADER + 3 * RECORD && (journal - HEADER).is_multiple_of(RECORD), "{journal}");
    let mut offsets = vec![0, 8, 12, 28, 36, HEADER - 1, HEADER, HEADER + 4, HEADER + RECORD - 1, journal - 1];
    offsets.extend((0..10).map(|_| noise.below(journal)));
    for offset in offsets {
        let bit = noise.below(8);
        let what = format!("bit {bit} at {offset}");
        let ended = state.continue_after(&what, |state| flip(&state.left(".blocks"), offset, bit));
        // A damaged record costs its own block only.
        if offset >= HEADER {
            assert!(ended.resumed() >= 2 * BLOCK, "{ended}");
        }
    }
    for length in [0, 1, HEADER - 1, HEADER, HEADER + 1, HEADER + RECORD + RECORD / 2, journal - 1] {
        state.continue_after(&format!("cut to {length}"), |state| cut(&state.left(".blocks"), length));
    }
    state.continue_after("removed", |state| fs::remove_file(state.left(".blocks")).unwrap());
    state.continue_after("noise behind it", |state| append(&state.left(".blocks"), &noise.bytes(1000)));
    state.continue_after("zeros behind it", |state| append(&state.left(".blocks"), &vec![0; 5 << 20]));
    state.continue_after("all records twice", |state| {
        let records = fs::read(state.left(".blocks")).unwrap()[HEADER as usize..].to_vec();
        append(&state.left(".blocks"), &records);
    });
    state.continue_after("all noise", |state| {
        fs::write(state.left(".blocks"), noise.bytes(journal as usize)).unwrap();
    });
    state.continue_after("records of blocks that never arrived", |state| {
        let records = fs::read(state.left(".blocks")).unwrap()[HEADER as usize..].to_vec();
        let shifted: Vec<u8> = records
            .chunks_exact(RECORD as usize)
            .flat_map(|record| [&6_u32.to_le_bytes(), &record[4..]].concat())
            .collect();
        append(&state.left(".blocks"), &shifted);
    });
}

#[test]
fn the_journal_is_of_another_version_of_the_source() {
    let state = Interrupted::file();
    // Same size, other bytes; the time is set back to what it was.
    let modified = fs::metadata(&state.source).unwrap().modified().unwrap();
    data::file(&state.source, SIZE, 52);
    fs::File::open(&state.source).unwrap().set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
    let ended = state.continue_after("other bytes", |_| {});
    assert_eq!(ended.resumed(), 0, "{ended}");

    for size in [SIZE - MIB, SIZE + MIB, 3 * MIB, 100, 0] {
        data::file(&state.source, size, 53);
        let ended = state.continue_after(&format!("{size} bytes"), |_| {});
        assert_eq!(ended.resumed(), 0, "{ended}");
    }
}

#[test]
fn the_journal_is_of_another_transfer() {
    let (one, other) = (Interrupted::file(), Interrupted::file());
    data::file(&other.source, SIZE, 54);
    fs::remove_dir_all(other.copy()).unwrap();
    other.site.directory("copy");
    let other = other.interrupt();
    let theirs = |ending: &str| {
        leftovers(&other.site.path("kept")).into_iter().find(|path| path.to_str().unwrap().ends_with(ending)).unwrap()
    };
    let replace = |state: &Interrupted, ending: &str| {
        fs::copy(theirs(ending), state.left(ending)).unwrap();
    };
    let ended = one.continue_after("their journal", |state| replace(state, ".blocks"));
    assert_eq!(ended.resumed(), 0, "{ended}");
    one.continue_after("their data", |state| replace(state, ".part"));
    one.continue_after("their data and journal", |state| {
        replace(state, ".part");
        replace(state, ".blocks");
    });
    one.continue_after("both journals in one", |state| {
        append(&state.left(".blocks"), &fs::read(theirs(".blocks")).unwrap());
    });
}

#[test]
fn damage_to_the_journal_of_a_run() {
    let mut noise = Noise::logged("the journal of a run");
    let state = Interrupted::tree();
    let whole = state.continue_after("undamaged", |_| {});
    let journal = length(&state.site.path("kept").join(run_journal(&state.site.path("kept"))));
    assert!(whole.resumed() >= BREAK && journal > 100 * SLOT, "{journal}: {whole}");
    let mut offsets = vec![0, 8, 12, SLOT - 1, SLOT, SLOT + 8, journal - 1];
    offsets.extend((0..6).map(|_| noise.below(journal)));
    for offset in offsets {
        let bit = noise.below(8);
        state.continue_after(&format!("bit {bit} at {offset}"), |state| flip(&state.left(".run"), offset, bit));
    }
    for length in [0, 1, SLOT - 1, SLOT, 10 * SLOT + 7, journal - 1] {
        state.continue_after(&format!("cut to {length}"), |state| cut(&state.left(".run"), length));
    }
    state.continue_after("removed", |state| fs::remove_file(state.left(".run")).unwrap());
    state.continue_after("noise behind it", |state| append(&state.left(".run"), &noise.bytes(1001)));
    state.continue_after("all noise", |state| {
        fs::write(state.left(".run"), noise.bytes(journal as usize)).unwrap();
    });
    state.continue_after("slots exchanged", |state| {
        let path = state.left(".run");
        let mut bytes = fs::read(&path).unwrap();
        let (left, right) = bytes.split_at_mut(20 * SLOT as usize);
        left[2 * SLOT as usize..3 * SLOT as usize].swap_with_slice(&mut right[..SLOT as usize]);
        fs::write(path, bytes).unwrap();
    });
}

fn run_journal(directory: &Path) -> PathBuf {
    leftovers(directory).into_iter().find(|path| path.extension().is_some_and(|ending| ending == "run")).unwrap()
}
