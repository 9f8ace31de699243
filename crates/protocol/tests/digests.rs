//! Digests by blocks against the `blake3` crate over the whole.

use blake3::hazmat::{Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use icdc_protocol::block_map::{BlockMap, block_count, block_length, block_offset};
use icdc_protocol::digest::{
    RootHasher, TreeHasher, block_value, block_value_of_leaves, first_name, is_block, item, leaf_value, root,
    sparse_map, zero_block_value,
};
use icdc_protocol::limits::LEAF_SIZE;
use icdc_protocol::message::*;
use icdc_protocol::{BLOCK_SIZE, Digest};
use proptest::prelude::*;

/// The test vectors' input: 0, 1, …, 250, 0, 1, …
fn contents(size: usize) -> Vec<u8> {
    (0..=250_u8).cycle().take(size).collect()
}

fn values(file: &[u8]) -> Vec<Digest> {
    let size = file.len() as u64;
    let value = |(index, block)| block_value(block_offset(index), block, size);
    (0..).zip(file.chunks(BLOCK_SIZE)).map(value).collect()
}

#[test]
fn files_of_any_length_have_their_standard_digest() {
    let expected = [
        (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
        (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
        (BLOCK_SIZE - 1, "6ee7f30ae33570aae744290e3f678050511e72f37e594d7620a9191c7d353dd9"),
        (BLOCK_SIZE, "4e94e6f582581a0f3855f3ce504b153e951e65036fe9e2f010b7e25473c54f98"),
        (BLOCK_SIZE + 1, "0460893a0170917e0d568bb27c0287984d4f7e9d59eafb95e6fb3c01ec611eab"),
        (2 * BLOCK_SIZE, "1adedad9735f565ac6e22dab203db63b960c27098f2c0f0fda9adf9238d4c0c9"),
        (3 * BLOCK_SIZE + 5, "95b31c5e4467c13cb1c8699e6a806f6808c0ba881c7247e62804526a42dba86b"),
    ];
    for (size, text) in expected {
        let file = contents(size);
        let standard = blake3::hash(&file);
        assert_eq!(root(size as u64, &values(&file)), Some(*standard.as_bytes()), "{size} bytes");
        assert_eq!(standard.to_hex().as_str(), text, "{size} bytes");
    }
}

#[test]
fn blocks_are_known_and_make_a_file_before_its_size_is_known() {
    for size in [2, 1024, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 2 * BLOCK_SIZE, 3 * BLOCK_SIZE + 5] {
        let file = contents(size);
        let values = values(&file);
        let mut hasher = RootHasher::new(icdc_protocol::limits::MAX_FILE_SIZE);
        for ((index, block), value) in (0..).zip(file.chunks(BLOCK_SIZE)).zip(&values) {
            assert!(is_block(block_offset(index), block, value), "{size} bytes, block {index}");
            assert!(!is_block(block_offset(index + 1), block, value), "{size} bytes, block {index} elsewhere");
            assert!(!is_block(block_offset(index), &block[1..], value), "{size} bytes, block {index} cut");
            hasher.push(*value);
        }
        assert_eq!(hasher.clone().finish(), None, "{size} bytes: it is not of the greatest size");
        hasher.set_size(size as u64);
        assert_eq!(hasher.finish(), Some(*blake3::hash(&file).as_bytes()), "{size} bytes");
    }
}

#[test]
fn the_values_of_its_leaves_give_that_of_a_block() {
    const BLOCK: usize = BLOCK_SIZE;
    let lengths =
        [1, 1024, LEAF_SIZE - 1, LEAF_SIZE, LEAF_SIZE + 1, 3 * LEAF_SIZE, 5 * LEAF_SIZE + 1, BLOCK - 1, BLOCK];
    let sizes = lengths.into_iter().flat_map(|length| [length, BLOCK + length, 2 * BLOCK + length]);
    for size in sizes {
        let file = contents(size);
        for ((index, block), value) in (0..).zip(file.chunks(BLOCK_SIZE)).zip(values(&file)) {
            let offsets = (block_offset(index)..).step_by(LEAF_SIZE);
            let leaves: Vec<_> = offsets.zip(block.chunks(LEAF_SIZE)).map(|(at, leaf)| leaf_value(at, leaf)).collect();
            let expected = (size > LEAF_SIZE).then_some(value);
            assert_eq!(block_value_of_leaves(&leaves, size as u64), expected, "{size} bytes, block {index}");
        }
    }
    assert_eq!(block_value_of_leaves(&[], 2 * BLOCK as u64), None);
}

#[test]
fn zeros_have_the_value_of_zeros() {
    for size in [1, 70_000, BLOCK_SIZE, BLOCK_SIZE + 3, 2 * BLOCK_SIZE] {
        let zeros = vec![0; size];
        let size = size as u64;
        for (index, value) in (0..).zip(values(&zeros)) {
            assert_eq!(zero_block_value(block_offset(index), size), value, "{size} bytes");
        }
    }
}

#[test]
fn a_root_needs_the_values_of_all_blocks_and_no_more() {
    let size = 2 * BLOCK_SIZE as u64 + 1;
    assert_eq!(root(size, &[[1; 32]; 2]), None);
    assert_ne!(root(size, &[[1; 32]; 3]), None);
    assert_eq!(root(size, &[[1; 32]; 4]), None);
    assert_eq!(root(0, &[[1; 32]]), None);
}

/// Definition of the tree by recursion.
fn subtree(values: &[Digest], is_root: bool) -> Digest {
    let [value] = values else {
        let bytes = values.len() as u64 * BLOCK_SIZE as u64;
        let left = (left_subtree_len(bytes) / BLOCK_SIZE as u64) as usize;
        let (left, right) = (subtree(&values[..left], false), subtree(&values[left..], false));
        return if is_root {
            *merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()
        } else {
            merge_subtrees_non_root(&left, &right, Mode::Hash)
        };
    };
    *value
}

#[test]
fn roots_of_many_blocks_follow_the_definition_of_the_tree() {
    let values: Vec<Digest> = (0..700_u32).map(|n| *blake3::hash(&n.to_le_bytes()).as_bytes()).collect();
    for count in 1..=values.len() {
        let size = count as u64 * BLOCK_SIZE as u64 - 17;
        let some = &values[..count];
        assert_eq!(root(size, some), Some(subtree(some, true)), "{count} blocks");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Blocks of several runs, in any order, of which some come twice.
    #[test]
    fn any_order_of_durable_blocks_leaves_the_right_rest_and_gives_the_right_root(
        size in 0_usize..5 * BLOCK_SIZE,
        order in Just((0..6_u32).collect::<Vec<_>>()).prop_shuffle(),
        durable in 0_usize..6,
    ) {
        let file = contents(size);
        let size = size as u64;
        let block = |index: u32| &file[block_offset(index) as usize..][..block_length(size, index)];
        let blocks = block_count(size);
        let order: Vec<u32> = order.into_iter().filter(|index| *index < blocks).collect();
        let (first_run, _) = order.split_at(durable.min(order.len()));

        let mut map: BlockMap = BlockMap::new(size);
        for index in first_run {
            map.insert(*index, block_value(block_offset(*index), block(*index), size)).unwrap();
        }
        let missing: Vec<u32> = map.missing().flatten().collect();
        let expected: Vec<u32> = (0..blocks).filter(|index| !first_run.contains(index)).collect();
        prop_assert_eq!(&missing, &expected);
        prop_assert_eq!(map.root().is_some(), missing.is_empty());
        for index in missing.into_iter().rev() {
            map.insert(index, block_value(block_offset(index), block(index), size)).unwrap();
        }
        prop_assert_eq!(map.bytes(), size);
        prop_assert_eq!(map.root(), Some(*blake3::hash(&file).as_bytes()));
    }
}

#[test]
fn root_hashers_keep_one_value_per_level() {
    let blocks = 100_000_u64;
    let mut hasher = RootHasher::new(blocks * BLOCK_SIZE as u64);
    for _ in 0..blocks {
        hasher.push([0; 32]);
    }
    let held = format!("{hasher:?}").matches("[0, ").count();
    assert!(held <= 20, "{held}");
    assert!(hasher.finish().is_some());
}

#[test]
fn sparse_maps_tell_sizes_places_and_values_apart() {
    let digests = [
        sparse_map(0, []),
        sparse_map(1, []),
        sparse_map(1, [(0, [0; 32])]),
        sparse_map(1, [(1, [0; 32])]),
        sparse_map(1, [(0, [1; 32])]),
        sparse_map(1, [(0, [0; 32]), (1, [0; 32])]),
    ];
    assert_all_differ(&digests);
}

#[test]
fn items_that_differ_in_anything_preserved_have_different_digests() {
    let entry = Entry {
        id: 3,
        parent: Parent::Source(0),
        name: Vec::new(),
        kind: EntryKind::File { size: 5, version: [1; 16], sparse: false, linked: false },
        mode: 0o644,
        mtime_seconds: 1,
        mtime_nanos: 2,
        owner: None,
        xattrs: Vec::new(),
    };
    let changed = |change: fn(&mut Entry)| {
        let mut entry = entry.clone();
        change(&mut entry);
        entry
    };
    let xattrs = |xattrs: &[(&[u8], &[u8])]| Entry {
        xattrs: xattrs.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
        ..entry.clone()
    };
    let link = |to| EntryKind::HardLink { to, size: 5, version: [0; 16], sparse: false };
    let entries = [
        entry.clone(),
        changed(|entry| entry.mode = 0o600),
        changed(|entry| entry.mtime_seconds = 2),
        changed(|entry| entry.mtime_nanos = 1),
        changed(|entry| entry.owner = Some((0, 0))),
        changed(|entry| entry.owner = Some((0, 1))),
        changed(|entry| entry.kind = EntryKind::Directory),
        changed(|entry| entry.kind = EntryKind::Symlink { target: b"a".to_vec() }),
        changed(|entry| entry.kind = EntryKind::Stream),
        changed(|entry| entry.kind = EntryKind::Special(Special::Pipe)),
        changed(|entry| entry.kind = EntryKind::Special(Special::Socket)),
        changed(|entry| entry.kind = EntryKind::Special(Special::BlockDevice(DeviceNumber { major: 1, minor: 2 }))),
        changed(|entry| entry.kind = EntryKind::Special(Special::BlockDevice(DeviceNumber { major: 2, minor: 1 }))),
        changed(|entry| entry.kind = EntryKind::Special(Special::CharacterDevice(DeviceNumber { major: 1, minor: 2 }))),
        changed(|entry| entry.kind = EntryKind::Symlink { target: b"b".to_vec() }),
        xattrs(&[(b"ab", b"c")]),
        xattrs(&[(b"a", b"bc")]),
        xattrs(&[(b"ab", b""), (b"c", b"")]),
    ];
    let mut digests: Vec<Digest> = entries.iter().map(|entry| item(b"path", entry, None, None)).collect();
    digests.push(item(b"Path", &entry, None, None));
    digests.push(item(b"path", &entry, None, Some(&FileDigest::Blake3([0; 32]))));
    digests.push(item(b"path", &entry, None, Some(&FileDigest::SparseMap([0; 32]))));
    digests.push(item(b"path", &Entry { kind: link(0), ..entry.clone() }, Some(&first_name(b"a")), None));
    digests.push(item(b"path", &Entry { kind: link(0), ..entry.clone() }, Some(&first_name(b"b")), None));
    assert_all_differ(&digests);

    let same = changed(|entry| {
        entry.id = 4;
        entry.kind = EntryKind::File { size: 5, version: [2; 16], sparse: true, linked: true };
    });
    assert_eq!(item(b"path", &same, None, None), digests[0], "what is not preserved does not count");
    let linked =
        |to, first: &[u8]| item(b"path", &Entry { kind: link(to), ..entry.clone() }, Some(&first_name(first)), None);
    assert_eq!(linked(0, b"a"), linked(1, b"a"), "nor do the numbers of entries");

    let tree = |items: &[Digest]| {
        let mut tree = TreeHasher::new();
        items.iter().for_each(|item| tree.push(item));
        tree.finish()
    };
    let [a, b, ..] = digests[..] else { unreachable!("there are more") };
    assert_all_differ(&[tree(&[]), tree(&[a]), tree(&[a, b]), tree(&[b, a])]);
}

fn assert_all_differ(digests: &[Digest]) {
    for (at, digest) in digests.iter().enumerate() {
        assert_eq!(digests.iter().position(|other| other == digest), Some(at), "number {at}");
    }
}
