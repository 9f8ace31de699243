//! Bursty loss: Gilbert's model (E. N. Gilbert, "Capacity of a burst-noise channel", 1960) with a
//! bad state that loses everything and a good state that loses nothing.
//!
//! ```text
//! P(bad → good) = 1 / L              L  mean length of a burst, packets
//! P(good → bad) = r / (L (1 − r))    r  share of all packets that is lost
//! ```
//!
//! With these the stationary share of the bad state is r. The length of a stay in either state is
//! drawn as a whole (geometric distribution), one draw per burst or gap.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::random::uniform;

/// A process of bursty loss by Gilbert's model of two states.
#[derive(Clone, Debug)]
pub struct Burst {
    random: ChaCha8Rng,
    leave_good: f64,
    leave_bad: f64,
    bad: bool,
    /// Remaining packets of the present state.
    left: u64,
}

impl Burst {
    /// Loses a share of `ratio` (0 to less than 1) in bursts of `mean_length` packets (1 or more),
    /// such that `ratio / (mean_length (1 − ratio)) ≤ 1`.
    #[must_use]
    pub fn new(ratio: f64, mean_length: f64, seed: u64) -> Self {
        let leave_good = ratio / (mean_length * (1.0 - ratio));
        let mut process = Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            leave_good,
            leave_bad: 1.0 / mean_length,
            bad: false,
            left: 0,
        };
        process.left = process.stay();
        process
    }

    /// Whether the next packet is lost.
    pub fn loses_next(&mut self) -> bool {
        if self.left == 0 {
            self.bad = !self.bad;
            self.left = self.stay();
        }
        self.left -= 1;
        self.bad
    }

    /// Draws the number of packets to spend in the present state: geometric, at least 1.
    fn stay(&mut self) -> u64 {
        let leave = if self.bad { self.leave_bad } else { self.leave_good };
        if leave <= 0.0 {
            return u64::MAX;
        }
        if leave >= 1.0 {
            return 1;
        }
        ((uniform(&mut self.random).ln() / (-leave).ln_1p()) as u64).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_and_length_of_bursts_are_those_asked_for() {
        let (ratio, mean_length) = (0.01, 8.0);
        let mut process = Burst::new(ratio, mean_length, 3);
        let (mut lost, mut bursts, mut before) = (0_u32, 0_u32, false);
        let packets = 4_000_000;
        for _ in 0..packets {
            let now = process.loses_next();
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        assert!((f64::from(lost) / f64::from(packets) - ratio).abs() < 0.001, "{lost} lost");
        let length = f64::from(lost) / f64::from(bursts);
        assert!((length - mean_length).abs() < 0.5, "mean length {length}");
    }

    #[test]
    fn a_ratio_of_zero_loses_nothing() {
        let mut process = Burst::new(0.0, 4.0, 1);
        assert!((0..100_000).all(|_| !process.loses_next()));
    }
}
