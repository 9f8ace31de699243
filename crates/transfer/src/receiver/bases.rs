//! Files at the destination with which large files are compared that replace them: described to the
//! sender, and read once more for what is equal.
//!
//! ```text
//! names ── Want::Difference ──► begin ─► Comparisons ◄── on_arrived ── hash
//!                                            │ steps
//!               compare thread: open, read, Basis ──► sender
//! ```
//!
//! A few files are held open; more are opened again for each block. What becomes of them meanwhile does
//! no harm: every block that is put together from them is compared with its digest.
//!
//! Where the received file has the contents with which it is compared, as it is written into the existing file, into
//! a device, or into a clone of what it replaces (a reflink), it is opened first:
//!
//! ```text
//! compare ── Opens ──► names ──► store: opened, perhaps cloned ── on_opened ──► described in its place
//! ```
//!
//! The values of its leaves are kept then, so that what is equal need not be read once more.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};

use icdc_disk::tree::{Directory, Kind, Name};
use icdc_disk::{DiskFile, reflink};
use icdc_protocol::basis::{self, LeafDigest, leaf_digests};
use icdc_protocol::block_map::{BlockMap, block_length, block_offset};
use icdc_protocol::digest::leaf_value;
use icdc_protocol::limits::{BLOCK_SIZE, LEAF_SIZE};
use icdc_protocol::message::{Digest, EntryId, Message};
use icdc_session::receiver::comparisons::{Comparisons, Step};
use icdc_units::ByteCount;

/// Most files at the destination that are held open for comparisons; further ones are opened again
/// for each block.
const HELD_OPEN: usize = 16;

/// Existing files at the destination that large files of the session replace: they are described to
/// the sender by digests, and only differences travel. Shared by the session's threads and locked
/// by each call.
#[derive(Default)]
pub(super) struct ReplacedFiles(Mutex<Table>);

/// State machine of the comparisons and the files that they are about, behind the lock of
/// [`ReplacedFiles`].
#[derive(Default)]
struct Table {
    machine: Comparisons,
    files: HashMap<EntryId, Compared>,
    /// Files that are held open, by those that replace them; the one that was opened last is behind.
    open: VecDeque<(EntryId, Arc<Existing>)>,
    /// Values of the leaves of blocks that are described and have not arrived, of files that are written where
    /// these are.
    leaves: HashMap<(EntryId, u32), Vec<Digest>>,
}

impl Table {
    /// Passes an event about a file to the state machine, and closes its existing file if that is
    /// not read any more; true if the comparing thread can go on by it.
    fn update(&mut self, id: EntryId, event: impl FnOnce(&mut Comparisons)) -> bool {
        let could = self.machine.has_step();
        event(&mut self.machine);
        self.close_unneeded(id);
        !could && self.machine.has_step()
    }

    /// Records the descriptions of consecutive blocks of the file `id`, from `first` on; returns their digests.
    fn on_described(&mut self, id: EntryId, first: u32, described: Vec<Described>) -> Vec<Vec<LeafDigest>> {
        self.machine.on_described(id, described.len() as u32);
        let mut digests = Vec::with_capacity(described.len());
        for (index, block) in (first..).zip(described) {
            // It may be forgotten by now.
            if let Some(values) = block.values.filter(|_| self.machine.is_described(id, index)) {
                self.leaves.insert((id, index), values);
            }
            digests.push(block.digests);
        }
        digests
    }

    /// Closes the file with which this one is compared if it is not read any more.
    fn close_unneeded(&mut self, id: EntryId) {
        if !self.machine.is_needed(id) {
            self.close(id);
        }
    }

    /// Closes what is open for the comparison of this file.
    fn close(&mut self, id: EntryId) {
        self.open.retain(|(of, _)| *of != id);
        if let Some(Compared { basis: basis @ Basis::Own(_), .. }) = self.files.get_mut(&id) {
            *basis = Basis::Done;
        }
    }
}

/// A large file that is received, and what it is compared with.
struct Compared {
    /// Length of the file.
    size: ByteCount,
    /// Blocks that an earlier run has left, until the comparison begins.
    held: Option<BlockMap>,
    basis: Basis,
}

/// Contents with which a received file is compared.
#[derive(Clone)]
pub(super) enum Basis {
    /// Those of a file, by its directory and name there.
    Named(Directory, Name),
    /// As before, unless the received file turns out to have them when it is open.
    UntilOpened {
        directory: Directory,
        name: Name,
        /// Whether the comparison waits for that.
        is_awaited: bool,
    },
    /// Those that the received file itself has where nothing was written.
    Own(OwnContents),
    /// None any more: everything was compared, or the file is closed.
    Done,
}

/// Contents that a received file had when it was opened.
#[derive(Clone)]
pub(super) struct OwnContents {
    pub(super) disk: Arc<DiskFile>,
    /// Length of the contents.
    pub(super) length: ByteCount,
}

/// Existing file at the destination, open for reading, with which a received one is compared.
pub(super) struct Existing {
    file: File,
    size: u64,
    /// Whether the received file is written into it.
    is_target: bool,
}

/// Outcome of a step of the comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    /// There is another step.
    On,
    /// Something has to come first.
    Waits,
    /// The received file of this id is to be opened, which [`ReplacedFiles::on_opened`] tells.
    Opens(EntryId),
}

impl ReplacedFiles {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no panic while comparisons are noted")
    }

    /// Registers the contents with which the received file `id`, of `size`, will be compared, apart from the
    /// blocks `held` of an earlier run.
    pub(super) fn expect(&self, id: EntryId, size: ByteCount, held: Option<BlockMap>, basis: Basis) {
        self.lock().files.insert(id, Compared { size, held, basis });
    }

    /// Makes `part`, an empty file, a clone of the one with which the file `id` is compared (a reflink), and returns
    /// its length then; `None` where it is not to be, or the file system cannot do that, and `part` is empty.
    ///
    /// # Errors
    /// A clone that was begun cannot be removed.
    pub(super) fn clone_into(&self, id: EntryId, part: &File) -> io::Result<Option<ByteCount>> {
        let waits = |file: &Compared| matches!(file.basis, Basis::UntilOpened { .. });
        let existing = if self.lock().files.get(&id).is_some_and(waits) { self.existing(id) } else { None };
        match existing {
            Some(existing) if reflink(&existing.file, part)? => Ok(Some(ByteCount::new(part.metadata()?.len()))),
            _ => Ok(None),
        }
    }

    /// Handles that the received file `id` is open: with the contents with which it is compared, if it has them.
    /// True if the comparing thread can go on.
    pub(super) fn on_opened(&self, id: EntryId, own: Option<OwnContents>) -> bool {
        let was_awaited = {
            let mut table = self.lock();
            let Some(Compared { basis, .. }) = table.files.get_mut(&id) else { return false };
            let Basis::UntilOpened { directory, name, is_awaited } = basis.clone() else { return false };
            *basis = own.map_or(Basis::Named(directory, name), Basis::Own);
            is_awaited
        };
        was_awaited && self.open(id)
    }

    /// Handles that the received file `id` is closed, or complete.
    pub(super) fn on_closed(&self, id: EntryId) {
        self.lock().close(id);
    }

    /// Begins the comparison of the file `id`: the sender waits for descriptions of its existing
    /// file.
    pub(super) fn begin(&self, id: EntryId) {
        let Table { machine, files, .. } = &mut *self.lock();
        let (size, held) = files.get_mut(&id).map_or((ByteCount::ZERO, None), |file| (file.size, file.held.take()));
        machine.begin(id, size, held);
    }

    /// The existing file with which the file `id` is compared, opened if it is not open; `None` if
    /// there is none any more.
    pub(super) fn existing(&self, id: EntryId) -> Option<Arc<Existing>> {
        let basis = {
            let table = self.lock();
            if let Some((_, existing)) = table.open.iter().find(|(of, _)| *of == id) {
                return Some(existing.clone());
            }
            table.files.get(&id)?.basis.clone()
        };
        match basis {
            Basis::Named(directory, name) | Basis::UntilOpened { directory, name, .. } => {
                open(&directory, &name).map(Arc::new)
            }
            Basis::Own(own) => own.opened().map(Arc::new),
            Basis::Done => None,
        }
    }

    /// Opens the existing file with which the file `id` is compared; true if there is another step.
    fn open(&self, id: EntryId) -> bool {
        let existing = self.existing(id);
        let mut table = self.lock();
        table.machine.on_opened(id, existing.as_ref().map(|existing| ByteCount::new(existing.size)));
        if table.machine.is_needed(id) {
            table.open.extend(existing.map(|existing| (id, existing)));
            if table.open.len() > HELD_OPEN {
                table.open.pop_front();
            }
        }
        table.machine.has_step()
    }

    /// Takes the values of the leaves of block `index` that the received file `id` has where the block is to be;
    /// `None` if it is written elsewhere than it is compared with, or was not described.
    pub(super) fn take_leaves(&self, id: EntryId, index: u32) -> Option<Vec<Digest>> {
        self.lock().leaves.remove(&(id, index))
    }

    /// Whether the sender has been told what block `index` of the existing file is, so that the
    /// block may come as a difference.
    pub(super) fn is_described(&self, id: EntryId, index: u32) -> bool {
        self.lock().machine.is_described(id, index)
    }

    /// Records that a block has arrived: as a difference, if `is_alike`, or whole; true if the
    /// comparing thread can go on.
    pub(super) fn on_arrived(&self, id: EntryId, index: u32, is_alike: bool) -> bool {
        let mut table = self.lock();
        table.leaves.remove(&(id, index));
        table.update(id, |machine| machine.on_arrived(id, index, is_alike))
    }

    /// Records that these blocks were described and are holes at the source; true if the comparing
    /// thread can go on.
    pub(super) fn on_holes(&self, id: EntryId, blocks: &[u32]) -> bool {
        let mut table = self.lock();
        blocks.iter().for_each(|index| drop(table.leaves.remove(&(id, *index))));
        table.update(id, |machine| blocks.iter().for_each(|index| machine.on_hole(id, *index)))
    }

    /// Forgets a file that is complete or given up; true if the comparing thread can go on.
    pub(super) fn forget(&self, id: EntryId) -> bool {
        let mut table = self.lock();
        if table.files.remove(&id).is_none() {
            return false;
        }
        table.leaves.retain(|(of, _), _| *of != id);
        table.update(id, |machine| machine.forget(id))
    }

    /// Takes the next step of the comparisons: opens an existing file, or reads its next blocks and
    /// sends their description by `reply`. `buffer` is for one block.
    pub(super) fn step(&self, buffer: &mut Vec<u8>, reply: impl Fn(Message)) -> Stepped {
        let step = self.lock().machine.next_step();
        match step {
            None => return Stepped::Waits,
            Some(Step::Open(id)) => {
                if self.awaits(id) {
                    return Stepped::Opens(id);
                }
                self.open(id);
            }
            Some(Step::Read { id, blocks }) => {
                let (first, existing) = (blocks.start, self.existing(id));
                let size = self.lock().files.get(&id).map_or(0, |file| file.size.as_u64());
                let read = |index| describe(existing.as_deref()?, size, index, buffer);
                let described: Vec<_> = blocks.map_while(read).collect();
                // Before the sender knows: its answer may be here at once.
                let blocks = self.lock().on_described(id, first, described);
                if !blocks.is_empty() {
                    reply(Message::Basis(basis::Basis { id, first, blocks, complete: false }));
                }
            }
            Some(Step::Complete { id, first }) => {
                self.lock().close_unneeded(id);
                reply(Message::Basis(basis::Basis { id, first, blocks: Vec::new(), complete: true }));
            }
        }
        if self.lock().machine.has_step() { Stepped::On } else { Stepped::Waits }
    }

    /// Whether the received file `id` is to be opened before its comparison begins, which waits for it from now on.
    fn awaits(&self, id: EntryId) -> bool {
        match self.lock().files.get_mut(&id).map(|file| &mut file.basis) {
            Some(Basis::UntilOpened { is_awaited, .. }) => {
                *is_awaited = true;
                true
            }
            _ => false,
        }
    }
}

impl OwnContents {
    /// The received file as what it is compared with; `None` if it cannot be read.
    fn opened(&self) -> Option<Existing> {
        let file = self.disk.as_file().try_clone().ok()?;
        Some(Existing { file, size: self.length.as_u64(), is_target: true })
    }
}

/// Opens an existing file for comparisons; `None` if it cannot be opened, or is no regular file.
fn open(directory: &Directory, name: &Name) -> Option<Existing> {
    let opened = directory.open_file(name);
    let (file, stat) =
        opened.inspect_err(|error| tracing::debug!(%error, "a file is not compared with the one it replaces")).ok()?;
    (stat.kind == Kind::File).then_some(Existing { file, size: stat.size, is_target: false })
}

/// Description of the leaves of a block.
struct Described {
    digests: Vec<LeafDigest>,
    /// Their values; `None` where the received file does not have these leaves.
    values: Option<Vec<Digest>>,
}

/// Description of the leaves of block `index` that the existing file has in common with a file of
/// `size` bytes; `None` if it cannot be read.
fn describe(existing: &Existing, size: u64, index: u32, buffer: &mut Vec<u8>) -> Option<Described> {
    buffer.resize(BLOCK_SIZE, 0);
    let offset = block_offset(index);
    let length = block_length(size, index);
    let there = usize::try_from(existing.size.saturating_sub(offset)).unwrap_or(usize::MAX);
    // A leaf of which only a part is there is not that of the new file.
    let common = if there < length { there - there % LEAF_SIZE } else { length };
    let block = buffer.get_mut(..common)?;
    let read = existing.file.read_exact_at(block, offset);
    read.inspect_err(|error| tracing::debug!(%error, "a file cannot be compared any further")).ok()?;
    let leaves = (offset..).step_by(LEAF_SIZE).zip(block.chunks(LEAF_SIZE));
    let values = existing.is_target.then(|| leaves.map(|(offset, leaf)| leaf_value(offset, leaf)).collect());
    Some(Described { digests: leaf_digests(block), values })
}

impl Existing {
    /// Fills `data` with what the file has from this offset on; false if the file has become
    /// shorter or cannot be read.
    pub(super) fn fill(&self, offset: u64, data: &mut [u8]) -> bool {
        self.file.read_exact_at(data, offset).is_ok()
    }
}
