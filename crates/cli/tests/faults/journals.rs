//! Damage to what an interrupted copy has left: whatever is flipped, cut or exchanged in the unfinished file and in
//! the journals, the next run ends with exit code 0 and a copy that is identical to its source.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::interrupted::{BLOCK, BREAK, Interrupted, SIZE, append, cut, flip, length};
use crate::support::{MIB, Noise, data, is_root, leftovers};

const HEADER: u64 = 76;
const RECORD: u64 = 44;
const SLOT: u64 = 64;

#[test]
fn damage_to_the_unfinished_file() {
    let mut noise = Noise::logged("the unfinished file");
    let state = Interrupted::file();
    let whole = state.continue_after("undamaged", |_| {});
    assert!(whole.resumed() >= 3 * BLOCK, "{whole}");
    // What the journal promises is compared with the file: of a flipped bit one block travels again.
    // Which blocks were there, in whatever order they came, is not known; how many is.
    let mut again = 0;
    for (number, start) in (0..SIZE).step_by(BLOCK as usize).enumerate() {
        let last = (start + BLOCK).min(SIZE) - 1;
        let offset = [start, last, start + noise.below(last + 1 - start)][number % 3];
        let bit = noise.below(8);
        let ended = state.continue_after(&format!("bit {bit} at {offset}"), |state| {
            let part = state.left(".part");
            if offset < length(&part) {
                flip(&part, offset, bit);
            }
        });
        let more = ended.number("bytes_sent") - whole.number("bytes_sent");
        assert!(more == 0 || more == BLOCK.min(SIZE - start), "{ended}");
        again += more;
    }
    assert_eq!(again, whole.resumed());
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
    let ended = state.continue_after("others may write it", |state| {
        fs::set_permissions(state.left(".blocks"), Permissions::from_mode(0o622)).unwrap();
    });
    assert_eq!(ended.resumed(), 0, "{ended}");
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
    let ended = state.continue_after("others may write it", |state| {
        fs::set_permissions(state.left(".run"), Permissions::from_mode(0o622)).unwrap();
    });
    assert_eq!(ended.number("taken_over_files"), 0, "{ended}");
    if is_root() {
        let ended =
            state.continue_after("another user's", |state| chown(state.left(".run"), Some(65533), None).unwrap());
        assert_eq!(ended.number("taken_over_files"), 0, "{ended}");
    }
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
