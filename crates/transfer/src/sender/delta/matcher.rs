//! Cuts a file's data as the receiver has cut its files, and finds the runs of bytes that these have.

use std::collections::VecDeque;
use std::ops::Range;

use icdc_protocol::chunking::{Chunking, chunk_digest};
use icdc_protocol::delta::CopiedPart;
use icdc_protocol::limits::MAX_COPIES;

use super::index::Index;

/// Position in a file up to which it is cut, and what was found.
pub(super) struct Matcher {
    chunking: Chunking,
    /// Data whose first chunk ends in what follows.
    data: Vec<u8>,
    /// Place of that data in the file, in bytes.
    at: u64,
    /// Number of the chunk that was found last, if the data continues that.
    last: Option<u32>,
    /// Runs that were found and not taken, ascending.
    runs: VecDeque<Run>,
}

/// Consecutive bytes of the file that a file of the receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Place in the file, in bytes.
    at: u64,
    length: u64,
    basis: u8,
    /// Place in the receiver's file, in bytes.
    offset: u64,
}

impl Matcher {
    /// A matcher that cuts so, at the start of a file.
    pub(super) fn new(chunking: Chunking) -> Self {
        Self { chunking, data: Vec::new(), at: 0, last: None, runs: VecDeque::new() }
    }

    /// Adds the data at this place, behind all before; what is not continued by it is cut where it ends.
    pub(super) fn push(&mut self, index: &Index, at: u64, data: &[u8]) {
        if self.at + self.data.len() as u64 != at {
            self.finish(index);
            (self.at, self.last) = (at, None);
        }
        self.data.extend_from_slice(data);
        self.cut(index, false);
    }

    /// Cuts what is left: nothing continues it.
    pub(super) fn finish(&mut self, index: &Index) {
        self.cut(index, true);
    }

    /// Place up to which the data that was added is looked up.
    pub(super) fn decided(&self) -> u64 {
        self.at
    }

    /// Takes what was found in a block with data at these places, which is decided: parts relative to its
    /// start, [`MAX_COPIES`] at most.
    pub(super) fn take(&mut self, block: Range<u64>) -> Vec<CopiedPart> {
        let mut copies = Vec::new();
        while let Some(run) = self.runs.front_mut() {
            if run.at >= block.end {
                break;
            }
            let length = run.length.min(block.end - run.at);
            if copies.len() < MAX_COPIES {
                let (at, length) = ((run.at - block.start) as u32, length as u32);
                copies.push(CopiedPart { at, length, basis: run.basis, offset: run.offset });
            }
            if length == run.length {
                self.runs.pop_front();
            } else {
                (run.at, run.offset, run.length) = (run.at + length, run.offset + length, run.length - length);
            }
        }
        copies
    }

    /// Cuts the data, all of it if `is_all`, and looks the chunks up.
    fn cut(&mut self, index: &Index, is_all: bool) {
        let mut start = 0;
        while let Some(length) = self.chunking.first(&self.data[start..], is_all) {
            let digest = chunk_digest(&self.data[start..start + length]);
            let found = index.find(&digest, length, self.last);
            self.last = found.map(|(number, _)| number);
            if let Some((_, chunk)) = found {
                let at = self.at + start as u64;
                self.add(Run { at, length: length as u64, basis: chunk.basis, offset: chunk.offset });
            }
            start += length;
        }
        self.data.drain(..start);
        self.at += start as u64;
    }

    /// Adds a run, as a part of the last one if it continues that in both files.
    fn add(&mut self, run: Run) {
        match self.runs.back_mut() {
            Some(last)
                if last.at + last.length == run.at
                    && (last.basis, last.offset + last.length) == (run.basis, run.offset) =>
            {
                last.length += run.length;
            }
            _ => self.runs.push_back(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::delta::Chunks;
    use icdc_units::ByteCount;

    use super::*;

    fn chunking() -> Chunking {
        Chunking::for_bytes(ByteCount::ZERO)
    }

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    /// Adds all chunks of a basis.
    fn describe(index: &mut Index, basis: u8, contents: &[u8]) {
        let (mut chunks, mut rest) = (Vec::new(), contents);
        while let Some(length) = chunking().first(rest, true) {
            chunks.push((length as u32, chunk_digest(&rest[..length])));
            rest = &rest[length..];
        }
        let told = Chunks { id: 1, chunking: chunking(), basis, offset: 0, chunks, covered: 0, complete: true };
        index.add(&told, usize::MAX);
    }

    /// What is found in `contents`, which are added in pieces of this length.
    fn found(index: &Index, contents: &[u8], piece: usize) -> Vec<CopiedPart> {
        let mut matcher = Matcher::new(chunking());
        for (number, data) in contents.chunks(piece).enumerate() {
            matcher.push(index, (number * piece) as u64, data);
        }
        matcher.finish(index);
        assert_eq!(matcher.decided(), contents.len() as u64);
        matcher.take(0..contents.len() as u64)
    }

    #[test]
    fn what_is_behind_an_insertion_is_one_run() {
        let old = noise(1, 2 << 20);
        let mut index = Index::default();
        describe(&mut index, 3, &old);
        let new = [noise(2, 100_001), old.clone()].concat();
        for piece in [1 << 20, 70_000, 4 << 20] {
            let [run] = found(&index, &new, piece).try_into().unwrap();
            let CopiedPart { at, length, basis, offset } = run;
            assert_eq!((basis, u64::from(at)), (3, offset + 100_001));
            assert!(at < 100_001 + (128 << 10) && run.end() == new.len() as u64, "{run:?}");
            assert_eq!(new[at as usize..][..length as usize], old[offset as usize..][..length as usize]);
        }
    }

    #[test]
    fn a_run_goes_on_in_the_basis_that_has_it() {
        let (a, b) = (noise(3, 1 << 20), noise(4, 1 << 20));
        let mut index = Index::default();
        // All of `a` is in both.
        describe(&mut index, 0, &a);
        describe(&mut index, 1, &[b.clone(), a.clone()].concat());
        let runs = found(&index, &[b, a].concat(), 1 << 20);
        assert_eq!(runs.len(), 1, "{runs:?}");
        assert_eq!((runs[0].basis, runs[0].length), (1, 2 << 20));
    }

    #[test]
    fn what_is_not_continued_is_cut_and_blocks_divide_runs() {
        let old = noise(5, 1 << 20);
        let mut index = Index::default();
        describe(&mut index, 0, &old);
        let mut matcher = Matcher::new(chunking());
        matcher.push(&index, 0, &old[..600_000]);
        // A hole.
        matcher.push(&index, 700_000, &old[700_000..]);
        matcher.finish(&index);
        let first = matcher.take(0..500_000);
        assert_eq!((first[0].at, first[0].offset), (0, 0));
        assert_eq!(first.last().map(CopiedPart::end), Some(500_000), "a run goes on in the next block");
        let second = matcher.take(500_000..600_000);
        assert_eq!((second[0].at, second[0].offset), (0, 500_000));
        let third = matcher.take(700_000..1 << 20);
        assert!(third.iter().all(|copy| u64::from(copy.at) + 700_000 == copy.offset), "{third:?}");
        assert!(third.last().is_some_and(|copy| copy.end() == (1 << 20) - 700_000), "{third:?}");
    }

    #[test]
    fn nothing_is_found_in_other_contents() {
        let mut index = Index::default();
        describe(&mut index, 0, &noise(6, 1 << 20));
        assert_eq!(found(&index, &noise(7, 1 << 20), 1 << 19), []);
    }
}
