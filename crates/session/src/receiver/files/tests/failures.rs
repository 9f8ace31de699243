//! Files that are given up.

use super::*;

#[test]
fn a_file_that_is_given_up_before_it_is_opened_leaves_nothing_to_do() {
    for (same_version, failure) in [(true, passing()), (false, last())] {
        let mut bench = Bench::new(2);
        bench.files.on_end(given_up(same_version));
        bench.ends(&[lost(failure, false)]);
    }
}

#[test]
fn a_file_that_is_given_up_while_it_is_opened_is_closed() {
    for (expected, keep) in [(held([0], 2), true), (Expected { held: None, ..held([], 2) }, false)] {
        let mut bench = Bench::of(expected, false);
        bench.block(1);
        bench.files.on_end(given_up(true));
        bench.block(0);
        assert_eq!(bench.actions(), [Action::Open { id: ID }]);
        bench.files.on_opened(ID, Ok(OPENED));
        bench.ends(&[lost(passing(), keep)]);
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_lost() {
    let mut bench = Bench::new(2);
    bench.block(0);
    bench.actions();
    bench.files.on_opened(ID, Err(last()));
    bench.block(1);
    bench.ends(&[lost(last(), true)]);
}

#[test]
fn a_file_that_is_given_up_waits_for_its_writes_and_notes_them() {
    let mut bench = Bench::new(3).opened_by(1);
    bench.block(0);
    bench.files.on_end(given_up(true));
    assert_eq!(bench.actions(), [written(1), written(0)]);
    bench.block(2);
    bench.write(1);
    assert_eq!(bench.actions(), []);
    bench.files.on_written(ID, 0, Err(last()), Time::ORIGIN);
    bench.noting([1]).ends(&[Action::Durable(BLOCK), lost(passing(), true)]);
}

#[test]
fn of_another_version_nothing_is_kept() {
    let mut bench = Bench::of(held([0], 3), false);
    bench.actions();
    bench.files.on_opened(ID, Ok(OPENED));
    bench.block(1);
    bench.files.on_end(given_up(false));
    assert_eq!(bench.actions(), [written(1)]);
    bench.write(1);
    bench.ends(&[lost(last(), false)]);
}

#[test]
fn a_write_that_fails_gives_the_file_up() {
    let mut bench = Bench::new(2).opened_by(1);
    bench.actions();
    bench.files.on_written(ID, 1, Err(passing()), Time::ORIGIN);
    bench.ends(&[lost(passing(), false)]);
}

#[test]
fn a_complete_file_whose_metadata_cannot_be_set_is_kept_where_it_can_be_found_again() {
    for journaled in [true, false] {
        let mut bench = Bench::new(2);
        bench.block(0);
        bench.files.on_opened(ID, Ok(Opened { journaled, needs_sender: false }));
        bench.block(1);
        bench.write(0);
        bench.write(1);
        bench.files.on_end(end(2, digest(2)));
        bench.actions();
        bench.files.on_finished(ID, Err(last()));
        if journaled {
            bench.noting([0, 1]).ends(&[Action::Durable(whole(2)), lost(passing(), true)]);
        } else {
            bench.ends(&[lost(last(), false)]);
        }
    }
}

#[test]
fn a_file_that_is_given_up_is_not_stored() {
    let mut bench = Bench::new(2).opened_by(0);
    bench.actions();
    bench.write(0);
    bench.take(1);
    let mut bench = bench.finished(2);
    bench.files.on_end(given_up(true));
    bench.noting([0, 1]).ends(&[Action::Durable(whole(2)), lost(passing(), true)]);
}
