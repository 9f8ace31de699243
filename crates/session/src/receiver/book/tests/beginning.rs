//! Before announcements are processed.

use icdc_protocol::limits::MAX_PENDING;
use icdc_protocol::message::{Diskless, Entry, Message, Parent, SourceKind};
use icdc_units::ByteCount;

use super::desk::{Desk, entry, file, settings, source};
use crate::receiver::book::Settings;
use crate::receiver::book::action::{NotBegun, Placed, Target};
use icdc_protocol::message::{EntryKind, ReceiveOptions};

fn waits() -> Placed {
    Placed { resuming: true, has_waited: true, peer_is_gone: false }
}

#[test]
fn a_session_that_had_to_wait_does_nothing_before_the_sender_has_answered() {
    let mut desk = Desk::new(settings());
    desk.placed = waits();
    desk.begin(&[SourceKind::Directory]);
    desk.announce(&[source(0, 0), file(1, 0, "x", 5)]);
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    assert_eq!(desk.log(), ["place journaled", "ready resuming"]);
    desk.say(Message::Confirmed);
    assert_eq!(desk.log(), ["begin", "make [0]", "examine [1]", "wants 0 all all", "flush [1]"]);
}

#[test]
fn nothing_is_done_for_a_sender_that_never_answers() {
    let mut desk = Desk::new(settings());
    desk.placed = waits();
    desk.begin(&[SourceKind::Directory]);
    desk.announce(&[source(0, 0), file(1, 0, "x", 5)]);
    desk.log();
    desk.over(true);
    assert_eq!(desk.log(), [""; 0]);
}

#[test]
fn a_sender_that_has_gone_before_the_session_began_leaves_nothing() {
    let mut desk = Desk::new(settings());
    desk.placed.peer_is_gone = true;
    desk.begin(&[SourceKind::Item]);
    desk.announce(&[entry(0, Parent::Source(0), "", EntryKind::Symlink { target: b"t".to_vec() })]);
    let reason = "fail: connection lost: the sender closed the connection before the session began";
    assert_eq!(desk.log(), ["place", reason]);
}

#[test]
fn the_sender_is_asked_after_each_session_that_was_faster() {
    let mut desk = Desk::new(settings());
    desk.not_begun = vec![NotBegun::HasWaited { resuming: true }];
    desk.begin(&[SourceKind::Directory]);
    assert_eq!(desk.log(), ["place journaled", "begin", "ready resuming"]);
    desk.not_begun = vec![NotBegun::HasWaited { resuming: true }];
    desk.say(Message::Confirmed);
    assert_eq!(desk.log(), ["begin", "ready resuming"]);
    desk.say(Message::Confirmed);
    assert_eq!(desk.log(), ["begin"]);
}

#[test]
fn what_may_wait_for_the_sender_is_bounded() {
    let mut desk = Desk::new(settings());
    desk.placed = waits();
    desk.begin(&[SourceKind::Directory]);
    desk.log();
    for _ in 0..2 * MAX_PENDING {
        desk.say(Message::DirEnd { id: 0 });
    }
    assert_eq!(desk.log(), [""; 0]);
    desk.say(Message::End);
    assert_eq!(desk.log(), ["fail: more entries are announced than may be pending"]);
    desk.say(Message::Confirmed);
    assert_eq!(desk.log(), [""; 0], "the session has failed");
}

#[test]
fn data_before_the_answer_and_a_second_beginning_break_the_protocol() {
    let mut desk = Desk::new(settings());
    desk.placed = waits();
    desk.begin(&[SourceKind::Directory]);
    desk.log();
    desk.pack(&[(1, 1)]);
    assert_eq!(desk.log(), ["fail: data came before it was asked for"]);
    let mut desk = Desk::begun();
    desk.begin(&[SourceKind::Directory]);
    assert_eq!(desk.log(), ["fail: began twice"]);
    let mut desk = Desk::new(settings());
    desk.announce(&[source(0, 0)]);
    assert_eq!(desk.log(), ["fail: something came before Begin"]);
    desk.say(Message::Ping);
    assert_eq!(desk.log(), ["fail: a message that only a receiver may send"]);
}

#[test]
fn a_sender_offers_what_it_was_asked_for() {
    let asked = |path: &str| Settings { asked: Some(vec![path.as_bytes().to_vec()]), ..settings() };
    for (path, kind, is_good) in [
        ("a/src", SourceKind::Directory, true),
        ("a/src/", SourceKind::Directory, true),
        ("a/src/", SourceKind::Contents, true),
        ("a/src", SourceKind::Contents, false),
        (".", SourceKind::Contents, true),
        ("~", SourceKind::Directory, true),
        ("a/other", SourceKind::Item, false),
    ] {
        let mut desk = Desk::new(asked(path));
        desk.begin(&[kind]);
        let refused = desk.log() == ["fail: it offers src, which was not asked for"];
        assert_eq!(!refused, is_good, "{path} {kind:?}");
    }
    let mut desk = Desk::new(asked("src"));
    desk.begin(&[SourceKind::Item, SourceKind::Item]);
    assert_eq!(desk.log(), ["fail: it offers src, which was not asked for"], "twice");
}

#[test]
fn a_dry_run_lists_what_would_come_and_makes_nothing() {
    let options = ReceiveOptions { dry_run: true, ..ReceiveOptions::default() };
    let mut desk = Desk::new(Settings { options, ..settings() });
    desk.targets = vec![Target::Imagined];
    desk.begin(&[SourceKind::Directory]);
    desk.announce(&[source(0, 0), file(1, 0, "x", 5)]);
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    let log = ["place", "begin", "ready", "would receive src/x 5", "wants 0 all all", "done 0", "complete"];
    assert_eq!(desk.log(), log);
}

#[test]
fn without_a_disk_one_file_of_the_length_asked_for_is_received_and_nothing_else() {
    let begun = |announced: &[Entry]| {
        let mut settings = settings();
        settings.options.diskless = Some(Diskless { length: ByteCount::new(5), hashed: true });
        let mut desk = Desk::new(settings);
        desk.begin(&[SourceKind::Item]);
        desk.announce(announced);
        desk.log().last().cloned().unwrap()
    };
    let item = |id, size| Entry { parent: Parent::Source(0), ..file(id, 0, "", size) };
    let refused = "fail: without a disk, one file of the length asked for is received";
    assert!(!begun(&[item(0, 5)]).starts_with("fail"));
    for announced in [&[item(0, 4)][..], &[item(0, 5), item(1, 5)], &[source(0, 0)]] {
        assert_eq!(begun(announced), refused);
    }
}
