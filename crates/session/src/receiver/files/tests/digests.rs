//! Digests, and reading back.

use icdc_protocol::block_map::block_count;
use icdc_protocol::digest::{root, sparse_map, zero_block_value};
use icdc_protocol::limits::MAX_HASHED_HOLES;

use super::*;

#[test]
fn what_is_not_as_announced_is_removed() {
    for (blocks, announced) in [(2, FileDigest::Blake3([0; 32])), (2, FileDigest::SparseMap([0; 32])), (1, digest(2))] {
        let mut bench = Bench::new(2).opened_by(0);
        bench.write(0);
        if blocks == 2 {
            bench.block(1);
            bench.write(1);
        }
        bench.actions();
        bench.files.on_end(end(blocks, announced));
        bench.ends(&[Action::Lost { id: ID, loss: Loss::DigestsDiffer, keep: false }]);
    }
}

#[test]
fn the_holes_of_a_sparse_file_are_zeros() {
    let size = whole(3).as_u64();
    let hole = |index: u32| zero_block_value(u64::from(index) * BLOCK.as_u64(), size);
    let standard = FileDigest::Blake3(root(size, &[hole(0), value(1), hole(2)]).unwrap());
    for announced in [standard, FileDigest::SparseMap(sparse_map(size, [(1, value(1))]))] {
        for sparse in [true, false] {
            let mut bench =
                Bench::of(Expected { length: Length::Known(whole(3)), sparse, held: None, in_place: false }, false)
                    .opened_by(1);
            bench.actions();
            bench.write(1);
            bench.files.on_end(end(1, announced));
            let differs = Action::Lost { id: ID, loss: Loss::DigestsDiffer, keep: false };
            assert_eq!(
                bench.actions(),
                [if sparse { Action::Finish { id: ID, streamed: None, holes: vec![0..1, 2..3] } } else { differs }]
            );
        }
    }
}

#[test]
fn a_file_of_nothing_but_holes_is_opened_by_its_end() {
    let expected = Expected { length: Length::Known(whole(2)), sparse: true, held: None, in_place: false };
    let mut bench = Bench::of(expected, false);
    let announced = FileDigest::SparseMap(sparse_map(whole(2).as_u64(), []));
    bench.files.on_end(end(0, announced));
    assert_eq!(bench.actions(), [Action::Open { id: ID }]);
    bench.files.on_opened(ID, Ok(OPENED));
    let holes = std::iter::once(0..2).collect();
    assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: None, holes }]);
    bench.files.on_finished(ID, Ok(()));
    assert_eq!(bench.actions(), [Action::Sync { id: ID }], "length and metadata have to be durable");
    bench.files.on_synced(ID, Ok(()));
    let stored = Action::Stored { id: ID, digest: announced, unsynced: ByteCount::ZERO, streamed: None };
    bench.ends(&[Action::Durable(ByteCount::ZERO), stored]);
}

#[test]
fn so_many_zeros_are_not_hashed() {
    // To hash them would take days.
    let size = ByteCount::new(MAX_HASHED_HOLES << 16);
    let (standard, map) = (FileDigest::Blake3([1; 32]), sparse_map(size.as_u64(), [(0, value(0))]));
    for (announced, good) in [(standard, false), (FileDigest::SparseMap(map), true)] {
        let mut bench =
            Bench::of(Expected { length: Length::Known(size), sparse: true, held: None, in_place: false }, false)
                .opened_by(0);
        bench.actions();
        bench.write(0);
        bench.files.on_end(end(1, announced));
        let holes = std::iter::once(1..block_count(size.as_u64())).collect();
        let differs = Action::Lost { id: ID, loss: Loss::DigestsDiffer, keep: false };
        assert_eq!(bench.actions(), [if good { Action::Finish { id: ID, streamed: None, holes } } else { differs }]);
    }
}

#[test]
fn blocks_and_holes_with_data_are_read_back() {
    let size = whole(5).as_u64();
    let announced = FileDigest::SparseMap(sparse_map(size, [(1, value(1)), (3, value(3))]));
    for good in [true, false] {
        let mut bench =
            Bench::of(Expected { length: Length::Known(whole(5)), sparse: true, held: None, in_place: false }, true)
                .opened_by(1);
        bench.block(3);
        bench.actions();
        bench.write(1);
        bench.write(3);
        bench.files.on_end(end(2, announced));
        bench.actions();
        bench.files.on_finished(ID, Ok(()));
        let mut bench = bench.noting([1, 3]);
        assert_eq!(bench.actions(), [Action::Durable(whole(2)), Action::FindData { id: ID }]);
        bench.files.on_data_found(ID, Ok(vec![1..3, 2..3, 4..5]));
        let holes = [(2, Contents::Zeros), (4, Contents::Zeros)];
        let blocks = [(1, Contents::Value(value(1))), (3, Contents::Value(value(3)))];
        assert_eq!(bench.reads(), [blocks, holes].concat());
        [1, 3, 2].into_iter().for_each(|index| bench.files.on_compared(ID, index, true));
        assert_eq!(bench.actions(), []);
        bench.files.on_compared(ID, 4, good);
        bench.ends(&[if good {
            Action::Stored { id: ID, digest: announced, unsynced: ByteCount::ZERO, streamed: None }
        } else {
            Action::Lost { id: ID, loss: Loss::ReadBackDiffers, keep: false }
        }]);
    }
}

#[test]
fn a_run_that_ends_while_it_reads_back_goes_on_from_there() {
    let mut bench =
        Bench::of(Expected { length: Length::Known(whole(2)), sparse: false, held: None, in_place: false }, true)
            .opened_by(0);
    bench.actions();
    bench.write(0);
    bench.take(1);
    let mut bench = bench.finished(2).noting([0, 1]);
    bench.actions();
    bench.files.on_data_found(ID, Ok(vec![0..1, 1..2]));
    bench.files.next_read().unwrap();
    bench.files.on_link_ended();
    assert_eq!(bench.actions(), []);
    bench.files.on_compared(ID, 0, true);
    bench.ends(&[Action::Left { id: ID, keep: true }]);
}
