//! Chunks of the receiver's files, by their digests.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use icdc_protocol::chunking::ChunkDigest;
use icdc_protocol::delta::Chunks;

/// A chunk of one of the receiver's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    digest: ChunkDigest,
    /// Place in the file, in bytes.
    pub(super) offset: u64,
    /// Length in bytes.
    pub(super) length: u32,
    /// Number of the file.
    pub(super) basis: u8,
}

/// Chunks in the order in which they were described; a digest leads to the first with it.
#[derive(Debug, Default)]
pub(super) struct Index {
    chunks: Vec<Chunk>,
    first: HashMap<ChunkDigest, u32>,
}

impl Index {
    /// Adds described chunks, of which `room` are kept at most.
    pub(super) fn add(&mut self, told: &Chunks, room: usize) {
        let mut offset = told.offset;
        for (length, digest) in told.chunks.iter().take(room) {
            if let Entry::Vacant(place) = self.first.entry(*digest) {
                place.insert(self.chunks.len() as u32);
            }
            self.chunks.push(Chunk { digest: *digest, offset, length: *length, basis: told.basis });
            offset += u64::from(*length);
        }
    }

    /// Number of chunks.
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Number and place of a chunk with this digest and length, the one behind the chunk `before` if that
    /// is one; `None` if there is none.
    pub(super) fn find(&self, digest: &ChunkDigest, length: usize, before: Option<u32>) -> Option<(u32, Chunk)> {
        let is_equal = |chunk: &Chunk| chunk.digest == *digest && chunk.length as usize == length;
        let numbered = |number: u32| self.chunks.get(number as usize).map(|chunk| (number, *chunk));
        let next = before.and_then(|before| {
            let (_, last) = numbered(before)?;
            let follows =
                |chunk: &Chunk| (chunk.basis, chunk.offset) == (last.basis, last.offset + u64::from(last.length));
            numbered(before + 1).filter(|(_, chunk)| is_equal(chunk) && follows(chunk))
        });
        next.or_else(|| numbered(*self.first.get(digest)?).filter(|(_, chunk)| is_equal(chunk)))
    }
}
