//! Items that exist at the destination: equal, newer, kept, in the way.

use icdc_protocol::message::{EntryKind, Equality, Existing, Kept, Missing, Preserve, ReceiveOptions};

use super::super::super::action::Question;
use super::super::super::item::{Item, ModificationTime};
use super::super::facts::{Kind, PublishedBy, Stat};
use super::super::verdict::{Verdict, cannot_replace, name_exists};
use super::super::{Terms, decide};
use super::known::{DIGEST, Known, LARGE, anything, blocks, file, item, options, skipping_equal, stat, terms};

#[test]
fn an_update_skips_what_has_size_and_time_and_links_with_the_same_target() {
    let update = skipping_equal();
    let there = |kind| Known { stat: Some(stat(kind, 9)), target: Some(b"t".to_vec()), ..Known::default() };
    assert_eq!(anything(&file(9), &update, there(Kind::File)), Verdict::Skip { amend: false });
    assert_eq!(anything(&file(9), &options(), there(Kind::File)), Verdict::Contents { held: None });
    let link = |target: &[u8]| item(EntryKind::Symlink { target: target.to_vec() });
    assert_eq!(anything(&link(b"t"), &update, there(Kind::Symlink)), Verdict::Skip { amend: false });
    assert_eq!(anything(&link(b"u"), &update, there(Kind::Symlink)), Verdict::Contents { held: None });
    assert_eq!(anything(&link(b"t"), &options(), there(Kind::Symlink)), Verdict::Contents { held: None });
}

#[test]
fn what_is_equal_lacks_attributes_and_what_is_newer_stays() {
    let update = ReceiveOptions { existing: Existing::Update(Equality::SizeAndTime), ..options() };
    let there = |stat| Known { stat: Some(stat), ..Known::default() };
    let other_mode = Stat { mode: 0o600, ..stat(Kind::File, 9) };
    for options in [&update, &skipping_equal()] {
        assert_eq!(anything(&file(9), options, there(other_mode)), Verdict::Skip { amend: true });
    }
    let contents = Verdict::Contents { held: None };
    let at = |seconds, nanos| Stat { mtime: ModificationTime { seconds, nanos }, ..stat(Kind::File, 8) };
    let further = item(EntryKind::HardLink { to: 1, size: 9, version: [3; 16], sparse: false });
    for item in [&file(9), &further] {
        for newer in [at(5, 7), at(6, 0)] {
            assert_eq!(anything(item, &update, there(newer)), Verdict::Keep(Kept::Newer));
            assert_eq!(anything(item, &skipping_equal(), there(newer)), contents);
            let directory = Stat { kind: Kind::Directory, ..newer };
            assert_eq!(anything(item, &update, there(directory)), contents);
        }
        assert_eq!(anything(item, &update, there(at(5, 6))), contents, "of another size");
        assert_eq!(anything(item, &update, there(at(5, 5))), contents, "older");
    }
}

#[test]
fn contents_decide_where_sizes_are_equal_and_an_unchanged_file_lacks_attributes_only() {
    let by_contents =
        |existing: fn(Equality) -> Existing| ReceiveOptions { existing: existing(Equality::Contents), ..options() };
    let at = |seconds, size| {
        let mtime = ModificationTime { seconds, nanos: 6 };
        Known { stat: Some(Stat { mtime, ..stat(Kind::File, size) }), ..Known::default() }
    };
    let (skip_equal, update) = (by_contents(Existing::SkipEqual), by_contents(Existing::Update));
    let contents = Verdict::Contents { held: None };
    for seconds in [4, 5, 6] {
        assert_eq!(anything(&file(9), &skip_equal, at(seconds, 9)), Verdict::SameSize, "{seconds}");
        assert_eq!(anything(&file(9), &skip_equal, at(seconds, 8)), contents, "{seconds}");
        assert_eq!(anything(&file(0), &skip_equal, at(seconds, 0)), Verdict::Skip { amend: seconds != 5 });
    }
    assert_eq!(anything(&file(9), &update, at(6, 9)), Verdict::Keep(Kept::Newer));
    let attributes = |mut facts: Known| decide(&file(9), Question::Attributes, terms(&skip_equal), &mut facts).unwrap();
    assert_eq!(attributes(at(4, 9)), Verdict::Skip { amend: true });
    assert_eq!(attributes(at(5, 9)), Verdict::Skip { amend: false });
    assert_eq!(attributes(Known { was_changed: true, ..at(4, 9) }), contents);
    let drop_box = Terms { options: &skip_equal, only_new: true };
    let verdict = decide(&file(9), Question::Anything, drop_box, &mut at(4, 9)).unwrap();
    assert!(matches!(verdict, Verdict::Taken(_)), "{verdict:?}");
}

#[test]
fn equal_size_is_enough_where_only_the_size_counts_and_what_is_newer_still_stays() {
    let by_size =
        |existing: fn(Equality) -> Existing| ReceiveOptions { existing: existing(Equality::Size), ..options() };
    let at = |seconds, size| {
        let stat = Stat { mtime: ModificationTime { seconds, nanos: 6 }, ..stat(Kind::File, size) };
        Known { stat: Some(stat), ..Known::default() }
    };
    for (existing, newer) in [
        (by_size(Existing::SkipEqual), Verdict::Skip { amend: true }),
        (by_size(Existing::Update), Verdict::Keep(Kept::Newer)),
    ] {
        assert_eq!(anything(&file(9), &existing, at(5, 9)), Verdict::Skip { amend: false });
        assert_eq!(anything(&file(9), &existing, at(4, 9)), Verdict::Skip { amend: true }, "its time is set");
        assert_eq!(anything(&file(9), &existing, at(6, 9)), newer);
        assert_eq!(anything(&file(9), &existing, at(5, 8)), Verdict::Contents { held: None });
        let preserve = Preserve { times: false, ..existing.preserve };
        let without = ReceiveOptions { preserve, ..existing };
        assert_eq!(anything(&file(9), &without, at(4, 9)), Verdict::Skip { amend: false });
    }
}

#[test]
fn a_further_name_of_a_file_that_is_left_alone_is_left_alone_where_equal_files_are() {
    let further = item(EntryKind::HardLink { to: 1, size: 9, version: [3; 16], sparse: false });
    let of = |first| Known { stat: Some(stat(Kind::File, 9)), first: Some(first), ..Known::default() };
    let contents = Verdict::Contents { held: None };
    let update = ReceiveOptions { existing: Existing::Update(Equality::SizeAndTime), ..options() };
    for options in [skipping_equal(), update] {
        assert_eq!(anything(&further, &options, of(1)), Verdict::Skip { amend: false });
    }
    assert_eq!(anything(&further, &skipping_equal(), of(2)), contents, "it is one of another file");
    assert_eq!(anything(&further, &options(), of(1)), contents, "files are replaced");
    let only_new = Terms { options: &skipping_equal(), only_new: true };
    let told = decide(&further, Question::Anything, only_new, &mut of(1));
    assert_eq!(told, Ok(Verdict::Taken(name_exists("dst/x"))), "nothing is told of it");
}

#[test]
fn what_exists_is_kept_and_what_does_not_is_not_made_whatever_it_is() {
    let further = item(EntryKind::HardLink { to: 1, size: 9, version: [3; 16], sparse: false });
    let items = [file(9), file(LARGE), item(EntryKind::Symlink { target: b"t".to_vec() }), further];
    let there = |kind| Known { stat: Some(stat(kind, 8)), ..Known::default() };
    let keep = ReceiveOptions { existing: Existing::Keep, ..options() };
    let leave_out = ReceiveOptions { missing: Missing::LeaveOut, ..options() };
    let neither = ReceiveOptions { missing: Missing::LeaveOut, ..keep.clone() };
    let made = Verdict::Contents { held: None };
    for item in &items {
        for kind in [Kind::File, Kind::Symlink, Kind::Directory, Kind::Other("a socket")] {
            assert_eq!(anything(item, &keep, there(kind)), Verdict::Keep(Kept::Existing));
            assert_eq!(anything(item, &neither, there(kind)), Verdict::Keep(Kept::Existing));
        }
        assert_eq!(anything(item, &leave_out, there(Kind::File)), made);
        assert_eq!(anything(item, &keep, Known::default()), made);
        assert_eq!(anything(item, &leave_out, Known::default()), Verdict::Keep(Kept::Missing));
        assert_eq!(anything(item, &neither, Known::default()), Verdict::Keep(Kept::Missing));
    }
    // What this copy has published itself is no obstacle to it.
    let published = Known {
        stat: Some(stat(Kind::File, 9)),
        published: Some((DIGEST, PublishedBy::AnEarlierRun)),
        ..Known::default()
    };
    assert_eq!(anything(&file(9), &keep, published), Verdict::TakenOver(DIGEST));
    // It was looked at and has to be replaced.
    let altered = decide(&file(9), Question::Contents, terms(&keep), &mut there(Kind::File));
    assert_eq!(altered, Ok(made));
}

#[test]
fn times_are_compared_as_the_destination_keeps_them_where_they_are_preserved() {
    let known = |nanos| {
        let mtime = ModificationTime { seconds: 5, nanos };
        Known { stat: Some(Stat { mtime, ..stat(Kind::File, 9) }), granularity: 4, ..Known::default() }
    };
    let update = ReceiveOptions { existing: Existing::Update(Equality::SizeAndTime), ..options() };
    assert_eq!(anything(&file(9), &update, known(4)), Verdict::Skip { amend: false });
    assert_eq!(anything(&file(9), &update, known(0)), Verdict::Contents { held: None });
    assert_eq!(anything(&file(9), &update, known(8)), Verdict::Keep(Kept::Newer));
    let preserve = Preserve { times: false, ..update.preserve };
    let without = ReceiveOptions { preserve, ..update };
    assert_eq!(anything(&file(9), &without, known(4)), Verdict::Contents { held: None });
}

#[test]
fn where_only_what_is_new_may_be_made_whatever_is_there_is_told_alike() {
    let only_new = |options: &ReceiveOptions, question, item: &Item, mut facts: Known| {
        decide(item, question, Terms { options, only_new: true }, &mut facts)
    };
    let update = skipping_equal();
    let link = item(EntryKind::Symlink { target: b"t".to_vec() });
    for options in [options(), update.clone()] {
        for found in [
            stat(Kind::File, 9),
            stat(Kind::File, 8),
            stat(Kind::Directory, 0),
            stat(Kind::Symlink, 1),
            stat(Kind::Other("a socket"), 0),
        ] {
            for item in [&file(9), &file(LARGE), &link] {
                let facts = Known { stat: Some(found), target: Some(b"t".to_vec()), ..Known::default() };
                let told = only_new(&options, Question::Anything, item, facts);
                assert_eq!(told, Ok(Verdict::Taken(name_exists("dst/x"))), "{found:?}");
            }
        }
    }
    let nothing = Ok(Verdict::Contents { held: None });
    assert_eq!(only_new(&update, Question::Anything, &file(9), Known::default()), nothing);
    // A dry run does not read the destination.
    let dry_run = ReceiveOptions { dry_run: true, ..update };
    let there = || Known { stat: Some(stat(Kind::File, 9)), ..Known::default() };
    assert_eq!(only_new(&dry_run, Question::Anything, &file(9), there()), nothing);
    // What the run itself has made is known by its journal, and what was left of it is gone on
    // with.
    let made = Known { published: Some((DIGEST, PublishedBy::AnEarlierRun)), ..there() };
    let taken_over = only_new(&options(), Question::Anything, &file(9), made);
    assert_eq!(taken_over, Ok(Verdict::TakenOver(DIGEST)));
    let left = Known { part: Some(blocks(LARGE, 1)), ..Known::default() };
    let held = only_new(&options(), Question::Anything, &file(LARGE), left);
    assert_eq!(held, Ok(Verdict::Contents { held: Some(blocks(LARGE, 1)) }));
    let altered = only_new(&options(), Question::Contents, &file(9), there());
    assert_eq!(altered, Ok(Verdict::Taken(name_exists("dst/x"))));
}

#[test]
fn a_large_file_replaces_neither_a_directory_nor_a_socket() {
    let mut facts = Known { stat: Some(stat(Kind::Directory, 0)), ..Known::default() };
    let failure = decide(&file(LARGE), Question::Anything, terms(&options()), &mut facts).unwrap_err();
    assert_eq!(
        failure.into_reason(),
        "dst/x: a directory is in the way; remove it, or copy with --delete, which replaces it at the end"
    );
    let mut facts = Known { stat: Some(stat(Kind::Other("a socket"), 0)), ..Known::default() };
    let failure = decide(&file(LARGE), Question::Anything, terms(&options()), &mut facts).unwrap_err();
    assert_eq!(failure, cannot_replace("dst/x", "a socket"));
}
