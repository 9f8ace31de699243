//! Independent loss with a constant probability (a Bernoulli process).
//!
//! Instead of a draw per packet, the number of packets until the next loss is drawn (geometric
//! distribution, by inversion):
//!
//! ```text
//! survivors = floor(ln U / ln(1 − p)),  U uniform in (0, 1]
//! ```
//!
//! One draw per loss, and exact for ratios down to 1e-15, where comparing a draw per packet would
//! run into the resolution of the draw.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A process of independent loss with a constant probability.
#[derive(Clone, Debug)]
pub struct Random {
    random: ChaCha8Rng,
    /// Logarithm of the probability that a packet survives, ln(1 − p); zero if nothing is ever
    /// lost.
    log_survival: f64,
    /// Packets that survive before the next loss.
    survivors: u64,
}

impl Random {
    /// Loses a share of `ratio`, 0 to 1.
    #[must_use]
    pub fn new(ratio: f64, seed: u64) -> Self {
        let mut process =
            Self { random: ChaCha8Rng::seed_from_u64(seed), log_survival: (-ratio).ln_1p(), survivors: 0 };
        process.survivors = process.draw();
        process
    }

    /// Whether the next packet is lost.
    pub fn loses_next(&mut self) -> bool {
        if self.survivors > 0 {
            self.survivors -= 1;
            return false;
        }
        self.survivors = self.draw();
        true
    }

    /// Draws the number of packets that survive before the next loss.
    fn draw(&mut self) -> u64 {
        if self.log_survival == 0.0 {
            return u64::MAX;
        }
        // Beyond the range of u64 the conversion saturates: never, for all purposes.
        (uniform(&mut self.random).ln() / self.log_survival) as u64
    }
}

/// Draws a number that is uniform in (0, 1], in steps of 2^-53.
pub(super) fn uniform(random: &mut ChaCha8Rng) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_lies_within_its_binomial_interval() {
        for (ratio, packets) in [(1e-3, 1_000_000_u32), (0.01, 300_000), (0.5, 100_000)] {
            for seed in 1..=5 {
                let mut process = Random::new(ratio, seed);
                let lost = (0..packets).filter(|_| process.loses_next()).count() as f64;
                let mean = f64::from(packets) * ratio;
                // Five standard deviations: fails once in 1.7 million for a right process.
                let allowed = 5.0 * (mean * (1.0 - ratio)).sqrt();
                assert!((lost - mean).abs() < allowed, "ratio {ratio}, seed {seed}: {lost} lost, {mean} expected");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_are_exact() {
        let mut never = Random::new(0.0, 1);
        let mut always = Random::new(1.0, 1);
        assert!((0..100_000).all(|_| !never.loses_next() && always.loses_next()));
    }

    #[test]
    fn a_seed_gives_the_same_losses_again() {
        let losses = |seed| {
            let mut process = Random::new(0.01, seed);
            (0..10_000).filter(|_| process.loses_next()).collect::<Vec<u32>>()
        };
        assert_eq!(losses(42), losses(42));
        assert_ne!(losses(42), losses(43));
    }
}
