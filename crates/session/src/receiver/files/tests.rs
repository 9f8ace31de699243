#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_protocol::digest::root;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::FileDigest;
use icdc_units::ByteCount;

use super::*;

const ID: EntryId = 7;
const BLOCK: ByteCount = ByteCount::new(BLOCK_SIZE as u64);

/// Values of a file's blocks that differ from each other.
fn value(index: u32) -> Digest {
    [index as u8 + 1; 32]
}

/// Digest of a file of so many whole blocks.
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

const OPENED: Opened = Opened { journaled: true, has_waited: false };

/// A machine with one file. Blocks are their own numbers.
struct Bench {
    files: Files<u32>,
}

impl Bench {
    /// A new file of so many whole blocks without holes.
    fn new(blocks: u32) -> Self {
        Self::of(Expected { size: whole(blocks), sparse: false, held: None }, false)
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

    fn write(&mut self, index: u32) {
        self.files.on_written(ID, index, Ok(()));
    }

    fn actions(&mut self) -> Vec<Action<u32>> {
        std::iter::from_fn(|| self.files.poll()).collect()
    }
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
    bench.files.on_end(end(2, digest(2)));
    bench.write(1);
    bench.block(0);
    bench.write(0);
    assert_eq!(bench.actions(), [written(1), written(0), Action::Finish { id: ID }]);
    bench.files.on_finished(ID, Ok(()));
    assert_eq!(bench.actions(), [Action::Sync { id: ID }]);
    bench.files.on_synced(ID, Ok(()));
    assert_eq!(bench.actions(), [noted([1, 0])]);
    bench.files.on_noted(ID, Ok(()));
    let stored = Action::Stored { id: ID, digest: digest(2), unsynced: ByteCount::ZERO };
    assert_eq!(bench.actions(), [Action::Durable(whole(2)), stored]);
    assert!(bench.files.is_empty());
}

#[test]
fn a_block_that_comes_twice_counts_once() {
    let mut bench = Bench::new(2).opened_by(0);
    bench.block(0);
    bench.files.on_end(end(2, digest(2)));
    bench.write(0);
    assert_eq!(bench.actions(), [written(0)]);
}

#[test]
fn the_link_ends_and_what_has_arrived_is_noted() {
    let mut bench = Bench::new(3).opened_by(2);
    bench.block(0);
    bench.files.on_link_ended();
    bench.write(0);
    assert_eq!(bench.actions(), [written(2), written(0)]);
    bench.write(2);
    assert_eq!(bench.actions(), [Action::Sync { id: ID }]);
    bench.files.on_synced(ID, Ok(()));
    assert_eq!(bench.actions(), [noted([0, 2])]);
    bench.files.on_noted(ID, Ok(()));
    assert_eq!(bench.actions(), [Action::Durable(whole(2)), Action::Left { id: ID, keep: true }]);
    assert!(bench.files.is_empty());
}

#[test]
fn a_file_that_is_given_up_waits_for_its_writes() {
    let mut bench = Bench::new(2).opened_by(1);
    bench.files.on_end(given_up(true));
    assert_eq!(bench.actions(), [written(1)]);
    bench.write(1);
    assert_eq!(bench.actions(), [Action::Sync { id: ID }]);
    bench.files.on_synced(ID, Ok(()));
    bench.files.on_noted(ID, Ok(()));
    let loss = Loss::Failed(Failure::Passing("gone".into()));
    assert_eq!(bench.actions(), [noted([1]), Action::Durable(BLOCK), Action::Lost { id: ID, loss, keep: true }]);
    assert!(bench.files.is_empty());
}
