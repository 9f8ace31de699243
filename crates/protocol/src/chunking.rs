//! Content-defined chunks: where content is cut depends on the bytes before the cut alone, so that equal
//! content is cut alike wherever it lies in a file.
//!
//! FastCDC with normalized chunking of level 1 (Xia et al., "The Design of Fast Content-Defined Chunking
//! for Data Deduplication Based Storage Systems", IEEE TPDS 31, 2020), of the average length `a`:
//!
//! ```text
//! a/4 ≤ length ≤ 4a   (shorter at the end of what is cut)
//! a = 16 KiB · 2ⁿ, the smallest with  bytes / a ≤ 2²⁰,  a ≤ 1 MiB
//! ```
//!
//! The longest chunk of all is a block. Both ends cut alike; where they did not, nothing would be found.

use fastcdc::v2020::{Normalization, cut, select_masks};
use icdc_units::ByteCount;
use serde::{Deserialize, Serialize};

use crate::limits::{BLOCK_SIZE, MAX_CHUNKS};

/// First half of the BLAKE3 digest of a chunk's bytes.
pub type ChunkDigest = [u8; 16];

/// Length of the chunks into which content is cut, by the binary logarithm of the average in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking(u8);

/// Binary logarithms of the least average and of the greatest: a message about 16 KiB has 19 bytes, and
/// 4 MiB are a block.
const AVERAGES: std::ops::RangeInclusive<u8> = 14..=20;
const _: () = assert!(4 << *AVERAGES.end() == BLOCK_SIZE);

impl Chunking {
    /// The finest one that cuts so many bytes into [`MAX_CHUNKS`] chunks at most, on average; the coarsest
    /// of all for more than 1 TiB.
    #[must_use]
    pub fn for_bytes(bytes: ByteCount) -> Self {
        let fits = |average: &u8| bytes.as_u64() >> *average <= u64::from(MAX_CHUNKS);
        Self(AVERAGES.clone().find(fits).unwrap_or(*AVERAGES.end()))
    }

    /// Whether an end may cut so.
    #[must_use]
    pub fn is_valid(self) -> bool {
        AVERAGES.contains(&self.0)
    }

    /// Average length of a chunk in bytes.
    #[must_use]
    pub fn average(self) -> usize {
        1 << self.0.clamp(*AVERAGES.start(), *AVERAGES.end())
    }

    /// Greatest length of a chunk in bytes, a block at most.
    #[must_use]
    pub fn longest(self) -> usize {
        4 * self.average()
    }

    /// Length of the first chunk of `data`; `None` where only what follows tells it. `is_all`: nothing
    /// follows.
    #[must_use]
    pub fn first(self, data: &[u8], is_all: bool) -> Option<usize> {
        let average = self.average();
        let (strict, loose) = select_masks(average, Normalization::Level1);
        let (_, length) = cut(data, average / 4, average, self.longest(), strict, loose, strict << 1, loose << 1);
        let is_cut = length < data.len() || length == self.longest() || is_all;
        (is_cut && length > 0).then_some(length)
    }
}

/// First 16 bytes of the BLAKE3 digest of a chunk.
#[must_use]
pub fn chunk_digest(chunk: &[u8]) -> ChunkDigest {
    let digest = blake3::hash(chunk);
    let mut half = [0; 16];
    half.copy_from_slice(&digest.as_bytes()[..16]);
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINEST: Chunking = Chunking(14);

    /// Bytes that follow from a seed, as no compressor finds anything in.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    fn lengths(chunking: Chunking, mut data: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while let Some(length) = chunking.first(data, true) {
            lengths.push(length);
            data = &data[length..];
        }
        lengths
    }

    #[test]
    fn an_average_that_fits_is_chosen() {
        let average = |bytes: u64| Chunking::for_bytes(ByteCount::new(bytes)).average();
        assert_eq!([0, 1 << 20, 16 << 30].map(average), [16 << 10; 3]);
        assert_eq!([(16 << 30) + (16 << 10), 32 << 30].map(average), [32 << 10; 2]);
        assert_eq!([1 << 40, u64::MAX].map(average), [1 << 20; 2]);
        assert!((0..=u8::MAX).all(|number| Chunking(number).is_valid() == (14..=20).contains(&number)));
        assert_eq!(Chunking(u8::MAX).longest(), BLOCK_SIZE, "whatever a message says");
    }

    #[test]
    fn the_cuts_are_those_that_every_release_makes() {
        let data = noise(1, 1 << 20);
        let found = lengths(FINEST, &data);
        assert_eq!(found.iter().sum::<usize>(), data.len());
        assert!(found[..found.len() - 1].iter().all(|length| (4 << 10..=64 << 10).contains(length)), "{found:?}");
        assert_eq!(found[..6], CUTS, "a change of these makes ends of two releases find nothing");
    }

    const CUTS: [usize; 6] = [27178, 7652, 41830, 6744, 43377, 24969];

    #[test]
    fn cuts_are_found_again_behind_what_is_inserted() {
        let data = noise(2, 1 << 20);
        let ends = |data: &[u8]| {
            let mut at = 0;
            let sum = |length| {
                at += length;
                data.len() - at
            };
            lengths(FINEST, data).into_iter().map(sum).collect::<Vec<_>>()
        };
        let (before, after) = (ends(&data), ends(&[noise(3, 100_001), data.clone()].concat()));
        let common = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
        assert!(common + 4 > before.len(), "{common} of {}", before.len());
    }

    #[test]
    fn a_cut_does_not_depend_on_what_has_been_read_behind_it() {
        let data = noise(4, 300_000);
        for length in [1, 4096, 5000, 70_000, 299_999] {
            let Some(first) = FINEST.first(&data[..length], false) else { continue };
            assert_eq!(Some(first), FINEST.first(&data, true));
        }
        assert_eq!(FINEST.first(&data[..4096], false), None);
        assert_eq!(FINEST.first(&data[..4096], true), Some(4096));
        assert_eq!(FINEST.first(&[], true), None);
        assert_eq!(FINEST.first(&[0; 64 << 10], false), Some(64 << 10), "zeros have no cut but the greatest length");
    }
}
