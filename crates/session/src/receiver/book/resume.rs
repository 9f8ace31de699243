//! The decision how an item is resumed: everything is wanted, only what an earlier run has not
//! left, or nothing. What an earlier run left is found by `Facts`; a file's blocks are in its
//! journal.
//!
//! | module | contents |
//! |---|---|
//! | [`verdict`] | verdicts, and failures of items that cannot be made |
//! | [`facts`] | state of the destination, as the decision asks for it |
//! | `device` | the file that is written into a device |
//! | `in_place` | files that are written at their place |
//! | `equality` | comparison of an item with what has its name |
//! | `journal` | digests of whole files, from the journals of their blocks |
//! | [`references`] | counterparts in reference directories |

mod device;
mod equality;
pub mod facts;
mod in_place;
mod journal;
pub mod references;
#[cfg(test)]
mod tests;
pub mod verdict;

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{EntryKind, Equality, Existing, Kept, Missing, ReceiveOptions};
use icdc_units::ByteCount;

use self::device::into_device;
use self::equality::{amendment, as_published, equal, is_newer, is_same_link, same_special};
use self::facts::{Facts, Kind, Lookup, PublishedBy};
use self::in_place::{is_in_place, is_torn, written_in_place};
use self::journal::{renamed, whole_digest};
use self::references::{find_basis, find_reference};
use self::verdict::{Verdict, cannot_replace, is_in_the_way, name_exists};
use super::action::{Basis, Method, Question, Reference, ReferencePlace};
use super::item::Item;
use crate::Failure;

/// Options of the request, and whether existing names may be replaced: by these it is decided what
/// is wanted of an item.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Options of the request.
    pub options: &'a ReceiveOptions,
    /// Whether existing names may not be replaced, and nothing about them may be disclosed beyond
    /// that.
    pub only_new: bool,
}

/// Decides what has to be transferred of an item, by what the destination has; `question` says how
/// much of that is still open.
///
/// # Errors
/// If the item cannot be done.
pub fn decide(item: &Item, question: Question, terms: Terms<'_>, facts: &mut impl Facts) -> Result<Verdict, Failure> {
    let Terms { options, only_new } = terms;
    if options.write_device {
        return into_device(item, options, facts);
    }
    if only_new && options.dry_run {
        // Verdicts from the destination would disclose names without leaving a trace.
        return Ok(EVERYTHING);
    }
    if question == Question::Anything
        && let Some(verdict) = is_there(item, terms, facts).or_else(|| is_kept(item, terms, facts).map(Verdict::Keep))
        && !is_torn(item, facts)
    {
        return Ok(verdict);
    }
    if question == Question::Attributes
        && facts.is_as_compared()
        && let Some(stat) = facts.stat()
    {
        match amendment(item, options, &stat, facts) {
            Some(amend) => return Ok(Verdict::Skip { amend }),
            None if !options.verify && !options.in_place => return Ok(ITSELF),
            None => {}
        }
    }
    // The failure discloses no more than the one in making it does.
    if only_new && facts.stat().is_some() {
        return Ok(Verdict::Taken(name_exists(&facts.shown())));
    }
    if options.in_place && is_in_place(item, facts) {
        return written_in_place(options, facts);
    }
    if question == Question::Anything
        && !(options.delete.is_some() && is_obstructed(facts))
        && let Some(reference) = find_reference(item, options, facts)
    {
        return Ok(Verdict::Reference(reference));
    }
    if question == Question::Anything && only_lacks_attributes(item, terms, facts) {
        return Ok(ITSELF);
    }
    let verdict = contents(item, question, options, facts)?;
    if question == Question::Anything
        && matches!(verdict, Verdict::Contents { held: None } | Verdict::Difference { held: None, .. })
        && may_be_renamed(item, options, facts)
    {
        return Ok(match facts.candidates() {
            Lookup::Unknown => Verdict::Undecided,
            Lookup::Nothing => verdict,
            Lookup::Found(places) => Verdict::Candidates(places),
        });
    }
    Ok(verdict)
}

/// Verdict: all contents of an item are wanted.
const EVERYTHING: Verdict = Verdict::Contents { held: None };

/// Verdict: the item is made as a copy of the file that has its name.
const ITSELF: Verdict = Verdict::Reference(Reference { place: ReferencePlace::Itself, method: Method::Copy });

/// Whether a mirror may have an item under another name: a file with contents that is new there.
fn may_be_renamed(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> bool {
    let is_mirror = options.delete.is_some() && options.preserve.times;
    is_mirror && item.size() > ByteCount::ZERO && facts.stat().is_none()
}

/// Whether something has the item's name that a mirror replaces at the end. The sender is told then
/// that the item is done, so its contents must travel.
fn is_obstructed(facts: &mut impl Facts) -> bool {
    facts.stat().is_some_and(|stat| matches!(stat.kind, Kind::Directory | Kind::Other(_)))
}

/// Verdict on an item that exists at the destination: published by this run or an earlier one, or
/// left alone. `None` if its contents decide.
fn is_there(item: &Item, terms: Terms<'_>, facts: &mut impl Facts) -> Option<Verdict> {
    let options = terms.options;
    // Skipping would disclose size and time, or the target.
    let existing = if terms.only_new { Existing::Replace } else { options.existing };
    match &item.entry.kind {
        EntryKind::File { .. } => {}
        EntryKind::Stream => return None,
        _ if !existing.skips_equal() => return None,
        EntryKind::Special(special) => return same_special(item, *special, options, facts),
        EntryKind::HardLink { to, .. } => {
            return facts.is_further_name(*to).then_some(Verdict::Skip { amend: false });
        }
        _ => return is_same_link(item, options, facts).then_some(Verdict::Skip { amend: false }),
    }
    let published = as_published(item, options, facts);
    if let Some(shown) = published
        && let Some(key) = item.key(shown)
        && let Some((digest, by)) = facts.published(&key)
    {
        return Some(match by {
            PublishedBy::ThisRun => Verdict::Have(digest),
            PublishedBy::AnEarlierRun if options.verify => Verdict::Compare { digest, is_noted: true, shown },
            PublishedBy::AnEarlierRun => Verdict::TakenOver(digest),
        });
    }
    if let Some(equality) = existing.equality()
        && let Some(stat) = equal(item, equality, options, facts)
        && (equality == Equality::SizeAndTime || is_kept(item, terms, facts).is_none())
    {
        if equality == Equality::Contents && stat.size > ByteCount::ZERO {
            return Some(Verdict::SameSize);
        }
        return amendment(item, options, &stat, facts).map(|amend| Verdict::Skip { amend });
    }
    let shown = published?;
    let digest = renamed(item, options, facts)?;
    Some(Verdict::Compare { digest, is_noted: false, shown })
}

/// Reason why the destination stays as it is at the item's name, whatever the item's contents;
/// `None` if these count.
fn is_kept(item: &Item, terms: Terms<'_>, facts: &mut impl Facts) -> Option<Kept> {
    let Terms { options, only_new } = terms;
    if only_new {
        return None;
    }
    let is_file = !matches!(item.entry.kind, EntryKind::Symlink { .. } | EntryKind::Special(_));
    match (options.existing, options.missing) {
        (_, Missing::LeaveOut) if facts.stat().is_none() => Some(Kept::Missing),
        (Existing::Keep, _) if facts.stat().is_some() => Some(Kept::Existing),
        (Existing::Update(_), _) if is_file && is_newer(item, facts) => Some(Kept::Newer),
        _ => None,
    }
}

/// Verdict on an item that is neither published nor left alone: its contents are wanted, less what
/// an earlier run has left or another file has in common. Fails if something is in its way.
fn contents(
    item: &Item,
    question: Question,
    options: &ReceiveOptions,
    facts: &mut impl Facts,
) -> Result<Verdict, Failure> {
    let sparse = match item.entry.kind {
        EntryKind::File { sparse, .. } if item.size() > ByteCount::new(PACK_FILE_LIMIT) => Some(sparse),
        EntryKind::Stream => None,
        _ => return Ok(EVERYTHING),
    };
    if options.dry_run {
        return Ok(EVERYTHING);
    }
    match facts.stat().map(|stat| stat.kind) {
        // With a mirror it is replaced at the end.
        _ if options.delete.is_some() => {}
        Some(Kind::Other(_)) if options.preserve.specials => {}
        Some(Kind::Directory) => return Err(is_in_the_way(&facts.shown(), "a directory")),
        Some(Kind::Other(what)) => return Err(cannot_replace(&facts.shown(), what)),
        _ => {}
    }
    // Only its sender knows a stream again.
    let Some(sparse) = sparse else { return Ok(wanted(facts.claim_stream()?, None)) };
    let basis = find_basis(options, facts);
    if !options.resume || item.size() <= ByteCount::from(BLOCK_SIZE) {
        return Ok(wanted(None, basis));
    }
    // The blocks of a file without holes all arrive; they need no cleared space.
    let held = facts.claim_part(sparse)?;
    let published =
        if held.is_none() && question == Question::Anything { published_meanwhile(item, options, facts) } else { None };
    Ok(published.unwrap_or_else(|| wanted(held, basis)))
}

/// The contents of an item are wanted, but for the blocks held, or their difference to another file.
fn wanted(held: Option<BlockMap>, basis: Option<Basis>) -> Verdict {
    match basis {
        Some(basis) => Verdict::Difference { held, basis },
        None => Verdict::Contents { held },
    }
}

/// Verdict on a file that another session has finished while its unfinished file was waited for.
fn published_meanwhile(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<Verdict> {
    let digest = whole_digest(&facts.ended_part()?)?;
    let shown = as_published(item, options, facts)?;
    Some(Verdict::Compare { digest, is_noted: false, shown })
}

/// Whether the item exists with its contents, and with attributes that differ and are not set in place
/// because the file has several names: then it is copied. With `--verify` it is not, as equal size
/// and modification time do not prove that the contents are equal.
fn only_lacks_attributes(item: &Item, terms: Terms<'_>, facts: &mut impl Facts) -> bool {
    let Terms { options, only_new } = terms;
    let Some(equality) = options.existing.equality() else { return false };
    !only_new
        && !options.verify
        && matches!(item.entry.kind, EntryKind::File { .. })
        && equal(item, equality, options, facts).is_some_and(|stat| stat.names > 1)
}
