#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::digest::root;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::FileDigest;
use icdc_units::{ByteCount, Span, Time};

use super::*;

mod any_order;
mod checkpoints;
mod confirmed;
mod digests;
mod failures;
mod held;
mod link_end;
mod streams;

const ID: EntryId = 7;
const BLOCK: ByteCount = ByteCount::new(BLOCK_SIZE as u64);

/// Values of a file's blocks that differ from each other.
fn value(index: u32) -> Digest {
    [index as u8 + 1; 32]
}

/// Digest of a file of `blocks` whole blocks.
fn digest(blocks: u32) -> FileDigest {
    let values: Vec<_> = (0..blocks).map(value).collect();
    FileDigest::Blake3(root(u64::from(blocks) * BLOCK.as_u64(), &values).unwrap())
}

fn whole(blocks: u32) -> ByteCount {
    ByteCount::new(u64::from(blocks) * BLOCK.as_u64())
}

fn end(blocks: u32, digest: FileDigest) -> FileEnd {
    FileEnd { id: ID, blocks, outcome: Ok(digest) }
}

fn given_up(same_version: bool) -> FileEnd {
    let reason = "gone".into();
    FileEnd { id: ID, blocks: 0, outcome: Err(GivenUp { reason, same_version }) }
}

const OPENED: Opened = Opened { journaled: true, needs_sender: false };

/// A machine with one file. Blocks are their own numbers.
struct Bench {
    files: Files<u32>,
}

impl Bench {
    /// A new file of `blocks` whole blocks without holes.
    fn new(blocks: u32) -> Self {
        Self::of(Expected { length: Length::Known(whole(blocks)), sparse: false, held: None, in_place: false }, false)
    }

    fn of(expected: Expected, verify: bool) -> Self {
        let mut files = Files::new(verify);
        files.on_confirmed();
        files.expect(ID, expected);
        Self { files }
    }

    fn block(&mut self, index: u32) {
        self.files.on_block(ID, index, value(index), index);
    }

    /// Opens the file by its first block.
    fn opened_by(mut self, index: u32) -> Self {
        self.block(index);
        assert_eq!(self.actions(), [Action::Open { id: ID }]);
        self.files.on_opened(ID, Ok(OPENED));
        self
    }

    /// A block comes and is written.
    fn take(&mut self, index: u32) {
        self.block(index);
        assert_eq!(self.actions(), [written(index)]);
        self.write(index);
    }

    /// The block that has opened the file is written.
    fn take_first(&mut self) {
        assert_eq!(self.actions(), [written(0)]);
        self.write(0);
    }

    fn write(&mut self, index: u32) {
        self.write_at(index, Span::ZERO);
    }

    fn write_at(&mut self, index: u32, now: Span) {
        self.files.on_written(ID, index, Ok(()), Time::ORIGIN + now);
    }

    /// The whole file is there, and its length and metadata are set.
    fn finished(mut self, blocks: u32) -> Self {
        self.files.on_end(end(blocks, digest(blocks)));
        assert_eq!(self.actions(), [Action::Finish { id: ID, streamed: None, holes: Vec::new() }]);
        self.files.on_finished(ID, Ok(()));
        self
    }

    /// Expects a sync, and then the request to note these blocks.
    fn noting(mut self, blocks: impl IntoIterator<Item = u32>) -> Self {
        assert_eq!(self.actions(), [Action::Sync { id: ID }]);
        self.files.on_synced(ID, Ok(()));
        assert_eq!(self.actions(), [noted(blocks)]);
        self.files.on_noted(ID, Ok(()));
        self
    }

    /// The only thing asked for is the end of the file.
    #[track_caller]
    fn ends(mut self, last: &[Action<u32>]) {
        assert_eq!(self.actions(), last);
        assert!(self.files.is_empty());
        assert_eq!(self.files.next_read(), None);
    }

    fn reads(&mut self) -> Vec<(u32, Contents)> {
        std::iter::from_fn(|| self.files.next_read()).map(|read| (read.index, read.contents)).collect()
    }

    fn actions(&mut self) -> Vec<Action<u32>> {
        std::iter::from_fn(|| self.files.poll()).collect()
    }
}

fn held(indexes: impl IntoIterator<Item = u32>, blocks: u32) -> Expected {
    let mut held = BlockMap::new(whole(blocks).as_u64());
    for index in indexes {
        held.insert(index, value(index)).unwrap();
    }
    Expected { length: Length::Known(whole(blocks)), sparse: false, held: Some(held), in_place: false }
}

fn stored(blocks: u32) -> Action<u32> {
    Action::Stored { id: ID, digest: digest(blocks), unsynced: ByteCount::ZERO, streamed: None }
}

fn lost(failure: Failure, keep: bool) -> Action<u32> {
    Action::Lost { id: ID, loss: failure.into(), keep }
}

fn passing() -> Failure {
    Failure::Passing("gone".into())
}

fn last() -> Failure {
    Failure::Final("gone".into())
}

fn written(index: u32) -> Action<u32> {
    Action::Write { id: ID, index, block: index }
}

fn noted(blocks: impl IntoIterator<Item = u32>) -> Action<u32> {
    Action::Note { id: ID, blocks: blocks.into_iter().map(|index| (index, value(index))).collect() }
}

#[test]
fn nothing_is_opened_before_something_comes() {
    let mut bench = Bench::new(2);
    assert_eq!(bench.actions(), []);
    bench.block(1);
    assert_eq!(bench.actions(), [Action::Open { id: ID }]);
    bench.block(0);
    assert_eq!(bench.actions(), [], "blocks wait until the file is open");
    bench.files.on_opened(ID, Ok(OPENED));
    assert_eq!(bench.actions(), [written(1), written(0)]);
}

#[test]
fn a_complete_file_is_finished_made_durable_noted_and_stored() {
    let mut bench = Bench::new(2).opened_by(1);
    assert_eq!(bench.actions(), [written(1)]);
    bench.write(1);
    bench.take(0);
    let bench = bench.finished(2).noting([1, 0]);
    bench.ends(&[Action::Durable(whole(2)), stored(2)]);
}

#[test]
fn the_end_may_come_before_blocks_and_even_before_the_file_is_open() {
    let mut bench = Bench::new(2);
    bench.files.on_end(end(2, digest(2)));
    bench.block(1);
    assert_eq!(bench.actions(), [Action::Open { id: ID }]);
    bench.files.on_opened(ID, Ok(OPENED));
    assert_eq!(bench.actions(), [written(1)]);
    bench.block(0);
    bench.write(0);
    assert_eq!(bench.actions(), [written(0)], "block 1 is not written");
    bench.write(1);
    assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: None, holes: Vec::new() }]);
}

#[test]
fn a_block_that_comes_twice_counts_once() {
    let mut bench = Bench::new(2).opened_by(0);
    bench.block(0);
    bench.files.on_end(end(2, digest(2)));
    bench.write(0);
    assert_eq!(bench.actions(), [written(0)]);
    bench.take(1);
    bench.block(1);
    assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: None, holes: Vec::new() }]);
}

#[test]
fn a_block_beyond_the_end_is_nothing() {
    let mut bench = Bench::new(2).opened_by(2);
    assert_eq!(bench.actions(), []);
}

#[test]
fn one_block_needs_neither_journal_nor_sync_of_its_own() {
    for size in [ByteCount::new(5000), BLOCK] {
        let mut bench =
            Bench::of(Expected { length: Length::Known(size), sparse: false, held: None, in_place: false }, true)
                .opened_by(0);
        let digest = FileDigest::Blake3(root(size.as_u64(), &[value(0)]).unwrap());
        bench.files.on_end(end(1, digest));
        bench.write(0);
        assert_eq!(bench.actions(), [written(0), Action::Finish { id: ID, streamed: None, holes: Vec::new() }]);
        bench.files.on_finished(ID, Ok(()));
        bench.ends(&[Action::Stored { id: ID, digest, unsynced: size, streamed: None }]);
    }
}

#[test]
fn a_file_in_place_is_synced_and_read_back_whatever_its_length() {
    let mut bench = Bench { files: Files::new(true) };
    bench.files.on_confirmed();
    let length = Length::Known(ByteCount::new(5000));
    bench.files.expect(ID, Expected { length, sparse: false, held: None, in_place: true });
    bench.block(0);
    assert_eq!(bench.actions(), [Action::Open { id: ID }]);
    bench.files.on_opened(ID, Ok(Opened { journaled: false, needs_sender: false }));
    let digest = FileDigest::Blake3(root(5000, &[value(0)]).unwrap());
    bench.files.on_end(end(1, digest));
    bench.write(0);
    assert_eq!(bench.actions(), [written(0), Action::Finish { id: ID, streamed: None, holes: Vec::new() }]);
    bench.files.on_finished(ID, Ok(()));
    assert_eq!(bench.actions(), [Action::Sync { id: ID }]);
    bench.files.on_synced(ID, Ok(()));
    assert_eq!(bench.actions(), [Action::Durable(ByteCount::new(5000)), Action::FindData { id: ID }]);
    bench.files.on_data_found(ID, Ok(std::iter::once(0..1).collect()));
    assert_eq!(bench.reads(), [(0, Contents::Value(value(0)))]);
    assert_eq!(bench.actions(), [], "it is not stored before it is compared");
    bench.files.on_compared(ID, 0, false);
    bench.ends(&[Action::Lost { id: ID, loss: Loss::ReadBackDiffers, keep: false }]);
}

#[test]
fn the_holes_of_the_source_are_named() {
    for in_place in [true, false] {
        let expected = Expected { length: Length::Known(whole(4)), sparse: true, held: None, in_place };
        let mut bench = Bench::of(expected, false).opened_by(0);
        bench.take_first();
        bench.take(2);
        let mut map = BlockMap::new(whole(4).as_u64());
        for index in [0, 2] {
            map.insert(index, value(index)).unwrap();
        }
        let map = digest_like(&FileDigest::SparseMap([0; 32]), &map);
        bench.files.on_end(end(2, map.unwrap()));
        assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: None, holes: vec![1..2, 3..4] }]);
    }
}

#[test]
fn a_file_that_is_needed_is_opened_once_before_its_blocks_arrive() {
    let mut bench = Bench::new(2);
    for _ in 0..2 {
        bench.files.on_needed(ID);
    }
    assert_eq!(bench.actions(), [Action::Open { id: ID }]);
    let opened = Opened { journaled: true, needs_sender: false };
    bench.files.on_opened(ID, Ok(opened));
    bench.files.on_needed(ID);
    assert_eq!(bench.actions(), []);
    bench.take(0);
    bench.take(1);
    bench.files.on_end(end(2, digest(2)));
    assert!(matches!(bench.actions()[..], [Action::Finish { .. }]));
}

#[test]
fn an_item_that_is_none_of_the_files_ends_elsewhere() {
    let mut bench = Bench::new(2);
    let foreign = FileEnd { id: ID + 1, ..given_up(true) };
    bench.files.on_end(foreign.clone());
    assert_eq!(bench.actions(), [Action::Foreign(foreign.into())]);
}
