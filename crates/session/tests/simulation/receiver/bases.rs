//! Files that are replaced: described to the sender, and read once more for the blocks that are equal.

use std::collections::BTreeMap;

use icdc_protocol::basis::{Basis, LeafDigest};
use icdc_protocol::block_map::{BlockMap, block_length, block_offset};
use icdc_protocol::message::{EntryId, Message};
use icdc_session::receiver::comparisons::{Comparisons, Step};
use icdc_units::ByteCount;

use crate::disk::{Inode, Number};
use crate::environment::Environment;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    machine: Comparisons,
    files: BTreeMap<EntryId, File>,
}

/// A file that replaces another one.
#[derive(Debug)]
struct File {
    size: u64,
    held: Option<BlockMap>,
    existing: Inode,
}

/// Digest of all leaves of a block that has this number.
pub(crate) fn leaf_of(number: Number) -> LeafDigest {
    let mut leaf = [0xb2; 16];
    leaf[..8].copy_from_slice(&number.to_le_bytes());
    leaf
}

impl Bases {
    pub(crate) fn expect(&mut self, id: EntryId, size: ByteCount, held: Option<BlockMap>, existing: Inode) {
        self.files.insert(id, File { size: size.as_u64(), held, existing });
    }

    /// The sender has learnt that the difference to a file is wanted, and waits for its description.
    pub(crate) fn begin(&mut self, id: EntryId) {
        let file = self.files.get_mut(&id);
        let (size, held) = file.map_or((0, None), |file| (file.size, file.held.take()));
        self.machine.begin(id, ByteCount::new(size), held);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.machine.has_step()
    }

    /// Takes the next step; gives what the sender is told.
    pub(crate) fn step(&mut self, env: &mut Environment) -> Option<Message> {
        match self.machine.next_step()? {
            Step::Open(id) => {
                let existing = self.files.get(&id).filter(|_| !env.random.permille(env.faults.read));
                let length = existing.map(|file| ByteCount::new(env.disk.contents(file.existing).length));
                self.machine.on_opened(id, length);
                None
            }
            Step::Read { id, blocks } => {
                let first = blocks.start;
                let can_be_read = !env.random.permille(env.faults.read);
                let described: Vec<_> =
                    blocks.filter(|_| can_be_read).map_while(|index| self.leaves(id, index, env)).collect();
                self.machine.on_described(id, described.len() as u32);
                let basis = Basis { id, first, blocks: described, complete: false };
                (!basis.blocks.is_empty()).then_some(Message::Basis(basis))
            }
            Step::Complete { id, first } => {
                Some(Message::Basis(Basis { id, first, blocks: Vec::new(), complete: true }))
            }
        }
    }

    /// A leaf that stands for the whole block, if both files have it.
    fn leaves(&self, id: EntryId, index: u32, env: &Environment) -> Option<Vec<LeafDigest>> {
        let File { size, existing, .. } = self.files.get(&id)?;
        let end = block_offset(index) + block_length(*size, index) as u64;
        let is_there = end <= env.disk.contents(*existing).length;
        Some(is_there.then(|| leaf_of(self.number(id, index, env))).into_iter().collect())
    }

    /// Contents of a block of the file that is replaced.
    pub(crate) fn number(&self, id: EntryId, index: u32, env: &Environment) -> Number {
        let existing = self.files.get(&id).map(|file| env.disk.contents(file.existing));
        existing.and_then(|contents| contents.blocks.get(&index)).copied().unwrap_or_default()
    }

    pub(crate) fn on_arrived(&mut self, id: EntryId, index: u32, is_alike: bool) {
        self.machine.on_arrived(id, index, is_alike);
    }

    /// Whether a block of a file that is not through is described; blocks of others are of no use.
    pub(crate) fn is_described(&self, id: EntryId, index: u32) -> bool {
        !self.files.contains_key(&id) || self.machine.is_described(id, index)
    }

    pub(crate) fn on_hole(&mut self, id: EntryId, index: u32) {
        self.machine.on_hole(id, index);
    }

    pub(crate) fn forget(&mut self, id: EntryId) {
        if self.files.remove(&id).is_some() {
            self.machine.forget(id);
        }
    }
}
