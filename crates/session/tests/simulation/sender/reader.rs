//! The reader of large files, over the model of a source.

use std::collections::BTreeMap;

use icdc_protocol::basis::{Basis, LeafDigest};
use icdc_protocol::block_map::{BlockMap, block_count, block_length, block_offset};
use icdc_protocol::delta::CopiedPart;
use icdc_protocol::digest;
use icdc_protocol::limits::PART_SIZE;
use icdc_protocol::message::{Assembled, BlockHeader, Chunks, Digest, EntryId, FileDigest, GivenUp, Message, Part};

use crate::disk::Number;
use crate::receiver::leaf_of;
use crate::source::{Body, File, Node, Source, value_of};
use crate::wire::{Frame, Payload};

use super::scan::Announced;

/// A large file that is being read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) id: EntryId,
    announced: Announced,
    held: Option<BlockMap>,
    next: u32,
    sent: u32,
    values: BTreeMap<u32, Digest>,
    /// Present description of the receiver's file; `None` if there is none.
    description: Option<Description>,
    /// Places of blocks that the receiver has, as it has described them: leaf and length, and offset.
    known: BTreeMap<(LeafDigest, usize), u64>,
    /// Blocks that were described and are holes.
    holes: Vec<u32>,
}

/// Description of the file that the receiver has.
#[derive(Debug)]
struct Description {
    /// Its leaf of each block, `None` where it has not all of it.
    leaves: BTreeMap<u32, Option<LeafDigest>>,
    /// The block behind the last; `None` for the end of the file.
    end: Option<u32>,
}

/// What a step of reading comes to.
pub(crate) enum Read {
    Block(Box<Frame>),
    /// A hole, or a block that the receiver holds.
    Nothing,
    /// All blocks that are described have been read.
    UpToTheDescription,
    End {
        blocks: u32,
        outcome: Result<FileDigest, GivenUp>,
    },
    /// Not even the first block could be read.
    Unreadable(GivenUp),
}

pub(crate) fn changed() -> GivenUp {
    GivenUp { reason: "changed while it was read".into(), same_version: false }
}

/// The file as it is now.
pub(crate) fn look<'a>(source: &'a Source, announced: &Announced) -> Option<&'a File> {
    match source.find(announced.place.root, &announced.place.path) {
        Some(Node::File(file)) => Some(file),
        _ => None,
    }
}

/// Digest of a file, unless it has changed since it was announced.
pub(crate) fn digest_now(announced: &Announced, source: &Source) -> Option<FileDigest> {
    let file = look(source, announced).filter(|now| Some(*now) == announced.file.as_ref())?;
    Some(match &file.body {
        Body::Small(bytes) => FileDigest::Blake3(*blake3::hash(bytes).as_bytes()),
        Body::Blocks { size, sparse, blocks } if *sparse => {
            digest_of(*size, true, &blocks.iter().map(|(index, number)| (*index, value_of(*number))).collect())
        }
        Body::Blocks { size, .. } => digest_of(
            *size,
            false,
            &(0..block_count(*size)).map(|index| (index, value_of(block(file, index)))).collect(),
        ),
    })
}

fn block(file: &File, index: u32) -> Number {
    match &file.body {
        Body::Blocks { blocks, .. } => blocks.get(&index).copied().unwrap_or_default(),
        Body::Small(_) => 0,
    }
}

impl Reading {
    pub(crate) fn new(id: EntryId, announced: Announced, held: Option<BlockMap>) -> Self {
        Self {
            id,
            announced,
            held,
            next: 0,
            sent: 0,
            values: BTreeMap::new(),
            description: None,
            known: BTreeMap::new(),
            holes: Vec::new(),
        }
    }

    /// The file with a further description of what the receiver has.
    pub(crate) fn described(mut self, basis: &Basis) -> Self {
        let leaves = (basis.first..).zip(&basis.blocks);
        let leaves = leaves.map(|(index, leaves)| (index, leaves.first().copied())).collect();
        let end = basis.first + basis.blocks.len() as u32;
        self.description = Some(Description { leaves, end: (!basis.complete).then_some(end) });
        self
    }

    /// The file with further chunks of what the receiver has: it is read where all of them are known.
    pub(crate) fn matched(mut self, chunks: &Chunks) -> Self {
        let (mut offset, mut first) = (chunks.offset, None::<(LeafDigest, u64)>);
        for (length, digest) in &chunks.chunks {
            if offset.is_multiple_of(block_offset(1)) {
                first = Some((*digest, offset));
            }
            offset += u64::from(*length);
            if let Some((digest, start)) = first {
                self.known.insert((digest, (offset - start) as usize), start);
            }
        }
        let leaves = BTreeMap::new();
        let end = if chunks.complete { None } else { Some(self.next) };
        self.description = Some(Description { leaves, end });
        self
    }

    pub(crate) fn take_holes(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.holes)
    }

    /// Number of blocks of the present description.
    pub(crate) fn described_blocks(&self) -> usize {
        self.description.as_ref().map_or(0, |description| description.leaves.len())
    }

    pub(crate) fn is_described(&self) -> bool {
        self.description.is_some()
    }

    /// Reads the next block.
    pub(crate) fn step(&mut self, source: &Source) -> Read {
        let (Some(now), Some(then)) = (look(source, &self.announced), &self.announced.file) else {
            return if self.next == 0 { Read::Unreadable(changed()) } else { self.end(Err(changed())) };
        };
        let is_same = now.revision == then.revision;
        if self.next == 0 && !is_same {
            return Read::Unreadable(changed());
        }
        let Body::Blocks { size, sparse, blocks } = &then.body else {
            return Read::Unreadable(changed());
        };
        // What is a hole is told by the file as it was opened.
        let until = self.description.as_ref().and_then(|description| description.end);
        while self.next < block_count(*size) {
            let index = self.next;
            if until.is_some_and(|end| index >= end) {
                return Read::UpToTheDescription;
            }
            let held = self.held.as_ref().and_then(|held| held.get(index));
            if held.is_none() && *sparse && !blocks.contains_key(&index) {
                let next = blocks.range(index..).next().map_or(block_count(*size), |(next, _)| *next);
                self.next = until.map_or(next, |until| next.min(until));
                if let Some(Description { leaves, .. }) = &self.description {
                    self.holes.extend(leaves.range(index..self.next).map(|(index, _)| *index));
                }
                continue;
            }
            self.next += 1;
            if let Some(value) = held {
                self.values.insert(index, value);
                return Read::Nothing;
            }
            let number = block(now, index);
            let value = value_of(number);
            self.values.insert(index, value);
            self.sent += 1;
            let length = block_length(*size, index);
            if let Some(offset) = self.known.get(&(leaf_of(number), length)) {
                let header = BlockHeader { id: self.id, index, value, ranges: Vec::new() };
                let copies = vec![CopiedPart { at: 0, length: length as u32, basis: 0, offset: *offset }];
                return Read::Block(Box::new(Message::Assembled(Assembled { header, copies }).into()));
            }
            let leaf = self.description.as_ref().and_then(|description| description.leaves.get(&index));
            if leaf == Some(&Some(leaf_of(number))) {
                let header = BlockHeader { id: self.id, index, value, ranges: Vec::new() };
                return Read::Block(Box::new(Message::Difference(header).into()));
            }
            return Read::Block(Box::new(frame(self.id, index, number)));
        }
        if until.is_some() {
            return Read::UpToTheDescription;
        }
        let outcome = if is_same { Ok(digest_of(*size, *sparse, &self.values)) } else { Err(changed()) };
        self.end(outcome)
    }

    fn end(&self, outcome: Result<FileDigest, GivenUp>) -> Read {
        Read::End { blocks: self.sent, outcome }
    }

    /// The parts of a block that was read; none where it has but one.
    pub(crate) fn parts(&self, frame: &Frame) -> Vec<Frame> {
        let Frame { message: Message::Block(BlockHeader { id, index, value, .. }), payload } = frame else {
            return Vec::new();
        };
        let length = self.announced.file.as_ref().map_or(0, |file| block_length(file.size(), *index));
        let count = length.div_ceil(PART_SIZE);
        let part = |number| Part { id: *id, index: *index, value: *value, length: length as u32, number };
        let frame = |number| Frame { message: Message::Part(part(number)), payload: payload.clone() };
        if count > 1 { (0..count as u8).map(frame).collect() } else { Vec::new() }
    }

    /// Reads one block once more.
    pub(crate) fn again(id: EntryId, index: u32, announced: &Announced, source: &Source) -> Result<Frame, GivenUp> {
        let now = look(source, announced).filter(|now| Some(*now) == announced.file.as_ref()).ok_or_else(changed)?;
        Ok(frame(id, index, block(now, index)))
    }
}

fn frame(id: EntryId, index: u32, number: Number) -> Frame {
    let header = BlockHeader { id, index, value: value_of(number), ranges: Vec::new() };
    Frame { message: Message::Block(header), payload: Some(Payload::Block(number)) }
}

fn digest_of(size: u64, sparse: bool, values: &BTreeMap<u32, Digest>) -> FileDigest {
    if sparse {
        return FileDigest::SparseMap(digest::sparse_map(size, values.iter().map(|(index, value)| (*index, *value))));
    }
    let values: Vec<Digest> = values.values().copied().collect();
    FileDigest::Blake3(digest::root(size, &values).unwrap_or_default())
}
