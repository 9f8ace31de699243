//! What a file holds, what was written to it, and what of that would survive.
//!
//! Journals and small files hold bytes. Large files hold blocks, each of which is a number: what is copied is the number.
//! Number 0 is a block of zeros.

use std::collections::BTreeMap;

use icdc_protocol::block_map::block_count;

use crate::random::Random;

/// Contents of a block.
pub(crate) type Number = u64;

/// A block of which only a part was written; it is like nothing that anybody has.
const TORN: Number = 1 << 63;
/// Unit in which bytes reach the medium or do not.
const SECTOR: usize = 64;

/// What can be read, of a file or of its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) bytes: Vec<u8>,
    pub(crate) blocks: BTreeMap<u32, Number>,
    /// Length of a file of blocks.
    pub(crate) length: u64,
    pub(crate) mode: u16,
    pub(crate) mtime: (i64, u32),
}

/// A change of a file.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Block(u32, Number),
    Bytes(usize, Vec<u8>),
    /// Of a file of bytes.
    Cut(usize),
    /// Of a file of blocks.
    Length(u64),
    /// Everything but these blocks reads as zero.
    Punch(Vec<u32>),
    Mode(u16),
    Mtime((i64, u32)),
}

impl Contents {
    pub(crate) fn apply(&mut self, write: &Write) {
        match write {
            Write::Block(index, 0) => drop(self.blocks.remove(index)),
            Write::Block(index, number) => drop(self.blocks.insert(*index, *number)),
            Write::Bytes(offset, bytes) => {
                let end = offset + bytes.len();
                if self.bytes.len() < end {
                    self.bytes.resize(end, 0);
                }
                self.bytes[*offset..end].copy_from_slice(bytes);
            }
            Write::Cut(length) => self.bytes.resize(*length, 0),
            Write::Length(length) => {
                self.length = *length;
                self.blocks.retain(|index, _| *index < block_count(*length));
            }
            Write::Punch(kept) => self.blocks.retain(|index, _| kept.contains(index)),
            Write::Mode(mode) => self.mode = *mode,
            Write::Mtime(mtime) => self.mtime = *mtime,
        }
    }
}

impl Write {
    /// What of a write that did not become durable is there when the machine fails: all, nothing, or a part.
    pub(crate) fn survivor(self, random: &mut Random) -> Option<Self> {
        match random.below(3) {
            0 => None,
            1 => Some(self),
            _ => self.torn(random),
        }
    }

    /// A part of the write.
    pub(crate) fn torn(self, random: &mut Random) -> Option<Self> {
        match self {
            Self::Block(index, number) => Some(Self::Block(index, TORN | number | random.below(1 << 20) << 40)),
            Self::Bytes(offset, mut bytes) => {
                let sectors = bytes.len().div_ceil(SECTOR) as u64;
                let lost = random.below(sectors.max(1)) as usize * SECTOR;
                let end = bytes.len().min(lost + SECTOR);
                bytes[lost..end].fill(0);
                if random.once_in(2) {
                    bytes.truncate(lost);
                }
                Some(Self::Bytes(offset, bytes))
            }
            other => random.once_in(2).then_some(other),
        }
    }
}
