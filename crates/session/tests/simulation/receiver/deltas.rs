//! Files in which content of others may be that has moved: described to the sender, and read once more for
//! the blocks that are there.
//!
//! A block of a file on the medium is a number, so all chunks of a block have the same digest.

use std::collections::BTreeMap;

use icdc_protocol::block_map::{block_count, block_length, block_offset};
use icdc_protocol::chunking::Chunking;
use icdc_protocol::delta::{Chunks, CopiedPart};
use icdc_protocol::limits::MAX_CHUNKS_TOLD;
use icdc_protocol::message::EntryId;
use icdc_session::receiver::descriptions::{Descriptions, OpenBasis, ReadChunks, Step};
use icdc_units::ByteCount;

use super::bases::leaf_of;
use crate::disk::{Inode, Number};
use crate::environment::Environment;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    machine: Descriptions,
    files: BTreeMap<EntryId, Inode>,
}

impl Deltas {
    pub(crate) fn expect(&mut self, id: EntryId, existing: Inode) {
        self.files.insert(id, existing);
    }

    /// The sender has learnt that moved content is looked for, and waits for chunks.
    pub(crate) fn begin(&mut self, id: EntryId) {
        self.machine.begin(id);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.machine.has_step()
    }

    /// Takes the next step; gives what the sender is told.
    pub(crate) fn step(&mut self, env: &mut Environment) -> Option<Chunks> {
        let step = self.machine.next_step()?;
        let can_be_read = !env.random.permille(env.faults.read);
        match step {
            Step::Open(id) => {
                let existing = self.files.get(&id).filter(|_| can_be_read);
                let length = existing.map(|existing| ByteCount::new(env.disk.contents(*existing).length));
                self.machine.on_opened(id, &[length.map(|length| OpenBasis { length, data: length })])
            }
            Step::Read { id, basis, offset, chunking } => {
                let existing = self.files.get(&id).filter(|_| can_be_read);
                let read = existing.map(|existing| cut(*existing, offset, chunking, env));
                self.machine.on_read(id, basis, read.unwrap_or_default())
            }
        }
    }

    /// Contents of the block of the basis from which a block is copied; `None` for one that may not come so.
    pub(crate) fn number(
        &mut self,
        id: EntryId,
        index: u32,
        copies: &[CopiedPart],
        env: &Environment,
    ) -> Option<Number> {
        let Some(existing) = self.files.get(&id) else { return Some(Number::default()) };
        let from = (copies[0].offset / block_offset(1)) as u32;
        let number = env.disk.contents(*existing).blocks.get(&from).copied().unwrap_or_default();
        self.machine.takes(id, index, copies).then_some(number)
    }

    pub(crate) fn forget(&mut self, id: EntryId) {
        if self.files.remove(&id).is_some() {
            self.machine.forget(id);
        }
    }
}

/// The chunks of the blocks of a file from the one at `offset` on, as many as one message has room for.
fn cut(existing: Inode, offset: u64, chunking: Chunking, env: &Environment) -> ReadChunks {
    let contents = env.disk.contents(existing);
    let mut chunks = Vec::new();
    let mut index = (offset / block_offset(1)) as u32;
    while index < block_count(contents.length) {
        let length = block_length(contents.length, index);
        let digest = leaf_of(contents.blocks.get(&index).copied().unwrap_or_default());
        let of_block = (0..length).step_by(chunking.longest());
        let of_block = of_block.map(|at| ((length - at).min(chunking.longest()) as u32, digest));
        if chunks.len() + of_block.len() > MAX_CHUNKS_TOLD {
            return ReadChunks { offset, chunks, next: Some(block_offset(index)) };
        }
        chunks.extend(of_block);
        index += 1;
    }
    ReadChunks { offset, chunks, next: None }
}
