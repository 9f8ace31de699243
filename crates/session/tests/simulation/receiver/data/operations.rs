//! What the disk is busy with for large files.

use icdc_protocol::message::EntryId;
use icdc_session::failure::Failure;
use icdc_session::receiver::files::{Contents, Read};

use super::Data;
use crate::disk::{Inode, Mark, Number, Write};
use crate::environment::Environment;
use crate::mutations::Mutation;
use crate::receiver::ring::Block;
use crate::source::value_of;

/// Something that takes the disk its time.
#[derive(Debug)]
pub(super) enum Operation {
    Write { id: EntryId, part: Inode, index: u32, block: Block },
    Sync { id: EntryId, part: Inode, mark: Mark },
    Read { read: Read, part: Inode },
}

impl Data {
    pub(super) fn read(&mut self, read: Read, begun: &mut Vec<u64>) {
        if let Some(file) = self.open.get(&read.id) {
            let part = file.part;
            self.begin(Operation::Read { read, part }, begun);
        }
    }

    pub(super) fn begin(&mut self, operation: Operation, begun: &mut Vec<u64>) {
        self.next_tag += 1;
        self.operations.insert(self.next_tag, operation);
        begun.push(self.next_tag);
    }

    /// The disk is through with something.
    pub(crate) fn completed(&mut self, tag: u64, env: &mut Environment) {
        let Some(operation) = self.operations.remove(&tag) else { return };
        match operation {
            Operation::Write { id, part, index, block } => {
                let outcome = if env.random.permille(env.faults.write) {
                    if let Some(torn) = Write::Block(index, block.number).torn(&mut env.random) {
                        env.disk.write(part, torn);
                    }
                    Err(Failure::full("file"))
                } else {
                    env.disk.write(part, Write::Block(index, block.number));
                    Ok(())
                };
                drop(block);
                self.files.on_written(id, index, outcome, env.agenda.now());
            }
            Operation::Sync { id, part, mark } => {
                let outcome = if env.random.permille(env.faults.sync) {
                    env.disk.sync_failed(part, mark, &mut env.random);
                    Err(Failure::Passing("input/output error".into()))
                } else {
                    if !env.has(Mutation::FlushDoesNothing) {
                        env.disk.synced(part, mark);
                    }
                    Ok(())
                };
                self.files.on_synced(id, outcome);
            }
            Operation::Read { read: Read { id, index, contents }, part } => {
                let number: Number = env.disk.contents(part).blocks.get(&index).copied().unwrap_or_default();
                let is_right = match contents {
                    Contents::Value(value) => value_of(number) == value,
                    Contents::Zeros => number == 0,
                };
                let is_read = !env.random.permille(env.faults.read);
                let good = is_right && is_read || env.has(Mutation::DamagedBlocksAreTrusted);
                self.files.on_compared(id, index, good);
            }
        }
    }

    /// The process is killed: what the disk was busy with is done, torn or not.
    pub(crate) fn kill(self, env: &mut Environment) {
        for operation in self.operations.into_values() {
            match operation {
                Operation::Write { part, index, block, .. } => {
                    let write = Write::Block(index, block.number);
                    if let Some(write) = write.survivor(&mut env.random) {
                        env.disk.write(part, write);
                    }
                }
                Operation::Sync { part, mark, .. } if env.random.once_in(2) => env.disk.synced(part, mark),
                Operation::Sync { .. } | Operation::Read { .. } => {}
            }
        }
    }
}
