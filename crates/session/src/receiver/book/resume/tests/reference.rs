//! Files that are made from others of the destination.

use icdc_protocol::message::{CandidatePlace, Delete, EntryKind, Preserve, ReceiveOptions};

use super::super::super::action::{Basis, Method, Question, Reference, ReferencePlace};
use super::super::super::item::ModificationTime;
use super::super::facts::{Kind, Lookup, Stat};
use super::super::verdict::Verdict;
use super::super::{ITSELF, decide};
use super::known::{Known, LARGE, anything, blocks, file, item, options, skipping_equal, stat, terms};

#[test]
fn the_first_reference_with_equal_attributes_is_linked_and_otherwise_the_first_equal_one_copied() {
    let same = stat(Kind::File, 9);
    let later = Stat { mtime: ModificationTime { seconds: 5, nanos: 7 }, ..same };
    let other_mode = Stat { mode: 0o600, ..same };
    let verdict = |references: &[Option<Stat>], options: &ReceiveOptions| {
        anything(&file(9), options, Known { references: references.to_vec(), ..Known::default() })
    };
    let of = |number, method| Verdict::Reference(Reference { place: ReferencePlace::Older(number), method });
    let contents = Verdict::Contents { held: None };
    let options = options();
    for found in [None, Some(later), Some(stat(Kind::File, 8)), Some(stat(Kind::Symlink, 9))] {
        assert_eq!(verdict(&[found], &options), contents, "{found:?}");
        assert_eq!(verdict(&[found, Some(other_mode), Some(same)], &options), of(2, Method::Link), "{found:?}");
        assert_eq!(verdict(&[found, Some(other_mode), Some(other_mode)], &options), of(1, Method::Copy));
    }
    let verified = ReceiveOptions { verify: true, ..options.clone() };
    assert_eq!(verdict(&[Some(same)], &verified), contents, "equal size and time prove nothing");
    let owner = Preserve { owner: true, ..Preserve::default() };
    let preserving = ReceiveOptions { preserve: owner, ..options.clone() };
    assert_eq!(verdict(&[Some(same)], &preserving), of(0, Method::Copy), "the owner is another");
    let owned = Stat { owner: (1, 2), mode: 0o4644, ..same };
    assert_eq!(verdict(&[Some(owned)], &preserving), of(0, Method::Link));
    assert_eq!(verdict(&[Some(owned)], &options), of(0, Method::Copy), "a new file would be the user's own");
    let nothing = ReceiveOptions { preserve: Preserve::NOTHING, ..options };
    assert_eq!(verdict(&[Some(other_mode)], &nothing), of(0, Method::Link), "no mode is preserved");
    let set_id = Stat { mode: 0o4600, ..same };
    assert_eq!(verdict(&[Some(set_id)], &nothing), of(0, Method::Copy), "no new file is set-user-id");
}

#[test]
fn only_a_mirror_looks_for_a_new_file_under_another_name() {
    let mirror = ReceiveOptions { delete: Some(Delete::default()), ..options() };
    let places = vec![CandidatePlace { source: 0, path: b"old".to_vec() }];
    let contents = Verdict::Contents { held: None };
    let known = |lookup: Lookup| Known { candidates: Some(lookup), ..Known::default() };
    let found = || known(Lookup::Found(places.clone()));
    for size in [9, LARGE] {
        assert_eq!(anything(&file(size), &mirror, found()), Verdict::Candidates(places.clone()));
        assert_eq!(anything(&file(size), &mirror, known(Lookup::Unknown)), Verdict::Undecided);
        assert_eq!(anything(&file(size), &mirror, known(Lookup::Nothing)), contents);
        assert_eq!(anything(&file(size), &options(), found()), contents, "no mirror");
        let again = decide(&file(size), Question::Contents, terms(&mirror), &mut found());
        assert_eq!(again, Ok(contents.clone()), "it was compared");
    }
    assert_eq!(anything(&file(0), &mirror, found()), contents);
    let there = Known { stat: Some(stat(Kind::File, 8)), ..found() };
    assert_eq!(anything(&file(9), &mirror, there), contents, "something has the name");
    let preserve = Preserve { times: false, ..mirror.preserve };
    assert_eq!(anything(&file(9), &ReceiveOptions { preserve, ..mirror.clone() }, found()), contents);
    let part = Known { part: Some(blocks(LARGE, 1)), ..found() };
    assert_eq!(anything(&file(LARGE), &mirror, part), Verdict::Contents { held: Some(blocks(LARGE, 1)) });
}

#[test]
fn extended_attributes_that_differ_make_a_copy() {
    let preserve = Preserve { xattr: true, ..Preserve::default() };
    let options = ReceiveOptions { preserve, ..options() };
    for (other_xattrs, method) in [(false, Method::Link), (true, Method::Copy)] {
        let facts = Known { references: vec![Some(stat(Kind::File, 9))], other_xattrs, ..Known::default() };
        let expected = Verdict::Reference(Reference { place: ReferencePlace::Older(0), method });
        assert_eq!(anything(&file(9), &options, facts), expected);
    }
}

#[test]
fn attributes_of_a_file_with_several_names_are_not_set_in_place() {
    let options = skipping_equal();
    let found = |names, mode| Some(Stat { names, mode, ..stat(Kind::File, 9) });
    let skip = |amend| Verdict::Skip { amend };
    let verdict = |stat| anything(&file(9), &options, Known { stat, ..Known::default() });
    assert_eq!(verdict(found(1, 0o600)), skip(true));
    assert_eq!(verdict(found(2, 0o644)), skip(false));
    assert_eq!(verdict(found(2, 0o600)), ITSELF, "its contents are there");
    let compared = |verify| {
        let facts = &mut Known { stat: found(2, 0o600), ..Known::default() };
        let options = ReceiveOptions { verify, ..skipping_equal() };
        decide(&file(9), Question::Attributes, terms(&options), facts).unwrap()
    };
    assert_eq!(compared(false), ITSELF, "its contents were compared");
    assert_eq!(compared(true), Verdict::Contents { held: None }, "a copy would have to be read back");
    let verified = ReceiveOptions { verify: true, ..skipping_equal() };
    let facts = Known { stat: found(2, 0o600), ..Known::default() };
    assert_eq!(anything(&file(9), &verified, facts), Verdict::Contents { held: None }, "they may be others");
    let facts = Known { stat: found(2, 0o600), ..Known::default() };
    assert_eq!(anything(&file(9), &super::known::options(), facts), Verdict::Contents { held: None });
    let linked = item(EntryKind::File { size: 9, version: [3; 16], sparse: false, linked: true });
    let several = |references: &[Option<Stat>]| {
        let facts = Known { stat: found(2, 0o600), references: references.to_vec(), ..Known::default() };
        anything(&linked, &options, facts)
    };
    assert_eq!(several(&[]), ITSELF, "some of the names may be others'");
    let older = Verdict::Reference(Reference { place: ReferencePlace::Older(0), method: Method::Copy });
    assert_eq!(several(&[found(2, 0o600)]), older, "one of the names may be in the reference directory");
    let preserve = Preserve { xattr: true, ..Preserve::default() };
    let options = ReceiveOptions { preserve, ..skipping_equal() };
    for (other_xattrs, expected) in [(false, skip(false)), (true, ITSELF)] {
        let facts = Known { stat: found(2, 0o644), other_xattrs, ..Known::default() };
        assert_eq!(anything(&file(9), &options, facts), expected);
    }
}

#[test]
fn a_large_file_is_compared_with_the_one_that_it_replaces_or_with_its_counterpart() {
    let stat = |size: u64| Some(stat(Kind::File, size));
    let of =
        |stat, references: Vec<Option<Stat>>| Known { stat, references, describes_files: true, ..Known::default() };
    let difference = |place| Verdict::Difference { held: None, basis: Basis::AtSamePlace(place) };
    for (known, expected) in [
        (of(stat(LARGE), vec![stat(LARGE + 1)]), difference(ReferencePlace::Itself)),
        (of(stat(100_000), vec![]), difference(ReferencePlace::Itself)),
        (of(stat(65_535), vec![None, stat(65_536)]), difference(ReferencePlace::Older(1))),
        (of(None, vec![stat(70_000)]), difference(ReferencePlace::Older(0))),
        (of(None, vec![]), Verdict::Contents { held: None }),
        (Known { describes_files: false, ..of(stat(LARGE), vec![]) }, Verdict::Contents { held: None }),
    ] {
        assert_eq!(anything(&file(LARGE), &options(), known), expected);
    }
    let whole = ReceiveOptions { whole_files: true, ..options() };
    assert_eq!(anything(&file(LARGE), &whole, of(stat(LARGE), vec![])), Verdict::Contents { held: None });
    let dry = ReceiveOptions { dry_run: true, ..options() };
    assert_eq!(anything(&file(LARGE), &dry, of(stat(LARGE), vec![])), Verdict::Contents { held: None });
    assert_eq!(
        anything(&file(9), &options(), of(stat(LARGE), vec![])),
        Verdict::Contents { held: None },
        "it is small"
    );
    let part = Some(blocks(LARGE, 1));
    let resumed = anything(&file(LARGE), &options(), Known { part: part.clone(), ..of(stat(LARGE), vec![]) });
    assert_eq!(resumed, Verdict::Difference { held: part, basis: Basis::AtSamePlace(ReferencePlace::Itself) });
}

#[test]
fn moved_content_is_looked_for_in_the_counterpart_and_in_what_is_named() {
    let delta = ReceiveOptions { delta: true, ..options() };
    let known = |size: Option<u64>, finds_moved, named_basis| Known {
        stat: size.map(|size| stat(Kind::File, size)),
        describes_files: true,
        finds_moved,
        named_basis,
        ..Known::default()
    };
    let difference = |basis| Verdict::Difference { held: None, basis };
    let whole = Verdict::Contents { held: None };
    for (known, expected) in [
        (known(Some(LARGE), true, false), difference(Basis::AtAnyPlace(Some(ReferencePlace::Itself)))),
        (known(Some(9), true, false), whole.clone()),
        (known(Some(9), true, true), difference(Basis::AtAnyPlace(None))),
        (known(None, true, true), difference(Basis::AtAnyPlace(None))),
        (known(None, true, false), whole.clone()),
        // The other end does not know it.
        (known(Some(LARGE), false, true), difference(Basis::AtSamePlace(ReferencePlace::Itself))),
        (known(None, false, true), whole.clone()),
        (Known { describes_files: false, ..known(Some(LARGE), true, true) }, whole.clone()),
    ] {
        assert_eq!(anything(&file(LARGE), &delta, known), expected);
    }
    assert_eq!(
        anything(&file(LARGE), &options(), known(Some(LARGE), true, true)),
        difference(Basis::AtSamePlace(ReferencePlace::Itself))
    );
}
