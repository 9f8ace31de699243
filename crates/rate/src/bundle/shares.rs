//! Which member may send how much of a bundle's total.
//!
//! All get the same, but one whose window (its receiver's, its buffer's, or what losses have left)
//! keeps it below its share gets what it can use and a little more; the others get the rest.

use icdc_units::Rate;

/// A member below this share of its ceiling cannot use it.
const USED: (u64, u64) = (15, 16);
/// What such a one gets over what it carried: one in so many.
const ROOM: u64 = 8;
/// Round trips of which the best tells what a member can carry.
const ROUNDS: usize = 4;

/// What one member has shown that it can carry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    carried: [Rate; ROUNDS],
    /// Round trips in a row in which it could not use its ceiling.
    short: usize,
}

impl Demand {
    /// Takes note of what it `carried` in a round trip under `ceiling`.
    pub(super) fn note(&mut self, carried: Rate, ceiling: Rate) {
        self.carried.rotate_right(1);
        self.carried[0] = carried;
        let is_short = ceiling < Rate::MAX && carried < ceiling.scaled(USED.0, USED.1);
        self.short = if is_short { self.short + 1 } else { 0 };
    }

    /// The most that it can use; `None` if nothing is known to keep it.
    pub(super) fn most(self) -> Option<Rate> {
        let best = self.carried.into_iter().max().unwrap_or_default();
        (self.short >= 2).then(|| best + best / ROOM)
    }
}

/// Shares `total` out. What nobody is known to use is given to all alike, so that the shares add
/// up to the total, and a member that recovers finds room.
pub(super) fn of(total: Rate, demands: &[Option<Rate>]) -> Vec<Rate> {
    let count = demands.len() as u64;
    if total == Rate::MAX || count == 0 {
        return vec![total; demands.len()];
    }
    let mut shares = vec![Rate::ZERO; demands.len()];
    let mut open: Vec<usize> = (0..demands.len()).collect();
    let mut left = total;
    loop {
        if open.is_empty() {
            break;
        }
        let fair = left / open.len() as u64;
        let short: Vec<usize> =
            open.iter().copied().filter(|index| demands[*index].is_some_and(|most| most < fair)).collect();
        if short.is_empty() {
            open.iter().for_each(|index| shares[*index] = fair);
            return shares;
        }
        for index in &short {
            shares[*index] = demands[*index].unwrap_or(fair);
            left -= shares[*index];
        }
        open.retain(|index| !short.contains(index));
    }
    let rest = left / count;
    shares.iter_mut().for_each(|share| *share += rest);
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
        assert_eq!(of(mbit(900), &[Some(mbit(100)), Some(mbit(200))]), [mbit(400), mbit(500)]);
        assert_eq!(of(Rate::MAX, &[Some(mbit(1)), None]), [Rate::MAX; 2]);
    }
}
