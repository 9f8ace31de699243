//! Block maps and data ranges against plain sets and arrays.

use std::collections::BTreeMap;

use icdc_protocol::block_map::{BeyondEnd, BlockMap, BlockSet, block_count, block_length, block_offset};
use icdc_protocol::limits::{BLOCK_SIZE, MAX_FILE_SIZE, MAX_HELD, MAX_RANGES};
use icdc_protocol::{Digest, data_ranges};
use proptest::collection::vec;
use proptest::prelude::*;

fn digest(seed: u32) -> Digest {
    *blake3::hash(&seed.to_le_bytes()).as_bytes()
}

proptest! {
    #[test]
    fn a_map_is_the_map_that_it_should_be(
        blocks in 0_u32..400,
        short in 0..BLOCK_SIZE as u64,
        steps in vec((0_u32..420, any::<u32>(), 0_u8..5), 0..600),
    ) {
        let size = (u64::from(blocks) * BLOCK_SIZE as u64).saturating_sub(short);
        let mut map = BlockMap::new(size);
        let mut model = BTreeMap::new();
        for (index, seed, action) in steps {
            if action == 0 {
                prop_assert_eq!(map.remove(index), model.remove(&index));
            } else if index < blocks {
                prop_assert_eq!(map.insert(index, digest(seed)), Ok(model.insert(index, digest(seed))));
            } else {
                prop_assert_eq!(map.insert(index, digest(seed)), Err(BeyondEnd { index, blocks }));
            }
        }
        prop_assert_eq!(map.blocks(), blocks);
        prop_assert_eq!(map.count() as usize, model.len());
        prop_assert_eq!(map.is_complete(), model.len() == blocks as usize);
        let bytes: u64 = model.keys().map(|index| block_length(size, *index) as u64).sum();
        prop_assert_eq!(map.bytes(), bytes);
        prop_assert!(map.iter().eq(model.iter().map(|(index, value)| (*index, *value))));
        for index in 0..blocks + 70 {
            prop_assert_eq!(map.get(index), model.get(&index).copied());
        }

        let runs: Vec<_> = map.runs().collect();
        let missing: Vec<_> = map.missing().collect();
        prop_assert!(runs.iter().cloned().flatten().eq(model.keys().copied()));
        prop_assert!(missing.iter().cloned().flatten().eq((0..blocks).filter(|index| !model.contains_key(index))));
        for ranges in [runs, missing] {
            prop_assert!(ranges.iter().all(|range| !range.is_empty()));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "they are the longest");
        }

        let mut held = Vec::new();
        for message in map.held(9) {
            prop_assert_eq!(message.id, 9);
            held.extend((message.first..).zip(message.values));
        }
        prop_assert!(held.into_iter().eq(model));
    }

    #[test]
    fn joined_ranges_cover_the_data_and_little_else(steps in vec((0_u32..5000, 0_u32..5000), 0..700), gap in 0_u32..3000) {
        let mut given = Vec::new();
        let mut end = 0;
        for (hole, length) in steps {
            given.push((end + hole, length));
            end += hole + length;
        }
        let joined = data_ranges::join(given.iter().copied(), gap);
        prop_assert!(joined.len() <= MAX_RANGES);
        let holes: Vec<u32> = joined.windows(2).map(|pair| pair[1].0 - (pair[0].0 + pair[0].1)).collect();
        prop_assert!(holes.iter().all(|hole| *hole > gap));
        given.retain(|(_, length)| *length > 0);
        for (offset, length) in &given {
            let covers = |range: &&(u32, u32)| range.0 <= *offset && offset + length <= range.0 + range.1;
            prop_assert_eq!(joined.iter().filter(covers).count(), 1);
        }
        prop_assert!(data_ranges::total(&joined) >= data_ranges::total(&given));
        prop_assert_eq!(joined.first().map(|range| range.0), given.first().map(|range| range.0));
    }
}

#[test]
fn equal_holes_are_filled_only_as_far_as_needed() {
    let every_other_page = (0..512).map(|page| (page * 8192, 4096));
    let joined = data_ranges::join(every_other_page, 0);
    assert_eq!(joined.len(), MAX_RANGES);
    assert_eq!(data_ranges::total(&joined), (512 + 512 - MAX_RANGES as u64) * 4096);
}

#[test]
fn a_file_may_have_any_size_that_its_blocks_reach_not_beyond() {
    let whole = BLOCK_SIZE as u64;
    for last in [0, 63, 64, 200] {
        let mut map = BlockMap::new(MAX_FILE_SIZE);
        for index in 0..=last {
            map.insert(index, digest(index)).unwrap();
        }
        let end = u64::from(last + 1) * whole;
        assert!(map.set_size(end - whole).is_err() && map.set_size(0).is_err(), "{last}");
        assert_eq!(map.size(), MAX_FILE_SIZE, "an error changes nothing");
        for size in [end + whole, end, end - whole + 1] {
            assert_eq!(map.set_size(size), Ok(()), "{last}");
            assert_eq!((map.size(), map.is_complete()), (size, size <= end), "{last}");
        }
    }
    assert_eq!(BlockMap::<Digest>::new(MAX_FILE_SIZE).set_size(0), Ok(()));
}

#[test]
fn the_largest_file_has_its_blocks_and_an_empty_one_none() {
    assert_eq!(block_count(MAX_FILE_SIZE), u32::MAX);
    let last = u32::MAX - 1;
    assert_eq!(block_offset(last) + block_length(MAX_FILE_SIZE, last) as u64, MAX_FILE_SIZE);
    let empty: BlockMap = BlockMap::new(0);
    assert!(empty.is_complete() && empty.is_empty());
    assert_eq!(empty.missing().count(), 0);
    assert_eq!(empty.root(), Some(*blake3::hash(b"").as_bytes()));

    let mut huge = BlockSet::new(MAX_FILE_SIZE);
    huge.insert(last, ()).unwrap();
    huge.insert(1 << 31, ()).unwrap();
    let missing: Vec<_> = huge.missing().collect();
    assert_eq!(missing, [0..1 << 31, (1 << 31) + 1..last]);
}

#[test]
fn long_runs_are_told_in_several_messages() {
    let blocks = 2 * MAX_HELD as u32 + 3;
    let mut map: BlockMap = BlockMap::new(u64::from(blocks) * BLOCK_SIZE as u64);
    for index in 0..blocks {
        map.insert(index, digest(index)).unwrap();
    }
    let lengths: Vec<usize> = map.held(0).map(|held| held.values.len()).collect();
    assert_eq!(lengths, [MAX_HELD, MAX_HELD, 3]);
}
