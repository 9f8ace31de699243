//! One rate for several connections of which the first finds what the path has free: the others
//! take what it leaves.
//!
//! ```text
//!  free     rate that the first connection's congestion control has found: the least of a round trip
//!  total    free + what the others carried, the least of the last four round trips: what they carry now the first one does not know yet
//!
//!  others ≤ total − what the first one carried         up by half of what is missing while windows hold the first one up, or
//!                                                      when nothing waits any more and they send their last blocks;
//!                                                      by total/40 once it has fallen behind what waits for PATIENCE
//! ```
//!
//! A connection that its window holds up sends no trains and does not see what the others take: its
//! `free` is then not added to.
//!
//! The first connection sees what the others send as it sees everybody's traffic, and leaves it
//! alone. So the sum of all is what one connection alone would take: a start costs one burst, and
//! one of them tries whether there is more. As long as the first one carries all that is free the
//! others have nothing to do.

use icdc_units::{ByteCount, Rate, Span, Time};

/// Shortest time over which anything is judged.
const SHORTEST_ROUND: Span = Span::from_millis(20);
/// Round trips for which data has waited after which the others do their part though the first one
/// has not found a limit, or for which it has fallen behind one that it has found: a start is over
/// by then, and a pause of the host.
const PATIENCE: u64 = 32;
/// That patience, on short paths.
const LEAST_PATIENCE: Span = Span::from_secs(3);
/// Round trips that it takes to learn of what others send: a train's, and those of the next ones
/// that confirm it.
const LAG: usize = 4;
/// Once they have blocks, the others may send so much of the total, one in so many, that those get
/// through.
const REST: u64 = 16;
/// The others grow by that share of the total, one in so many, where it is not the kernel that says
/// that the first one is held up.
const STEP: u64 = 40;

/// What is seen of the connections.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// When.
    pub at: Time,
    /// Round-trip time of the first one.
    pub round_trip: Span,
    /// Rate at which its congestion control lets it send; `None` while it sets none.
    pub pacing: Option<Rate>,
    /// Bytes of its that have been acknowledged.
    pub first: ByteCount,
    /// Bytes of all others.
    pub others: ByteCount,
    /// For how long the receiver's window or its own buffer has held it up so far.
    pub held_up: Span,
    /// Blocks wait for a connection that takes them.
    pub blocks_wait: bool,
}

/// What the others may send, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Nothing: the first one does it all.
    Nothing,
    /// So much.
    Rate(Rate),
    /// Anything: no limit of the path has been found.
    Anything,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Sharing {
    round: Option<Round>,
    others: Option<Rate>,
    /// What the others carried in the last round trips.
    carried: [Rate; LAG],
    /// Since when data has waited, with a limit or without.
    begun: Option<Time>,
    /// Since when the first one has fallen behind, without a round trip in which it did not.
    behind: Option<Time>,
    /// What was free when the others carried nothing.
    alone: Rate,
    /// The others have blocks.
    opened: bool,
}

/// A round trip under way.
#[derive(Clone, Copy, Debug)]
struct Round {
    begin: Look,
    free: Option<Rate>,
    blocks_wait: bool,
}

impl Sharing {
    /// Takes note of a look. Several in a round trip are good.
    pub fn look(&mut self, now: &Look) -> Share {
        if now.blocks_wait {
            self.begun.get_or_insert(now.at);
        }
        let patience = patience(now.round_trip);
        let round = self.round.get_or_insert(Round { begin: *now, free: now.pacing, blocks_wait: true });
        round.free = round.free.zip(now.pacing).map(|(least, pacing)| least.min(pacing));
        round.blocks_wait &= now.blocks_wait;
        let span = now.at - round.begin.at;
        if span >= now.round_trip.max(SHORTEST_ROUND) {
            let round = *round;
            self.round = Some(Round { begin: *now, free: now.pacing, blocks_wait: now.blocks_wait });
            if let Some(free) = round.free {
                self.judge(&round, now, span, free);
            }
        }
        let share = match (self.others, now.pacing) {
            (Some(rate), _) if !rate.is_zero() => Share::Rate(rate),
            (None, None) if self.begun.is_some_and(|begun| now.at - begun >= patience) => Share::Anything,
            // Those that have blocks go on; what they may send is known a round trip after the
            // limit.
            _ if self.opened => Share::Anything,
            _ => Share::Nothing,
        };
        self.opened |= share != Share::Nothing;
        share
    }

    fn judge(&mut self, round: &Round, now: &Look, span: Span, free: Rate) {
        let first = (now.first - round.begin.first) / span;
        self.carried.rotate_right(1);
        self.carried[0] = (now.others - round.begin.others) / span;
        let known = self.carried.into_iter().min().unwrap_or_default();
        let allowed = self.others.unwrap_or(Rate::ZERO);
        let held_up = (now.held_up - round.begin.held_up) * 2 >= span;
        if self.carried.iter().all(|rate| rate.is_zero()) {
            self.alone = free;
        }
        let bound = if held_up { self.alone.max(free) } else { Rate::MAX };
        let (total, most) = ((free + known).min(bound), (free + self.carried[0]).min(bound) - first);
        let is_behind = round.blocks_wait && first < free - free / 8;
        self.behind = is_behind.then(|| self.behind.unwrap_or(round.begin.at));
        let has_fallen_behind = self.behind.is_some_and(|since| now.at - since >= patience(now.round_trip));
        let ends = self.opened && !round.blocks_wait;
        let missing = total - first - allowed;
        let more = match (held_up || ends, has_fallen_behind) {
            (true, _) => missing / 2,
            (false, true) => missing.min(total / STEP),
            (false, false) => Rate::ZERO,
        };
        let rest = if self.opened { total / REST } else { Rate::ZERO };
        self.others = Some((allowed + more).min(most).max(rest));
    }
}

fn patience(round_trip: Span) -> Span {
    (round_trip * PATIENCE).max(LEAST_PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);
    const CAPACITY: Rate = Rate::from_bits_per_second(1_000_000_000);

    /// What the first connection carries of what is free (`held`: a window that holds it up), and
    /// what the others are allowed, by round trip.
    struct Path {
        window: Rate,
        background: fn(u64) -> Rate,
        is_held_up: bool,
        blocks_wait: bool,
    }

    impl Path {
        fn run(&self, rounds: u64) -> Vec<(Rate, Rate)> {
            let (mut sharing, mut allowed, mut seen) = (Sharing::default(), Rate::ZERO, Vec::new());
            let (mut at, mut first, mut others, mut held_up) =
                (Time::ORIGIN, ByteCount::ZERO, ByteCount::ZERO, Span::ZERO);
            // The first one sees a round trip later what the others send.
            let mut sent_before = Rate::ZERO;
            for round in 0..rounds {
                let free = CAPACITY - (self.background)(round) - sent_before;
                let rate = free.min(self.window);
                // Their own congestion control keeps the others below what the path has.
                sent_before = allowed.min(CAPACITY - (self.background)(round));
                for step in 0..10 {
                    at += RTT / 10;
                    first += rate * (RTT / 10);
                    others += sent_before * (RTT / 10);
                    held_up += if self.is_held_up { RTT / 10 } else { Span::ZERO };
                    // A train.
                    let pacing = Some(if step == 3 { free * 2 } else { free });
                    let share = sharing.look(&Look {
                        at,
                        round_trip: RTT,
                        pacing,
                        first,
                        others,
                        held_up,
                        blocks_wait: self.blocks_wait,
                    });
                    allowed = match share {
                        Share::Nothing => Rate::ZERO,
                        Share::Rate(rate) => rate,
                        Share::Anything => panic!("the path has a limit"),
                    };
                }
                seen.push((rate, sent_before));
            }
            seen
        }
    }

    fn none(_: u64) -> Rate {
        Rate::ZERO
    }

    #[test]
    fn one_that_carries_all_that_is_free_leaves_nothing() {
        let path = Path { window: Rate::MAX, background: none, is_held_up: false, blocks_wait: true };
        assert!(path.run(100).iter().all(|(_, others)| others.is_zero()));
        let idle = Path { window: CAPACITY / 10, blocks_wait: false, ..path };
        assert!(idle.run(100).iter().all(|(_, others)| others.is_zero()), "a source that is slow is no reason");
    }

    #[test]
    fn what_a_window_keeps_the_first_one_from_the_others_carry_within_twenty_round_trips() {
        let path = Path { window: CAPACITY / 10, background: none, is_held_up: true, blocks_wait: true };
        let seen = path.run(100);
        for (first, others) in &seen[20..] {
            assert!((0.9..1.01).contains(&(*first + *others).ratio(CAPACITY)), "{first} {others}");
        }
    }

    #[test]
    fn the_sum_is_never_more_than_the_path_has_by_more_than_a_step() {
        let slow = Path { window: CAPACITY / 4, background: none, is_held_up: false, blocks_wait: true };
        for (first, others) in &slow.run(200) {
            assert!((*first + *others).ratio(CAPACITY) < 1.03, "{first} {others}");
        }
        let (first, others) = *slow.run(200).last().unwrap();
        assert!((first + others).ratio(CAPACITY) > 0.95, "{first} {others}");
    }

    #[test]
    fn traffic_that_comes_takes_from_the_others() {
        let comes = |round| if round < 100 { Rate::ZERO } else { CAPACITY / 2 };
        let path = Path { window: CAPACITY / 10, background: comes, is_held_up: true, blocks_wait: true };
        let seen = path.run(130);
        let (first, others) = seen[107];
        assert!((first + others).ratio(CAPACITY) < 0.55, "{first} {others}");
    }

    /// Looks at the first connection of a path of which it cannot see what the others take.
    struct Blind {
        sharing: Sharing,
        at: Time,
        first: ByteCount,
        others: ByteCount,
        held_up: Span,
    }

    impl Blind {
        fn round(&mut self, first: Rate, others: Rate, is_held_up: bool, blocks_wait: bool) -> Share {
            for _ in 0..10 {
                self.at += RTT / 10;
                self.first += first * (RTT / 10);
                self.others += others * (RTT / 10);
                self.held_up += if is_held_up { RTT / 10 } else { Span::ZERO };
                let Self { at, first, others, held_up, .. } = *self;
                let pacing = Some(CAPACITY);
                self.sharing.look(&Look { at, round_trip: RTT, pacing, first, others, held_up, blocks_wait });
            }
            self.sharing.others.map_or(Share::Nothing, Share::Rate)
        }

        fn new() -> Self {
            let (first, others) = (ByteCount::ZERO, ByteCount::ZERO);
            Self { sharing: Sharing::default(), at: Time::ORIGIN, first, others, held_up: Span::ZERO }
        }
    }

    fn rate(share: Share) -> Rate {
        match share {
            Share::Rate(rate) => rate,
            Share::Nothing | Share::Anything => Rate::ZERO,
        }
    }

    #[test]
    fn one_that_is_held_up_and_sees_nothing_does_not_let_the_others_run_away() {
        let (mut path, mut allowed) = (Blind::new(), Rate::ZERO);
        for _ in 0..200 {
            allowed = rate(path.round(CAPACITY / 10, allowed, true, true));
            assert!(allowed + CAPACITY / 10 <= CAPACITY, "{allowed}");
        }
        assert!(allowed > CAPACITY / 10 * 8, "{allowed}");
    }

    #[test]
    fn the_last_blocks_of_the_others_are_not_kept_waiting() {
        let (mut path, mut allowed) = (Blind::new(), Rate::ZERO);
        // Opened by a window that closed for a moment, and carried by the first one alone again.
        for _ in 0..5 {
            allowed = rate(path.round(CAPACITY / 2, allowed, true, true));
        }
        for _ in 0..50 {
            allowed = rate(path.round(CAPACITY - allowed, allowed, false, true));
        }
        for _ in 0..20 {
            allowed = rate(path.round(Rate::ZERO, allowed, false, false));
        }
        assert!(allowed > CAPACITY / 2, "{allowed}");
    }

    #[test]
    fn a_pause_of_the_host_and_a_source_that_is_slow_to_begin_open_nothing() {
        let mut path = Blind::new();
        for round in 0..200 {
            let carried = if round % 10 == 9 { Rate::ZERO } else { CAPACITY };
            assert_eq!(rate(path.round(carried, Rate::ZERO, false, true)), Rate::ZERO);
        }
        let mut sharing = Sharing::default();
        for second in 0..100 {
            let look = Look {
                at: Time::ORIGIN + Span::from_secs(second),
                round_trip: RTT,
                pacing: None,
                first: ByteCount::ZERO,
                others: ByteCount::ZERO,
                held_up: Span::ZERO,
                blocks_wait: second > 98,
            };
            assert_eq!(sharing.look(&look), Share::Nothing);
        }
    }

    #[test]
    fn without_a_limit_the_others_do_their_part_after_a_while() {
        let mut sharing = Sharing::default();
        let mut look = |millis| {
            sharing.look(&Look {
                at: Time::ORIGIN + Span::from_millis(millis),
                round_trip: RTT,
                pacing: None,
                first: ByteCount::ZERO,
                others: ByteCount::ZERO,
                held_up: Span::ZERO,
                blocks_wait: true,
            })
        };
        assert_eq!(look(0), Share::Nothing);
        assert_eq!(look(2000), Share::Nothing);
        assert_eq!(look(4000), Share::Anything);
    }
}
