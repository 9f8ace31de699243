//! Blocks that an earlier run has left.

use super::*;

#[test]
fn held_blocks_are_compared_before_a_file_is_complete() {
    let mut bench = Bench::of(held([0, 2], 3), false);
    assert_eq!(bench.actions(), [Action::Open { id: ID }], "its lock is kept from the start");
    assert!(!bench.files.has_reads());
    bench.files.on_opened(ID, Ok(OPENED));
    assert!(bench.files.has_reads());
    bench.take(1);
    bench.files.on_end(end(1, digest(3)));
    assert_eq!(bench.reads(), [(0, Contents::Value(value(0))), (2, Contents::Value(value(2)))]);
    bench.files.on_compared(ID, 2, true);
    assert_eq!(bench.actions(), []);
    bench.files.on_compared(ID, 0, true);
    assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: None, holes: Vec::new() }]);
    bench.files.on_finished(ID, Ok(()));
    bench.noting([1]).ends(&[Action::Durable(BLOCK), stored(3)]);
}

#[test]
fn a_held_block_that_comes_nevertheless_is_not_written() {
    let mut bench = Bench::of(held([0], 2), false);
    bench.actions();
    bench.files.on_opened(ID, Ok(OPENED));
    bench.block(0);
    assert_eq!(bench.actions(), []);
}

#[test]
fn a_held_block_that_is_damaged_comes_in_addition_to_the_others() {
    for end_first in [true, false] {
        let mut bench = Bench::of(held([0, 1], 3), false);
        bench.actions();
        bench.files.on_opened(ID, Ok(OPENED));
        if end_first {
            bench.files.on_end(end(1, digest(3)));
        }
        bench.take(2);
        assert_eq!(bench.reads().len(), 2);
        bench.files.on_compared(ID, 1, true);
        bench.files.on_compared(ID, 0, false);
        assert_eq!(bench.actions(), [Action::Resend { id: ID, index: 0 }]);
        if !end_first {
            bench.files.on_end(end(1, digest(3)));
            assert_eq!(bench.actions(), []);
        }
        bench.take(0);
        assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: None, holes: Vec::new() }]);
        bench.files.on_finished(ID, Ok(()));
        bench.noting([2, 0]).ends(&[Action::Durable(whole(2)), stored(3)]);
    }
}

#[test]
fn what_was_held_is_kept_whatever_was_compared() {
    let mut bench = Bench::of(held([0, 1], 3), false);
    bench.actions();
    bench.files.on_opened(ID, Ok(OPENED));
    bench.files.next_read().unwrap();
    bench.files.on_link_ended();
    assert_eq!(bench.files.next_read(), None, "nobody waits for the outcome any more");
    assert_eq!(bench.actions(), []);
    bench.files.on_compared(ID, 0, true);
    bench.ends(&[Action::Left { id: ID, keep: true }]);
}
