//! The end of the link.

use super::*;

#[test]
fn the_link_ends_and_what_has_arrived_is_noted() {
    let mut bench = Bench::new(3).opened_by(2);
    bench.block(0);
    bench.files.on_link_ended();
    bench.write(0);
    assert_eq!(bench.actions(), [written(2), written(0)]);
    bench.write(2);
    bench.noting([0, 2]).ends(&[Action::Durable(whole(2)), Action::Left { id: ID, keep: true }]);
}

#[test]
fn a_file_that_is_complete_when_the_link_ends_is_stored() {
    let mut bench = Bench::new(2).opened_by(0);
    bench.block(1);
    bench.files.on_end(end(2, digest(2)));
    bench.files.on_link_ended();
    bench.write(1);
    bench.write(0);
    bench.actions();
    bench.files.on_finished(ID, Ok(()));
    bench.noting([1, 0]).ends(&[Action::Durable(whole(2)), stored(2)]);
}

#[test]
fn of_one_block_nothing_is_kept_when_the_link_ends() {
    let size = ByteCount::new(5000);
    let mut bench =
        Bench::of(Expected { length: Length::Known(size), sparse: false, held: None, in_place: false }, false);
    bench.block(0);
    bench.files.on_opened(ID, Ok(Opened { journaled: false, needs_sender: false }));
    bench.write(0);
    bench.actions();
    bench.files.on_link_ended();
    bench.ends(&[Action::Left { id: ID, keep: false }]);
}

#[test]
fn what_was_never_opened_ends_with_the_link() {
    let mut bench = Bench::new(2);
    bench.files.on_link_ended();
    bench.ends(&[Action::Left { id: ID, keep: true }]);
}
