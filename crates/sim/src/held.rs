//! Packets that a receiver holds: a number below which none is missing, and a ring of bits above.

/// The packets that a receiver holds: all below a number, and a ring of bits for those above.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    next: u64,
    /// One more than the highest packet number that arrived.
    end: u64,
    /// Ring of bits: bit `n % 64` of word `n / 64 % length` says whether packet `n` has arrived.
    words: Vec<u64>,
}

impl Default for Held {
    fn default() -> Self {
        Self { next: 0, end: 0, words: vec![0; 4] }
    }
}

impl Held {
    /// Number of the first packet that is missing.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether packets have arrived beyond one that is missing.
    pub(crate) fn has_gap(&self) -> bool {
        self.end > self.next
    }

    /// Adds a packet; returns whether it is new.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if number < self.next {
            return false;
        }
        if number == self.next && !self.has_gap() {
            self.next += 1;
            self.end = self.next;
            return true;
        }
        self.make_room(number);
        let word = self.word(number);
        if *word & 1 << (number % 64) != 0 {
            return false;
        }
        *word |= 1 << (number % 64);
        self.end = self.end.max(number + 1);
        if number == self.next {
            self.advance();
        }
        true
    }

    /// Word of the ring that has the bit of this packet.
    fn word(&mut self, number: u64) -> &mut u64 {
        let mask = self.words.len() - 1;
        &mut self.words[(number / 64) as usize & mask]
    }

    /// Moves `next` past all packets that have arrived without a gap, and clears their bits.
    fn advance(&mut self) {
        while self.next < self.end {
            let bit = self.next % 64;
            let word = self.word(self.next);
            let run = u64::from((*word >> bit).trailing_ones());
            if run == 0 {
                return;
            }
            let passed = if run == 64 { u64::MAX } else { ((1 << run) - 1) << bit };
            *word &= !passed;
            self.next += run;
        }
    }

    /// Enlarges the ring until it has a bit for this packet.
    fn make_room(&mut self, number: u64) {
        let needed = (number / 64 - self.next / 64 + 1) as usize;
        if needed <= self.words.len() {
            return;
        }
        let mut words = vec![0; needed.next_power_of_two()];
        let (old, new) = (self.words.len() - 1, words.len() - 1);
        for word in self.next / 64..=self.end / 64 {
            // The end may be in a word that does not exist yet.
            if (word - self.next / 64) as usize <= old {
                words[word as usize & new] = self.words[word as usize & old];
            }
        }
        self.words = words;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_set_holds(numbers in prop::collection::vec(0_u64..2000, 1..1500)) {
            let (mut held, mut set, mut next) = (Held::default(), BTreeSet::new(), 0);
            for number in numbers {
                prop_assert_eq!(held.insert(number), set.insert(number), "{}", number);
                while set.contains(&next) {
                    next += 1;
                }
                prop_assert_eq!(held.next(), next);
                prop_assert_eq!(held.has_gap(), set.last().is_some_and(|last| *last > next));
            }
        }

        #[test]
        fn gaps_far_behind_are_filled(stride in 2_u64..200, count in 1_u64..300) {
            let mut held = Held::default();
            (0..count).for_each(|index| assert!(held.insert(index * stride + 1)));
            for number in (0..count * stride).filter(|number| number % stride != 1) {
                prop_assert!(held.insert(number));
            }
            prop_assert_eq!(held.next(), count * stride);
        }
    }
}
