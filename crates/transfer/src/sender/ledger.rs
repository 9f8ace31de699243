//! The sender's book of items: announced, wanted, sent, done.
//!
//! Ids are consecutive, so the book is a window `first..first + slots.len()` that slides as its
//! oldest item is settled. The window bounds memory whatever the number of files, and settling in
//! order is what makes the tree digest independent of the order in which items arrive.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use icdc_disk::tree::{Directory, Name};
use icdc_protocol::block_map::{BlockMap, block_count};
use icdc_protocol::digest::{self, TreeHasher};
use icdc_protocol::limits::{MAX_PENDING, MAX_PENDING_BYTES};
use icdc_protocol::message::{Digest, Entry, EntryId, EntryKind, FileDigest, Totals};
use icdc_session::weight::entry_weight;

/// Announced items that may be unsettled at once; below what the receiver allows.
const WINDOW: usize = MAX_PENDING * 3 / 4;
/// Directories that may be open at once beside those from the source down to where the walk stands: these are open until
/// everything beneath them is done.
const OPEN_BESIDE: usize = 512;
/// Levels for which there is room in every tree, so that wide ones are not walked with fewer.
const USUAL_DEPTH: usize = 1024;
/// Bytes of paths and attributes of pending items; well below what the receiver allows.
const MAX_WEIGHT: usize = MAX_PENDING_BYTES / 4;
/// How soon a waiter looks again for a released directory.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An announced item and where to find it.
pub(crate) struct Item {
    pub(crate) entry: Entry,
    /// Path from the source's parent, for messages and the tree digest.
    pub(crate) path: Vec<u8>,
    pub(crate) directory: Arc<OpenDirectory>,
    pub(crate) name: Name,
}

/// A directory held open for the items in it, counted so that descriptors stay bounded.
pub(crate) struct OpenDirectory {
    directory: Directory,
    open: Arc<AtomicUsize>,
}

impl Deref for OpenDirectory {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Item {
    /// Length of a regular file, zero of anything else.
    pub(crate) fn size(&self) -> u64 {
        match self.entry.kind {
            EntryKind::File { size, .. } => size,
            _ => 0,
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.entry.kind, EntryKind::File { .. })
    }
}

enum Slot {
    Pending(Open),
    /// Counted; the digest enters the tree when the slot is the oldest.
    Settled(Option<Digest>),
}

/// An item that is not settled.
struct Open {
    item: Arc<Item>,
    digest: Option<FileDigest>,
    held: Option<BlockMap>,
    /// The receiver has said what it wants of it.
    asked: bool,
    /// Blocks that the receiver may still find damaged among those it holds.
    resendable: u32,
}

/// What has become of the items so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) totals: Totals,
    pub(crate) files_done: u64,
    pub(crate) bytes_done: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: u64,
    /// Bytes that an earlier run had left durable and that were not sent again.
    pub(crate) resumed_bytes: u64,
    /// Files that an earlier run had published and that nobody has read in this one.
    pub(crate) taken_over_files: u64,
    pub(crate) taken_over_bytes: u64,
}

struct Book {
    first: EntryId,
    slots: VecDeque<Slot>,
    tree: TreeHasher,
    counts: Counts,
    only_digest: Option<FileDigest>,
    pending: usize,
    /// Bytes of paths and attributes of the pending items.
    weight: usize,
    /// Announced directories whose children are not all done.
    directories: HashMap<EntryId, Vec<u8>>,
    closed: bool,
}

/// The book, shared by the sender's threads.
pub(crate) struct Ledger {
    book: Mutex<Book>,
    changed: Condvar,
    open_directories: Arc<AtomicUsize>,
}

/// How an item ended.
pub(crate) enum Settlement {
    Published(Option<FileDigest>),
    /// An earlier run published it with this digest, and its contents were not read since.
    TakenOver(FileDigest),
    Skipped,
    Failed,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let book = Book {
            first: 0,
            slots: VecDeque::new(),
            tree: TreeHasher::new(),
            counts: Counts::default(),
            only_digest: None,
            pending: 0,
            weight: 0,
            directories: HashMap::new(),
            closed: false,
        };
        Self { book: Mutex::new(book), changed: Condvar::new(), open_directories: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no panic while the book is open")
    }

    /// Waits until another item may be announced, `depth` levels below its source. `blocked` is called once before waiting,
    /// so that what was announced so far can be handed on. False if the session is over.
    pub(crate) fn wait_for_room(&self, depth: usize, blocked: impl FnOnce()) -> bool {
        let book = self.lock();
        if book.closed || !self.is_full(&book, depth) {
            return !book.closed;
        }
        drop(book);
        blocked();
        let mut book = self.lock();
        while self.is_full(&book, depth) && !book.closed {
            // A directory is released without the lock, so the wait looks again by itself.
            (book, _) = self.changed.wait_timeout(book, LOOK_AGAIN).expect("no panic while the book is open");
        }
        !book.closed
    }

    fn is_full(&self, book: &Book, depth: usize) -> bool {
        let open = depth.max(USUAL_DEPTH) + OPEN_BESIDE;
        book.slots.len() >= WINDOW
            || book.weight >= MAX_WEIGHT
            || book.directories.len() >= open
            || self.open_directories.load(Ordering::Relaxed) >= open
    }

    /// Id that the next announced item gets.
    pub(crate) fn next_id(&self) -> EntryId {
        let book = self.lock();
        book.first + book.slots.len() as EntryId
    }

    /// Enters an item under `item.entry.id`, which must be [`next_id`](Self::next_id).
    pub(crate) fn announce(&self, item: Item) {
        let mut book = self.lock();
        book.check_id(&item.entry);
        book.counts.totals.entries += 1;
        if item.is_file() {
            book.counts.totals.files += 1;
            book.counts.totals.bytes += item.size();
        }
        book.pending += 1;
        book.weight += entry_weight(&item.entry, &item.path);
        let open = Open { item: Arc::new(item), digest: None, held: None, asked: false, resendable: 0 };
        book.slots.push_back(Slot::Pending(open));
    }

    /// Enters a directory. It ends only when its last child does, and the window must not wait for
    /// that: it counts as settled from the start.
    pub(crate) fn announce_directory(&self, path: &[u8], entry: &Entry) {
        let mut book = self.lock();
        book.check_id(entry);
        book.counts.totals.entries += 1;
        book.slots.push_back(Slot::Settled(Some(digest::item(path, entry, None))));
        book.directories.insert(entry.id, path.to_vec());
        book.slide();
    }

    /// Ends a directory; gives its path back the first time.
    pub(crate) fn directory_done(&self, id: EntryId, failed: bool) -> Option<Vec<u8>> {
        let mut book = self.lock();
        let path = book.directories.remove(&id)?;
        book.counts.failed += u64::from(failed);
        self.changed.notify_all();
        Some(path)
    }

    /// Counts a directory that announced items keep open.
    pub(crate) fn hold_open(&self, directory: Directory) -> Arc<OpenDirectory> {
        self.open_directories.fetch_add(1, Ordering::Relaxed);
        Arc::new(OpenDirectory { directory, open: self.open_directories.clone() })
    }

    /// The item, if it is announced and not settled.
    pub(crate) fn pending(&self, id: EntryId) -> Option<Arc<Item>> {
        match self.lock().slot(id)? {
            Slot::Pending(open) => Some(open.item.clone()),
            Slot::Settled(_) => None,
        }
    }

    /// Notes that the receiver has said what it wants of an item; false if it had done so before.
    pub(crate) fn ask(&self, id: EntryId) -> bool {
        match self.lock().slot(id) {
            Some(Slot::Pending(open)) => !std::mem::replace(&mut open.asked, true),
            _ => true,
        }
    }

    /// Notes that a block which the receiver holds is damaged. `None` if the item is settled; false if there is no such
    /// block, or if the receiver has named more blocks than it holds.
    pub(crate) fn resend(&self, id: EntryId, index: u32) -> Option<(Arc<Item>, bool)> {
        let mut book = self.lock();
        let Some(Slot::Pending(open)) = book.slot(id) else { return None };
        let known = open.resendable > 0 && index < block_count(open.item.size());
        open.resendable = open.resendable.saturating_sub(1);
        Some((open.item.clone(), known))
    }

    /// Notes blocks that the receiver holds. False if the item or a block number is not known.
    pub(crate) fn hold(&self, id: EntryId, first: u32, values: &[Digest]) -> bool {
        let mut book = self.lock();
        let Some(Slot::Pending(open)) = book.slot(id) else { return false };
        if open.asked {
            return false;
        }
        let map = open.held.get_or_insert_with(|| BlockMap::new(open.item.size()));
        let all_known = (0..)
            .zip(values)
            .all(|(number, value)| first.checked_add(number).is_some_and(|index| map.insert(index, *value).is_ok()));
        open.resendable = map.count();
        all_known
    }

    /// Takes what was noted by [`hold`](Self::hold).
    pub(crate) fn take_held(&self, id: EntryId) -> Option<BlockMap> {
        match self.lock().slot(id)? {
            Slot::Pending(open) => open.held.take(),
            Slot::Settled(_) => None,
        }
    }

    /// Counts bytes that need not travel.
    pub(crate) fn resumed(&self, bytes: u64) {
        self.lock().counts.resumed_bytes += bytes;
    }

    /// Notes the digest of what was read, for comparison with what the receiver published.
    pub(crate) fn set_digest(&self, id: EntryId, value: FileDigest) {
        if let Some(Slot::Pending(open)) = self.lock().slot(id) {
            open.digest = Some(value);
        }
    }

    /// Digest noted by [`set_digest`](Self::set_digest).
    pub(crate) fn digest(&self, id: EntryId) -> Option<FileDigest> {
        match self.lock().slot(id)? {
            Slot::Pending(open) => open.digest,
            Slot::Settled(_) => None,
        }
    }

    /// Whether an item is neither settled nor unknown.
    pub(crate) fn is_pending(&self, id: EntryId) -> bool {
        matches!(self.lock().slot(id), Some(Slot::Pending(_)))
    }

    /// Ends an item; gives it back the first time.
    pub(crate) fn settle(&self, id: EntryId, how: Settlement) -> Option<Arc<Item>> {
        let mut book = self.lock();
        let slot = book.slot(id)?;
        let Slot::Pending(open) = slot else { return None };
        let item = open.item.clone();
        *slot = Slot::Settled(match &how {
            Settlement::Published(value) => Some(digest::item(&item.path, &item.entry, value.as_ref())),
            Settlement::TakenOver(value) => Some(digest::item(&item.path, &item.entry, Some(value))),
            Settlement::Skipped | Settlement::Failed => None,
        });
        book.pending -= 1;
        book.weight -= entry_weight(&item.entry, &item.path);
        match how {
            Settlement::Published(value) => {
                book.only_digest = value;
                if item.is_file() {
                    book.counts.files_done += 1;
                    book.counts.bytes_done += item.size();
                }
            }
            Settlement::TakenOver(_) => {
                book.only_digest = None;
                book.counts.files_done += 1;
                book.counts.bytes_done += item.size();
                book.counts.taken_over_files += 1;
                book.counts.taken_over_bytes += item.size();
            }
            Settlement::Skipped => book.counts.skipped += u64::from(item.is_file()),
            Settlement::Failed => book.counts.failed += 1,
        }
        book.slide();
        self.changed.notify_all();
        Some(item)
    }

    /// Counts something that failed before it could be announced.
    pub(crate) fn count_failure(&self) {
        self.lock().counts.failed += 1;
    }

    /// The scan is through.
    pub(crate) fn scan_complete(&self) {
        self.lock().counts.totals.complete = true;
        self.changed.notify_all();
    }

    /// Wakes everybody; nothing more will be announced.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Waits until every item is settled, the book is closed, or `patience` is over.
    /// True once everything is settled.
    pub(crate) fn wait_all_settled(&self, patience: Duration) -> bool {
        let settled = |book: &Book| book.counts.totals.complete && book.pending == 0 && book.directories.is_empty();
        let book = self.lock();
        if settled(&book) || book.closed {
            return settled(&book);
        }
        let (book, _) = self.changed.wait_timeout(book, patience).expect("no panic while the book is open");
        settled(&book)
    }

    /// Digest over all items published so far, and of the only file if there was just one.
    pub(crate) fn digests(&self) -> (Digest, Option<FileDigest>) {
        let book = self.lock();
        let only = if book.counts.totals.files == 1 { book.only_digest } else { None };
        (book.tree.finish(), only)
    }
}

impl Book {
    fn check_id(&self, entry: &Entry) {
        debug_assert_eq!(entry.id, self.first + self.slots.len() as EntryId, "ids are consecutive");
    }

    fn slot(&mut self, id: EntryId) -> Option<&mut Slot> {
        let position = id.checked_sub(self.first)? as usize;
        self.slots.get_mut(position)
    }

    fn slide(&mut self) {
        while let Some(Slot::Settled(digest)) = self.slots.front() {
            if let Some(digest) = digest {
                self.tree.push(digest);
            }
            self.slots.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
