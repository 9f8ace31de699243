//! Who carries the last blocks: all wait for the one that is done last.
//!
//! A slow member takes none of them, and what one has become slow with in hand is taken from it,
//! where the others would sooner have sent that. What a member sends in future is told by its
//! congestion window and its ceiling, not by what it has sent.

use icdc_units::{ByteCount, Rate};

use super::{Bundle, Number};

/// A member that needs so many times as long for a block as the others is too slow for the last ones.
const SLOWER: u64 = 2;
/// Round trips until the others can send what one owes: the receiver tells what it has, and it is read
/// again. That it is worth it, what the member needs by itself has to be so many times as long.
const RECALL: u64 = 3;
const WORTH: (u64, u64) = (3, 2);

impl Bundle {
    /// Whether a member should take a block of `block` bytes while `unsent` are left to be sent. One
    /// that needs much longer for it than the others need for all that is left, and for one block
    /// each, would end last; the fastest ones always take it.
    #[must_use]
    pub fn takes(&self, number: Number, block: ByteCount, unsent: ByteCount) -> bool {
        let Some(known) = self.members.get(&number) else { return true };
        let all = self.together(|_| true);
        let each = block.as_u64() * self.members.len() as u64;
        let others = u128::from(unsent.as_u64().saturating_add(each * SLOWER));
        u128::from(known.most().as_bits_per_second()) * others >= u128::from(all) * u128::from(block.as_u64())
    }

    /// Whether what is left of what a member was handed, when there is nothing else to send, would be
    /// there sooner if it were taken from it: that and a `block` that has arrived in part would have
    /// to be sent by the others.
    #[must_use]
    pub fn holds_up(&self, number: Number, left: ByteCount, block: ByteCount) -> bool {
        let Some(known) = self.members.get(&number) else { return false };
        let (own, others) = (known.most(), Rate::from_bits_per_second(self.together(|other| other != number)));
        if own.is_zero() || others.is_zero() {
            return own < others;
        }
        let anew = known.last.seen.least_rtt * RECALL + (left + block) / others;
        left / own > anew.scaled(WORTH.0, WORTH.1)
    }

    /// What those members that count may send together, in bits per second.
    fn together(&self, counts: impl Fn(Number) -> bool) -> u64 {
        let members = self.members.iter().filter(|(number, _)| counts(**number));
        members.map(|(_, known)| known.most().as_bits_per_second()).fold(0, u64::saturating_add)
    }
}
