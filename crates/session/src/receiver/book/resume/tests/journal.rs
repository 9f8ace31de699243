//! Items that earlier runs have published or left, as their journals tell.

use icdc_protocol::message::{EntryKind, FileDigest, Preserve, ReceiveOptions};

use super::super::super::action::Question;
use super::super::super::item::ModificationTime;
use super::super::decide;
use super::super::facts::{Kind, PublishedBy, Stat};
use super::super::verdict::Verdict;
use super::known::{DIGEST, Known, LARGE, SHOWN, anything, blocks, file, item, options, stat, terms};

#[test]
fn what_this_run_published_is_had_and_what_an_earlier_one_did_is_taken_over_or_compared() {
    let known = |by| Known { stat: Some(stat(Kind::File, 9)), published: Some((DIGEST, by)), ..Known::default() };
    let verify = ReceiveOptions { verify: true, ..options() };
    let verdict = |options: &ReceiveOptions, by| anything(&file(9), options, known(by));
    assert_eq!(verdict(&verify, PublishedBy::ThisRun), Verdict::Have(DIGEST));
    assert_eq!(verdict(&options(), PublishedBy::AnEarlierRun), Verdict::TakenOver(DIGEST));
    assert_eq!(
        verdict(&verify, PublishedBy::AnEarlierRun),
        Verdict::Compare { digest: DIGEST, is_noted: true, shown: SHOWN }
    );
}

#[test]
fn a_record_counts_only_where_the_file_is_as_it_was_published() {
    let wrong = [
        None,
        Some(stat(Kind::Symlink, 9)),
        Some(stat(Kind::File, 8)),
        Some(Stat { mode: 0o600, ..stat(Kind::File, 9) }),
        Some(Stat { mtime: ModificationTime { seconds: 5, nanos: 7 }, ..stat(Kind::File, 9) }),
    ];
    for stat in wrong {
        let facts = Known { stat, published: Some((DIGEST, PublishedBy::ThisRun)), ..Known::default() };
        assert_eq!(anything(&file(9), &options(), facts), Verdict::Contents { held: None }, "{stat:?}");
    }
    let facts = || Known {
        stat: Some(stat(Kind::File, 9)),
        published: Some((DIGEST, PublishedBy::ThisRun)),
        ..Known::default()
    };
    let owners = ReceiveOptions { preserve: Preserve { owner: true, mode: false, ..Preserve::default() }, ..options() };
    assert_eq!(anything(&file(9), &owners, facts()), Verdict::Contents { held: None }, "its owner differs");
}

#[test]
fn a_whole_journal_without_a_part_is_that_of_a_file_that_got_its_name_just_before_a_kill() {
    let known =
        |count| Known { stat: Some(stat(Kind::File, LARGE)), journals: vec![blocks(LARGE, count)], ..Known::default() };
    let verdict = anything(&file(LARGE), &options(), known(3));
    assert!(matches!(verdict, Verdict::Compare { digest: FileDigest::Blake3(_), is_noted: false, .. }));
    assert_eq!(anything(&file(LARGE), &options(), known(2)), Verdict::Contents { held: None });
    let anew = ReceiveOptions::default();
    assert_eq!(anything(&file(LARGE), &anew, known(3)), Verdict::Contents { held: None });
}

#[test]
fn a_file_that_another_session_finishes_while_it_is_waited_for_is_compared() {
    let ended = |blocks, stat| Known { ended: Some((blocks, stat)), ..Known::default() };
    let whole = || blocks(LARGE, 3);
    let verdict = anything(&file(LARGE), &options(), ended(whole(), stat(Kind::File, LARGE)));
    assert!(matches!(verdict, Verdict::Compare { digest: FileDigest::Blake3(_), is_noted: false, .. }));
    let contents = Verdict::Contents { held: None };
    assert_eq!(anything(&file(LARGE), &options(), ended(blocks(LARGE, 2), stat(Kind::File, LARGE))), contents);
    let mtime = ModificationTime { seconds: 5, nanos: 7 };
    for other in [stat(Kind::File, LARGE - 1), stat(Kind::Symlink, LARGE), Stat { mtime, ..stat(Kind::File, LARGE) }] {
        assert_eq!(anything(&file(LARGE), &options(), ended(whole(), other)), contents, "{other:?}");
    }
    // What was compared already, and differs.
    let mut facts = ended(whole(), stat(Kind::File, LARGE));
    assert_eq!(decide(&file(LARGE), Question::Contents, terms(&options()), &mut facts), Ok(contents));
}

#[test]
fn a_part_is_claimed_for_files_of_more_than_a_block_and_cleared_for_those_with_holes() {
    for (size, sparse, claims) in [(LARGE, true, Some(true)), (LARGE, false, Some(false)), (9 << 10, true, None)] {
        let item = item(EntryKind::File { size, version: [3; 16], sparse, linked: false });
        let mut facts = Known { part: Some(blocks(LARGE, 1)), ..Known::default() };
        let verdict = decide(&item, Question::Contents, terms(&options()), &mut facts).unwrap();
        assert_eq!(verdict, Verdict::Contents { held: claims.map(|_| blocks(LARGE, 1)) });
        assert_eq!(facts.asked_to_clear, claims);
    }
}
