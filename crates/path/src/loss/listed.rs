//! Loss of given packets, for tests of the reaction to a certain loss.

use std::collections::VecDeque;

/// Loses the packets whose numbers, counted from 1 in order of arrival, are listed.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Numbers of the packets still to be lost, ascending, without repetition.
    to_lose: VecDeque<u64>,
    offered: u64,
}

impl Listed {
    /// Process that loses the packets of these numbers, which may be in any order; repeated ones
    /// count once, zero names no packet.
    #[must_use]
    pub fn new(numbers: &[u64]) -> Self {
        let mut sorted: Vec<u64> = numbers.iter().copied().filter(|&number| number > 0).collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self { to_lose: sorted.into(), offered: 0 }
    }

    /// Whether the next packet is lost.
    pub fn loses_next(&mut self) -> bool {
        self.offered += 1;
        let lost = self.to_lose.front() == Some(&self.offered);
        if lost {
            self.to_lose.pop_front();
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_listed_packets_are_lost() {
        let mut process = Listed::new(&[5, 2, 5, 0, 3]);
        let lost: Vec<u64> = (1..=8).filter(|_| process.loses_next()).collect();
        assert_eq!(lost, [2, 3, 5]);
    }
}
