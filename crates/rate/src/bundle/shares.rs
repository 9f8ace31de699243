//! Distribution of a bundle's total over its members.
//!
//! All members get the same, with three exceptions. A member that its window keeps below its share
//! (the receiver's, its buffer's, or what losses have left), or that has nothing to send, gets what
//! it can use and a little more. A member whose window opens gets twice what it carried. The others
//! get the rest. So new members take from the others only what they can send.

use icdc_units::{ByteCount, Rate, Ratio, Span};

/// A member that carries less than this part of its ceiling cannot use it. Chosen: no test fails at
/// 31/32 and 7/8.
const CEILING_USE_THRESHOLD: Ratio = Ratio::new(15, 16);
/// Part of what it carried that such a member gets in addition. Chosen: at 1/16 and 1/4 test
/// `a_window_that_opens_is_not_held_to_what_it_carried` fails.
const DEMAND_HEADROOM: Ratio = Ratio::new(1, 8);
/// Growth of the carried rate between two measurements that shows a slow start. Chosen: no test
/// fails at 1/8 and 1/2.
const OPENING_THRESHOLD: Ratio = Ratio::new(1, 4);
/// Multiple of the carried rate that a member in slow start gets, and the most that any gets of
/// what its window allows: the kernel's own pacing (`tcp_pacing_ss_ratio`, 200 %). Chosen: at 1 and
/// 4 test `a_few_packets_tell_nothing` fails (and 1 more test).
const OPENING_FACTOR: u64 = 2;
/// Measurements of which the best gives the rate that a member can use. Chosen; not varied.
const DEMAND_ROUNDS: usize = 4;
/// Packets that a measurement needs: they leave in bursts of a few (`a_few_packets_tell_nothing`).
/// Chosen: no test fails at 8 and 32.
const LEAST_PACKETS: u64 = 16;
/// Part of an equal share that each member gets at least, so that it can show that it can use more.
/// Chosen: at 1/8 test `those_that_have_nothing_to_send_leave_their_share_to_the_others` fails; at
/// 1/32 no test fails.
const LEAST_SHARE: Ratio = Ratio::new(1, 16);

/// Rate that one member can use, by what it has carried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    carried: [Rate; DEMAND_ROUNDS],
    /// Number of measurements in a row in which the member could not use its ceiling.
    short: usize,
    /// Bytes delivered since the last measurement.
    delivered: ByteCount,
    /// Time since the member's last measurement.
    span: Span,
}

impl Demand {
    /// Adds a round trip in which `delivered` was carried under `ceiling`, in packets of `packet`.
    pub(super) fn note(&mut self, delivered: ByteCount, span: Span, ceiling: Option<Rate>, packet: ByteCount) {
        self.delivered += delivered;
        self.span += span;
        if ceiling.is_some_and(|ceiling| ceiling * self.span < packet * LEAST_PACKETS) {
            return;
        }
        let carried = self.delivered / self.span;
        (self.delivered, self.span) = (ByteCount::ZERO, Span::ZERO);
        self.carried.rotate_right(1);
        self.carried[0] = carried;
        let is_short = ceiling.is_some_and(|ceiling| carried < ceiling * CEILING_USE_THRESHOLD);
        self.short = if is_short { self.short + 1 } else { 0 };
    }

    /// Greatest rate that the member can use, if its congestion window allows `window`; `None` for
    /// any.
    pub(super) fn most(self, window: Option<Rate>) -> Option<Rate> {
        let best = self.carried.into_iter().max().unwrap_or_default();
        let [last, before, ..] = self.carried;
        let shown = match self.short {
            0 | 1 => None,
            _ if last > before + before * OPENING_THRESHOLD => Some(best * OPENING_FACTOR),
            _ => Some(best + best * DEMAND_HEADROOM),
        };
        [shown, window.map(by_window)].into_iter().flatten().min()
    }
}

/// Greatest rate that a member can use by what its congestion window allows, `window`.
pub(super) fn by_window(window: Rate) -> Rate {
    window * OPENING_FACTOR
}

/// Shares of `total`, by each member's demand; `None` for an unknown one. What exceeds all demands
/// is distributed in proportion to them, so that the shares add up to the total, and a member that
/// recovers finds room.
pub(super) fn of(total: Rate, demands: &[Option<Rate>]) -> Vec<Rate> {
    let count = demands.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    let least = total * LEAST_SHARE / count;
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
        let (packet, span, ceiling) = (ByteCount::new(1448), Span::from_millis(20), Some(mbit(2)));
        let mut demand = Demand::default();
        // 3.4 packets of a round trip's share leave as 2 or 4.
        for packets in [2, 4, 4, 4].into_iter().cycle().take(60) {
            demand.note(packet * packets, span, ceiling, packet);
        }
        assert_eq!(demand.most(Some(mbit(2))), Some(mbit(4)));
        for _ in 0..60 {
            demand.note(packet * 2, span, ceiling, packet);
        }
        assert!(demand.most(Some(mbit(2))) < Some(mbit(2)));
    }

    #[test]
    fn a_window_that_opens_is_not_held_to_what_it_carried() {
        let (packet, span, ceiling) = (ByteCount::new(1448), Span::from_millis(100), Some(mbit(100)));
        let mut demand = Demand::default();
        for carried in [1, 2, 4, 8] {
            demand.note(mbit(carried) * span, span, ceiling, packet);
        }
        assert_eq!(demand.most(Some(mbit(16))), Some(mbit(16)));
        assert_eq!(demand.most(Some(mbit(3))), Some(mbit(6)));
        demand.note(mbit(8) * span, span, ceiling, packet);
        assert_eq!(demand.most(Some(mbit(16))), Some(mbit(9)));
    }
}
