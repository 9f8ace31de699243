//! Which member may send how much of a bundle's total.
//!
//! All get the same, but one whose window (its receiver's, its buffer's, or what losses have left)
//! keeps it below its share, or that has nothing to send, gets what it can use and a little more,
//! and one whose window opens twice as much; the others get the rest. So those that join later take
//! from the others only what they can send.

use icdc_units::{ByteCount, Rate, Span};

/// A member below this share of its ceiling cannot use it.
const USED: (u64, u64) = (15, 16);
/// What such a one gets over what it carried: one in so many.
const ROOM: u64 = 8;
/// One that carries more than in the look before, by one in so many, grows by its slow start.
const OPENING: u64 = 4;
/// What such a one, and any, gets over what its window allows: as much as the kernel's pacing does.
const OPENED: u64 = 2;
/// Looks of which the best tells what a member can carry.
const ROUNDS: usize = 4;
/// Packets of a share below which a look tells nothing: they leave in bursts of a few.
const PACKETS: u64 = 16;
/// What one that cannot use its share gets at least: one in so many of what it would get if all got
/// the same, so that it can show that it can.
const LEAST: u64 = 16;

/// What one member has shown that it can carry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    carried: [Rate; ROUNDS],
    /// Looks in a row in which it could not use its ceiling.
    short: usize,
    /// Since the last look.
    delivered: ByteCount,
    span: Span,
}

impl Demand {
    /// Takes note of what it `delivered` in a round trip under `ceiling`, in packets of `packet`.
    pub(super) fn note(&mut self, delivered: ByteCount, span: Span, ceiling: Rate, packet: ByteCount) {
        self.delivered += delivered;
        self.span += span;
        if ceiling < Rate::MAX && ceiling * self.span < packet * PACKETS {
            return;
        }
        let carried = self.delivered / self.span;
        (self.delivered, self.span) = (ByteCount::ZERO, Span::ZERO);
        self.carried.rotate_right(1);
        self.carried[0] = carried;
        let is_short = ceiling < Rate::MAX && carried < ceiling.scaled(USED.0, USED.1);
        self.short = if is_short { self.short + 1 } else { 0 };
    }

    /// The most that it can use, whose congestion window allows `window`.
    pub(super) fn most(self, window: Rate) -> Rate {
        let best = self.carried.into_iter().max().unwrap_or_default();
        let [last, before, ..] = self.carried;
        let shown = match self.short {
            0 | 1 => Rate::MAX,
            _ if last > before + before / OPENING => best * OPENED,
            _ => best + best / ROOM,
        };
        shown.min(window * OPENED)
    }
}

/// Shares `total` out. What nobody is known to use is given in proportion to what each can, so that
/// the shares add up to the total, and a member that recovers finds room.
pub(super) fn of(total: Rate, demands: &[Option<Rate>]) -> Vec<Rate> {
    let count = demands.len() as u64;
    if total == Rate::MAX || count == 0 {
        return vec![total; demands.len()];
    }
    let least = total / (count * LEAST);
    let mut shares = vec![Rate::ZERO; demands.len()];
    let mut open: Vec<usize> = (0..demands.len()).collect();
    let mut left = total;
    while !open.is_empty() {
        let fair = left / open.len() as u64;
        let usable = |index: &usize| demands[*index].map(|most| most.max(least)).filter(|most| *most < fair);
        let short: Vec<(usize, Rate)> = open.iter().filter_map(|index| Some((*index, usable(index)?))).collect();
        if short.is_empty() {
            open.iter().for_each(|index| shares[*index] = fair);
            return shares;
        }
        for (index, most) in short {
            shares[index] = most;
            left -= most;
            open.retain(|other| *other != index);
        }
    }
    let used = (total - left).as_bits_per_second().max(1);
    let scaled = |share: Rate| {
        let bits = u128::from(share.as_bits_per_second()) * u128::from(total.as_bits_per_second()) / u128::from(used);
        Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
    };
    shares.iter_mut().for_each(|share| *share = scaled(*share));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(rate: u64) -> Rate {
        Rate::from_bits_per_second(rate * 1_000_000)
    }

    #[test]
    fn shares_add_up_to_the_total_and_follow_what_members_can_use() {
        assert_eq!(of(mbit(900), &[None, None, None]), [mbit(300); 3]);
        assert_eq!(of(mbit(900), &[Some(mbit(100)), None, None]), [mbit(100), mbit(400), mbit(400)]);
        assert_eq!(of(mbit(900), &[Some(mbit(100)), Some(mbit(350)), None]), [mbit(100), mbit(350), mbit(450)]);
        assert_eq!(of(mbit(900), &[Some(mbit(100)), Some(mbit(200))]), [mbit(300), mbit(600)]);
        assert_eq!(of(Rate::MAX, &[Some(mbit(1)), None]), [Rate::MAX; 2]);
    }

    #[test]
    fn those_that_have_nothing_to_send_leave_their_share_to_the_others() {
        let mut demands = [Some(Rate::ZERO); 64];
        demands[..16].fill(Some(mbit(5)));
        let shares = of(mbit(160), &demands);
        let carrying: Rate = shares[..16].iter().copied().fold(Rate::ZERO, |sum, share| sum + share);
        assert!(carrying > mbit(140) && shares[63] > Rate::ZERO, "{carrying}, {}", shares[63]);
    }

    #[test]
    fn a_few_packets_tell_nothing() {
        let (packet, span, ceiling) = (ByteCount::new(1448), Span::from_millis(20), mbit(2));
        let mut demand = Demand::default();
        // 3.4 packets of a round trip's share leave as 2 or 4.
        for packets in [2, 4, 4, 4].into_iter().cycle().take(60) {
            demand.note(packet * packets, span, ceiling, packet);
        }
        assert_eq!(demand.most(mbit(2)), mbit(4));
        for _ in 0..60 {
            demand.note(packet * 2, span, ceiling, packet);
        }
        assert!(demand.most(mbit(2)) < mbit(2));
    }

    #[test]
    fn a_window_that_opens_is_not_held_to_what_it_carried() {
        let (packet, span, ceiling) = (ByteCount::new(1448), Span::from_millis(100), mbit(100));
        let mut demand = Demand::default();
        for carried in [1, 2, 4, 8] {
            demand.note(mbit(carried) * span, span, ceiling, packet);
        }
        assert_eq!(demand.most(mbit(16)), mbit(16));
        assert_eq!(demand.most(mbit(3)), mbit(6));
        demand.note(mbit(8) * span, span, ceiling, packet);
        assert_eq!(demand.most(mbit(16)), mbit(9));
    }
}
