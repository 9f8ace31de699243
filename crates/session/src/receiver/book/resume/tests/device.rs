//! The file that is written into a device.

use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::{EntryKind, ReceiveOptions};
use icdc_units::ByteCount;

use super::super::super::action::{Basis, Question, ReferencePlace};
use super::super::super::item::Item;
use super::super::decide;
use super::super::verdict::Verdict;
use super::known::{Known, file, item, options, terms};
use crate::Failure;

const LARGE: u64 = PACK_FILE_LIMIT + 1;

fn of_device(item: &Item, options: &ReceiveOptions, bytes: u64) -> Result<Verdict, Failure> {
    let options = ReceiveOptions { write_device: true, ..options.clone() };
    let mut facts = Known { device: Some(ByteCount::new(bytes)), describes_files: true, ..Known::default() };
    decide(item, Question::Anything, terms(&options), &mut facts)
}

#[test]
fn a_file_that_fits_is_compared_with_the_device() {
    let difference = Verdict::Difference { held: None, basis: Basis::AtSamePlace(ReferencePlace::Itself) };
    assert_eq!(of_device(&file(LARGE), &options(), LARGE), Ok(difference));
    let everything = Verdict::Contents { held: None };
    assert_eq!(of_device(&file(LARGE - 1), &options(), LARGE).as_ref(), Ok(&everything), "it travels in a pack");
    for other in [ReceiveOptions { whole_files: true, ..options() }, ReceiveOptions { dry_run: true, ..options() }] {
        assert_eq!(of_device(&file(LARGE), &other, LARGE).as_ref(), Ok(&everything));
    }
}

#[test]
fn what_does_not_fit_or_is_no_file_without_holes_is_refused() {
    let refused = |item: &Item, bytes| of_device(item, &options(), bytes).unwrap_err().into_reason();
    assert!(refused(&file(LARGE), LARGE - 1).contains("nothing was written"));
    let sparse = item(EntryKind::File { size: LARGE, version: [3; 16], sparse: true, linked: false });
    assert!(refused(&sparse, LARGE).contains("holes"));
    assert!(refused(&item(EntryKind::Symlink { target: b"x".to_vec() }), LARGE).contains("only a regular file"));
}
