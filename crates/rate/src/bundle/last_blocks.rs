//! Who carries the last blocks: all wait for the one that is done last.
//!
//! A slow member takes none of them, and what one has become slow with in hand is taken from it,
//! where the others would sooner have sent that. What a member sends in future is told by its
//! congestion window and its ceiling; a window that a loss has just closed grows again, so one of
//! which something would be taken is as fast as it has been lately.

use icdc_units::{ByteCount, Span};

use super::{Bundle, Number};

/// A member that needs so many times as long for a block as the others is too slow for the last ones.
const SLOWER: u64 = 2;
/// Round trips until the others can send what one owes: the receiver tells what it has, and it is read
/// again.
const RECALL: u64 = 3;
/// It is worth it where the member itself would need so many times as long.
const WORTH: u64 = 3;

impl Bundle {
    /// Whether a member should take a frame of so many bytes while `unsent` are left to be sent. One
    /// that needs much longer for it than the others need for all that is left, and for one frame
    /// each, would end last; the fastest ones always take it.
    #[must_use]
    pub fn takes(&self, number: Number, frame: ByteCount, unsent: ByteCount) -> bool {
        let Some(known) = self.members.get(&number) else { return true };
        let rates = self.members.values().map(|known| known.most().as_bits_per_second());
        let all = rates.fold(0, u64::saturating_add);
        let each = frame.as_u64() * self.members.len() as u64;
        let others = u128::from(unsent.as_u64().saturating_add(each * SLOWER));
        u128::from(known.most().as_bits_per_second()) * others >= u128::from(all) * u128::from(frame.as_u64())
    }

    /// When there is nothing else to send and each member has so much `left` of what it was handed:
    /// one that needs much longer than if others sent its data anew, each a `block` of them
    /// once it is done with its own.
    #[must_use]
    pub fn holding_up(&self, left: &[(Number, ByteCount)], block: ByteCount) -> Option<Number> {
        let would_be_sooner = |number: Number, own: ByteCount| {
            let Some(known) = self.members.get(&number) else { return false };
            let others = left.iter().filter(|(other, _)| *other != number);
            let done = others.filter_map(|(other, left)| Some((*left + block) / self.members.get(other)?.most()));
            let mut done: Vec<Span> = done.collect();
            done.sort_unstable();
            // A block of which a part has arrived comes once more as well.
            let blocks = own.as_u64().div_ceil(block.as_u64().max(1)) + 1;
            let turns = blocks.div_ceil((done.len() as u64).max(1));
            let Some(last) = done.get(blocks as usize - 1).or(done.last()) else { return false };
            let anew = known.last.seen.least_rtt * RECALL + *last * turns;
            own / known.most().max(known.carries) > anew * WORTH
        };
        left.iter().find(|(number, left)| would_be_sooner(*number, *left)).map(|(number, _)| *number)
    }
}
