//! A lock that had to be waited for.

use super::*;

#[test]
fn who_had_to_wait_stores_nothing_before_its_sender_has_answered() {
    let mut bench = Bench::new(1);
    bench.block(0);
    bench.files.on_end(end(1, digest(1)));
    bench.actions();
    bench.files.on_opened(ID, Ok(Opened { journaled: false, needs_sender: true }));
    assert_eq!(bench.actions(), [Action::Probe, written(0)], "blocks must not be kept in memory meanwhile");
    bench.files.on_asked(2);
    bench.write(0);
    assert_eq!(bench.actions(), []);
    bench.files.on_confirmed();
    assert_eq!(bench.actions(), [Action::Finish { id: ID, streamed: None, holes: Vec::new() }]);
}

#[test]
fn an_answer_to_an_earlier_question_tells_nothing() {
    let mut files = Files::new(false);
    for (id, question) in [(1, 2), (2, 4)] {
        files.expect(id, Expected { length: Length::Known(whole(1)), sparse: false, held: None, in_place: false });
        files.on_block(id, 0, value(0), 0);
        files.on_end(FileEnd { id, blocks: 1, outcome: Ok(digest(1)) });
        files.on_opened(id, Ok(Opened { journaled: false, needs_sender: true }));
        files.on_asked(question);
        files.on_written(id, 0, Ok(()), Time::ORIGIN);
    }
    let finishes = |files: &mut Files<u32>| {
        std::iter::from_fn(|| files.poll()).filter(|action| matches!(action, Action::Finish { .. })).collect::<Vec<_>>()
    };
    assert_eq!(finishes(&mut files), []);
    files.on_confirmed();
    assert_eq!(finishes(&mut files), [], "that was the answer to the session's own Ready");
    files.on_confirmed();
    assert_eq!(finishes(&mut files), [Action::Finish { id: 1, streamed: None, holes: Vec::new() }]);
    files.on_confirmed();
    assert_eq!(finishes(&mut files), [], "that was the answer to a question of the book");
    files.on_confirmed();
    assert_eq!(finishes(&mut files), [Action::Finish { id: 2, streamed: None, holes: Vec::new() }]);
}

#[test]
fn without_an_answer_nothing_is_stored() {
    let mut bench = Bench::new(2);
    bench.block(0);
    bench.block(1);
    bench.files.on_end(end(2, digest(2)));
    bench.files.on_opened(ID, Ok(Opened { journaled: true, needs_sender: true }));
    bench.write(0);
    bench.write(1);
    bench.actions();
    bench.files.on_link_ended();
    bench.noting([0, 1]).ends(&[Action::Durable(whole(2)), Action::Left { id: ID, keep: true }]);
}
