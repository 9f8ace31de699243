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

/// What a member was handed and the receiver does not have.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    /// Of which member.
    pub number: Number,
    /// What is left for it to send.
    pub bytes: ByteCount,
    /// Blocks that others would have to send for it.
    pub blocks: u64,
}

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

    /// When there is nothing else to send than what each member owes: one that needs much longer for
    /// that than if others sent its blocks anew, each a `block` of so many bytes once it is done with
    /// its own.
    #[must_use]
    pub fn holding_up(&self, owed: &[Owed], block: ByteCount) -> Option<Number> {
        let would_be_sooner = |own: &Owed| {
            let Some(known) = self.members.get(&own.number) else { return false };
            let others = owed.iter().filter(|other| other.number != own.number);
            let done = |other: &Owed| Some((other.bytes + block) / self.members.get(&other.number)?.most());
            let done = others.filter_map(done);
            let mut done: Vec<Span> = done.collect();
            done.sort_unstable();
            // A block of which a part has arrived comes once more as well.
            let blocks = own.blocks + 1;
            let turns = blocks.div_ceil((done.len() as u64).max(1));
            let Some(last) = done.get(blocks as usize - 1).or(done.last()) else { return false };
            let anew = known.last.seen.least_rtt * RECALL + *last * turns;
            own.bytes / known.most().max(known.carries) > anew * WORTH
        };
        owed.iter().find(|own| would_be_sooner(own)).map(|own| own.number)
    }
}
