//! Files that are written at their place.

use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::{EntryKind, Equality, Existing, Kept, ReceiveOptions};

use super::super::super::action::{Basis, Question, ReferencePlace};
use super::super::super::item::ModificationTime;
use super::super::decide;
use super::super::facts::{Kind, Stat};
use super::super::verdict::Verdict;
use super::known::{Known, LARGE, anything, blocks, file, item, options, skipping_equal, stat, terms};

const EVERYTHING: Verdict = Verdict::Contents { held: None };

fn in_place() -> ReceiveOptions {
    ReceiveOptions { in_place: true, ..options() }
}

fn there(size: u64) -> Known {
    Known { stat: Some(stat(Kind::File, size)), describes_files: true, ..Known::default() }
}

#[test]
fn a_large_file_is_compared_with_the_one_that_it_is_written_into() {
    let itself = |held| Verdict::Difference { held, basis: Basis::AtSamePlace(ReferencePlace::Itself) };
    assert_eq!(anything(&file(LARGE), &in_place(), there(LARGE + 5)), itself(None));
    let left = || Known { in_place: Some(Ok(blocks(LARGE, 2))), ..there(LARGE) };
    assert_eq!(anything(&file(LARGE), &in_place(), left()), itself(Some(blocks(LARGE, 2))));
    let anew = ReceiveOptions { resume: false, ..in_place() };
    assert_eq!(anything(&file(LARGE), &anew, left()), itself(None));
    let whole = ReceiveOptions { whole_files: true, ..in_place() };
    assert_eq!(anything(&file(LARGE), &whole, left()), Verdict::Contents { held: Some(blocks(LARGE, 2)) });
    let dry = ReceiveOptions { dry_run: true, ..in_place() };
    assert_eq!(anything(&file(LARGE), &dry, left()), EVERYTHING);
}

#[test]
fn what_may_not_be_written_is_refused_in_a_dry_run_as_well() {
    for options in [in_place(), ReceiveOptions { dry_run: true, ..in_place() }] {
        let mut facts = Known { in_place: Some(Err("has two names")), ..there(LARGE) };
        let refused = decide(&file(LARGE), Question::Anything, terms(&options), &mut facts).unwrap_err();
        assert_eq!(refused.into_reason(), "has two names");
    }
}

#[test]
fn small_and_new_files_are_made_anew() {
    let refuses = |known: Known| Known { in_place: Some(Err("is not asked")), ..known };
    for (size, found) in [(PACK_FILE_LIMIT, there(LARGE)), (LARGE, there(PACK_FILE_LIMIT)), (LARGE, Known::default())] {
        let verdict = anything(&file(size), &in_place(), refuses(found));
        assert!(matches!(verdict, Verdict::Contents { .. } | Verdict::Difference { .. }), "{size}: {verdict:?}");
    }
    let link = Known { stat: Some(stat(Kind::Symlink, LARGE)), ..Known::default() };
    assert_eq!(anything(&file(LARGE), &in_place(), refuses(link)), EVERYTHING);
    let target = item(EntryKind::Symlink { target: b"x".to_vec() });
    assert_eq!(anything(&target, &in_place(), refuses(there(LARGE))), EVERYTHING);
}

#[test]
fn a_file_that_was_left_inconsistent_is_neither_equal_nor_newer() {
    let newer = Stat { mtime: ModificationTime { seconds: 500, nanos: 0 }, ..stat(Kind::File, LARGE) };
    let update = ReceiveOptions { existing: Existing::Update(Equality::SizeAndTime), ..options() };
    let by_size = ReceiveOptions { existing: Existing::SkipEqual(Equality::Size), ..options() };
    let keeping = ReceiveOptions { existing: Existing::Keep, ..options() };
    let skip = |amend| Verdict::Skip { amend };
    for (options, stat, without) in [
        (skipping_equal(), stat(Kind::File, LARGE), skip(false)),
        (by_size, newer, skip(true)),
        (update, newer, Verdict::Keep(Kept::Newer)),
        (keeping, newer, Verdict::Keep(Kept::Existing)),
    ] {
        let known = |is_torn| Known { stat: Some(stat), is_torn, ..Known::default() };
        assert_eq!(anything(&file(LARGE), &options, known(false)), without);
        for in_place in [true, false] {
            let options = ReceiveOptions { in_place, ..options.clone() };
            assert_eq!(anything(&file(LARGE), &options, known(true)), EVERYTHING, "{options:?}");
        }
    }
}

#[test]
fn a_file_with_several_names_is_not_replaced_by_a_copy_of_itself() {
    let names = Stat { names: 2, mode: 0o600, ..stat(Kind::File, LARGE) };
    let options = ReceiveOptions { existing: Existing::SkipEqual(Equality::SizeAndTime), ..in_place() };
    let mut facts = Known { stat: Some(names), in_place: Some(Err("has two names")), ..Known::default() };
    assert!(decide(&file(LARGE), Question::Anything, terms(&options), &mut facts).is_err());
}
