//! Choice of the members that send the last blocks, because a transfer ends with its slowest
//! member.
//!
//! A slow member takes none of them. A member that has become slow with blocks in hand is given up
//! where the others would send those sooner. The rate of a member in the near future is the lower
//! one of its congestion window and its ceiling. A window that a loss has just reduced grows again,
//! so a member counts at least with its recent rate where its blocks would be taken from it.

use icdc_units::{ByteCount, Span};

use super::{Bundle, Number};

/// A member that needs longer for a block than the others by this factor takes none of the last
/// ones. Chosen: no test fails at 1 and 4.
const SLOWNESS_FACTOR: u64 = 2;
/// Round trips until others can send what a member owes: the receiver reports what it has, and the
/// blocks are read again. Chosen: no test fails at 2 and 6.
const RECALL_ROUNDS: u64 = 3;
/// A member is given up if it would need longer than the others by this factor. Where the sum of
/// their rates was compared, 24 of 28 connections were given up one after the other (commit
/// 972bfc43). Chosen: no test fails at 2 and 6.
const RETIREMENT_FACTOR: u64 = 3;

/// Growth of a congestion window in a round trip of slow start (RFC 5681, section 3.1).
const GROWTH: u64 = 2;
/// Round trips that a message may wait behind a frame of data: with a frame of 4 MiB on each of the
/// connections, those of a stock receiver (3 MiB of each on the way) need less. Chosen; not varied.
const WAITING_ROUNDS: u64 = 4;
/// Time that it may wait on paths on which that is shorter. Chosen; not varied.
const SHORT_WAIT: Span = Span::from_millis(500);
/// Divisor of a member's rate that gives what the rates of all others together count as nothing
/// below. Chosen; not varied.
const NEARLY_ALL: u64 = 4;

/// Data that a member was handed and the receiver does not have.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    /// Number of the member.
    pub number: Number,
    /// Bytes that the member still has to send.
    pub bytes: ByteCount,
    /// Number of blocks that others would have to send for it.
    pub blocks: u64,
}

impl Bundle {
    /// Whether a member should take a frame of this length while `unsent` are left to be sent: not
    /// if it needs longer for the frame than all members together for what is left and for two
    /// frames of each, because it would end last. The fastest members always take it, and so does
    /// one that is not known.
    #[must_use]
    pub fn takes(&self, number: Number, frame: ByteCount, unsent: ByteCount) -> bool {
        let Some(known) = self.members.get(&number) else { return true };
        let all = self.most_of(|_| true);
        let each = frame.as_u64() * self.members.len() as u64;
        let others = u128::from(unsent.as_u64().saturating_add(each * SLOWNESS_FACTOR));
        u128::from(known.most().as_bits_per_second()) * others >= u128::from(all) * u128::from(frame.as_u64())
    }

    /// Whether a member sends a frame of this length in so short a time that what is to be sent behind it
    /// may wait; true for one that is not known, and for one that carries nearly all.
    #[must_use]
    pub fn has_soon_sent(&self, number: Number, frame: ByteCount) -> bool {
        let Some(known) = self.members.get(&number) else { return true };
        if self.most_of(|other| other != number) <= known.most().as_bits_per_second() / NEARLY_ALL {
            return true;
        }
        frame / known.most() <= (known.last.seen.least_rtt * WAITING_ROUNDS).max(SHORT_WAIT)
    }

    /// Bytes on the way that fill a member's congestion window, also when that has doubled in the round trip to come;
    /// `None` for one that is not known.
    #[must_use]
    pub fn enough(&self, number: Number) -> Option<ByteCount> {
        self.members.get(&number).map(|known| known.last.seen.window * GROWTH)
    }

    /// Sum of the greatest rates of these members, in bits per second.
    fn most_of(&self, members: impl Fn(Number) -> bool) -> u64 {
        let rates = self.members.iter().filter(|(number, _)| members(**number)).map(|(_, known)| known.most());
        rates.fold(0, |sum, rate| sum.saturating_add(rate.as_bits_per_second()))
    }

    /// Member that would delay the end, once there is nothing left to send but what members owe: it
    /// needs much longer for that than the others would need to send its blocks, of at most `block`
    /// bytes each, when they are done with their own. `None` if no member would.
    #[must_use]
    pub fn member_to_retire(&self, owed: &[Owed], block: ByteCount) -> Option<Number> {
        let would_be_sooner = |own: &Owed| {
            let Some(known) = self.members.get(&own.number) else { return false };
            let others = owed.iter().filter(|other| other.number != own.number);
            let done = |other: &Owed| Some((other.bytes + block) / self.members.get(&other.number)?.most());
            let mut done: Vec<Span> = others.filter_map(done).collect();
            done.sort_unstable();
            // A block that has arrived in part is sent again as a whole.
            let blocks = own.blocks + 1;
            let turns = blocks.div_ceil((done.len() as u64).max(1));
            let Some(last) = done.get(blocks as usize - 1).or(done.last()) else { return false };
            let anew = known.last.seen.least_rtt * RECALL_ROUNDS + *last * turns;
            own.bytes / known.most().max(known.carries) > anew * RETIREMENT_FACTOR
        };
        owed.iter().find(|own| would_be_sooner(own)).map(|own| own.number)
    }
}
