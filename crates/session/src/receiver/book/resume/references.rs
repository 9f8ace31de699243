//! Counterparts of files in reference directories, from which they are made.

use icdc_protocol::limits::LEAF_SIZE;
use icdc_protocol::message::{EntryKind, ReceiveOptions};
use icdc_units::ByteCount;

use super::super::action::{Basis, Method, Reference, ReferencePlace};
use super::super::item::{Item, Restored};
use super::equality::shows_time;
use super::facts::{Facts, Kind, Stat};

/// The counterpart of a file in a reference directory from which it is made: the first with equal
/// attributes, or else the first of equal size and modification time. With `--verify` there is none,
/// as these do not prove that the contents are equal.
pub(super) fn find_reference(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<Reference> {
    let EntryKind::File { .. } = item.entry.kind else { return None };
    if options.verify || facts.stat().is_some_and(|stat| !matches!(stat.kind, Kind::File | Kind::Symlink)) {
        return None;
    }
    let mut copied = None;
    for number in 0..facts.references() {
        let found = facts.reference(number).filter(|stat| stat.kind == Kind::File && stat.size == item.size());
        let Some(stat) = found.filter(|stat| shows_time(item, options, stat, facts)) else { continue };
        if is_linkable(item, options, &stat, facts.user())
            && (!options.preserve.attributes() || facts.has_xattrs(Some(number)))
        {
            return Some(Reference { place: ReferencePlace::Older(number), method: Method::Link });
        }
        copied.get_or_insert(Reference { place: ReferencePlace::Older(number), method: Method::Copy });
    }
    copied
}

/// The files at the destination from which blocks of a large file are put together: the counterpart, and
/// where moved content is looked for, those that the user has named.
pub(super) fn find_basis(options: &ReceiveOptions, facts: &mut impl Facts) -> Option<Basis> {
    if options.whole_files || !facts.describes_files() {
        return None;
    }
    let counterpart = counterpart(facts);
    if !options.delta || !facts.finds_moved() {
        return counterpart.map(Basis::AtSamePlace);
    }
    (counterpart.is_some() || facts.has_named_basis()).then_some(Basis::AtAnyPlace(counterpart))
}

/// The file that has the name of a large file, or else its counterpart in the first reference directory
/// that has one.
fn counterpart(facts: &mut impl Facts) -> Option<ReferencePlace> {
    let has_leaves = |stat: Stat| stat.kind == Kind::File && stat.size >= ByteCount::from(LEAF_SIZE);
    if facts.stat().is_some_and(has_leaves) {
        return Some(ReferencePlace::Itself);
    }
    let older = (0..facts.references()).find(|number| facts.reference(*number).is_some_and(has_leaves));
    older.map(ReferencePlace::Older)
}

/// Whether a file with these attributes can have the item's name as well: they are those that the
/// item is to have, or where they are not preserved, those of a new file, which belongs to `user`.
/// Extended attributes are not part of them.
#[must_use]
pub fn is_linkable(item: &Item, options: &ReceiveOptions, stat: &Stat, user: u32) -> bool {
    let wanted = Restored::of(&item.entry, options);
    let has_mode = wanted.mode.map_or(stat.mode & 0o6000 == 0, |mode| mode == stat.mode);
    has_mode && wanted.owner.map_or(stat.owner.0 == user, |owner| owner == stat.owner)
}
