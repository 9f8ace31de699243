//! The only item of a run without a journal: no lock keeps newer runs from its name.

use icdc_protocol::message::{EntryKind, Message, Parent, SourceKind};

use super::desk::{Desk, entry, file, settings};
use crate::receiver::book::resume::verdict::Verdict;

/// A run of one item, which has begun and whose sender has answered the session's own question.
fn of_one(kind: EntryKind, prepare: impl FnOnce(&mut Desk)) -> Desk {
    let mut desk = Desk::new(settings());
    prepare(&mut desk);
    desk.begin(&[SourceKind::Item]);
    desk.say(Message::Confirmed);
    desk.announce(&[entry(0, Parent::Source(0), "", kind)]);
    desk.say(Message::End);
    desk
}

fn small() -> EntryKind {
    file(0, 0, "", 5).kind
}

/// A file has arrived, whose name belongs to something else each of these `times` that it is looked at.
fn replaced_meanwhile(times: u32) -> Desk {
    let mut desk = of_one(small(), |_| {});
    desk.changes = times;
    desk.log();
    desk.pack(&[(0, 5)]);
    desk
}

#[test]
fn what_has_taken_the_name_meanwhile_is_replaced_once_the_sender_has_answered() {
    let mut desk = replaced_meanwhile(1);
    assert_eq!(desk.log(), ["stage [0]", "flush [1]", "rename [0] if all is as found", "ready"]);
    assert!(desk.book.next_deadline().is_none());
    desk.say(Message::Confirmed);
    let log = ["rename [0] if all is as found", "flush-names in 1", "done 0", "published dst", "complete"];
    assert_eq!(desk.log(), log);
}

#[test]
fn what_another_program_changes_again_and_again_is_replaced_in_the_end() {
    let mut desk = replaced_meanwhile(u32::MAX);
    for _ in 0..2 {
        desk.log();
        desk.say(Message::Confirmed);
        assert_eq!(desk.log(), ["rename [0] if all is as found", "ready"]);
    }
    desk.changes = 0;
    desk.say(Message::Confirmed);
    assert_eq!(desk.log()[..2], ["rename [0] if the sender is there", "flush-names in 1"]);
}

#[test]
fn without_an_answer_what_has_taken_the_name_meanwhile_stays() {
    let mut desk = replaced_meanwhile(1);
    desk.log();
    desk.over(false);
    let reason = "the sender closed the connection before it was through";
    let log = desk.log();
    assert_eq!(log[..3], ["discard 0".to_owned(), format!("failed dst: {reason}"), format!("done 0: {reason}")]);
}

#[test]
fn an_answer_to_the_question_of_another_thread_does_not_count() {
    let mut desk = of_one(small(), |_| {});
    desk.changes = 1;
    // A large file's, of which the book hears the answer only.
    desk.asked += 1;
    desk.log();
    desk.pack(&[(0, 5)]);
    desk.say(Message::Confirmed);
    assert_eq!(desk.log().last().expect("it asks"), "ready");
    desk.say(Message::Confirmed);
    assert!(desk.log().contains(&"done 0".to_owned()));
}

#[test]
fn what_needs_no_contents_is_made_and_published_once_the_sender_has_answered() {
    let mut desk = of_one(EntryKind::Symlink { target: b"t".to_vec() }, |_| {});
    let log = desk.log();
    assert_eq!(log[log.len() - 2..], ["flush [1]", "ready"], "{log:?}");
    desk.say(Message::Confirmed);
    assert_eq!(desk.log()[..2], ["rename [0] if all is as found", "flush-names in 1"]);
}

#[test]
fn attributes_are_set_once_the_sender_has_answered() {
    let amending = || {
        of_one(small(), |desk| {
            desk.amends = true;
            desk.verdicts.insert(0, vec![Verdict::Skip { amend: true }]);
        })
    };
    let mut desk = amending();
    assert_eq!(desk.log().last().expect("it asks"), "ready");
    desk.say(Message::Confirmed);
    assert_eq!(desk.log()[..2], ["amend [0]", "flush-names on [1]"]);
    let mut desk = amending();
    desk.log();
    desk.over(false);
    assert_eq!(desk.log(), [""; 0]);
}
