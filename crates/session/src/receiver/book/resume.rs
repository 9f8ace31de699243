//! The decision how an item is resumed: everything is wanted, only what an earlier run has not
//! left, or nothing. What an earlier run left is found by `Facts`; a file's blocks are in its
//! journal.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::digest::RootHasher;
use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{
    CandidatePlace, EntryKind, Equality, Existing, FileDigest, Kept, Missing, ReceiveOptions, Special,
};
use icdc_protocol::run_journal::ItemKey;
use icdc_units::ByteCount;

use super::action::{Method, Question, Reference, ReferencePlace};
use super::item::{Item, ModificationTime, Restored};
use crate::Failure;

/// State of the destination that concerns one item, read only when it is needed.
pub trait Facts {
    /// Attributes of the file that has the item's name, without following a symbolic link; `None`
    /// if there is none or it cannot be read.
    fn stat(&mut self) -> Option<Stat>;

    /// The modification time that a file in the item's directory shows once it was set to `wanted`,
    /// as the file system rounds it.
    fn shown_time(&mut self, wanted: ModificationTime) -> ModificationTime;

    /// Target of the symbolic link that has the item's name; `None` if there is none.
    fn link_target(&mut self) -> Option<Vec<u8>>;

    /// Named pipe, socket or device that has the item's name; `None` if there is none.
    fn special(&mut self) -> Option<Special>;

    /// The item's name as the user would write it at the destination, for messages.
    fn shown(&self) -> String;

    /// Digest of the item in the run's journal, if it was published before this session, and the
    /// run that published it.
    fn published(&mut self, key: &ItemKey) -> Option<(FileDigest, PublishedBy)>;

    /// Maps of durable blocks from journals about this version of the source that have no
    /// unfinished file.
    fn journals_without_part(&mut self) -> Vec<BlockMap>;

    /// Takes the unfinished file that an earlier run left, if its journal is about this version of
    /// the source; waits for another process that still writes it. Gives the blocks that are
    /// durable according to the journal.
    ///
    /// With `cleared`, everything else in it reads as zero from then on; `None` if that is
    /// impossible.
    ///
    /// # Errors
    /// If another process continues to write it.
    fn claim_part(&mut self, cleared: bool) -> Result<Option<BlockMap>, Failure>;

    /// Durable blocks of an unfinished file that [`claim_part`](Self::claim_part) has waited for
    /// and that is gone, by its journal, if that was about this version of the source.
    fn ended_part(&mut self) -> Option<BlockMap>;

    /// Number of reference directories.
    fn references(&self) -> usize;

    /// Attributes of the item's counterpart in the reference directory of this number, without
    /// following symbolic links; `None` if there is none or it cannot be read.
    fn reference(&mut self, number: usize) -> Option<Stat>;

    /// Whether a regular file, the item's counterpart in the reference directory of this number or,
    /// with `None`, the file that has the item's name, has the item's extended attributes and no
    /// others that are copied; false if they cannot be read.
    fn has_xattrs(&mut self, reference: Option<usize>) -> bool;

    /// Whether the file that has the item's name is the one whose contents were compared, unchanged.
    fn is_as_compared(&mut self) -> bool;

    /// Numeric id of the user to whom new files belong.
    fn user(&self) -> u32;

    /// Files of the destination with the item's size and modification time, which is rounded as the
    /// file system does it; only for an item whose name nothing has.
    fn candidates(&mut self) -> Lookup;
}

/// Outcome of looking for a file that may have become an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is not known yet which files the destination has.
    Unknown,
    /// There are none.
    Nothing,
    /// There are these, at most [`MAX_CANDIDATES`](icdc_protocol::limits::MAX_CANDIDATES).
    Found(Vec<CandidatePlace>),
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Type of the file.
    pub kind: Kind,
    /// Length of the file.
    pub size: ByteCount,
    /// Modification time of the file.
    pub mtime: ModificationTime,
    /// Permission bits of the file.
    pub mode: u16,
    /// Numeric owner and group of the file.
    pub owner: (u32, u32),
    /// Number of names (hard links) of the file.
    pub names: u64,
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, a named pipe or a socket, as it is called.
    Other(&'static str),
}

/// The run that has published an item, in relation to the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedBy {
    /// The present one, in this session or before a cut.
    ThisRun,
    /// A run that was interrupted; the item may have been changed since.
    AnEarlierRun,
}

/// Decision about what has to be transferred of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wanted: this run has published it with this digest.
    Have(FileDigest),
    /// Nothing is wanted: an earlier run has published it with this digest, and it was not read.
    TakenOver(FileDigest),
    /// Nothing is wanted: it exists with its contents.
    Skip {
        /// Whether other attributes of it may have to be set.
        amend: bool,
    },
    /// Nothing is wanted: the destination stays as it is at this name, for this reason.
    Keep(Kept),
    /// The item seems to be published: it has to be read and compared first.
    Compare {
        /// The digest that it should have.
        digest: FileDigest,
        /// Whether it is in the run's journal, and hence its name is durable.
        is_noted: bool,
        /// Its modification time at the destination.
        shown: ModificationTime,
    },
    /// The file that has its name has its size, and their contents decide.
    SameSize,
    /// Nothing is wanted: it is made from another file of the destination, which has its contents.
    Reference(Reference),
    /// It is not known yet which files the destination has, from one of which it may be made.
    Undecided,
    /// The destination has files that may have become it, under names that the source may have no
    /// longer.
    Candidates(Vec<CandidatePlace>),
    /// The item cannot be made: only new names may be made, and the name exists.
    Taken(Failure),
    /// Its contents are wanted, except for blocks that an earlier run has left in the part that was
    /// claimed.
    Contents {
        /// The blocks held; `None` if there are none.
        held: Option<BlockMap>,
    },
}

/// Parameters of the decision about an item.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Options of the request.
    pub options: &'a ReceiveOptions,
    /// Whether existing names may not be replaced, and nothing about them may be disclosed beyond
    /// that.
    pub only_new: bool,
}

/// Answers `question` about an item.
///
/// # Errors
/// If the item cannot be done.
pub fn decide(item: &Item, question: Question, terms: Terms<'_>, facts: &mut impl Facts) -> Result<Verdict, Failure> {
    let Terms { options, only_new } = terms;
    if only_new && options.dry_run {
        // Verdicts from the destination would disclose names without leaving a trace.
        return Ok(Verdict::Contents { held: None });
    }
    if question == Question::Anything {
        if let Some(verdict) = is_there(item, terms, facts) {
            return Ok(verdict);
        }
        if let Some(kept) = is_kept(item, terms, facts) {
            return Ok(Verdict::Keep(kept));
        }
    }
    if question == Question::Attributes
        && facts.is_as_compared()
        && let Some(stat) = facts.stat()
    {
        match amendment(item, options, &stat, facts) {
            Some(amend) => return Ok(Verdict::Skip { amend }),
            None if !options.verify => return Ok(ITSELF),
            None => {}
        }
    }
    // The failure discloses no more than the one in making it does.
    if only_new && facts.stat().is_some() {
        return Ok(Verdict::Taken(taken(&facts.shown())));
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
        && verdict == (Verdict::Contents { held: None })
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

/// The item is made as a copy of the file that has its name.
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

/// The failure of an item that would replace a device, a named pipe or a socket, described as
/// `what`.
#[must_use]
pub fn cannot_replace(shown: &str, what: &str) -> Failure {
    format!("{shown} is {what}, which is not replaced; remove it first, or choose another name").into()
}

/// The failure of an item whose name belongs to something of another kind, described as `what`.
#[must_use]
pub fn is_in_the_way(shown: &str, what: &str) -> Failure {
    format!("{shown}: {what} is in the way; remove it, or copy with --delete, which replaces it at the end").into()
}

/// The failure of an item whose name exists where only new names may be made.
#[must_use]
pub fn taken(shown: &str) -> Failure {
    Failure::Final(format!(
        "{shown}: something has this name, and this key may only make what is not there yet; choose another name"
    ))
}

/// Verdict on an item that exists at the destination: published by this run or an earlier one, or
/// left alone. `None` if its contents decide.
fn is_there(item: &Item, terms: Terms<'_>, facts: &mut impl Facts) -> Option<Verdict> {
    let options = terms.options;
    // Skipping would disclose size and time, or the target.
    let existing = if terms.only_new { Existing::Replace } else { options.existing };
    match &item.entry.kind {
        EntryKind::File { .. } => {}
        _ if !existing.skips_equal() => return None,
        EntryKind::Special(special) => return same_special(item, *special, options, facts),
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

/// Why the destination stays as it is at the item's name, whatever the item's contents; `None` if
/// these count.
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

/// Verdict on an item that no earlier run has published.
fn contents(
    item: &Item,
    question: Question,
    options: &ReceiveOptions,
    facts: &mut impl Facts,
) -> Result<Verdict, Failure> {
    let nothing_held = Ok(Verdict::Contents { held: None });
    let EntryKind::File { sparse, .. } = item.entry.kind else { return nothing_held };
    if item.size() <= ByteCount::new(PACK_FILE_LIMIT) || options.dry_run {
        return nothing_held;
    }
    match facts.stat().map(|stat| stat.kind) {
        // With a mirror it is replaced at the end.
        _ if options.delete.is_some() => {}
        Some(Kind::Other(_)) if options.preserve.specials => {}
        Some(Kind::Directory) => return Err(is_in_the_way(&facts.shown(), "a directory")),
        Some(Kind::Other(what)) => return Err(cannot_replace(&facts.shown(), what)),
        _ => {}
    }
    if !options.resume || item.size() <= ByteCount::from(BLOCK_SIZE) {
        return nothing_held;
    }
    // The blocks of a file without holes all arrive; they need no cleared space.
    let held = facts.claim_part(sparse)?;
    let published =
        if held.is_none() && question == Question::Anything { published_meanwhile(item, options, facts) } else { None };
    Ok(published.unwrap_or(Verdict::Contents { held }))
}

/// Verdict on a file that another session has finished while its unfinished file was waited for.
fn published_meanwhile(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<Verdict> {
    let digest = whole_digest(&facts.ended_part()?)?;
    let shown = as_published(item, options, facts)?;
    Some(Verdict::Compare { digest, is_noted: false, shown })
}

/// Digest of the file under the final name, from a journal that names all its blocks and has no
/// unfinished file: an earlier run was killed after the rename and before it was reported.
fn renamed(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<FileDigest> {
    let is_journaled = options.resume && !options.dry_run && item.size() > ByteCount::from(BLOCK_SIZE);
    if !is_journaled {
        return None;
    }
    facts.journals_without_part().iter().find_map(whole_digest)
}

/// Modification time of the file that has the item's name, if it has the size, mode and owner that
/// this item is to have, and, where times are preserved, the time. Where they are not, the run's
/// journal has the time that the file showed when it was published.
fn as_published(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<ModificationTime> {
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
fn amendment(item: &Item, options: &ReceiveOptions, stat: &Stat, facts: &mut impl Facts) -> Option<bool> {
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

/// The counterpart of a file in a reference directory from which it is made: the first with equal
/// attributes, or else the first of equal size and modification time. With `--verify` there is none,
/// as these do not prove that the contents are equal.
fn find_reference(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<Reference> {
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

/// Whether a file with these attributes can have the item's name as well: they are those that the
/// item is to have, or where they are not preserved, those of a new file, which belongs to `user`.
/// Extended attributes are not part of them.
#[must_use]
pub fn is_linkable(item: &Item, options: &ReceiveOptions, stat: &Stat, user: u32) -> bool {
    let wanted = Restored::of(&item.entry, options);
    let has_mode = wanted.mode.map_or(stat.mode & 0o6000 == 0, |mode| mode == stat.mode);
    has_mode && wanted.owner.map_or(stat.owner.0 == user, |owner| owner == stat.owner)
}

/// Attributes of the file under the item's name, if it counts as equal to the item, or will if its
/// contents are.
fn equal(item: &Item, equality: Equality, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<Stat> {
    let stat = facts.stat().filter(|stat| stat.kind == Kind::File && stat.size == item.size())?;
    (equality != Equality::SizeAndTime || shows_time(item, options, &stat, facts)).then_some(stat)
}

/// Whether the file shows the item's modification time, exactly or, where times are preserved, as
/// the file system rounds it.
fn shows_time(item: &Item, options: &ReceiveOptions, stat: &Stat, facts: &mut impl Facts) -> bool {
    let wanted = ModificationTime::of(&item.entry);
    stat.mtime == wanted || (options.preserve.times && stat.mtime == facts.shown_time(wanted))
}

/// Whether the item's name belongs to a regular file that was modified later than the item, to the
/// precision of the file system.
fn is_newer(item: &Item, facts: &mut impl Facts) -> bool {
    let source = ModificationTime::of(&item.entry);
    facts
        .stat()
        .is_some_and(|stat| stat.kind == Kind::File && stat.mtime > source && stat.mtime > facts.shown_time(source))
}

/// Whether the item is a symbolic link that exists already, with its time and owner where these are
/// preserved.
fn is_same_link(item: &Item, options: &ReceiveOptions, facts: &mut impl Facts) -> bool {
    let EntryKind::Symlink { target } = &item.entry.kind else { return false };
    let owner = Restored::of(&item.entry, options).owner;
    let Some(stat) = facts.stat().filter(|stat| stat.kind == Kind::Symlink) else { return false };
    owner.is_none_or(|owner| owner == stat.owner)
        && (!options.preserve.times || shows_time(item, options, &stat, facts))
        && facts.link_target().is_some_and(|found| found == *target)
}

/// Verdict on a named pipe, socket or device that exists already; `None` if there is none, or if its
/// attributes differ and it has several names, which would change with it.
fn same_special(item: &Item, special: Special, options: &ReceiveOptions, facts: &mut impl Facts) -> Option<Verdict> {
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

/// Digest of a whole file from its block map; `None` unless all its blocks are in the map.
fn whole_digest(held: &BlockMap) -> Option<FileDigest> {
    let mut hasher = RootHasher::new(held.size());
    for index in 0..held.blocks() {
        hasher.push(held.get(index)?);
    }
    hasher.finish().map(FileDigest::Blake3)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use icdc_protocol::message::{Delete, Entry, Parent, Preserve};

    use super::super::item::{DirectoryId, DirectoryPlace, Place};
    use super::*;

    const LARGE: u64 = 3 * BLOCK_SIZE as u64;
    const DIGEST: FileDigest = FileDigest::Blake3([7; 32]);
    const SHOWN: ModificationTime = ModificationTime { seconds: 5, nanos: 6 };

    #[derive(Default)]
    struct Known {
        stat: Option<Stat>,
        target: Option<Vec<u8>>,
        special: Option<Special>,
        published: Option<(FileDigest, PublishedBy)>,
        journals: Vec<BlockMap>,
        part: Option<BlockMap>,
        asked_to_clear: Option<bool>,
        /// Blocks of a part that gets its name while it is waited for, and what has that name then.
        ended: Option<(BlockMap, Stat)>,
        /// Nanoseconds.
        granularity: u32,
        references: Vec<Option<Stat>>,
        /// Whether extended attributes differ.
        other_xattrs: bool,
        candidates: Option<Lookup>,
        /// Whether the file was changed since it was compared.
        was_changed: bool,
    }

    impl Facts for Known {
        fn stat(&mut self) -> Option<Stat> {
            self.stat
        }
        fn shown_time(&mut self, wanted: ModificationTime) -> ModificationTime {
            ModificationTime { nanos: wanted.nanos - wanted.nanos % self.granularity.max(1), ..wanted }
        }
        fn special(&mut self) -> Option<Special> {
            self.special
        }

        fn link_target(&mut self) -> Option<Vec<u8>> {
            self.target.clone()
        }
        fn shown(&self) -> String {
            "dst/x".into()
        }
        fn published(&mut self, _: &ItemKey) -> Option<(FileDigest, PublishedBy)> {
            self.published
        }
        fn journals_without_part(&mut self) -> Vec<BlockMap> {
            self.journals.clone()
        }
        fn claim_part(&mut self, cleared: bool) -> Result<Option<BlockMap>, Failure> {
            self.asked_to_clear = Some(cleared);
            self.stat = self.ended.as_ref().map_or(self.stat, |(_, stat)| Some(*stat));
            Ok(self.part.clone())
        }
        fn ended_part(&mut self) -> Option<BlockMap> {
            self.ended.take().map(|(held, _)| held)
        }
        fn references(&self) -> usize {
            self.references.len()
        }
        fn reference(&mut self, number: usize) -> Option<Stat> {
            self.references[number]
        }
        fn has_xattrs(&mut self, _: Option<usize>) -> bool {
            !self.other_xattrs
        }
        fn candidates(&mut self) -> Lookup {
            self.candidates.clone().unwrap_or(Lookup::Nothing)
        }
        fn is_as_compared(&mut self) -> bool {
            !self.was_changed
        }
        fn user(&self) -> u32 {
            8
        }
    }

    fn item(kind: EntryKind) -> Item {
        let entry = Entry {
            id: 0,
            parent: Parent::Source(0),
            name: b"x".to_vec(),
            kind,
            mode: 0o4644,
            mtime_seconds: 5,
            mtime_nanos: 6,
            owner: Some((1, 2)),
            xattrs: Vec::new(),
        };
        let place = Place { directory: DirectoryPlace { device: 1, inode: 2 }, name: b"x".to_vec() };
        Item { entry, path: b"x".to_vec(), directory: DirectoryId::Source(0), place, source: 0 }
    }

    fn file(size: u64) -> Item {
        item(EntryKind::File { size, version: [3; 16], sparse: false, linked: false })
    }

    fn stat(kind: Kind, size: u64) -> Stat {
        let size = ByteCount::new(size);
        let mtime = ModificationTime { seconds: 5, nanos: 6 };
        Stat { kind, size, mtime, mode: 0o644, owner: (8, 9), names: 1 }
    }

    fn options() -> ReceiveOptions {
        ReceiveOptions { resume: true, ..ReceiveOptions::default() }
    }

    fn skipping_equal() -> ReceiveOptions {
        ReceiveOptions { existing: Existing::SkipEqual(Equality::SizeAndTime), ..options() }
    }

    fn anything(item: &Item, options: &ReceiveOptions, mut facts: Known) -> Verdict {
        decide(item, Question::Anything, terms(options), &mut facts).unwrap()
    }

    fn terms(options: &ReceiveOptions) -> Terms<'_> {
        Terms { options, only_new: false }
    }

    fn blocks(size: u64, count: u32) -> BlockMap {
        let mut blocks = BlockMap::new(size);
        for index in 0..count {
            blocks.insert(index, [index as u8; 32]).unwrap();
        }
        blocks
    }

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
        let owners =
            ReceiveOptions { preserve: Preserve { owner: true, mode: false, ..Preserve::default() }, ..options() };
        assert_eq!(anything(&file(9), &owners, facts()), Verdict::Contents { held: None }, "its owner differs");
    }

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
        let attributes =
            |mut facts: Known| decide(&file(9), Question::Attributes, terms(&skip_equal), &mut facts).unwrap();
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
    fn a_whole_journal_without_a_part_is_that_of_a_file_that_got_its_name_just_before_a_kill() {
        let known = |count| Known {
            stat: Some(stat(Kind::File, LARGE)),
            journals: vec![blocks(LARGE, count)],
            ..Known::default()
        };
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
        for other in
            [stat(Kind::File, LARGE - 1), stat(Kind::Symlink, LARGE), Stat { mtime, ..stat(Kind::File, LARGE) }]
        {
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
                    assert_eq!(told, Ok(Verdict::Taken(taken("dst/x"))), "{found:?}");
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
        assert_eq!(altered, Ok(Verdict::Taken(taken("dst/x"))));
    }

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
        assert_eq!(anything(&file(9), &super::tests::options(), facts), Verdict::Contents { held: None });
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
}
