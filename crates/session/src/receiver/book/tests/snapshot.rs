//! Snapshots: completed last, never after a failure, and older ones removed after that only.

use icdc_protocol::message::{Delete, Keep, Message, Problem, ReceiveOptions, Snapshot};

use super::desk::{Desk, NOON, at, file, settings, source};
use crate::Failure;
use crate::receiver::book::Settings;

/// A snapshot of one directory with one file; an earlier run has left another one.
fn snapshot(keep: Option<Keep>, delete: Option<Delete>) -> Desk {
    let snapshot = Some(Snapshot { time: at(NOON), keep });
    let options =
        ReceiveOptions { resume: true, dry_run: delete.is_none(), delete, snapshot, ..ReceiveOptions::default() };
    let mut desk = Desk::new(Settings { options, ..settings() });
    desk.extras = [(0, vec!["a", "old"])].into();
    desk.snapshots = vec!["2026-11-25T12:00:00Z", "2026-11-26T12:00:00Z", NOON];
    desk.count = 1;
    desk.begin_and_answer();
    desk.announce(&[source(0, 0), file(1, 0, "a", 5)]);
    desk.log();
    desk
}

/// Everything arrives and is done.
fn complete(desk: &mut Desk) -> Vec<String> {
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    desk.pack(&[(1, 5)]);
    desk.log()
}

/// The lines that begin so, in their order.
fn lines<'a>(log: &'a [String], beginnings: &[&str]) -> Vec<&'a str> {
    log.iter()
        .map(String::as_str)
        .filter(|line| beginnings.iter().any(|beginning| line.starts_with(beginning)))
        .collect()
}

#[test]
fn a_snapshot_is_made_once_what_the_source_does_not_have_is_gone_and_others_are_removed_after_it() {
    let keep = Some(Keep { days: 1, ..Keep::default() });
    let log = complete(&mut snapshot(keep, Some(Delete::default())));
    let order = ["done", "delete", "make snapshot", "remove snapshots", "Deletion(Ended)", "complete"];
    let expected = [
        "delete 1 of dst: old",
        "make snapshot",
        "remove snapshots 2026-11-25T12:00:00Z 2026-11-26T12:00:00Z",
        "Deletion(Ended)",
        "complete",
    ];
    let found = lines(&log, &order);
    assert_eq!(found[found.len() - expected.len()..], expected, "{log:?}");
    let log = complete(&mut snapshot(None, Some(Delete::default())));
    assert!(lines(&log, &["remove snapshots"]).is_empty(), "{log:?}");
    assert_eq!(lines(&log, &["Deletion(Ended)"]).len(), 1, "{log:?}");
}

#[test]
fn nothing_is_made_or_removed_after_a_failure() {
    let refuses: [&dyn Fn(&mut Desk); 5] = [
        &|desk| desk.say(Message::Problem(Problem { path: b"p".to_vec(), reason: "unreadable".into(), error: true })),
        &|desk| drop(desk.fails.insert(("rename", 1), Failure::Final("full".into()))),
        &|desk| drop(desk.fails.insert(("count", 0), Failure::Final("not readable".into()))),
        &|desk| drop(desk.fails.insert(("delete", 0), Failure::Final("busy".into()))),
        &|desk| drop(desk.fails.insert(("snapshot", 0), Failure::Final("busy".into()))),
    ];
    for (number, refuse) in refuses.into_iter().enumerate() {
        let mut desk = snapshot(Some(Keep { days: 1, ..Keep::default() }), Some(Delete::default()));
        refuse(&mut desk);
        let log = complete(&mut desk);
        assert_eq!(lines(&log, &["make snapshot"]).is_empty(), number < 4, "{number}: {log:?}");
        assert!(lines(&log, &["remove snapshots"]).is_empty(), "{number}: {log:?}");
        assert_eq!(lines(&log, &["snapshot: NotMade"]).len(), 1, "{number}: {log:?}");
        assert_eq!(lines(&log, &["Deletion(Ended)", "complete"]).len(), 2, "{number}: {log:?}");
    }
}

#[test]
fn an_empty_source_makes_no_snapshot_unless_it_is_meant() {
    for allow_empty_source in [false, true] {
        let snapshot = Some(Snapshot { time: at(NOON), keep: None });
        let delete = Some(Delete { allow_empty_source, ..Delete::default() });
        let options = ReceiveOptions { delete, snapshot, ..ReceiveOptions::default() };
        let mut desk = Desk::new(Settings { options, ..settings() });
        desk.begin_and_answer();
        desk.announce(&[source(0, 0)]);
        desk.say(Message::DirEnd { id: 0 });
        desk.say(Message::End);
        let log = desk.log();
        assert_eq!(lines(&log, &["make snapshot"]).is_empty(), !allow_empty_source, "{log:?}");
    }
}

#[test]
fn nothing_is_made_for_a_sender_that_has_gone() {
    let mut desk = snapshot(Some(Keep { days: 1, ..Keep::default() }), Some(Delete::default()));
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    desk.book.on_link_ended();
    desk.pack(&[(1, 5)]);
    let log = desk.log();
    assert!(lines(&log, &["make snapshot", "remove snapshots"]).is_empty(), "{log:?}");
}

#[test]
fn a_dry_run_deletes_nothing_and_tells_what_would_be_removed() {
    let mut desk = snapshot(Some(Keep { days: 1, ..Keep::default() }), None);
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    let log = desk.log();
    assert!(lines(&log, &["list", "delete"]).is_empty(), "{log:?}");
    assert_eq!(lines(&log, &["make snapshot", "remove snapshots"]).len(), 2, "{log:?}");
}
