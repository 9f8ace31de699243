//! Everything that chance decides in a simulated world, from one seed.

use icdc_units::Span;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of choices.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A stream of its own, so that more choices in one part of the world change nothing in another.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.0.next_u64())
    }

    /// A number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// A number of `range`, its end included.
    pub(crate) fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// True in `part` of a thousand cases.
    pub(crate) fn permille(&mut self, part: u64) -> bool {
        self.below(1000) < part
    }

    /// A length of time, mostly short: uniform in its number of digits.
    pub(crate) fn span(&mut self, shortest: Span, longest: Span) -> Span {
        let (low, high) = (shortest.as_nanos().max(1), longest.as_nanos().max(1));
        let octaves = u64::from((high / low).max(1).ilog2());
        let top = (low << self.below(octaves + 1)).saturating_mul(2).min(high.max(low));
        Span::from_nanos(self.within(low, top.max(low)))
    }

    /// One of the things.
    pub(crate) fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len() as u64) as usize]
    }
}
