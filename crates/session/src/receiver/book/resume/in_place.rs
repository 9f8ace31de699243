//! Files that are written at their place: large ones, where a large file has the name. What else is
//! wanted is made anew beside it and gets its name when it is complete.

use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::{EntryKind, ReceiveOptions};
use icdc_units::ByteCount;

use super::super::action::{Basis, ReferencePlace};
use super::super::item::Item;
use super::facts::{Facts, Kind};
use super::verdict::Verdict;
use crate::Failure;

/// Whether an item is a file that is written at its place, if that is asked for: both it and the file that
/// has its name are larger than those which travel in packs.
pub(super) fn is_in_place(item: &Item, facts: &mut impl Facts) -> bool {
    let is_file = matches!(item.entry.kind, EntryKind::File { .. });
    is_file && item.size() > ByteCount::new(PACK_FILE_LIMIT) && has_large_file(facts)
}

/// Whether the file that has an item's name has parts of its old and of its new contents, whatever its size
/// and times are: then it counts neither as equal nor as newer.
pub(super) fn is_torn(item: &Item, facts: &mut impl Facts) -> bool {
    let is_file = matches!(item.entry.kind, EntryKind::File { .. });
    // One that is written at its place never becomes smaller than those.
    is_file && has_large_file(facts) && facts.is_torn()
}

/// Whether a large file has the item's name.
fn has_large_file(facts: &mut impl Facts) -> bool {
    facts.stat().is_some_and(|stat| stat.kind == Kind::File && stat.size > ByteCount::new(PACK_FILE_LIMIT))
}

/// Verdict on a file that is written at its place: what differs from it is wanted, but for what an earlier
/// run has left there.
///
/// # Errors
/// It may not be written, or another process does so.
pub(super) fn written_in_place(options: &ReceiveOptions, facts: &mut impl Facts) -> Result<Verdict, Failure> {
    let held = facts.claim_in_place(options.dry_run)?;
    let held = held.filter(|_| options.resume && !options.dry_run);
    let is_described = !options.dry_run && !options.whole_files && facts.describes_files();
    Ok(match is_described {
        true => Verdict::Difference { held, basis: Basis::AtSamePlace(ReferencePlace::Itself) },
        false => Verdict::Contents { held },
    })
}
