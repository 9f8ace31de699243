//! Streams, whose length comes with their end.

use icdc_protocol::limits::MAX_FILE_SIZE;
use icdc_protocol::message::{StreamEnd, Streamed};

use super::*;

const STREAM: Expected = Expected { length: Length::Stream, sparse: false, held: None, in_place: false };

/// A stream of which one whole block is written.
fn begun() -> Bench {
    let mut bench = Bench::of(STREAM, false).opened_by(0);
    bench.take_first();
    bench
}

fn ended(size: u64, blocks: u32) -> StreamEnd {
    let values: Vec<Digest> = (0..blocks).map(value).collect();
    let digest = root(size, &values).expect("as many values as blocks");
    StreamEnd { id: ID, digest, streamed: Streamed { size, mtime_seconds: 5, mtime_nanos: 6 } }
}

#[test]
fn a_stream_is_as_long_as_its_end_says() {
    let whole = BLOCK_SIZE as u64;
    for (size, last) in [(2 * whole, None), (whole + 7, Some(7))] {
        let mut bench = begun();
        if let Some(length) = last {
            bench.files.on_last_of_stream(ID, 1, ByteCount::new(length));
        }
        bench.files.on_block(ID, 1, value(1), 1);
        assert_eq!(bench.actions(), [written(1)]);
        bench.files.on_end(ended(size, 2));
        assert_eq!(bench.actions(), [], "a block is not written");
        bench.files.on_written(ID, 1, Ok(()), Time::ORIGIN);
        assert_eq!(
            bench.actions(),
            [Action::Finish { id: ID, streamed: Some(ended(size, 2).streamed), holes: Vec::new() }]
        );
    }
}

#[test]
fn an_empty_stream_has_no_block() {
    let mut bench = Bench::of(STREAM, false);
    bench.files.on_end(ended(0, 0));
    assert_eq!(bench.actions(), [Action::Open { id: ID }]);
    bench.files.on_opened(ID, Ok(Opened { journaled: false, needs_sender: false }));
    assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: Some(ended(0, 0).streamed), holes: Vec::new() }]);
}

/// A sender that tells another length than its blocks have, or none.
#[test]
fn a_stream_that_is_not_what_its_end_says_is_lost() {
    let whole = BLOCK_SIZE as u64;
    let as_file = FileEnd { id: ID, blocks: 1, outcome: Ok(FileDigest::Blake3(value(0))) };
    let ends: [ItemEnd; 4] = [ended(7, 1).into(), ended(whole - 1, 1).into(), ended(0, 0).into(), as_file.into()];
    for end in ends {
        let mut bench = begun();
        bench.files.on_end(end.clone());
        let is_lost =
            |action: &Action<u32>| matches!(action, Action::Lost { loss: Loss::DigestsDiffer, keep: false, .. });
        assert!(bench.actions().iter().any(is_lost), "{end:?}");
    }
}

#[test]
fn a_file_does_not_end_as_a_stream() {
    let mut bench = Bench::of(held([], 1), false).opened_by(0);
    bench.take_first();
    bench.files.on_end(ended(BLOCK_SIZE as u64, 1));
    assert!(matches!(bench.actions().as_slice(), [Action::Lost { loss: Loss::DigestsDiffer, .. }]));
}

#[test]
fn what_is_durable_from_the_start_is_reported_up_to_the_first_gap() {
    let mut bench = begun();
    bench.block(2);
    assert_eq!(bench.actions(), [written(2)]);
    bench.write_at(2, Span::from_secs(1));
    let mut bench = bench.noting([0, 2]);
    let led = |blocks| Action::StreamDurable { id: ID, bytes: whole(blocks) };
    assert_eq!(bench.actions(), [Action::Durable(whole(2)), led(1)]);
    bench.take(1);
    let end = ended(whole(3).as_u64(), 3);
    bench.files.on_end(end.clone());
    assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: Some(end.streamed), holes: Vec::new() }]);
    bench.files.on_finished(ID, Ok(()));
    let mut bench = bench.noting([1]);
    assert_eq!(bench.actions()[..2], [Action::Durable(BLOCK), led(3)]);
}

#[test]
fn a_stream_that_is_continued_has_its_first_blocks_compared_and_the_rest_sent() {
    let mut left = BlockMap::new(MAX_FILE_SIZE);
    for index in 0..2 {
        left.insert(index, value(index)).unwrap();
    }
    let mut bench = Bench::of(Expected { held: Some(left), ..STREAM }, false);
    assert_eq!(bench.actions(), [Action::Open { id: ID }]);
    bench.files.on_opened(ID, Ok(OPENED));
    bench.take(2);
    let end = ended(whole(3).as_u64(), 3);
    bench.files.on_end(end.clone());
    assert_eq!(bench.reads().len(), 2);
    bench.files.on_compared(ID, 0, true);
    assert_eq!(bench.actions(), []);
    bench.files.on_compared(ID, 1, true);
    assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: Some(end.streamed), holes: Vec::new() }]);
}
