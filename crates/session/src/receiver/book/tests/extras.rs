//! Items that the source does not have.

use icdc_protocol::message::{Delete, LeftOut, MaxDelete, Message, Problem, ReceiveOptions, SourceKind};

use super::desk::{Desk, directory, file, settings, source};
use crate::Failure;
use crate::receiver::book::Settings;

/// A mirror whose source is one directory, 0, with a directory, 1, and a file in each.
fn mirror(delete: Delete) -> Desk {
    let options = ReceiveOptions { resume: true, delete: Some(delete), ..ReceiveOptions::default() };
    let mut desk = Desk::new(Settings { options, ..settings() });
    desk.extras = [(0, vec!["a", "d", "old", "x"]), (1, vec!["b", "older"])].into();
    desk.count = 3;
    desk.begin_and_answer();
    desk
}

fn announce(desk: &mut Desk) {
    desk.announce(&[source(0, 0), file(1, 0, "a", 5), directory(2, 0, "d"), file(3, 2, "b", 5)]);
    desk.extras = [(0, vec!["a", "d", "old", "x"]), (2, vec!["b", "older"])].into();
    desk.say(Message::DirEnd { id: 2 });
    desk.log();
}

/// Everything arrives and is done.
fn complete(desk: &mut Desk) -> Vec<String> {
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    desk.pack(&[(1, 5), (3, 5)]);
    desk.log()
}

fn said(log: &[String], what: &str) -> bool {
    log.iter().any(|line| line.contains(what))
}

#[test]
fn extra_items_are_deleted_after_everything_else_and_by_directory() {
    let mut desk = mirror(Delete::default());
    announce(&mut desk);
    let log = complete(&mut desk);
    let at =
        |what: &str| log.iter().position(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {log:?}"));
    assert_eq!(log[at("delete")], "delete 3 of dst/d: older, dst: old x");
    assert!(at("count") < at("delete") && at("delete") < at("complete"), "{log:?}");
    let done = log.iter().rposition(|line| line.starts_with("done")).unwrap();
    assert!(done < at("count"), "every item is done before: {log:?}");
}

#[test]
fn names_that_are_left_out_stay_and_nothing_goes_of_what_was_not_read() {
    let mut desk = mirror(Delete::default());
    announce(&mut desk);
    desk.say(Message::LeftOut { directory: 0, what: LeftOut::Names(vec![b"old".to_vec()]) });
    assert!(said(&complete(&mut desk), "delete 3 of dst/d: older, dst: x"));
    let mut desk = mirror(Delete::default());
    announce(&mut desk);
    desk.say(Message::LeftOut { directory: 0, what: LeftOut::Unread });
    assert!(said(&complete(&mut desk), "delete 3 of dst/d: older"));
}

#[test]
fn nothing_is_deleted_after_a_failure_at_either_end() {
    let refuses: [&dyn Fn(&mut Desk); 4] = [
        &|desk| desk.say(Message::Problem(Problem { path: b"p".to_vec(), reason: "unreadable".into(), error: true })),
        &|desk| drop(desk.fails.insert(("rename", 3), Failure::Final("full".into()))),
        &|desk| drop(desk.fails.insert(("list", 0), Failure::Final("not readable".into()))),
        &|desk| drop(desk.fails.insert(("count", 0), Failure::Final("not readable".into()))),
    ];
    for refuse in refuses {
        let mut desk = mirror(Delete::default());
        announce(&mut desk);
        refuse(&mut desk);
        let log = complete(&mut desk);
        assert!(said(&log, "deletes nothing") && !log.iter().any(|line| line.starts_with("delete ")), "{log:?}");
        assert!(said(&log, "complete"), "{log:?}");
    }
}

#[test]
fn a_limit_is_of_all_items_and_an_empty_source_needs_consent() {
    // 6 items are listed, 3 of them extra.
    for (max, goes) in [(MaxDelete::Items(2), false), (MaxDelete::Percent(49), false), (MaxDelete::Percent(50), true)] {
        let mut desk = mirror(Delete { max: Some(max), ..Delete::default() });
        announce(&mut desk);
        let log = complete(&mut desk);
        assert_eq!(log.iter().any(|line| line.starts_with("delete ")), goes, "{max:?}: {log:?}");
    }
    for allow_empty_source in [false, true] {
        let mut desk = mirror(Delete { allow_empty_source, ..Delete::default() });
        desk.announce(&[source(0, 0)]);
        desk.say(Message::DirEnd { id: 0 });
        desk.say(Message::End);
        assert_eq!(said(&desk.log(), "delete 3 of dst: a d old x"), allow_empty_source);
    }
}

#[test]
fn nothing_is_deleted_once_the_sender_has_gone() {
    let mut desk = mirror(Delete::default());
    announce(&mut desk);
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    desk.over(false);
    let log = desk.log();
    assert!(!said(&log, "count") && !said(&log, "delete"), "{log:?}");
}

/// A mirror in which the names of the directory 2 and of the file 1 belong to something else.
fn obstructed(delete: Delete) -> Desk {
    let mut desk = mirror(delete);
    desk.obstacles = [(1, 70), (2, 71)].into();
    announce(&mut desk);
    desk
}

#[test]
fn what_is_in_the_way_is_deleted_with_the_extra_items_and_then_its_replacement_is_done() {
    let mut desk = obstructed(Delete::default());
    let log = complete(&mut desk);
    let at =
        |what: &str| log.iter().position(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{what}: {log:?}"));
    assert_eq!(log[at("delete")], "delete 3 of dst/d: older, dst: old x in1 in2");
    assert!(at("done 3") < at("count"), "what is in the directory is complete before: {log:?}");
    assert!(at("finish 2") < at("count") && at("finish 0") < at("count"), "{log:?}");
    assert!(at("done 1") < at("count") && at("done 2") < at("count"), "the sender goes on: {log:?}");
    for after in ["published dst/a", "note-published 1", "complete"] {
        assert!(at("delete") < log.iter().rposition(|line| line.starts_with(after)).unwrap(), "{after}: {log:?}");
    }
    desk.over(true);
    assert!(said(&desk.log(), "put-away"));
}

#[test]
fn if_nothing_is_deleted_what_waits_fails_and_the_same_command_goes_on() {
    let refuses: [&dyn Fn(&mut Desk); 3] = [
        &|desk| drop(desk.fails.insert(("rename", 3), Failure::Final("full".into()))),
        &|desk| drop(desk.fails.insert(("count", 0), Failure::Final("a rule keeps it".into()))),
        &|desk| desk.count = 100,
    ];
    for refuse in refuses {
        let mut desk = obstructed(Delete { max: Some(MaxDelete::Items(3)), ..Delete::default() });
        refuse(&mut desk);
        let log = complete(&mut desk);
        assert!(said(&log, "deletes nothing") && !log.iter().any(|line| line.starts_with("delete ")), "{log:?}");
        for failed in [
            "failed dst/a: a directory has its name",
            "failed dst/d: a directory has its name",
            "discard 1",
            "complete",
        ] {
            assert!(said(&log, failed), "{failed}: {log:?}");
        }
        desk.over(true);
        assert!(!said(&desk.log(), "put-away"), "the journal stays");
    }
}

#[test]
fn a_replacement_that_fails_is_told_and_the_others_are_done() {
    let mut desk = obstructed(Delete::default());
    desk.fails.insert(("replace", 2), Failure::Final("something came into it".into()));
    let log = complete(&mut desk);
    for line in ["failed dst/d: something came into it", "published dst/a", "complete"] {
        assert!(said(&log, line), "{line}: {log:?}");
    }
}

#[test]
fn what_waits_fails_once_the_sender_has_gone() {
    let mut desk = obstructed(Delete::default());
    desk.pack(&[(1, 5), (3, 5)]);
    desk.wait();
    desk.over(false);
    let log = desk.log();
    assert!(said(&log, "discard 1") && said(&log, "failed dst/a: a directory") && !said(&log, "delete "), "{log:?}");
    assert!(said(&log, "failed dst/d: something of another kind"), "{log:?}");
}

#[test]
fn what_the_run_may_have_made_itself_is_not_in_the_way() {
    // The inode of directory 2, which the run fills.
    let mut desk = mirror(Delete::default());
    desk.obstacles = [(1, 2)].into();
    announce(&mut desk);
    let log = complete(&mut desk);
    assert!(said(&log, "1 is in the way") && said(&log, "deletes nothing"), "{log:?}");
    // Without a mirror everything is as before.
    let mut desk = Desk::begun();
    desk.obstacles = [(1, 70)].into();
    desk.announce(&[source(0, 0), file(1, 0, "a", 5)]);
    desk.pack(&[(1, 5)]);
    desk.wait();
    assert!(said(&desk.log(), "done 1: is in the way"));
}

/// A list of names that has arrived late may be older than what a newer run has copied.
#[test]
fn nothing_is_deleted_before_the_sender_has_answered() {
    let options = ReceiveOptions { resume: true, delete: Some(Delete::default()), ..ReceiveOptions::default() };
    let mut desk = Desk::new(Settings { options, ..settings() });
    desk.count = 3;
    desk.begin(&[SourceKind::Directory]);
    announce(&mut desk);
    let log = complete(&mut desk);
    assert!(said(&log, "done") && !said(&log, "count") && !said(&log, "delete"), "{log:?}");
    desk.say(Message::Confirmed);
    let log = desk.log();
    assert!(said(&log, "delete 3") && desk.book.is_complete(), "{log:?}");
}
