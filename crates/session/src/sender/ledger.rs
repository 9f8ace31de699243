//! The sender's ledger of items: announced, wanted, read, settled.
//!
//! Ids are consecutive, so the ledger is a window `first..first + slots.len()` that slides as its
//! oldest item is settled. The window bounds memory whatever the number of files, and settling in
//! order is what makes the tree digest independent of the order in which items arrive.

use std::collections::VecDeque;

use icdc_protocol::block_map::{BlockMap, block_count};
use icdc_protocol::digest::{self, TreeHasher};
use icdc_protocol::limits::{MAX_CHUNKS, MAX_FILE_SIZE, MAX_PENDING, MAX_PENDING_BYTES};
use icdc_protocol::message::{
    Basis, Chunks, Digest, Entry, EntryId, EntryKind, FileDigest, FileEnd, GivenUp, ItemEnd, Kept, Parent, StreamEnd,
    Streamed, Totals,
};
use icdc_units::ByteCount;

use super::action::Fate;
use super::removal::Removal;
use crate::weight::{Pending, entry_weight};
use crate::{ById, KeptCounts};

/// Default limit on directories that are open at once: those from the source down to the scan's
/// position, in trees of up to two thirds as many levels, and others, which are open until
/// everything beneath them is done.
const OPEN: usize = 1536;

/// Limits on how far the sender's announcements run ahead of what is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Most announced items that are not settled, including settled ones behind them. Directories
    /// count until the items before them are settled.
    pub items: usize,
    /// Bytes of paths, attributes and held contents of pending items at which nothing more is
    /// announced.
    pub bytes: ByteCount,
    /// Most directories that may be open at once. In trees of more than two thirds as many levels
    /// there are more: a third as many beside those levels, and two at least.
    pub directories: usize,
}

/// Least number of directories that may be open beside the levels above an item: the item's own,
/// and the next.
const LEAST_OPEN: usize = 2;

impl Window {
    /// This window, with at most `most` directories open at once.
    #[must_use]
    pub fn with_directories(self, most: usize) -> Self {
        Self { directories: self.directories.min(most), ..self }
    }
}

impl Default for Window {
    /// Default limits, well below what a receiver allows.
    fn default() -> Self {
        Self { items: MAX_PENDING * 3 / 4, bytes: ByteCount::new(MAX_PENDING_BYTES as u64 / 4), directories: OPEN }
    }
}

/// An announced item of the sender: its entry, its path, and what else is kept until it is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The entry, as announced.
    pub entry: Entry,
    /// Path from the source's parent, for messages and the tree digest.
    pub path: Vec<u8>,
    /// Bytes at the start of the path that are above the destination's directory: the name of a source
    /// whose contents are copied, and the slash behind it.
    pub above: usize,
    /// For a hard link, the [`first_name`](digest::first_name) of its file; `None` for other items.
    pub first: Option<Digest>,
    /// Bytes of its contents that are kept in memory until it is settled.
    pub held: usize,
    /// Time of its removal at the source.
    pub removal: Removal,
}

impl Item {
    /// Digest of the item for the tree digest, given that of its contents; `None` for an item
    /// without.
    fn digest(&self, contents: Option<&FileDigest>) -> Digest {
        digest::item(&self.path, &self.entry, self.first.as_ref(), contents)
    }

    /// Bytes that the item keeps in memory beside its fixed size.
    fn weight(&self) -> usize {
        entry_weight(&self.entry, &self.path) + self.held
    }

    /// Length of a regular file, zero of anything else.
    #[must_use]
    pub fn size(&self) -> ByteCount {
        match self.entry.kind {
            EntryKind::File { size, .. } => ByteCount::new(size),
            EntryKind::Directory
            | EntryKind::Symlink { .. }
            | EntryKind::HardLink { .. }
            | EntryKind::Special(_)
            | EntryKind::Stream => ByteCount::ZERO,
        }
    }

    /// Length of the item's contents in bytes; of a stream, the most that it may have.
    fn longest(&self) -> u64 {
        if self.entry.kind == EntryKind::Stream { MAX_FILE_SIZE } else { self.size().as_u64() }
    }

    /// Whether the item has contents: a regular file, or a stream that becomes one.
    #[must_use]
    pub fn has_contents(&self) -> bool {
        self.is_file() || self.entry.kind == EntryKind::Stream
    }

    /// Whether the item is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        matches!(self.entry.kind, EntryKind::File { .. })
    }
}

/// Counters of a sending session's items: what was announced, and what has become of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Totals of the scan.
    pub totals: Totals,
    /// Number of streams that have not ended: the totals lack them.
    pub open_streams: u64,
    /// Number of files that are published.
    pub files_done: u64,
    /// Sum of the sizes of the published files, in bytes.
    pub bytes_done: ByteCount,
    /// Number of symbolic and hard links that are published.
    pub links_done: u64,
    /// Number of files that the receiver left as they were because they are equal.
    pub skipped: u64,
    /// Number of files that the receiver has made from its reference directories.
    pub linked: u64,
    /// Number of files that the receiver has found under a name that the source has no longer.
    pub renamed: u64,
    /// Items at whose names the receiver left everything as it was.
    pub kept: KeptCounts,
    /// Sum of the sizes that the skipped, the kept and the renamed files, and those made from
    /// reference directories, have at the source.
    pub skipped_bytes: ByteCount,
    /// Number of items that failed at either end.
    pub failed: u64,
    /// Number of items that the receiver has deleted because the source does not have them.
    pub deleted: u64,
    /// Number of items that were removed at the source, or would be in a dry run.
    pub removed: u64,
    /// Bytes that an earlier run had left durable and that were not transferred again.
    pub resumed_bytes: ByteCount,
    /// Bytes of blocks that the receiver has taken from files that it had, as they are equal.
    pub unchanged_bytes: ByteCount,
    /// Number of files that an earlier run had published and that were not read in this one.
    pub taken_over_files: u64,
    /// Sum of the sizes of these taken-over files, in bytes.
    pub taken_over_bytes: ByteCount,
}

impl Counts {
    /// Adds what another session of the same run has counted.
    pub fn add(&mut self, other: &Self) {
        self.totals.entries += other.totals.entries;
        self.totals.files += other.totals.files;
        self.totals.bytes += other.totals.bytes;
        self.files_done += other.files_done;
        self.bytes_done += other.bytes_done;
        self.links_done += other.links_done;
        self.skipped += other.skipped;
        self.linked += other.linked;
        self.renamed += other.renamed;
        self.kept.add_all(&other.kept);
        self.skipped_bytes += other.skipped_bytes;
        self.failed += other.failed;
        self.deleted += other.deleted;
        self.removed += other.removed;
        self.resumed_bytes += other.resumed_bytes;
        self.unchanged_bytes += other.unchanged_bytes;
        self.taken_over_files += other.taken_over_files;
        self.taken_over_bytes += other.taken_over_bytes;
    }

    /// The totals, which are complete when the scan is and every stream has ended.
    #[must_use]
    pub fn known_totals(&self) -> Totals {
        Totals { complete: self.totals.complete && self.open_streams == 0, ..self.totals }
    }

    /// Total payload to be sent, as far as the receiver has requested it; `None` until the scan is
    /// complete and every stream has ended.
    #[must_use]
    pub fn to_send(&self) -> Option<ByteCount> {
        let has = self.resumed_bytes + self.unchanged_bytes + self.skipped_bytes;
        let totals = self.known_totals();
        totals.complete.then(|| ByteCount::new(totals.bytes) - has)
    }
}

/// An announced item in the window.
enum Slot {
    /// The item is not settled.
    Pending(Box<Open>),
    /// The item is settled and counted; its digest enters the tree digest when the slot is the
    /// oldest.
    Settled(Option<Digest>),
}

/// An item that is not settled.
struct Open {
    item: Item,
    /// Number of blocks that the receiver has, or has described, and may ask for after all.
    resendable: u32,
    /// Number of the first block that the receiver's next description of its file may be about; `None`
    /// if none is to come.
    basis: Option<u32>,
    /// Number of chunks of its files that the receiver has described; `None` if none are to come.
    chunks: Option<u32>,
    /// Whether the receiver has told that it writes into the file that has the item's name.
    in_place: bool,
    stage: ItemStage,
}

/// Progress of an item that is not settled.
enum ItemStage {
    /// The receiver has not requested anything of it.
    Announced { held: Option<BlockMap> },
    /// The receiver has a file that may have become the item; digest of the item, once it is told.
    Compared(Option<FileDigest>),
    /// The receiver has answered for it.
    Asked,
    /// A small file that is in a pack.
    Packed(Digest),
    /// A large file whose last block has been read, or that could not be read to its end.
    Read { blocks: u32, outcome: Result<FileDigest, GivenUp> },
    /// A stream that has ended.
    Streamed(StreamEnd),
    /// The receiver has the item durably, which settles it once it is removed at the source.
    Leaving(Settlement, Fate),
}

/// An announced directory whose children are not all done.
struct OpenDirectory {
    path: Vec<u8>,
    removal: Removal,
    /// Whether the receiver has finished it and it is being removed at the source.
    is_leaving: bool,
}

/// Error: the receiver had already answered for the item, or the item has ended.
#[derive(Debug)]
pub(super) struct NotAwaited;

/// Outcome by which the ledger settles and counts an item.
pub(super) enum Settlement {
    /// The item is published; digest of a regular file, `None` for a link.
    Published(Option<FileDigest>),
    /// An earlier run has published it with this digest, and it was not read.
    TakenOver(FileDigest),
    /// The item is equal at the receiver, and left alone.
    Skipped,
    /// The destination stays as it is at the item's name.
    Kept(Kept),
    /// The receiver has made the file from a reference directory.
    Linked,
    /// The receiver had the file under another name; its digest, `None` in a dry run.
    Renamed(Option<FileDigest>),
    /// The item was changed while it was read, which is no failure, as it is announced again.
    Changed,
    /// The item failed at either end.
    Failed,
}

/// The sender's items in the order of their announcement: which are announced, wanted, read,
/// settled.
pub(super) struct Ledger {
    window: Window,
    first: EntryId,
    slots: VecDeque<Slot>,
    tree: TreeHasher,
    /// Digests that entered the tree digest, by entry; `None` if they are not kept.
    digests: Option<Vec<(EntryId, Digest)>>,
    counts: Counts,
    only_digest: Option<FileDigest>,
    pending: usize,
    /// Bytes of a stream that an earlier session has left.
    pub(super) continued: u64,
    /// Bytes of paths, attributes and held contents of the pending items.
    weight: usize,
    /// Announced directories whose children are not all done, or that are being removed.
    directories: ById<OpenDirectory>,
    /// Directories that must stay open, each with the number of pending items in it, plus one while
    /// the scan is there.
    open: ById<usize, Parent>,
}

impl Ledger {
    /// An empty ledger; with `keeps_digests`, it keeps the digests that enter the tree.
    pub(super) fn new(window: Window, keeps_digests: bool) -> Self {
        Self {
            window,
            first: 0,
            slots: VecDeque::new(),
            tree: TreeHasher::new(),
            digests: keeps_digests.then(Vec::new),
            counts: Counts::default(),
            only_digest: None,
            pending: 0,
            continued: 0,
            weight: 0,
            directories: ById::default(),
            open: ById::default(),
        }
    }

    /// Whether the window has room for another item, `depth` levels below its source.
    pub(super) fn has_room(&self, depth: usize) -> bool {
        let beside = (self.window.directories / 3).max(LEAST_OPEN);
        let open = self.window.directories.max(depth + beside);
        let has_bytes = (self.weight as u64) < self.window.bytes.as_u64();
        self.slots.len() < self.window.items && has_bytes && self.directories.len() < open && self.open.len() < open
    }

    /// Announced items and directories that are kept: their number, and the memory that they take.
    pub(super) fn backlog(&self) -> Pending {
        let bytes = ByteCount::new(self.weight as u64);
        Pending { items: self.slots.len(), directories: self.directories.len(), bytes }
    }

    /// Id that the next announced item gets.
    pub(super) fn next_id(&self) -> EntryId {
        self.first + self.slots.len() as EntryId
    }

    /// Adds an announced item under `item.entry.id`, which must be [`next_id`](Self::next_id).
    pub(super) fn announce(&mut self, item: Item) {
        debug_assert_eq!(item.entry.id, self.next_id(), "ids are consecutive");
        self.counts.totals.entries += 1;
        if item.is_file() {
            self.counts.totals.files += 1;
            self.counts.totals.bytes += item.size().as_u64();
        }
        self.counts.open_streams += u64::from(item.entry.kind == EntryKind::Stream);
        self.pending += 1;
        self.weight += item.weight();
        *self.open.entry(item.entry.parent).or_default() += 1;
        let stage = ItemStage::Announced { held: None };
        let open = Open { item, resendable: 0, basis: None, chunks: None, in_place: false, stage };
        self.slots.push_back(Slot::Pending(Box::new(open)));
    }

    /// Adds an announced directory. It ends only when its last child does, and the window must not
    /// wait for that: it counts as settled from the start. It stays open until the scan
    /// [leaves](Self::leave_directory) it.
    pub(super) fn announce_directory(&mut self, directory: Item) {
        let digest = directory.digest(None);
        let Item { entry, path, removal, .. } = directory;
        debug_assert_eq!(entry.id, self.next_id(), "ids are consecutive");
        self.counts.totals.entries += 1;
        self.slots.push_back(Slot::Settled(Some(digest)));
        self.directories.insert(entry.id, OpenDirectory { path, removal, is_leaving: false });
        *self.open.entry(Parent::Directory(entry.id)).or_default() += 1;
        self.slide();
    }

    /// Records that the scan has left a directory.
    pub(super) fn leave_directory(&mut self, id: EntryId) {
        self.release(Parent::Directory(id));
    }

    /// Ends a directory; returns its path, or `None` if it had ended before.
    pub(super) fn directory_done(&mut self, id: EntryId, failed: bool) -> Option<Vec<u8>> {
        let OpenDirectory { path, .. } = self.directories.remove(&id)?;
        self.counts.failed += u64::from(failed);
        Some(path)
    }

    /// Time of removal at the source, and path, of a directory that has not ended.
    pub(super) fn directory_removal(&self, id: EntryId) -> Option<(Removal, &[u8])> {
        self.directories.get(&id).map(|directory| (directory.removal, directory.path.as_slice()))
    }

    /// Records that a directory is being removed at the source; false if it was before.
    pub(super) fn leave_finished_directory(&mut self, id: EntryId) -> bool {
        self.directories.get_mut(&id).is_some_and(|directory| !std::mem::replace(&mut directory.is_leaving, true))
    }

    /// The item of this id; `None` unless it is announced, and neither settled nor being removed at
    /// the source.
    pub(super) fn pending(&self, id: EntryId) -> Option<&Item> {
        self.open(id).map(|open| &open.item)
    }

    /// Records that the receiver has an item durably, which is now being removed at the source.
    pub(super) fn leave(&mut self, id: EntryId, how: Settlement, fate: Fate) {
        if let Some(open) = self.open_mut(id) {
            open.stage = ItemStage::Leaving(how, fate);
        }
    }

    /// Outcome of an item that is being removed at the source; `None` for any other.
    pub(super) fn take_leaving(&mut self, id: EntryId) -> Option<(Settlement, Fate)> {
        let position = self.position(id)?;
        let Slot::Pending(open) = self.slots.get_mut(position)? else { return None };
        match std::mem::replace(&mut open.stage, ItemStage::Asked) {
            ItemStage::Leaving(how, fate) => Some((how, fate)),
            other => {
                open.stage = other;
                None
            }
        }
    }

    /// Records that the receiver has answered for an item; returns the blocks that the receiver
    /// holds, `None` for none. Fails if it had answered before, or the item has ended.
    pub(super) fn ask(&mut self, id: EntryId) -> Result<Option<BlockMap>, NotAwaited> {
        let open = self.open_mut(id).ok_or(NotAwaited)?;
        match std::mem::replace(&mut open.stage, ItemStage::Asked) {
            ItemStage::Announced { held } => Ok(held),
            ItemStage::Compared(_) => Ok(None),
            later => {
                open.stage = later;
                Err(NotAwaited)
            }
        }
    }

    /// Turns a hard link whose contents the receiver has requested into a file; returns its length.
    /// `None` if it is not a hard link, or was not requested.
    pub(super) fn link_becomes_file(&mut self, id: EntryId) -> Option<ByteCount> {
        let Open { item, stage: ItemStage::Asked, .. } = self.open_mut(id)? else { return None };
        let EntryKind::HardLink { size, version, sparse, .. } = item.entry.kind else { return None };
        item.entry.kind = EntryKind::File { size, version, sparse, linked: false };
        item.first = None;
        self.counts.totals.files += 1;
        self.counts.totals.bytes += size;
        Some(ByteCount::new(size))
    }

    /// Records that a block held by the receiver is damaged. Returns `None` if the item is settled;
    /// false if there is no such block, or the receiver has named more blocks than it holds.
    pub(super) fn resend(&mut self, id: EntryId, index: u32) -> Option<bool> {
        let open = self.open_mut(id)?;
        let known = open.resendable > 0 && index < block_count(open.item.longest());
        open.resendable = open.resendable.saturating_sub(1);
        Some(known)
    }

    /// Records that the receiver has a file that may have become an item. Returns `None` if the item
    /// is settled; false unless it is a file that the receiver has not answered for, and nothing of
    /// which it holds.
    pub(super) fn compare(&mut self, id: EntryId) -> Option<bool> {
        let open = self.open_mut(id)?;
        let is_unanswered = open.item.is_file() && matches!(open.stage, ItemStage::Announced { held: None });
        if is_unanswered {
            open.stage = ItemStage::Compared(None);
        }
        Some(is_unanswered)
    }

    /// Records the digest of an item that is told to the receiver; false if the receiver has answered
    /// for it meanwhile.
    pub(super) fn told(&mut self, id: EntryId, digest: Option<FileDigest>) -> bool {
        let Some(Open { stage: stage @ ItemStage::Compared(None), .. }) = self.open_mut(id) else { return false };
        *stage = ItemStage::Compared(digest);
        true
    }

    /// Digest of an item that was told to the receiver; `None` if none was, or it has answered.
    pub(super) fn told_digest(&self, id: EntryId) -> Option<FileDigest> {
        match self.open(id)?.stage {
            ItemStage::Compared(digest) => digest,
            _ => None,
        }
    }

    /// Records blocks that the receiver holds. False if the item or a block number is not known.
    pub(super) fn hold(&mut self, id: EntryId, first: u32, values: &[Digest]) -> bool {
        let continued = self.continued;
        let Some(open) = self.open_mut(id) else { return false };
        if matches!(open.stage, ItemStage::Compared(_)) {
            open.stage = ItemStage::Announced { held: None };
        }
        let Open { item, resendable, stage: ItemStage::Announced { held }, .. } = open else { return false };
        // Of a stream, no more than an earlier session has left.
        let most = if item.entry.kind == EntryKind::Stream { continued } else { item.longest() };
        let map = held.get_or_insert_with(|| BlockMap::new(most));
        let all_known = (0..)
            .zip(values)
            .all(|(number, value)| first.checked_add(number).is_some_and(|index| map.insert(index, *value).is_ok()));
        *resendable = map.count();
        all_known
    }

    /// Records that the receiver writes into the existing file that has the name of an item; returns the
    /// item's path the first time, if it is a file that is not settled.
    pub(super) fn begin_in_place(&mut self, id: EntryId) -> Option<Vec<u8>> {
        let open = self.open_mut(id).filter(|open| open.item.is_file() && !open.in_place)?;
        open.in_place = true;
        Some(open.item.path.clone())
    }

    /// Notes that descriptions follow of the file at the receiver with which an item is compared.
    pub(super) fn expect_basis(&mut self, id: EntryId) {
        if let Some(open) = self.open_mut(id) {
            open.basis = Some(0);
        }
    }

    /// Notes a description of the file at the receiver with which an item is compared. Returns `None`
    /// if the item is settled; false if none is to come, or the blocks were passed already or are not
    /// those of the item.
    pub(super) fn describe(&mut self, basis: &Basis) -> Option<bool> {
        let open = self.open_mut(basis.id)?;
        let Some(next) = open.basis else { return Some(false) };
        let described = basis.blocks.len() as u32;
        let Some(end) = basis.first.checked_add(described) else { return Some(false) };
        if basis.first < next || end > block_count(open.item.size().as_u64()) {
            return Some(false);
        }
        open.resendable += described;
        open.basis = (!basis.complete).then_some(end);
        Some(true)
    }

    /// Notes that descriptions follow of the receiver's files in which an item's content is looked up:
    /// any block may be one that the receiver cannot put together.
    pub(super) fn expect_chunks(&mut self, id: EntryId) {
        if let Some(open) = self.open_mut(id) {
            open.chunks = Some(0);
            open.resendable = open.resendable.saturating_add(block_count(open.item.size().as_u64()));
        }
    }

    /// Notes chunks of the receiver's files in which an item's content is looked up. Returns `None` if
    /// the item is settled; false if none are to come, or they are too many.
    pub(super) fn describe_chunks(&mut self, told: &Chunks) -> Option<bool> {
        let open = self.open_mut(told.id)?;
        let Some(before) = open.chunks else { return Some(false) };
        let number = before.saturating_add(told.chunks.len() as u32);
        open.chunks = (!told.complete).then_some(number);
        Some(number <= MAX_CHUNKS)
    }

    /// Counts bytes of a block that the receiver takes from files that it has.
    pub(super) fn unchanged(&mut self, bytes: ByteCount) {
        self.counts.unchanged_bytes += bytes;
    }

    /// Counts bytes that need not be transmitted because the receiver has them from an earlier run.
    pub(super) fn resumed(&mut self, bytes: ByteCount) {
        self.counts.resumed_bytes += bytes;
    }

    /// Records the digest of a small file as it was read, for comparison with what the receiver
    /// publishes.
    pub(super) fn packed(&mut self, id: EntryId, digest: Digest) {
        if let Some(open) = self.open_mut(id) {
            open.stage = ItemStage::Packed(digest);
        }
    }

    /// Records how the reading of a large file ended, and returns the frame to send; `None` if the
    /// item is settled.
    pub(super) fn read(&mut self, id: EntryId, blocks: u32, outcome: Result<FileDigest, GivenUp>) -> Option<FileEnd> {
        let open = self.open_mut(id)?;
        let end = FileEnd { id, blocks, outcome: outcome.clone() };
        open.stage = ItemStage::Read { blocks, outcome };
        Some(end)
    }

    /// Records the end of a stream, which becomes a file by it; returns the message for the receiver, or
    /// `None` if the item is settled.
    pub(super) fn stream_ended(&mut self, id: EntryId, digest: Digest, streamed: Streamed) -> Option<ItemEnd> {
        let open = self.open_mut(id)?;
        let end = StreamEnd { id, digest, streamed };
        streamed.describe(&mut open.item.entry);
        open.stage = ItemStage::Streamed(end.clone());
        self.counts.open_streams -= 1;
        self.counts.totals.files += 1;
        self.counts.totals.bytes += streamed.size;
        Some(end.into())
    }

    /// The end of a large file or of a stream; `None` unless it has been read and the item is not
    /// settled.
    pub(super) fn end_of(&self, id: EntryId) -> Option<ItemEnd> {
        match &self.open(id)?.stage {
            ItemStage::Read { blocks, outcome } => {
                Some(FileEnd { id, blocks: *blocks, outcome: outcome.clone() }.into())
            }
            ItemStage::Streamed(end) => Some(end.clone().into()),
            _ => None,
        }
    }

    /// Whether the reading of a file has ended because it was changed meanwhile.
    pub(super) fn was_changed(&self, id: EntryId) -> bool {
        let end = self.open(id).map(|open| &open.stage);
        matches!(end, Some(ItemStage::Read { outcome: Err(GivenUp { same_version: false, .. }), .. }))
    }

    /// Digest of the file as it was read; `None` if it has not been read, or is settled.
    pub(super) fn digest(&self, id: EntryId) -> Option<FileDigest> {
        match &self.open(id)?.stage {
            ItemStage::Packed(digest) => Some(FileDigest::Blake3(*digest)),
            ItemStage::Read { outcome: Ok(digest), .. } => Some(*digest),
            ItemStage::Streamed(end) => Some(FileDigest::Blake3(end.digest)),
            _ => None,
        }
    }

    /// Settles an item and returns it; `None` if it was settled before.
    pub(super) fn settle(&mut self, id: EntryId, how: &Settlement) -> Option<Item> {
        let position = self.position(id)?;
        let slot = self.slots.get_mut(position).filter(|slot| matches!(slot, Slot::Pending(_)))?;
        let Slot::Pending(open) = std::mem::replace(slot, Slot::Settled(None)) else { return None };
        let item = open.item;
        let published = |contents| Some(item.digest(contents));
        *slot = Slot::Settled(match how {
            Settlement::Published(value) => published(value.as_ref()),
            Settlement::TakenOver(value) => published(Some(value)),
            Settlement::Renamed(value) => value.as_ref().and_then(|value| published(Some(value))),
            Settlement::Skipped
            | Settlement::Kept(_)
            | Settlement::Linked
            | Settlement::Changed
            | Settlement::Failed => None,
        });
        self.pending -= 1;
        self.weight -= item.weight();
        self.counts.open_streams -= u64::from(item.entry.kind == EntryKind::Stream);
        self.count(&item, how);
        self.release(item.entry.parent);
        self.slide();
        Some(item)
    }

    /// Counts an item that is settled, by its outcome.
    fn count(&mut self, item: &Item, how: &Settlement) {
        let counts = &mut self.counts;
        match how {
            Settlement::Published(value) => {
                self.only_digest = *value;
                if item.is_file() {
                    counts.files_done += 1;
                    counts.bytes_done += item.size();
                } else {
                    counts.links_done += 1;
                }
            }
            Settlement::TakenOver(_) => {
                self.only_digest = None;
                counts.files_done += 1;
                counts.bytes_done += item.size();
                counts.taken_over_files += 1;
                counts.taken_over_bytes += item.size();
            }
            Settlement::Skipped if item.is_file() || matches!(item.entry.kind, EntryKind::HardLink { .. }) => {
                counts.skipped += 1;
                counts.skipped_bytes += item.size();
            }
            Settlement::Skipped => {}
            Settlement::Changed => {
                counts.totals.entries -= 1;
                counts.totals.files -= u64::from(item.is_file());
                counts.totals.bytes -= item.size().as_u64();
            }
            Settlement::Kept(why) => {
                counts.kept.add(*why);
                counts.skipped_bytes += item.size();
            }
            Settlement::Linked => {
                counts.linked += 1;
                counts.skipped_bytes += item.size();
            }
            Settlement::Renamed(_) => {
                counts.renamed += 1;
                counts.skipped_bytes += item.size();
            }
            Settlement::Failed => counts.failed += 1,
        }
    }

    /// Counts an item that failed before it could be announced.
    pub(super) fn count_failure(&mut self) {
        self.counts.failed += 1;
    }

    /// Counts items that the receiver has deleted.
    pub(super) fn count_deleted(&mut self, items: u64) {
        self.counts.deleted += items;
    }

    /// Counts an item that is removed at the source.
    pub(super) fn count_removed(&mut self) {
        self.counts.removed += 1;
    }

    /// Records that the scan is complete, so that the totals are final.
    pub(super) fn scan_complete(&mut self) {
        self.counts.totals.complete = true;
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether everything is announced and settled.
    pub(super) fn is_settled(&self) -> bool {
        self.counts.totals.complete && self.pending == 0 && self.directories.is_empty()
    }

    /// Digest over all items published so far, in the order of their announcement.
    pub(super) fn tree(&self) -> Digest {
        self.tree.finish()
    }

    /// Digests of the items published so far, in the order of their announcement; empty if they are
    /// not kept.
    pub(super) fn digests(&self) -> &[(EntryId, Digest)] {
        self.digests.as_deref().unwrap_or_default()
    }

    /// Digest of the only regular file; `None` if there are several, or its digest is not known.
    pub(super) fn only(&self) -> Option<FileDigest> {
        self.only_digest.filter(|_| self.counts.totals.files == 1)
    }

    /// Counts one holder of a directory less: the scan has left it, or a pending item in it is
    /// settled.
    fn release(&mut self, parent: Parent) {
        if let Some(holders) = self.open.get_mut(&parent) {
            *holders -= 1;
            if *holders == 0 {
                self.open.remove(&parent);
            }
        }
    }

    /// Position of an item in the window; `None` if it has left the window.
    fn position(&self, id: EntryId) -> Option<usize> {
        Some(id.checked_sub(self.first)? as usize)
    }

    /// The item of this id, if it is neither settled nor being removed at the source.
    fn open(&self, id: EntryId) -> Option<&Open> {
        match self.slots.get(self.position(id)?)? {
            Slot::Pending(open) if matches!(open.stage, ItemStage::Leaving(..)) => None,
            Slot::Pending(open) => Some(open),
            Slot::Settled(_) => None,
        }
    }

    /// As [`open`](Self::open), to be changed.
    fn open_mut(&mut self, id: EntryId) -> Option<&mut Open> {
        let position = self.position(id)?;
        match self.slots.get_mut(position)? {
            Slot::Pending(open) if matches!(open.stage, ItemStage::Leaving(..)) => None,
            Slot::Pending(open) => Some(open),
            Slot::Settled(_) => None,
        }
    }

    /// Moves the window past settled items, whose digests enter the tree digest.
    fn slide(&mut self) {
        while let Some(Slot::Settled(digest)) = self.slots.front() {
            if let Some(digest) = digest {
                self.tree.push(digest);
                if let Some(digests) = &mut self.digests {
                    digests.push((self.first, *digest));
                }
            }
            self.slots.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
