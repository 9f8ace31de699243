//! Journals: whatever happens to their bytes, they never say what was not written.

use std::collections::{HashMap, HashSet};

use icdc_protocol::Digest;
use icdc_protocol::block_journal::{self, BlockJournal, HEADER_LENGTH, Header, RECORD_LENGTH};
use icdc_protocol::limits::{BLOCK_SIZE, MAX_PATH, MAX_REMEMBERED_PATHS};
use icdc_protocol::message::{FileDigest, SnapshotTime, TransferId};
use icdc_protocol::run_journal::{ItemKey, NamedSnapshot, Record, RunJournal, SLOT_LENGTH, StagingId, item_key};
use proptest::collection::vec;
use proptest::prelude::*;

const BLOCKS: u32 = 500;

fn header() -> Header {
    Header { version: [1; 16], size: u64::from(BLOCKS) * BLOCK_SIZE as u64 - 9, path: [2; 32] }
}

fn block_bytes(journal: &BlockJournal, records: &[(u32, Digest)]) -> Vec<u8> {
    let records = records.iter().flat_map(|(index, value)| journal.record(*index, value));
    journal.header().iter().copied().chain(records).collect()
}

fn in_pieces(journal: &BlockJournal, bytes: &[u8], piece: usize) -> block_journal::Parsed {
    let mut reader = journal.reader();
    bytes.chunks(piece).for_each(|piece| reader.feed(piece));
    reader.finish()
}

proptest! {
    #[test]
    fn durable_blocks_come_back_the_last_value_of_each(
        records in vec((0..BLOCKS, any::<Digest>()), 0..100),
        piece in 1_usize..300,
    ) {
        let journal = BlockJournal::new(&header());
        let bytes = block_bytes(&journal, &records);
        let parsed = journal.parse(&bytes);
        let expected: HashMap<u32, Digest> = records.into_iter().collect();
        prop_assert_eq!(parsed.blocks.iter().collect::<HashMap<_, _>>(), expected);
        prop_assert_eq!((parsed.valid_length, parsed.damaged), (bytes.len() as u64, 0));
        prop_assert_eq!(in_pieces(&journal, &bytes, piece), parsed);
    }

    #[test]
    fn a_torn_block_journal_gives_what_was_whole_and_can_be_continued(
        records in vec((0..BLOCKS, any::<Digest>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let journal = BlockJournal::new(&header());
        let mut bytes = block_bytes(&journal, &records);
        bytes.truncate(cut.index(bytes.len()));
        let parsed = journal.parse(&bytes);
        let whole = bytes.len().checked_sub(HEADER_LENGTH).map(|length| length / RECORD_LENGTH);
        let expected: HashMap<u32, Digest> = records[..whole.unwrap_or(0)].iter().copied().collect();
        prop_assert_eq!(parsed.blocks.iter().collect::<HashMap<_, _>>(), expected);
        prop_assert_eq!(parsed.valid_length as usize, whole.map_or(0, |count| HEADER_LENGTH + count * RECORD_LENGTH));

        bytes.truncate(parsed.valid_length as usize);
        if bytes.is_empty() {
            bytes.extend_from_slice(journal.header());
        }
        bytes.extend_from_slice(&journal.record(7, &[7; 32]));
        prop_assert_eq!(journal.parse(&bytes).blocks.get(7), Some([7; 32]));
    }

    #[test]
    fn a_damaged_block_journal_never_gives_what_was_not_written(
        records in vec((0..BLOCKS, any::<Digest>()), 0..20),
        damage in vec((any::<prop::sample::Index>(), 1_u8..), 1..8),
        garbage in vec(any::<u8>(), 0..100),
    ) {
        let journal = BlockJournal::new(&header());
        let mut bytes = block_bytes(&journal, &records);
        for (at, bits) in damage {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        bytes.extend_from_slice(&garbage);
        let parsed = journal.parse(&bytes);
        prop_assert!(parsed.blocks.iter().all(|found| records.contains(&found)));
        prop_assert!(parsed.valid_length <= bytes.len() as u64);
    }

    #[test]
    fn garbage_is_no_journal(bytes in vec(any::<u8>(), 0..500)) {
        let mut after_header = BlockJournal::new(&header()).header().to_vec();
        after_header.extend_from_slice(&bytes);
        prop_assert!(BlockJournal::new(&header()).parse(&bytes).blocks.is_empty());
        prop_assert!(BlockJournal::new(&header()).parse(&after_header).blocks.is_empty());
        let run = RunJournal::new(&[3; 32]);
        let after_header = [&run.header()[..], &bytes[..]].concat();
        prop_assert!(run.parse(&bytes).published.is_empty());
        let parsed = run.parse(&after_header);
        prop_assert!(parsed.published.is_empty() && parsed.staged.is_empty());
    }
}

#[test]
fn any_single_flipped_bit_costs_one_block_or_the_whole_block_journal() {
    let journal = BlockJournal::new(&header());
    let records: Vec<(u32, Digest)> = (0..4).map(|n| (n * 3, [n as u8; 32])).collect();
    let bytes = block_bytes(&journal, &records);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let parsed = journal.parse(&damaged);
        let hit = (bit / 8).checked_sub(HEADER_LENGTH).map(|byte| byte / RECORD_LENGTH);
        let expected: Vec<_> = records.iter().enumerate().filter(|(at, _)| hit.is_some_and(|hit| hit != *at)).collect();
        assert!(parsed.blocks.iter().eq(expected.into_iter().map(|(_, record)| *record)), "bit {bit}");
        assert_eq!(parsed.valid_length == 0, hit.is_none());
        assert_eq!(parsed.damaged, u64::from(hit.is_some_and(|hit| hit < 3)));
    }
}

#[test]
fn records_of_another_file_version_or_size_do_not_count() {
    let journal = BlockJournal::new(&header());
    let others = [
        Header { version: [9; 16], ..header() },
        Header { size: header().size + 1, ..header() },
        Header { path: [9; 32], ..header() },
    ];
    for other in others {
        let other = BlockJournal::new(&other);
        assert_eq!(journal.parse(&block_bytes(&other, &[(0, [0; 32])])).valid_length, 0);
        let grafted = [&journal.header()[..], &other.record(0, &[0; 32])].concat();
        assert!(journal.parse(&grafted).blocks.is_empty());
    }
    let beyond = block_bytes(&journal, &[(BLOCKS, [0; 32])]);
    assert!(journal.parse(&beyond).blocks.is_empty(), "a block beyond the end");
}

#[derive(Clone, Debug)]
enum Line {
    Published(ItemKey, FileDigest),
    Staged(StagingId, Vec<u8>),
    Released(StagingId),
    Session(TransferId),
    Snapshot(NamedSnapshot),
}

impl Line {
    fn record(&self) -> Record<'_> {
        match self {
            Self::Published(key, digest) => Record::Published { key: *key, digest: *digest },
            Self::Staged(staging, directory) => Record::Staged { staging: *staging, directory },
            Self::Released(staging) => Record::Released { staging: *staging },
            Self::Session(transfer) => Record::Session { transfer: *transfer },
            Self::Snapshot(named) => Record::Snapshot(*named),
        }
    }
}

/// Few keys, so that some come twice; paths from empty to several slots.
fn line() -> impl Strategy<Value = Line> {
    let key = (0_u8..20).prop_map(|n| [n; 16]);
    let digest = (any::<bool>(), any::<Digest>())
        .prop_map(|(sparse, digest)| if sparse { FileDigest::SparseMap(digest) } else { FileDigest::Blake3(digest) });
    let staging = || (0_u8..10).prop_map(|n| [n; 8]);
    prop_oneof![
        (key, digest).prop_map(|(key, digest)| Line::Published(key, digest)),
        (staging(), vec(any::<u8>(), 0..300)).prop_map(|(staging, path)| Line::Staged(staging, path)),
        staging().prop_map(Line::Released),
        (0_u8..3).prop_map(|n| Line::Session([n; 16])),
        (0..1_u64 << 32, any::<u64>(), any::<u64>()).prop_map(|(seconds, device, inode)| {
            let time = SnapshotTime::new(seconds).expect("it is before the year 10000");
            Line::Snapshot(NamedSnapshot { time, device, inode })
        }),
    ]
}

fn run_bytes(journal: &RunJournal, lines: &[Line]) -> Vec<u8> {
    let mut bytes = journal.header().to_vec();
    lines.iter().for_each(|line| journal.encode(&line.record(), &mut bytes));
    bytes
}

proptest! {
    #[test]
    fn a_run_remembers_the_last_word_about_each_item(lines in vec(line(), 0..80), piece in 1_usize..400) {
        let journal = RunJournal::new(&[3; 32]);
        let bytes = run_bytes(&journal, &lines);
        let parsed = journal.parse(&bytes);
        let (mut published, mut staged) = (HashMap::new(), HashMap::new());
        let (mut of_last_run, mut last_run, mut snapshot) = (HashSet::new(), None, None);
        for line in lines {
            match line {
                Line::Published(key, digest) => {
                    published.insert(key, digest);
                    of_last_run.insert(key);
                }
                Line::Session(transfer) => {
                    if last_run.replace(transfer) != Some(transfer) {
                        of_last_run.clear();
                        snapshot = None;
                    }
                }
                Line::Snapshot(named) => snapshot = Some(named),
                Line::Staged(staging, path) => drop(staged.insert(staging, path)),
                Line::Released(staging) => drop(staged.remove(&staging)),
            }
        }
        prop_assert_eq!(parsed.published.len(), published.len());
        for n in 0..20 {
            prop_assert_eq!(parsed.published.get(&[n; 16]), published.get(&[n; 16]).copied());
            prop_assert_eq!(parsed.published.is_of_last_run(&[n; 16]), of_last_run.contains(&[n; 16]));
        }
        prop_assert_eq!((&parsed.staged, parsed.last_run, parsed.snapshot), (&staged, last_run, snapshot));
        prop_assert_eq!((parsed.valid_length, parsed.forgotten), (bytes.len() as u64, 0));
        let mut reader = journal.reader();
        bytes.chunks(piece).for_each(|piece| reader.feed(piece));
        prop_assert_eq!(reader.finish(), parsed);
    }

    #[test]
    fn a_damaged_or_torn_run_journal_never_gives_what_was_not_written(
        lines in vec(line(), 1..30),
        damage in vec((any::<prop::sample::Index>(), 1_u8..), 0..6),
        cut in any::<prop::sample::Index>(),
        piece in 1_usize..400,
    ) {
        let journal = RunJournal::new(&[3; 32]);
        let mut bytes = run_bytes(&journal, &lines);
        bytes.truncate(cut.index(bytes.len() + 1));
        for (at, bits) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
        }
        let parsed = journal.parse(&bytes);
        for n in 0..20 {
            let was_written = |digest| lines.iter().any(|line| matches!(line, Line::Published(key, written) if *key == [n; 16] && *written == digest));
            prop_assert!(parsed.published.get(&[n; 16]).is_none_or(was_written));
        }
        for (found, path) in &parsed.staged {
            prop_assert!(lines.iter().any(|line| matches!(line, Line::Staged(staging, written) if staging == found && written == path)));
        }
        prop_assert!(parsed.valid_length <= bytes.len() as u64);
        let mut reader = journal.reader();
        bytes.chunks(piece).for_each(|piece| reader.feed(piece));
        prop_assert_eq!(reader.finish(), parsed);
    }
}

#[test]
fn any_single_flipped_bit_costs_one_record_or_the_whole_run_journal() {
    let journal = RunJournal::new(&[3; 32]);
    let lines = [
        Line::Published([1; 16], FileDigest::Blake3([1; 32])),
        Line::Staged([2; 8], vec![b'a'; 200]),
        Line::Published([3; 16], FileDigest::SparseMap([3; 32])),
    ];
    let bytes = run_bytes(&journal, &lines);
    let starts = [1, 2, 2 + 219_usize.div_ceil(SLOT_LENGTH)].map(|slot| slot * SLOT_LENGTH);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let parsed = journal.parse(&damaged);
        let hit = starts.iter().rposition(|start| *start <= bit / 8);
        let found = [
            parsed.published.get(&[1; 16]).is_some(),
            parsed.staged.contains_key(&[2; 8]),
            parsed.published.get(&[3; 16]).is_some(),
        ];
        let expected = [0, 1, 2].map(|line| hit.is_some_and(|hit| hit != line));
        assert_eq!(found, expected, "bit {bit}");
    }
}

#[test]
fn what_a_run_remembers_is_bounded() {
    let journal = RunJournal::new(&[3; 32]);
    let mut reader = journal.reader();
    reader.feed(journal.header());
    let mut bytes = Vec::new();
    let long = vec![b'd'; MAX_PATH];
    for n in 0..5000_u64 {
        bytes.clear();
        journal.encode(&Record::Staged { staging: n.to_le_bytes(), directory: &long }, &mut bytes);
        reader.feed(&bytes);
    }
    let parsed = reader.finish();
    let kept: usize = parsed.staged.values().map(Vec::len).sum();
    assert!(kept <= MAX_REMEMBERED_PATHS && kept > MAX_REMEMBERED_PATHS / 2);
    assert_eq!(parsed.forgotten, 5000 - parsed.staged.len() as u64);

    let mut out = Vec::new();
    journal.encode(&Record::Staged { staging: [0; 8], directory: &[b'd'; MAX_PATH + 1] }, &mut out);
    assert!(out.is_empty(), "a path that no call takes is not recorded");
}

#[test]
fn journals_of_another_run_do_not_count() {
    let other = run_bytes(&RunJournal::new(&[4; 32]), &[Line::Released([0; 8])]);
    assert_eq!(RunJournal::new(&[3; 32]).parse(&other), icdc_protocol::run_journal::Parsed::default());
    let key = item_key(b"a", &[0; 16], (5, 6));
    let others = [
        item_key(b"a", &[1; 16], (5, 6)),
        item_key(b"b", &[0; 16], (5, 6)),
        item_key(b"a", &[0; 16], (4, 6)),
        item_key(b"a", &[0; 16], (5, 7)),
    ];
    assert!(!others.contains(&key));
}
