//! A destination of which everything is known, and items for it.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{
    Entry, EntryId, EntryKind, Equality, Existing, FileDigest, Parent, ReceiveOptions, Special,
};
use icdc_protocol::run_journal::ItemKey;
use icdc_units::ByteCount;

use super::super::super::action::Question;
use super::super::super::item::{DirectoryId, DirectoryPlace, FinalName, Item, ModificationTime};
use super::super::facts::{Facts, Kind, Lookup, PublishedBy, Stat};
use super::super::verdict::Verdict;
use super::super::{Terms, decide};
use crate::Failure;

pub(super) const LARGE: u64 = 3 * BLOCK_SIZE as u64;
pub(super) const DIGEST: FileDigest = FileDigest::Blake3([7; 32]);
pub(super) const SHOWN: ModificationTime = ModificationTime { seconds: 5, nanos: 6 };

#[derive(Default)]
pub(super) struct Known {
    pub(super) stat: Option<Stat>,
    pub(super) target: Option<Vec<u8>>,
    pub(super) special: Option<Special>,
    pub(super) published: Option<(FileDigest, PublishedBy)>,
    pub(super) journals: Vec<BlockMap>,
    pub(super) part: Option<BlockMap>,
    pub(super) asked_to_clear: Option<bool>,
    /// Blocks of a part that gets its name while it is waited for, and what has that name then.
    pub(super) ended: Option<(BlockMap, Stat)>,
    /// Nanoseconds.
    pub(super) granularity: u32,
    pub(super) references: Vec<Option<Stat>>,
    /// Whether extended attributes differ.
    pub(super) other_xattrs: bool,
    pub(super) candidates: Option<Lookup>,
    /// The file of which the item is a further name.
    pub(super) first: Option<EntryId>,
    /// Whether the file was changed since it was compared.
    pub(super) was_changed: bool,
    pub(super) describes_files: bool,
    pub(super) finds_moved: bool,
    pub(super) named_basis: bool,
    /// Size of the device into which the item is written.
    pub(super) device: Option<ByteCount>,
    /// Whether the file that has the name was left with parts of its old and of its new contents.
    pub(super) is_torn: bool,
    /// Blocks that an earlier run has left in the file that has the name, or why that may not be written.
    pub(super) in_place: Option<Result<BlockMap, &'static str>>,
}

impl Facts for Known {
    fn stat(&mut self) -> Option<Stat> {
        self.stat
    }
    fn shown_time(&mut self, wanted: ModificationTime) -> ModificationTime {
        ModificationTime { nanos: wanted.nanos - wanted.nanos % self.granularity.max(1), ..wanted }
    }
    fn describes_files(&self) -> bool {
        self.describes_files
    }
    fn finds_moved(&self) -> bool {
        self.finds_moved
    }
    fn has_named_basis(&mut self) -> bool {
        self.named_basis
    }
    fn device(&self) -> Option<ByteCount> {
        self.device
    }
    fn is_torn(&mut self) -> bool {
        self.is_torn
    }
    fn claim_in_place(&mut self, _: bool) -> Result<Option<BlockMap>, Failure> {
        self.in_place.take().transpose().map_err(Failure::from)
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
    fn is_further_name(&mut self, first: EntryId) -> bool {
        self.first == Some(first)
    }
    fn is_as_compared(&mut self) -> bool {
        !self.was_changed
    }
    fn user(&self) -> u32 {
        8
    }
}

pub(super) fn item(kind: EntryKind) -> Item {
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
    let place = FinalName { directory: DirectoryPlace { device: 1, inode: 2 }, name: b"x".to_vec() };
    Item { entry, path: b"x".to_vec(), directory: DirectoryId::Source(0), place, source: 0 }
}

pub(super) fn file(size: u64) -> Item {
    item(EntryKind::File { size, version: [3; 16], sparse: false, linked: false })
}

pub(super) fn stat(kind: Kind, size: u64) -> Stat {
    let size = ByteCount::new(size);
    let mtime = ModificationTime { seconds: 5, nanos: 6 };
    Stat { kind, size, mtime, mode: 0o644, owner: (8, 9), names: 1 }
}

pub(super) fn options() -> ReceiveOptions {
    ReceiveOptions { resume: true, ..ReceiveOptions::default() }
}

pub(super) fn skipping_equal() -> ReceiveOptions {
    ReceiveOptions { existing: Existing::SkipEqual(Equality::SizeAndTime), ..options() }
}

pub(super) fn anything(item: &Item, options: &ReceiveOptions, mut facts: Known) -> Verdict {
    decide(item, Question::Anything, terms(options), &mut facts).unwrap()
}

pub(super) fn terms(options: &ReceiveOptions) -> Terms<'_> {
    Terms { options, only_new: false }
}

pub(super) fn blocks(size: u64, count: u32) -> BlockMap {
    let mut blocks = BlockMap::new(size);
    for index in 0..count {
        blocks.insert(index, [index as u8; 32]).unwrap();
    }
    blocks
}
