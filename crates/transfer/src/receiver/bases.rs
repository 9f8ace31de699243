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
//! no harm: every block that is put together is compared with its digest.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};

use icdc_disk::DiskFile;
use icdc_disk::tree::{Directory, Kind, Name};
use icdc_protocol::basis::{Basis, LeafDigest, leaf_digests};
use icdc_protocol::block_map::{BlockMap, block_length, block_offset};
use icdc_protocol::limits::{BLOCK_SIZE, LEAF_SIZE};
use icdc_protocol::message::{EntryId, Message};
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

    /// Closes the file with which this one is compared if it is not read any more.
    fn close_unneeded(&mut self, id: EntryId) {
        if !self.machine.is_needed(id) {
            self.open.retain(|(of, _)| *of != id);
        }
    }
}

/// A large file that is received, and the place of the existing one that it replaces.
struct Compared {
    /// Length of the file.
    size: ByteCount,
    /// Blocks that an earlier run has left, until the comparison begins.
    held: Option<BlockMap>,
    place: Place,
}

/// Place of what is compared with a file that is received.
#[derive(Clone)]
pub(super) enum Place {
    /// The file that is replaced, by its directory and name there.
    Named(Directory, Name),
    /// The device into which the file is written.
    Device(Arc<DiskFile>),
}

/// Existing file at the destination, open for reading, with which a received one is compared.
pub(super) struct Existing {
    file: File,
    size: u64,
}

impl ReplacedFiles {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no panic while comparisons are noted")
    }

    /// Registers the existing file at `place` with which the received file `id`, of `size`, will be
    /// compared, apart from the blocks `held` of an earlier run.
    pub(super) fn expect(&self, id: EntryId, size: ByteCount, held: Option<BlockMap>, place: Place) {
        self.lock().files.insert(id, Compared { size, held, place });
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
        let place = {
            let table = self.lock();
            if let Some((_, existing)) = table.open.iter().find(|(of, _)| *of == id) {
                return Some(existing.clone());
            }
            table.files.get(&id)?.place.clone()
        };
        match place {
            Place::Named(directory, name) => open(&directory, &name).map(Arc::new),
            Place::Device(disk) => of_device(&disk).map(Arc::new),
        }
    }

    /// Whether the sender has been told what block `index` of the existing file is, so that the
    /// block may come as a difference.
    pub(super) fn is_described(&self, id: EntryId, index: u32) -> bool {
        self.lock().machine.is_described(id, index)
    }

    /// Records that a block has arrived: as a difference, if `is_alike`, or whole; true if the
    /// comparing thread can go on.
    pub(super) fn on_arrived(&self, id: EntryId, index: u32, is_alike: bool) -> bool {
        self.lock().update(id, |machine| machine.on_arrived(id, index, is_alike))
    }

    /// Records that these blocks were described and are holes at the source; true if the comparing
    /// thread can go on.
    pub(super) fn on_holes(&self, id: EntryId, blocks: &[u32]) -> bool {
        self.lock().update(id, |machine| blocks.iter().for_each(|index| machine.on_hole(id, *index)))
    }

    /// Forgets a file that is complete or given up; true if the comparing thread can go on.
    pub(super) fn forget(&self, id: EntryId) -> bool {
        let mut table = self.lock();
        table.files.remove(&id).is_some() && table.update(id, |machine| machine.forget(id))
    }

    /// Takes the next step of the comparisons: opens an existing file, or reads its next blocks and
    /// sends their description by `reply`. True if there is another step; `buffer` is for one
    /// block.
    pub(super) fn step(&self, buffer: &mut Vec<u8>, reply: impl Fn(Message)) -> bool {
        let step = self.lock().machine.next_step();
        match step {
            None => return false,
            Some(Step::Open(id)) => {
                let existing = self.existing(id);
                let mut table = self.lock();
                table.machine.on_opened(id, existing.as_ref().map(|existing| ByteCount::new(existing.size)));
                table.open.extend(existing.map(|existing| (id, existing)));
                if table.open.len() > HELD_OPEN {
                    table.open.pop_front();
                }
            }
            Some(Step::Read { id, blocks }) => {
                let (first, existing) = (blocks.start, self.existing(id));
                let size = self.lock().files.get(&id).map_or(0, |file| file.size.as_u64());
                let read = |index| describe(existing.as_deref()?, size, index, buffer);
                let blocks: Vec<_> = blocks.map_while(read).collect();
                // Before the sender knows: its answer may be here at once.
                self.lock().machine.on_described(id, blocks.len() as u32);
                if !blocks.is_empty() {
                    reply(Message::Basis(Basis { id, first, blocks, complete: false }));
                }
            }
            Some(Step::Complete { id, first }) => {
                self.lock().close_unneeded(id);
                reply(Message::Basis(Basis { id, first, blocks: Vec::new(), complete: true }));
            }
        }
        self.lock().machine.has_step()
    }
}

/// Opens an existing file for comparisons; `None` if it cannot be opened, or is no regular file.
fn open(directory: &Directory, name: &Name) -> Option<Existing> {
    let opened = directory.open_file(name);
    let (file, stat) =
        opened.inspect_err(|error| tracing::debug!(%error, "a file is not compared with the one it replaces")).ok()?;
    (stat.kind == Kind::File).then_some(Existing { file, size: stat.size })
}

/// A device as what a file that is written into it is compared with; `None` if it cannot be read.
fn of_device(disk: &DiskFile) -> Option<Existing> {
    Some(Existing { file: disk.as_file().try_clone().ok()?, size: disk.size().ok()? })
}

/// Digests of the leaves of block `index` that the existing file has in common with a file of
/// `size` bytes; `None` if it cannot be read.
fn describe(existing: &Existing, size: u64, index: u32, buffer: &mut Vec<u8>) -> Option<Vec<LeafDigest>> {
    buffer.resize(BLOCK_SIZE, 0);
    let offset = block_offset(index);
    let length = block_length(size, index);
    let there = usize::try_from(existing.size.saturating_sub(offset)).unwrap_or(usize::MAX);
    // A leaf of which only a part is there is not that of the new file.
    let common = if there < length { there - there % LEAF_SIZE } else { length };
    let block = buffer.get_mut(..common)?;
    let read = existing.file.read_exact_at(block, offset);
    read.inspect_err(|error| tracing::debug!(%error, "a file cannot be compared any further")).ok()?;
    Some(leaf_digests(block))
}

impl Existing {
    /// Fills `data` with what the file has from this offset on; false if the file has become
    /// shorter or cannot be read.
    pub(super) fn fill(&self, offset: u64, data: &mut [u8]) -> bool {
        self.file.read_exact_at(data, offset).is_ok()
    }
}
