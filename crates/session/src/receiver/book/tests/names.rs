//! Names that items and directories get, and wait for.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_PENDING};
use icdc_protocol::message::{EntryId, EntryKind, FileDigest, Kept, Message, Missing, Parent, SourceKind};

use super::desk::{DIGEST, Desk, SHOWN, directory, entry, file, link, linked, place, settings, source};
use crate::Failure;
use crate::receiver::book::action::{Method, Reference, ReferencePlace, Target};
use crate::receiver::book::resume::verdict::Verdict;

const LARGE: u64 = 3 * BLOCK_SIZE as u64;
const HAVE: Verdict = Verdict::Have(FileDigest::Blake3(DIGEST));
const COMPARE: Verdict = Verdict::Compare { digest: FileDigest::Blake3(DIGEST), is_noted: true, shown: SHOWN };

/// The contents of two directories go into one.
fn merged() -> Desk {
    let mut desk = Desk::new(settings());
    desk.targets = vec![Target::Contents(place(7)), Target::Contents(place(7))];
    desk.begin(&[SourceKind::Contents, SourceKind::Contents]);
    desk.announce(&[source(0, 0)]);
    // Both sources' directories are the destination itself.
    desk.log();
    desk
}

#[test]
fn directories_of_a_message_are_made_at_once_and_its_items_examined_at_once() {
    let mut desk = Desk::begun();
    let nested = [source(0, 0), file(1, 0, "x", 1), directory(2, 0, "d"), file(3, 2, "y", 1), file(4, 0, "z", 1)];
    desk.verdicts.insert(3, vec![HAVE]);
    desk.verdicts.insert(4, vec![Verdict::Skip { amend: false }]);
    desk.announce(&nested);
    let log = ["make [0, 2]", "examine [1, 3, 4]", "had", "skipped dst/z", "wants 0 all all all have skip"];
    assert_eq!(desk.log(), log);
}

/// The sender learns that an item is linked when that is durable, and of one that cannot be, that its contents are wanted.
#[test]
fn what_is_made_from_a_reference_directory_is_durable_before_that_is_told() {
    let linked = Verdict::Reference(Reference { place: ReferencePlace::Older(1), method: Method::Link });
    let desk = || {
        let mut desk = Desk::begun();
        for id in [1, 2, 3] {
            desk.verdicts.insert(id, vec![linked.clone()]);
        }
        desk
    };
    let announced = [source(0, 0), file(1, 0, "x", LARGE), file(2, 0, "y", 1), file(3, 0, "z", 1)];
    let mut first = desk();
    first.fails.insert(("take", 2), "it is another file".into());
    first.announce(&announced);
    let log = [
        "make [0]",
        "examine [1, 2, 3]",
        "wants 0 all",
        "take 1 1",
        "take 2 1",
        "take 3 1",
        "examine [2]",
        "wants 2 all",
    ];
    let told = first.log();
    let mut sorted = (told.clone(), log.map(String::from).to_vec());
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1, "{told:?}");
    first.pack(&[(2, 1)]);
    first.log();
    first.wait();
    let told = first.log();
    let place =
        |line: &str| told.iter().position(|found| found == line).unwrap_or_else(|| panic!("no {line}: {told:?}"));
    let flushed = place("flush-names in 1");
    for line in ["wants 1 linked", "wants 3 linked", "linked dst/x", "linked dst/z", "done 2"] {
        assert!(place(line) > flushed, "{told:?}");
    }
    assert!(place("remove-left-journals x") > flushed, "{told:?}");

    let mut dry = settings();
    dry.options.dry_run = true;
    let mut desk = Desk::new(dry);
    desk.begin(&[SourceKind::Directory]);
    desk.verdicts.insert(1, vec![linked]);
    desk.log();
    desk.announce(&[source(0, 0), file(1, 0, "x", 1)]);
    assert_eq!(desk.log(), ["make [0]", "examine [1]", "linked src/x", "wants 0 all linked"]);
}

/// An earlier session may have made the name, and ended before it was durable.
#[test]
fn the_name_of_a_source_that_is_skipped_is_made_durable_before_that_is_told() {
    let single = |size| {
        let kind = EntryKind::File { size, version: [0; 16], sparse: false, linked: false };
        entry(0, Parent::Source(0), "", kind)
    };
    let skipping = |settings| {
        let mut desk = Desk::new(settings);
        desk.begin(&[SourceKind::Item]);
        desk.verdicts.insert(0, vec![Verdict::Skip { amend: false }]);
        desk.log();
        desk
    };
    let mut desk = skipping(settings());
    desk.announce(&[single(LARGE)]);
    let log = ["examine [0]", "flush-names in 1", "remove-left-journals dst", "skipped dst", "wants 0 skip"];
    assert_eq!(desk.log(), log);
    let mut desk = skipping(settings());
    desk.fails.insert(("flush-names", 0), "no disk".into());
    desk.announce(&[single(1)]);
    let log = ["examine [0]", "flush-names in 1", "failed dst: no disk", "done 0: no disk", "wants 0 failed"];
    assert_eq!(desk.log(), log);
    let mut dry = settings();
    dry.options.dry_run = true;
    let mut desk = skipping(dry);
    desk.announce(&[single(LARGE)]);
    assert_eq!(desk.log(), ["examine [0]", "skipped src", "wants 0 skip"]);
}

/// A run that was cut off may have left an unfinished file beside it.
#[test]
fn beside_a_small_file_that_a_resumed_run_skips_nothing_is_left() {
    let mut desk = Desk::new(settings());
    desk.placed.resuming = true;
    desk.begin(&[SourceKind::Directory]);
    desk.log();
    desk.verdicts.insert(1, vec![Verdict::Skip { amend: false }]);
    desk.announce(&[source(0, 0), file(1, 0, "x", 1)]);
    let log = ["make [0]", "examine [1]", "remove-left x", "skipped dst/x", "wants 0 all skip"];
    assert_eq!(desk.log(), log);
}

#[test]
fn what_is_skipped_in_a_directory_becomes_durable_with_that_and_leaves_no_journal() {
    let mut desk = Desk::begun();
    desk.verdicts.insert(1, vec![Verdict::Skip { amend: false }]);
    desk.announce(&[source(0, 0), file(1, 0, "x", LARGE)]);
    let log = ["make [0]", "examine [1]", "remove-left-journals x", "skipped dst/x", "wants 0 all skip"];
    assert_eq!(desk.log(), log);
    desk.say(Message::DirEnd { id: 0 });
    desk.wait();
    assert_eq!(desk.log(), ["finish 0", "flush [1]", "done 0"]);
}

#[test]
fn attributes_of_what_is_skipped_are_durable_before_that_is_told_or_it_is_made_anew() {
    let amending = |amends| {
        let mut desk = Desk::begun();
        desk.amends = amends;
        for id in [1, 2] {
            desk.verdicts.insert(id, vec![Verdict::Skip { amend: true }]);
        }
        desk
    };
    let announced = [source(0, 0), file(1, 0, "x", 1), file(2, 0, "y", 1)];
    let mut desk = amending(true);
    desk.announce(&announced);
    let log = [
        "make [0]",
        "examine [1, 2]",
        "amend [1, 2]",
        "wants 0 all",
        "flush-names on [1]",
        "skipped dst/x",
        "skipped dst/y",
        "wants 1 skip skip",
    ];
    assert_eq!(desk.log(), log);
    let mut desk = amending(false);
    desk.fails.insert(("amend", 1), "it is another's".into());
    desk.announce(&announced);
    let log = [
        "make [0]",
        "examine [1, 2]",
        "amend [1, 2]",
        "wants 0 all",
        "skipped dst/y",
        "wants 2 skip",
        "examine [1]",
        "wants 1 all",
    ];
    assert_eq!(desk.log(), log);
}

#[test]
fn further_names_of_a_file_whose_first_name_stays_get_contents_of_their_own() {
    let mut desk = Desk::begun();
    desk.verdicts.insert(1, vec![Verdict::Keep(Kept::Newer)]);
    desk.announce(&[source(0, 0), linked(1, 0, "first", 7), link(2, 0, "other", 1)]);
    let log = [
        "make [0]",
        "examine [1, 2]",
        "kept dst/first",
        "wants 0 all keep all",
        "unlinked dst/other",
        "wants 2 contents",
    ];
    assert_eq!(desk.log(), log);
    desk.announce(&[link(3, 0, "third", 1)]);
    assert_eq!(desk.log(), ["examine [3]", "wants 3 all", "unlinked dst/third", "wants 3 contents"]);
}

#[test]
fn where_nothing_new_is_made_the_contents_of_a_missing_directory_are_left_out() {
    let mut settings = settings();
    settings.options.missing = Missing::LeaveOut;
    let mut desk = Desk::begun_with(settings);
    desk.missing.insert(1);
    desk.announce(&[source(0, 0), directory(1, 0, "d"), directory(2, 1, "e"), file(3, 2, "x", 1), file(4, 0, "y", 1)]);
    desk.announce(&[file(5, 1, "z", 1), directory(6, 1, "f"), file(7, 6, "deep", 9 << 20)]);
    let log = [
        "make [0, 1, 2]",
        "kept dst/d/e/x",
        "examine [4]",
        "wants 0 all all all keep all",
        "kept dst/d/z",
        "kept dst/d/f/deep",
        "wants 5 keep all keep",
    ];
    assert_eq!(desk.log(), log);
    for id in [6, 2, 1] {
        desk.say(Message::DirEnd { id });
    }
    assert_eq!(desk.log(), ["done 6", "done 2", "done 1"], "they have no attributes to be set");
}

#[test]
fn children_of_a_directory_that_cannot_be_made_fail_by_its_reason() {
    let mut desk = Desk::begun();
    desk.fails.insert(("make", 1), "no room".into());
    desk.announce(&[source(0, 0), directory(1, 0, "d"), directory(2, 1, "e"), file(3, 2, "x", 1), file(4, 0, "y", 1)]);
    desk.announce(&[file(5, 1, "z", 1)]);
    let log = [
        "make [0, 1, 2]",
        "failed dst/d: no room",
        "failed dst/d/e: no room",
        "failed dst/d/e/x: no room",
        "done 3: no room",
        "examine [4]",
        "wants 0 all all all failed all",
        "failed dst/d/z: no room",
        "done 5: no room",
        "wants 5 failed",
    ];
    assert_eq!(desk.log(), log);
    for id in [2, 1, 0] {
        desk.say(Message::DirEnd { id });
    }
    assert_eq!(desk.log(), ["done 2: no room", "done 1: no room"], "4 is wanted");
}

#[test]
fn inner_directories_finish_first() {
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0), directory(1, 0, "d"), directory(2, 1, "e"), file(3, 2, "x", 1)]);
    for id in [2, 0, 1] {
        desk.say(Message::DirEnd { id });
    }
    desk.pack(&[(3, 1)]);
    desk.log();
    desk.fails.insert(("finish", 1), "no".into());
    desk.wait();
    let log = desk.log();
    let finished: Vec<_> = log.iter().filter(|line| line.starts_with("finish") || line.starts_with("done")).collect();
    assert_eq!(finished, ["done 3", "finish 2", "finish 1", "finish 0", "done 1: no"]);
    desk.wait();
    assert_eq!(desk.log(), ["flush [1]", "done 2", "done 0"], "their attributes are durable");
}

#[test]
fn the_later_of_two_items_with_one_name_waits_for_the_earlier() {
    let mut desk = merged();
    desk.say(Message::Entries(vec![file(1, 0, "x", 1), file(2, 0, "x", 1), file(3, 0, "y", 1)]));
    assert_eq!(desk.log(), ["examine [1, 3]", "wants 1 all", "wants 3 all"]);
    desk.pack(&[(1, 1), (2, 1), (3, 1)]);
    assert_eq!(desk.log(), ["stage [1, 3]"], "nothing was asked of 2");
    desk.wait();
    let log = desk.log();
    assert_eq!(log.iter().filter(|line| line.starts_with("examine") || line.starts_with("wants")).count(), 2);
    assert_eq!(log[log.len() - 2..], ["examine [2]", "wants 2 all"]);
    assert!(desk.book.item(1).is_none() && desk.book.item(2).is_some());
}

#[test]
fn a_name_stays_held_from_waiter_to_waiter() {
    let mut desk = merged();
    desk.say(Message::Entries(vec![file(1, 0, "x", LARGE), file(2, 0, "x", 1), file(3, 0, "x", 1)]));
    desk.fails.insert(("examine", 2), "no".into());
    desk.log();
    desk.lost(1, Failure::Final("cut".into()));
    let log = desk.log();
    let order: Vec<_> = log.iter().filter(|line| line.starts_with("examine") || line.starts_with("wants")).collect();
    assert_eq!(order, ["examine [2]", "wants 2 failed", "examine [3]", "wants 3 all"]);
}

#[test]
fn after_the_links_end_nobody_is_admitted() {
    let mut desk = merged();
    desk.say(Message::Entries(vec![file(1, 0, "x", LARGE), file(2, 0, "x", 1), file(3, 0, "z", 1)]));
    desk.verdicts.insert(4, vec![COMPARE]);
    desk.say(Message::Entries(vec![file(4, 0, "w", 1)]));
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    desk.log();
    desk.book.on_link_ended();
    desk.stored(1);
    let log = desk.log();
    assert!(log.contains(&"done 1".to_owned()) && !log.iter().any(|line| line.starts_with("examine")), "{log:?}");
    desk.compared(4, true);
    desk.over(true);
    assert_eq!(desk.log(), [""; 0], "neither complete nor put away");
}

#[test]
fn what_is_held_and_expected_comes_before_the_answer() {
    let mut desk = Desk::begun();
    let mut held = BlockMap::new(LARGE);
    held.insert(1, DIGEST).expect("a block of the file");
    desk.verdicts.insert(1, vec![Verdict::Contents { held: Some(held) }]);
    desk.announce(&[source(0, 0), file(1, 0, "x", LARGE), file(2, 0, "y", 1 << 20)]);
    let log = [
        "make [0]",
        "examine [1, 2]",
        "held 1 1",
        "continued 4194304",
        "note-staged 1",
        "expect 1 held",
        "expect 2",
        "wants 0 all rest all",
    ];
    assert_eq!(desk.log(), log);
}

#[test]
fn a_file_is_not_expected_when_its_part_could_not_be_noted() {
    let mut desk = Desk::begun();
    desk.fails.insert(("note-staged", 1), "full".into());
    desk.announce(&[source(0, 0), file(1, 0, "x", LARGE)]);
    let log = [
        "make [0]",
        "examine [1]",
        "note-staged 1",
        "wants 0 all all",
        "note-released dst/x",
        "forget 1",
        "failed dst/x: full",
        "done 1: full",
    ];
    assert_eq!(desk.log(), log);
}

#[test]
fn what_was_compared_is_had_or_wanted_after_all() {
    let mut desk = Desk::begun();
    for id in [1, 2] {
        desk.verdicts.insert(id, vec![COMPARE]);
    }
    desk.announce(&[source(0, 0), file(1, 0, "x", LARGE), file(2, 0, "y", LARGE), file(3, 0, "z", 1)]);
    let log = ["make [0]", "examine [1, 2, 3]", "compare 1", "compare 2", "wants 0 all", "wants 3 all"];
    assert_eq!(desk.log(), log);
    desk.compared(1, true);
    assert_eq!(desk.log(), ["note-published 1", "remove-left-journals x", "had", "wants 1 have"]);
    desk.compared(2, false);
    assert_eq!(desk.log(), ["altered dst/y", "examine [2]", "note-staged 2", "expect 2", "wants 2 all"]);
    desk.compared(9, true);
    assert_eq!(desk.log(), [""; 0], "nobody knows it");
}

#[test]
fn a_name_that_an_earlier_session_gave_and_did_not_note_is_flushed_before_it_counts() {
    let mut desk = Desk::begun();
    for id in [1, 2] {
        let digest = FileDigest::Blake3(DIGEST);
        desk.verdicts.insert(id, vec![Verdict::Compare { digest, is_noted: false, shown: SHOWN }]);
    }
    desk.announce(&[source(0, 0), file(1, 0, "x", LARGE), file(2, 0, "y", LARGE)]);
    desk.log();
    desk.compared(1, true);
    let log = ["flush-names in 1", "note-published 1", "remove-left-journals x", "had", "wants 1 have"];
    assert_eq!(desk.log(), log);
    desk.fails.insert(("flush-names", 0), "no medium".into());
    desk.compared(2, true);
    let log = ["flush-names in 1", "failed dst/y: no medium", "done 2: no medium", "wants 2 failed"];
    assert_eq!(desk.log(), log, "its journal stays");
}

#[test]
fn what_is_found_behind_the_end_of_the_link_is_answered_to_nobody() {
    let mut desk = Desk::begun();
    desk.fails.insert(("examine", 1), "another copy is writing it".into());
    desk.book.on_message(desk.now, Message::Entries(vec![source(0, 0), file(1, 0, "x", LARGE)]));
    desk.book.on_link_ended();
    desk.over(false);
    let log = desk.log();
    assert!(log.contains(&"examine [1]".to_owned()), "{log:?}");
    assert!(!log.iter().any(|line| line.starts_with("failed") || line.starts_with("done")), "{log:?}");
}

#[test]
fn a_further_name_waits_for_the_first_or_follows_its_fate() {
    let mut desk = Desk::begun();
    desk.announce(&[
        source(0, 0),
        linked(1, 0, "a", LARGE),
        linked(2, 0, "b", LARGE),
        link(3, 0, "a2", 1),
        link(4, 0, "b2", 2),
        link(5, 0, "c2", 9),
    ]);
    let log = desk.log();
    let none = "is a further name of a file that is not part of this copy";
    assert!(log.contains(&format!("failed dst/c2: {none}")) && log.contains(&format!("done 5: {none}")));
    assert!(!log.iter().any(|line| line.starts_with("link")), "{log:?}");
    desk.stored(1);
    let log = desk.log();
    assert_eq!(log.last().expect("it goes on"), "link 3 a");
    desk.lost(2, Failure::Passing("disk".into()));
    let reason = "the file it is a further name of failed";
    let log = desk.log();
    assert_eq!(log[log.len() - 2..], [format!("failed dst/b2: {reason}"), format!("done 4: {reason}")]);
}

#[test]
fn a_further_name_is_made_long_after_the_first_in_whichever_directory_that_was() {
    let mut desk = Desk::begun();
    desk.verdicts.insert(2, vec![HAVE]);
    desk.announce(&[source(0, 0), directory(1, 0, "d"), linked(2, 1, "a", 1)]);
    desk.say(Message::DirEnd { id: 1 });
    assert_eq!(desk.log()[3..], ["wants 0 all all have", "finish 1 remembered"], "it may be lost as yet");
    desk.wait();
    assert_eq!(desk.log(), ["flush [1]", "done 1"]);
    desk.announce(&[link(3, 0, "b", 2)]);
    assert_eq!(desk.log(), ["examine [3]", "link 3 a", "wants 3 all"]);
}

#[test]
fn names_for_unfinished_files_are_not_made() {
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0), directory(1, 0, ".icdc-1"), file(2, 0, ".icdc-2", 1), file(3, 1, "x", 1)]);
    let log = desk.log();
    assert_eq!(log.iter().filter(|line| line.starts_with("failed") && line.ends_with("unfinished files")).count(), 3);
    assert_eq!(log.last().expect("an answer"), "wants 0 all all failed failed");
}

#[test]
fn entries_are_numbered_and_bounded_and_have_open_parents() {
    for (entries, reason) in [
        (vec![source(1, 0)], "entry 1 came where 0 was due"),
        (vec![source(0, 1)], "entry 0: names no source"),
        (vec![file(0, 7, "x", 1)], "entry 0: has no open parent"),
        (vec![source(0, 0), file(1, 0, "..", 1)], "entry 1: has a name that no item in a directory can have"),
    ] {
        let mut desk = Desk::begun();
        desk.announce(&entries);
        assert_eq!(desk.log(), [format!("fail: {reason}")]);
    }
    let mut desk = Desk::begun();
    desk.announce(&[source(0, 0)]);
    for id in 1..=MAX_PENDING as u32 {
        desk.announce(&[file(id, 0, &id.to_string(), 1)]);
    }
    assert!(!desk.log().iter().any(|line| line.starts_with("fail")));
    desk.announce(&[file(MAX_PENDING as u32 + 1, 0, "x", 1)]);
    assert_eq!(desk.log(), ["fail: more entries are announced than may be pending"]);
    desk.announce(&[file(MAX_PENDING as u32 + 2, 0, "y", 1)]);
    assert_eq!(desk.log(), [""; 0], "the session has failed");
}

#[test]
fn the_contents_of_a_source_are_a_directory() {
    let mut desk = merged();
    let item = entry(1, Parent::Source(1), "", EntryKind::Symlink { target: b"t".to_vec() });
    desk.announce(&[item]);
    assert_eq!(desk.log(), ["fail: entry 1: is not the directory that was announced"]);
}

/// Announcements of a sender that is gone may have arrived late, after a newer run.
#[test]
fn what_needs_no_data_is_published_once_the_sender_has_answered() {
    let linked = Verdict::Reference(Reference { place: ReferencePlace::Older(1), method: Method::Link });
    let mut desk = Desk::new(settings());
    desk.begin(&[SourceKind::Directory]);
    [1, 2].into_iter().for_each(|id| drop(desk.verdicts.insert(id, vec![linked.clone()])));
    desk.announce(&[source(0, 0), file(1, 0, "x", 1), file(2, 0, "y", 1)]);
    desk.say(Message::DirEnd { id: 0 });
    desk.say(Message::End);
    desk.wait();
    let log = desk.log();
    assert!(!log.iter().any(|line| line.starts_with("rename")), "{log:?}");
    desk.say(Message::Confirmed);
    desk.say(Message::Confirmed);
    let log = desk.log();
    assert!(log.iter().any(|line| line.starts_with("rename")), "{log:?}");
    assert!(desk.book.is_complete(), "{log:?}");
}

#[test]
fn attributes_of_a_directory_are_changed_once_the_sender_has_answered() {
    let begun = |differing: &[EntryId]| {
        let mut desk = Desk::new(settings());
        desk.differing.extend(differing);
        desk.begin(&[SourceKind::Directory]);
        desk.announce(&[source(0, 0), directory(1, 0, "a"), directory(2, 1, "b"), directory(3, 0, "c")]);
        [2, 1, 3, 0].into_iter().for_each(|id| desk.say(Message::DirEnd { id }));
        desk.say(Message::End);
        desk
    };
    let ends = |desk: &mut Desk| {
        let is_end = |line: &String| ["finish ", "done "].iter().any(|word| line.starts_with(word));
        desk.log().into_iter().filter(is_end).collect::<Vec<_>>()
    };
    let mut desk = begun(&[]);
    assert_eq!(ends(&mut desk)[..2], ["finish 2", "finish 1"], "those that are as they shall be need no answer");
    let mut desk = begun(&[1, 2]);
    desk.wait();
    let log = desk.log();
    assert!(!log.iter().any(|line| ["finish 1", "finish 2"].contains(&line.as_str())), "{log:?}");
    assert!(!log.contains(&"done 0".into()), "outer ones end after inner ones: {log:?}");
    desk.say(Message::Confirmed);
    desk.wait();
    let ended = ends(&mut desk);
    assert_eq!(ended[..2], ["finish 2", "finish 1"], "{ended:?}");
    let done: Vec<_> = ended.iter().filter(|line| line.starts_with("done")).collect();
    assert_eq!(done, ["done 2", "done 1", "done 0"], "{ended:?}");
    assert!(desk.book.is_complete());

    // One that cannot be changed holds nothing up.
    let mut desk = begun(&[2]);
    desk.fails.insert(("finish", 2), "no".into());
    desk.wait();
    assert!(!desk.log().contains(&"done 0".into()));
    desk.say(Message::Confirmed);
    desk.wait();
    let ended = ends(&mut desk);
    assert_eq!(ended, ["finish 2", "done 2: no", "done 1", "done 0"], "{ended:?}");
    assert!(desk.book.is_complete());
}
