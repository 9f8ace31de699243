//! Streams of records by a script of bytes, and what both directions must make of them: for the
//! property tests here and for the fuzz targets, which choose the script.
//!
//! A peer that is written down once more, by `ring` alone, is held against the crate: [`opening`]
//! has it seal what an honest or a hostile peer may send, [`sealing`] has it open what the crate
//! seals.

pub(crate) mod opening;
mod peer;
pub(crate) mod sealing;

use icdc_record::format::MAX_CONTENT;
use icdc_record::{Cipher, NextKey, RecordError, RecordKey};

/// Bytes that decide; zeros once they are used up.
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::from(u16::from_be_bytes([self.byte(), self.byte()])) % end
    }

    /// A length up to `max`: often one at which something changes.
    fn length(&mut self, max: usize) -> usize {
        const BOUNDS: [usize; 11] = [0, 1, 2, 15, 16, 17, 255, 256, 4096, MAX_CONTENT - 1, MAX_CONTENT];
        let choice = usize::from(self.byte());
        BOUNDS.get(choice % 16).map_or_else(|| self.below(max + 1), |bound| *bound.min(&max))
    }
}

/// The keys of one direction, one generation after the other.
#[derive(Clone, Copy)]
struct Keys {
    cipher: Cipher,
    /// Generations that the schedule has.
    generations: u8,
}

impl Keys {
    fn choose(script: &mut Script<'_>) -> Self {
        let choice = script.byte();
        let cipher = if choice & 1 == 0 { Cipher::Aes256Gcm } else { Cipher::Chacha20Poly1305 };
        Self { cipher, generations: choice >> 1 }
    }

    fn secret(generation: u8) -> ([u8; 32], [u8; 12]) {
        ([generation; 32], [!generation; 12])
    }

    fn first(self) -> RecordKey {
        let (key, iv) = Self::secret(0);
        RecordKey::new(self.cipher, &key, iv, 0).expect("both ciphers have keys of 32 bytes")
    }

    fn next(self) -> NextKey {
        let mut generation = 0;
        Box::new(move || {
            if generation == self.generations {
                return Err(Self::no_more());
            }
            generation += 1;
            let (key, iv) = Self::secret(generation);
            Ok(RecordKey::new(self.cipher, &key, iv, 0).expect("both ciphers have keys of 32 bytes"))
        })
    }

    fn no_more() -> RecordError {
        RecordError::NextKey("the schedule has no more".to_owned())
    }
}

/// Content that differs from place to place; every third ends in zeros, as padding does.
fn content(number: usize, length: usize) -> Vec<u8> {
    let zeros_from = if number.is_multiple_of(3) { length / 2 } else { length };
    (0..length).map(|at| if at < zeros_from { (at * 31 + number) as u8 } else { 0 }).collect()
}
