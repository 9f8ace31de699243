//! From what has arrived to the end of the run.

use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{Begin, EntryKind, FileEnd, GivenUp, Message, Parent, Source, SourceKind};
use icdc_units::Span;

use super::desk::{Desk, directory, entry, file, link, linked, place, settings, source};
use crate::receiver::book::action::Target;

const LARGE: u64 = 3 * BLOCK_SIZE as u64;

/// A tree of one large and two small files, all announced.
fn announced() -> Desk {
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0), file(1, 0, "large", LARGE), file(2, 0, "x", 5), file(3, 0, "y", 0)]);
    desk.say(Message::DirEnd { id: 0 });
    desk.log();
    desk
}

fn given_up(id: u32, same_version: bool) -> Message {
    Message::FileEnd(FileEnd { id, blocks: 0, outcome: Err(GivenUp { reason: "unreadable".into(), same_version }) })
}

#[test]
fn what_is_staged_is_published_when_nothing_else_can_come() {
    let mut desk = announced();
    desk.say(Message::End);
    assert_eq!(desk.log(), ["flush [1]"], "the directory that was made");
    desk.pack(&[(2, 5), (3, 0)]);
    assert_eq!(desk.log(), ["stage [2, 3]"], "the large file may come any time");
    desk.stored(1);
    let log = [
        "flush [1]",
        "rename [2, 3, 1]",
        "flush-names in 1",
        "note-published 3",
        "remove-journals [1]",
        "done 2 3 1",
        "published dst/x",
        "published dst/y",
        "published dst/large",
        "note-released dst/large",
        "forget 1",
        "finish 0",
        "flush [1]",
        "done 0",
        "complete",
    ];
    assert_eq!(desk.log(), log, "the directory's attributes are durable, too");
    desk.over(true);
    assert_eq!(desk.log(), ["put-away"]);
}

#[test]
fn what_is_staged_is_published_when_nothing_has_happened_for_a_while() {
    let mut desk = announced();
    desk.wait();
    assert_eq!(desk.log(), ["flush [1]"]);
    assert!(desk.book.next_deadline().is_none());
    desk.pack(&[(2, 5)]);
    let first = desk.book.next_deadline().expect("something is staged");
    desk.pass(Span::from_millis(30));
    desk.pack(&[(3, 0)]);
    assert!(desk.book.next_deadline().expect("something is staged") > first);
    assert_eq!(desk.log(), ["stage [2]", "stage [3]"]);
    desk.wait();
    assert_eq!(desk.log()[..2], ["flush [1]", "rename [2, 3]"]);
}

#[test]
fn a_flush_that_fails_leaves_no_name_and_the_run_goes_on_later() {
    let mut desk = announced();
    desk.fails.insert(("flush", 0), "no medium".into());
    desk.pack(&[(2, 5)]);
    desk.wait();
    let log = ["stage [2]", "flush [1]", "discard 2", "failed dst/x: no medium", "done 2: no medium"];
    assert_eq!(desk.log(), log);
    desk.lost(1, "gone".into());
    desk.fails.clear();
    desk.pack(&[(3, 0)]);
    desk.say(Message::End);
    assert_eq!(desk.log().last().expect("it ends"), "complete");
    desk.over(true);
    assert_eq!(desk.log(), [""; 0], "the same command has something to go on with");
}

#[test]
fn names_that_cannot_be_flushed_are_not_told_done_and_the_run_goes_on_later() {
    let mut desk = announced();
    desk.wait();
    assert_eq!(desk.log(), ["flush [1]"], "the directory that was made");
    desk.fails.insert(("flush-names", 0), "no medium".into());
    desk.pack(&[(2, 5)]);
    desk.stored(1);
    let log = [
        "stage [2]",
        "flush [1]",
        "rename [2, 1]",
        "flush-names in 1",
        "discard 2",
        "failed dst/x: no medium",
        "done 2: no medium",
        "discard 1",
        "forget 1",
        "failed dst/large: no medium",
        "done 1: no medium",
    ];
    assert_eq!(desk.log(), log, "nothing is noted as published, and the journal of blocks stays");
    desk.fails.clear();
    desk.pack(&[(3, 0)]);
    desk.say(Message::End);
    assert_eq!(desk.log().last().expect("it ends"), "complete");
    desk.over(true);
    assert_eq!(desk.log(), [""; 0], "the same command has something to go on with");
}

#[test]
fn a_name_that_cannot_be_given_fails_its_item_alone() {
    let mut desk = announced();
    desk.fails.insert(("rename", 2), "a directory is there".into());
    desk.pack(&[(2, 5), (3, 0)]);
    desk.lost(1, "gone".into());
    desk.say(Message::End);
    let log = desk.log();
    for line in ["discard 2", "done 2: a directory is there", "published dst/y", "complete", "note-published 1"] {
        assert!(log.contains(&line.to_owned()), "{line}: {log:?}");
    }
    desk.over(true);
    assert_eq!(desk.log(), ["put-away"], "nothing is to be gone on with");
}

#[test]
fn the_run_is_put_away_only_when_the_sender_knows_that_all_is_done() {
    for (ends, parts, expected) in [(true, false, 0), (false, true, 0), (true, true, 1)] {
        let mut desk = announced();
        desk.pack(&[(2, 5), (3, 0)]);
        desk.stored(1);
        if ends {
            desk.say(Message::End);
        }
        desk.log();
        desk.over(parts);
        assert_eq!(desk.log().iter().filter(|line| *line == "put-away").count(), expected);
    }
}

#[test]
fn a_sender_that_gives_up_says_whether_its_item_is_still_the_same() {
    let mut desk = announced();
    desk.say(given_up(1, false));
    assert_eq!(
        desk.log(),
        ["note-released dst/large", "forget 1", "failed dst/large: unreadable", "done 1: unreadable"]
    );
    desk.say(given_up(2, true));
    assert_eq!(desk.log(), ["failed dst/x: unreadable", "done 2: unreadable"]);
    desk.pack(&[(3, 0)]);
    desk.say(Message::End);
    desk.log();
    desk.over(true);
    assert_eq!(desk.log(), [""; 0], "2 comes again");
    let mut desk = announced();
    desk.pack(&[(2, 5)]);
    desk.log();
    desk.say(given_up(2, false));
    assert_eq!(desk.log(), [""; 0], "what is complete is published");
}

#[test]
fn everything_that_arrived_is_published_at_a_cut() {
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0), linked(1, 0, "a", 3), link(2, 0, "b", 1), file(3, 0, "large", LARGE)]);
    desk.pack(&[(1, 3)]);
    desk.log();
    desk.over(false);
    let log = desk.log();
    for line in ["rename [1]", "done 1", "link 2 a", "rename [2]", "done 2"] {
        assert!(log.contains(&line.to_owned()), "{line}: {log:?}");
    }
    assert!(!log.iter().any(|line| matches!(line.as_str(), "complete" | "put-away")));
}

#[test]
fn packs_hold_what_was_announced() {
    for (items, reason) in [
        (vec![(2, 4)], "packed file 2 has another length than announced"),
        (vec![(1, 4)], "packed file 1 has another length than announced"),
        (vec![(4, 0)], "item 4 is not a file"),
    ] {
        let mut desk = Desk::begun();
        let other = link(4, 0, "z", 1);
        desk.announce(&[source(0, 0), linked(1, 0, "large", LARGE), file(2, 0, "x", 5), file(3, 0, "y", 0), other]);
        desk.log();
        desk.pack(&items);
        assert_eq!(desk.log(), [format!("fail: {reason}")]);
    }
    let mut desk = announced();
    desk.pack(&[(2, 5), (2, 5), (9, 1)]);
    assert_eq!(desk.log(), ["stage [2]"], "what is not wanted is of no use");
}

#[test]
fn a_link_is_made_at_once_and_published_with_the_rest() {
    let mut desk = Desk::begun();
    let kind = || EntryKind::Symlink { target: b"t".to_vec() };
    desk.fails.insert(("symlink", 2), "no".into());
    let links = [entry(1, Parent::Directory(0), "a", kind()), entry(2, Parent::Directory(0), "b", kind())];
    desk.announce(&[vec![source(0, 0)], links.to_vec()].concat());
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    let log = desk.log();
    assert_eq!(log[..4], ["make [0]", "examine [1, 2]", "symlink 1", "symlink 2"]);
    for line in ["done 2: no", "rename [1]", "note-published 0", "done 1", "published dst/a", "complete"] {
        assert!(log.contains(&line.to_owned()), "{line}: {log:?}");
    }
}

#[test]
fn names_in_many_directories_are_flushed_with_their_file_system() {
    let mut desk = Desk::begun();
    let directories = (1..6).map(|id| directory(id, 0, &id.to_string()));
    let files = (6..11).map(|id| file(id, id - 5, "x", 1));
    desk.announce(&[source(0, 0)].into_iter().chain(directories).chain(files).collect::<Vec<_>>());
    desk.pack(&(6..11).map(|id| (id, 1)).collect::<Vec<_>>());
    desk.wait();
    assert!(desk.log().contains(&"flush-names on [1]".to_owned()));
}

#[test]
fn every_file_system_with_something_new_is_flushed() {
    let mut desk = Desk::new(settings());
    let elsewhere = crate::receiver::book::item::DirectoryPlace { device: 2, inode: 1 };
    desk.targets = vec![
        Target::Named { directory: place(7), name: b"a".to_vec() },
        Target::Named { directory: elsewhere, name: b"b".to_vec() },
    ];
    desk.begin(&[SourceKind::Item, SourceKind::Item]);
    let item = |id| entry(id, Parent::Source(id), "", file(id, 0, "", 1).kind);
    desk.announce(&[item(0), item(1)]);
    desk.log();
    desk.pack(&[(0, 1), (1, 1)]);
    desk.wait();
    assert_eq!(desk.log()[1..4], ["flush [1, 2]", "rename [0, 1]", "flush-names in 2"]);
}

#[test]
fn a_source_whose_contents_held_the_journal_gets_its_time_once_more() {
    let mut desk = Desk::new(settings());
    desk.targets = vec![Target::Contents(place(7))];
    desk.begin(&[SourceKind::Contents]);
    desk.announce(&[source(0, 0)]);
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    assert_eq!(desk.log().last().expect("an end"), "complete");
    desk.over(true);
    assert_eq!(desk.log(), ["put-away contents"]);
}

#[test]
fn a_dry_run_of_a_directory_without_a_name_leaves_the_destination_as_it_is() {
    let mut settings = settings();
    settings.options.dry_run = true;
    let mut desk = Desk::new(settings);
    desk.targets = vec![Target::Contents(place(7))];
    let unnamed = Source { name: Vec::new(), kind: SourceKind::Contents, identity: None };
    desk.say(Message::Begin(Begin { job: [0; 32], sources: vec![unnamed] }));
    desk.announce(&[source(0, 0)]);
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    assert_eq!(desk.log().last().expect("an end"), "complete");
    desk.over(true);
    assert!(!desk.log().contains(&"put-away contents".to_owned()));
}

#[test]
fn a_damaged_pack_ends_the_session_and_what_is_good_of_it_is_published() {
    let mut desk = announced();
    desk.damaged = Some(2);
    desk.pack(&[(2, 5), (3, 0)]);
    assert_eq!(desk.log(), ["stage [2, 3]", "fail: packed file 2 does not match its digest"]);
    desk.over(false);
    assert!(desk.log().contains(&"done 3".to_owned()));
}

#[test]
fn only_what_has_no_lock_needs_its_sender_until_it_has_its_name() {
    for (size, is_durable, renamed) in [(5, false, "rename [0] if all is as found"), (LARGE, true, "rename [0]")] {
        let mut desk = Desk::new(settings());
        desk.begin(&[SourceKind::Item]);
        desk.announce(&[entry(0, Parent::Source(0), "", file(0, 0, "", size).kind)]);
        desk.say(Message::End);
        desk.log();
        if is_durable {
            desk.stored(0);
        } else {
            desk.pack(&[(0, size as u32)]);
        }
        assert!(desk.log().contains(&renamed.to_owned()), "{size} bytes");
    }
}

#[test]
fn directories_fail_with_the_flush_that_was_to_make_them_durable() {
    let mut desk = Desk::begun();
    desk.fails.insert(("flush", 0), "no medium".into());
    desk.announce(&[source(0, 0), directory(1, 0, "empty")]);
    desk.say(Message::DirEnd { id: 1 });
    desk.say(Message::DirEnd { id: 0 });
    desk.log();
    desk.say(Message::End);
    let log = [
        "flush [1]",
        "failed dst/empty: no medium",
        "done 1: no medium",
        "failed dst: no medium",
        "done 0: no medium",
        "complete",
    ];
    assert_eq!(desk.log(), log);
    desk.over(true);
    assert_eq!(desk.log(), [""; 0], "the same command has something to go on with");
}

#[test]
fn nothing_is_published_in_a_directory_that_cannot_be_made_durable() {
    let mut desk = announced();
    desk.fails.insert(("flush", 0), "no medium".into());
    desk.wait();
    assert_eq!(desk.log(), ["flush [1]"]);
    desk.fails.clear();
    desk.pack(&[(2, 5)]);
    assert_eq!(desk.log(), ["stage [2]", "discard 2", "failed dst/x: no medium", "done 2: no medium"]);
    desk.stored(1);
    let log = ["discard 1", "forget 1", "failed dst/large: no medium", "done 1: no medium"];
    assert_eq!(desk.log(), log, "its blocks are kept for the same command");
    desk.pack(&[(3, 0)]);
    desk.say(Message::End);
    let log = desk.log();
    let end = ["finish 0", "failed dst: no medium", "done 0: no medium", "flush [1]", "complete"];
    assert_eq!(log[log.len() - 5..], end);
}

#[test]
fn a_directory_fails_whose_attributes_cannot_be_made_durable() {
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0), directory(1, 0, "a"), directory(2, 0, "b")]);
    desk.wait();
    assert_eq!(desk.log().last().expect("a flush"), "flush [1]", "all are durable but for their attributes");
    desk.fails.insert(("flush", 0), "no medium".into());
    desk.fails.insert(("finish", 2), "not permitted".into());
    (0..3).rev().for_each(|id| desk.say(Message::DirEnd { id }));
    desk.say(Message::End);
    let log = [
        "finish 2",
        "failed dst/b: not permitted",
        "done 2: not permitted",
        "finish 1",
        "finish 0",
        "flush [1]",
        "failed dst/a: no medium",
        "done 1: no medium",
        "failed dst: no medium",
        "done 0: no medium",
        "complete",
    ];
    assert_eq!(desk.log(), log);
}

#[test]
fn a_directory_in_one_that_cannot_be_made_durable_fails_with_it() {
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0)]);
    desk.fails.insert(("flush", 0), "no medium".into());
    desk.wait();
    desk.log();
    desk.announce(&[directory(1, 0, "d")]);
    assert_eq!(desk.log(), ["make [1]", "failed dst/d: no medium", "wants 1 all"]);
    desk.say(Message::DirEnd { id: 1 });
    assert_eq!(desk.log(), ["done 1: no medium"]);
}

#[test]
fn many_directories_that_are_done_but_for_the_flush_do_not_wait_for_it() {
    let mut desk = Desk::begun();
    let directories = (1..=1024).map(|id| directory(id, 0, &id.to_string()));
    desk.announce(&[source(0, 0)].into_iter().chain(directories).collect::<Vec<_>>());
    (1..1024).for_each(|id| desk.say(Message::DirEnd { id }));
    assert!(!desk.log().contains(&"flush [1]".to_owned()));
    desk.say(Message::DirEnd { id: 1024 });
    assert_eq!(desk.log()[..3], ["finish 1024", "flush [1]", "done 1024"]);
}

#[test]
fn a_further_name_whose_first_one_was_replaced_gets_contents_of_its_own() {
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0), linked(1, 0, "first", 7), link(2, 0, "other", 1)]);
    desk.log();
    desk.replaced_first = Some(2);
    desk.pack(&[(1, 7)]);
    desk.wait();
    let log = desk.log();
    assert!(log.ends_with(&["link 2 first".into(), "unlinked dst/other".into(), "wants 2 contents".into()]), "{log:?}");
    desk.pack(&[(2, 7)]);
    desk.wait();
    let log = desk.log();
    assert!(log.contains(&"stage [2]".into()) && log.contains(&"published dst/other".into()), "{log:?}");

    // The sender is gone and cannot send them.
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0), linked(1, 0, "first", 7), link(2, 0, "other", 1)]);
    desk.replaced_first = Some(2);
    desk.pack(&[(1, 7)]);
    desk.over(false);
    let log = desk.log();
    assert!(log.iter().any(|line| line.starts_with("failed dst/other")), "{log:?}");
}
