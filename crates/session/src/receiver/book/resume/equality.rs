//! Comparison of an item with what has its name at the destination: size, time, mode, owner, target
//! of a symbolic link, kind of a special file.

use icdc_protocol::message::{EntryKind, Equality, ReceiveOptions, Special};

use super::super::item::{Item, ModificationTime, Restored};
use super::facts::{Facts, Kind, Stat};
use super::verdict::Verdict;

/// Modification time of the file that has the item's name, if it has the size, mode and owner that
/// this item is to have, and, where times are preserved, the time. Where they are not, the run's
/// journal has the time that the file showed when it was published.
pub(super) fn as_published(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<ModificationTime> {
    let stat = facts.stat().filter(|stat| stat.kind == Kind::File && stat.size == item.size())?;
    let is_so =
        has_attributes(item, options, &stat) && (!options.preserve.times || shows_time(item, options, &stat, facts));
    is_so.then_some(stat.mtime)
}

/// Whether the file has the mode and the owner that this item is to have, where these are
/// preserved.
fn has_attributes(item: &Item, options: &ReceiveOptions, stat: &Stat) -> bool {
    let wanted = Restored::of(&item.entry, options);
    wanted.mode.is_none_or(|mode| mode == stat.mode) && wanted.owner.is_none_or(|owner| owner == stat.owner)
}

/// Whether attributes of the file that has the item's name may have to be set. `None` if they may
/// not be: the file has several names, some of which may be those of an older copy, or of somebody
/// else, and would change with it.
pub(super) fn amendment(item: &Item, options: &ReceiveOptions, stat: &Stat, facts: &mut impl Facts) -> Option<bool> {
    let has_time = !options.preserve.times || shows_time(item, options, stat, facts);
    let has_attributes = has_time && has_attributes(item, options, stat);
    if has_attributes && !options.preserve.attributes() {
        return Some(false);
    }
    if stat.names <= 1 {
        // Attributes of other kinds are not part of `stat`.
        return Some(true);
    }
    (has_attributes && facts.has_xattrs(None)).then_some(false)
}

/// Attributes of the file under the item's name, if it counts as equal to the item, or will if its
/// contents are.
pub(super) fn equal(item: &Item, equality: Equality, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<Stat> {
    let stat = facts.stat().filter(|stat| stat.kind == Kind::File && stat.size == item.size())?;
    (equality != Equality::SizeAndTime || shows_time(item, options, &stat, facts)).then_some(stat)
}

/// Whether the file shows the item's modification time, exactly or, where times are preserved, as
/// the file system rounds it.
pub(super) fn shows_time(item: &Item, options: &ReceiveOptions, stat: &Stat, facts: &mut impl Facts) -> bool {
    let wanted = ModificationTime::of(&item.entry);
    stat.mtime == wanted || (options.preserve.times && stat.mtime == facts.shown_time(wanted))
}

/// Whether the item's name belongs to a regular file that was modified later than the item, to the
/// precision of the file system.
pub(super) fn is_newer(item: &Item, facts: &mut impl Facts) -> bool {
    let source = ModificationTime::of(&item.entry);
    facts
        .stat()
        .is_some_and(|stat| stat.kind == Kind::File && stat.mtime > source && stat.mtime > facts.shown_time(source))
}

/// Whether the item is a symbolic link that exists already, with its time and owner where these are
/// preserved.
pub(super) fn is_same_link(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> bool {
    let EntryKind::Symlink { target } = &item.entry.kind else { return false };
    let owner = Restored::of(&item.entry, options).owner;
    let Some(stat) = facts.stat().filter(|stat| stat.kind == Kind::Symlink) else { return false };
    owner.is_none_or(|owner| owner == stat.owner)
        && (!options.preserve.times || shows_time(item, options, &stat, facts))
        && facts.link_target().is_some_and(|found| found == *target)
}

/// Verdict on a named pipe, socket or device that exists already; `None` if there is none, or if its
/// attributes differ and it has several names, which would change with it.
pub(super) fn same_special(
    item: &Item,
    special: Special,
    options: &ReceiveOptions,
    facts: &mut impl Facts,
) -> Option<Verdict> {
    let stat = facts.stat()?;
    if facts.special() != Some(special) {
        return None;
    }
    let has_time = !options.preserve.times || shows_time(item, options, &stat, facts);
    match has_time && has_attributes(item, options, &stat) {
        true => Some(Verdict::Skip { amend: false }),
        false => (stat.names <= 1).then_some(Verdict::Skip { amend: true }),
    }
}
