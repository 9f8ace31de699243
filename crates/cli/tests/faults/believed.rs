//! Nothing that an interrupted copy has left is believed: not what lies in the holes of an unfinished file, not a
//! file that has its name already, and nothing is said to be verified that was not read.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use icdc_protocol::block_journal::{BlockJournal, HEADER_LENGTH, Header};
use icdc_protocol::block_map::{block_count, block_length, block_offset};
use icdc_protocol::digest::block_value;
use rustix::process::kill_process;
use serde_json::Value;

use crate::interrupted::{BLOCK, Interrupted};
use crate::support::process::bytes_done;
use crate::support::{
    KIB, MIB, Noise, Shape, Signal, Site, Start, assert_no_leftovers, assert_same, compare::same_contents, data,
    leftovers, succeed,
};

/// Overwrites a part of a file; its modification time stays.
fn alter(path: &Path, offset: u64, bytes: &[u8]) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
}

#[test]
fn garbage_in_the_holes_of_an_unfinished_file() {
    let size = 25 * BLOCK + 5000;
    let stretches = [
        (0, 2 * BLOCK),
        (4 * BLOCK, 100 * KIB),
        (5 * BLOCK - 100 * KIB, 100 * KIB),
        (6 * BLOCK, 14 * BLOCK),
        (22 * BLOCK, 7),
    ];
    let state = Interrupted::of_file(|path| data::sparse(path, size, 60, &stretches));
    let mut noise = Noise::logged("garbage in holes");
    for options in [&[][..], &["--verify"]] {
        for (what, offset) in [
            ("a whole block", 3 * BLOCK),
            ("beside data of a block", 4 * BLOCK + MIB),
            ("behind the data that arrived", 21 * BLOCK + 1),
            ("beside data that has not arrived", 22 * BLOCK + 2 * MIB),
            ("at the end", 25 * BLOCK + 10),
        ] {
            let (ended, copy) = state.continue_with(options, what, |state| {
                alter(&state.left(".part"), offset, &noise.bytes(4000));
            });
            assert_eq!(ended.summary()["verified"], true, "{ended}");
            assert!(ended.resumed() >= BLOCK, "{ended}");
            let allocated = fs::metadata(copy).unwrap().blocks() * 512;
            assert!(allocated < size - 5 * BLOCK, "{what}: {allocated} of {size} bytes are allocated");
        }
        state.continue_with(options, "all of it is garbage, and more", |state| {
            let part = state.left(".part");
            fs::write(&part, noise.bytes((size + MIB) as usize)).unwrap();
        });
    }
}

#[test]
fn files_of_one_block_that_are_holes_are_read_back() {
    let site = Site::new();
    let source = site.directory("source");
    for (name, size) in [("small", 100), ("packed", 200 * KIB), ("one", MIB), ("block", BLOCK), ("two", BLOCK + 1)] {
        data::sparse(&source.join(name), size, 60, &[]);
    }
    data::sparse(&source.join("some"), 2 * MIB, 60, &[(MIB, 10)]);
    let ended = site.copy(&["--verify", "source/"]).arg(site.path("copy")).run().expect_code(0);
    assert_eq!(ended.summary()["read_back"], true, "{ended}");
    assert_same(&source, &site.path("copy"));
}

/// A published file of at least `least` bytes, and its modification time.
fn published(state: &Interrupted, least: u64) -> PathBuf {
    let directories = [state.copy(), state.copy().join("d000")];
    let mut files: Vec<PathBuf> = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && !leftovers(path.parent().unwrap()).contains(path))
        .filter(|path| fs::metadata(path).unwrap().len() >= least)
        .collect();
    files.sort();
    files.into_iter().next().unwrap_or_else(|| panic!("no file of {least} bytes is published"))
}

#[test]
fn altered_published_files() {
    let state = Interrupted::tree();
    for (what, least) in [("a small file", 1), ("a large file", BLOCK)] {
        let (ended, _) = state.continue_with(&["--verify"], what, |state| alter(&published(state, least), 0, b"wrong"));
        let summary = ended.summary();
        assert_eq!((&summary["verified"], &summary["read_back"]), (&true.into(), &true.into()), "{ended}");
        assert_eq!(ended.number("taken_over_files"), 0, "{ended}");
        assert!(ended.resumed() > 0, "{ended}");
        let notices = ended.summary()["notices"].as_array().unwrap().clone();
        assert_eq!(notices.len(), 1, "{ended}");
        assert_eq!((&notices[0]["kind"], &notices[0]["count"]), (&"altered".into(), &1.into()), "{ended}");
        assert!(ended.stderr.contains("1 item that an earlier run had published was altered since"), "{ended}");

        // Without reading it nobody can know; and nobody says so.
        let mut altered = None;
        let (ended, copy) = state.end_with(&[], what, |state| {
            let path = published(state, least);
            alter(&path, 0, b"wrong");
            altered = Some(path);
        });
        assert_eq!(ended.summary()["verified"], false, "{ended}");
        assert!(ended.number("taken_over_files") > 0 && ended.number("taken_over_bytes") >= least, "{ended}");
        let altered = altered.unwrap();
        assert!(!same_contents(&altered, &state.source.join(altered.strip_prefix(copy).unwrap())));
    }
}

#[test]
fn published_files_have_the_mode_of_their_source() {
    let state = Interrupted::tree();
    state.continue_with(&[], "another mode", |state| {
        for least in [1, BLOCK] {
            fs::set_permissions(published(state, least), fs::Permissions::from_mode(0o4711)).unwrap();
        }
    });
}

#[test]
fn a_file_beside_a_journal_of_all_its_blocks_is_compared() {
    let state = Interrupted::file();
    let source = fs::read(&state.source).unwrap();
    let size = source.len() as u64;
    for options in [&[][..], &["--verify"]] {
        for damaged in [false, true] {
            let (ended, _) = state.continue_with(options, &format!("damaged: {damaged}"), |state| {
                let journal = state.left(".blocks");
                let found = fs::read(&journal).unwrap();
                let header = Header {
                    version: found[12..28].try_into().unwrap(),
                    size,
                    path: found[36..68].try_into().unwrap(),
                };
                let codec = BlockJournal::new(&header);
                let mut bytes = codec.header().to_vec();
                assert_eq!(bytes, found[..HEADER_LENGTH]);
                for index in 0..block_count(size) {
                    let start = block_offset(index) as usize;
                    let block = &source[start..start + block_length(size, index)];
                    bytes.extend_from_slice(&codec.record(index, &block_value(block_offset(index), block, size)));
                }
                fs::write(&journal, bytes).unwrap();
                fs::remove_file(state.left(".part")).unwrap();
                let copy = state.copy().join("source");
                fs::write(&copy, &source).unwrap();
                let permissions = fs::metadata(&state.source).unwrap().permissions();
                fs::set_permissions(&copy, permissions).unwrap();
                data::age_as(&copy, &state.source);
                if damaged {
                    alter(&copy, size - 9, b"wrong");
                }
            });
            assert_eq!(ended.summary()["verified"], true, "{ended}");
            assert_eq!(ended.resumed(), if damaged { 0 } else { size }, "{ended}");
        }
    }
}

/// Kills both ends while unfinished small files lie beside others of their names.
fn kill_with_small_files_unfinished(site: &Site) {
    let is_part = |left: &PathBuf| left.extension().is_some_and(|kind| kind == "part");
    let is_unfinished = || leftovers(&site.path("copy")).iter().any(is_part);
    for _ in 0..40 {
        let run = site.copy(&["--rate", "160mbit", "--ssh", &site.ssh(), "source/"]).arg(site.by_ssh("copy")).start();
        run.wait_for_bytes(MIB);
        for _ in 0..500 {
            if is_unfinished() {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        if let Some(far_end) = run.far_end() {
            run.signal(Signal::KILL);
            kill_process(far_end, Signal::KILL).unwrap();
        }
        run.finish();
        if is_unfinished() {
            return;
        }
    }
    panic!("no kill left an unfinished file");
}

#[test]
fn what_a_killed_run_left_goes_with_a_run_that_skips() {
    let site = Site::new();
    let shape = Shape { small: 300, largest_small: 200 * KIB, large: vec![6 * MIB], oddities: false };
    let source = data::tree(&site.path("source"), 74, &shape);
    succeed(Command::new("cp").arg("-a").arg(&source).arg(site.path("copy")));
    kill_with_small_files_unfinished(&site);
    site.copy(&["--skip-equal", "--ssh", &site.ssh(), "source/"]).arg(site.by_ssh("copy")).run().expect_code(0);
    assert_no_leftovers(&site.path("copy"));
    assert_same(&source, &site.path("copy"));
}

#[test]
fn a_connection_made_anew_within_one_run_does_not_make_it_two() {
    for options in [&[][..], &["--verify"]] {
        let site = Site::new();
        let shape = Shape { small: 300, largest_small: 8 * KIB, large: vec![6 * MIB, 64 * MIB], oddities: true };
        let source = data::tree(&site.path("source"), 61, &shape);
        let words = [site.path("source/").into(), site.by_ssh("copy")];
        let command = ["--rate", "160mbit", "--ssh", &site.ssh()];
        let run = site.copy(&command).args(options).args(&words).start();
        let is_under_way = |event: &Value| {
            bytes_done(event) >= 14 * MIB && event["files_done"].as_u64().is_some_and(|published| published > 0)
        };
        assert!(run.wait_for(is_under_way), "{}", run.finish());
        kill_process(run.far_end().unwrap(), Signal::KILL).unwrap();
        let ended = run.finish().expect_code(0);
        assert!(ended.all("reconnecting").count() > 0, "{ended}");
        assert_eq!(ended.summary()["verified"], true, "{ended}");
        assert_eq!((ended.number("taken_over_files"), ended.number("taken_over_bytes")), (0, 0), "{ended}");
        assert_same(&source, &site.path("copy"));
    }
}
