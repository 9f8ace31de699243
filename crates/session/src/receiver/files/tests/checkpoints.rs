//! Checkpoints: what is noted, and when.

use super::*;

#[test]
fn only_what_was_written_before_a_sync_began_is_noted_after_it() {
    let per_checkpoint = (CHECKPOINT.as_u64() / BLOCK.as_u64()) as u32;
    let mut bench = Bench::new(100).opened_by(0);
    assert_eq!(bench.actions(), [written(0)]);
    (1..=per_checkpoint).for_each(|index| bench.block(index));
    assert_eq!(bench.actions().len() as u32, per_checkpoint);
    (0..per_checkpoint).for_each(|index| bench.write(index));
    assert_eq!(bench.actions(), [Action::Sync { id: ID }]);
    bench.write(per_checkpoint);
    bench.files.on_synced(ID, Ok(()));
    assert_eq!(bench.actions(), [noted(0..per_checkpoint)]);
    bench.files.on_noted(ID, Ok(()));
    assert_eq!(bench.actions(), [Action::Durable(CHECKPOINT)]);
    bench.files.on_link_ended();
    bench.noting([per_checkpoint]).ends(&[Action::Durable(BLOCK), Action::Left { id: ID, keep: true }]);
}

#[test]
fn one_checkpoint_follows_another() {
    let per_checkpoint = (CHECKPOINT.as_u64() / BLOCK.as_u64()) as u32;
    let mut bench = Bench::new(100).opened_by(0);
    bench.write(0);
    (1..2 * per_checkpoint).for_each(|index| bench.block(index));
    (1..2 * per_checkpoint).for_each(|index| bench.write(index));
    let syncs = bench.actions().iter().filter(|action| matches!(action, Action::Sync { .. })).count();
    assert_eq!(syncs, 1, "one at a time");
    bench.files.on_synced(ID, Ok(()));
    assert_eq!(bench.actions(), [noted(0..per_checkpoint)]);
    bench.files.on_noted(ID, Ok(()));
    assert_eq!(bench.actions(), [Action::Durable(CHECKPOINT), Action::Sync { id: ID }]);
}

#[test]
fn where_little_comes_a_checkpoint_is_due_by_the_time() {
    let ms = Span::from_millis;
    let mut bench = Bench::new(100).opened_by(0);
    (1..8).for_each(|index| bench.block(index));
    bench.actions();
    bench.write_at(0, ms(5_000));
    bench.write_at(1, ms(5_999));
    assert_eq!(bench.actions(), []);
    bench.write_at(2, ms(6_000));
    assert_eq!(bench.actions(), [Action::Sync { id: ID }]);
    // The next second begins with the next write, and ends no sooner than the checkpoint.
    bench.write_at(3, ms(6_900));
    bench.write_at(4, ms(7_900));
    assert_eq!(bench.actions(), [], "one at a time");
    bench.files.on_synced(ID, Ok(()));
    assert_eq!(bench.actions(), [noted(0..3)]);
    bench.files.on_noted(ID, Ok(()));
    assert_eq!(bench.actions(), [Action::Durable(whole(3)), Action::Sync { id: ID }]);
    bench.files.on_synced(ID, Ok(()));
    assert_eq!(bench.actions(), [noted(3..5)]);
}

#[test]
fn without_a_journal_no_checkpoint_is_due_by_the_time() {
    let mut bench = Bench::new(100);
    bench.block(0);
    bench.files.on_opened(ID, Ok(Opened { journaled: false, needs_sender: false }));
    bench.block(1);
    bench.actions();
    bench.write(0);
    bench.write_at(1, Span::from_secs(60));
    assert_eq!(bench.actions(), []);
}

#[test]
fn without_a_journal_a_checkpoint_notes_nothing_and_nothing_is_kept() {
    let per_checkpoint = (CHECKPOINT.as_u64() / BLOCK.as_u64()) as u32;
    let mut bench = Bench::new(100);
    bench.block(0);
    bench.files.on_opened(ID, Ok(Opened { journaled: false, needs_sender: false }));
    (1..per_checkpoint + 1).for_each(|index| bench.block(index));
    (0..per_checkpoint).for_each(|index| bench.write(index));
    bench.files.on_synced(ID, Ok(()));
    assert_eq!(bench.actions().last(), Some(&Action::Durable(CHECKPOINT)));
    bench.files.on_link_ended();
    bench.write(per_checkpoint);
    bench.ends(&[Action::Left { id: ID, keep: false }]);
}

#[test]
fn nothing_is_noted_after_a_sync_that_failed() {
    let per_checkpoint = (CHECKPOINT.as_u64() / BLOCK.as_u64()) as u32;
    let mut bench = Bench::new(100).opened_by(0);
    (1..=per_checkpoint).for_each(|index| bench.block(index));
    (0..per_checkpoint).for_each(|index| bench.write(index));
    bench.actions();
    bench.files.on_synced(ID, Err(passing()));
    assert_eq!(bench.actions(), [], "a write is on its way");
    bench.write(per_checkpoint);
    bench.ends(&[lost(passing(), false)]);
}

#[test]
fn what_is_written_beside_a_note_that_failed_is_tried_once_more() {
    let mut bench = Bench::new(2).opened_by(1);
    bench.actions();
    bench.write(1);
    bench.take(0);
    let mut bench = bench.finished(2);
    assert_eq!(bench.actions(), [Action::Sync { id: ID }]);
    bench.files.on_synced(ID, Ok(()));
    bench.actions();
    bench.files.on_noted(ID, Err(passing()));
    bench.ends(&[lost(passing(), false)]);
}
