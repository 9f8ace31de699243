//! Rate of the connections after the first, where the first connection's congestion control finds
//! the rate that the path has free: the others send what it leaves.
//!
//! ```text
//!  free     rate that the first connection's congestion control has found: the least of a round
//!           trip
//!  total    free + what the others carried, the least of the last four round trips: the first one
//!           does not know yet what they carry now
//!
//!  others ≤ total − what the first one carried
//!           up by half of what is missing while windows limit the first one, or when nothing waits
//!           any more and they send their last blocks; by total/40 once it has fallen behind what
//!           waits for PATIENCE_ROUNDS
//! ```
//!
//! A connection that its window limits sends no trains and does not see what the others take:
//! nothing is then added to its `free`.
//!
//! To the first connection the others are traffic like any other, to which it yields. So the sum of
//! all is what one connection alone would take: a start costs one burst, and one of them searches
//! for more. As long as the first connection carries all that is free, the others send nothing.

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

/// Shortest time over which anything is judged. Chosen: no test fails at 10 ms and 40 ms.
const SHORTEST_ROUND: Span = Span::from_millis(20);
/// Round trips for which data has waited after which the others start though the first one has not
/// found a limit, or for which the first one has fallen behind one that it has found. A start, or a
/// pause of the host, is over by then. Chosen: at 16 test
/// `the_others_wait_until_the_first_one_is_known_not_to_carry_all` fails; at 64 test
/// `without_a_limit_the_others_do_their_part_after_a_while` fails (and 1 more test).
const PATIENCE_ROUNDS: u64 = 32;
/// Shortest time of [`PATIENCE_ROUNDS`]. Chosen: at 6 s test
/// `without_a_limit_the_others_do_their_part_after_a_while` fails (and 1 more test); at 1.5 s no
/// test fails.
const LEAST_PATIENCE: Span = Span::from_secs(3);
/// Round trips in which the first one learns of what the others send: one of a train, and those of
/// the next trains, which confirm it. Chosen; not varied.
const LEARNING_ROUNDS: usize = 4;
/// Part of the total that the others may always send once they have blocks, so that these arrive.
/// Chosen: at 1/32 and 1/8 snapshot `throughput.txt` changes.
const REST_SHARE: Ratio = Ratio::new(1, 16);
/// Part of the total by which the others grow in a round trip once the first one has fallen behind,
/// though the kernel does not report that windows limit it. Chosen: at 1/80 and 1/20 snapshot
/// `throughput.txt` changes.
const GROWTH_STEP: Ratio = Ratio::new(1, 40);
/// Part of the missing rate by which the others grow in a round trip in which windows limit the
/// first one, or in which they send their last blocks. Chosen: at 1/4 and 1 snapshot
/// `throughput.txt` changes.
const MISSING_STEP: Ratio = Ratio::new(1, 2);
/// Part of the free rate by which the first one must carry less to have fallen behind. Chosen: at
/// 1/16 snapshot `throughput.txt` changes; at 1/4 test
/// `the_sum_is_never_more_than_the_path_has_by_more_than_a_step` fails.
const BEHIND_THRESHOLD: Ratio = Ratio::new(1, 8);

/// State of all connections at one time.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time at which the sample was taken.
    pub at: Time,
    /// Round-trip time of the first connection.
    pub round_trip: Span,
    /// Rate at which its congestion control lets it send; `None` while it sets none.
    pub pacing: Option<Rate>,
    /// Bytes of the first connection that have been acknowledged.
    pub first: ByteCount,
    /// Bytes of all others that have been acknowledged.
    pub others: ByteCount,
    /// Time for which the receiver's window or its own buffer has limited the first one so far.
    pub held_up: Span,
    /// Whether blocks wait for a connection that takes them.
    pub blocks_wait: bool,
}

/// Rate of the connections after the first, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// None: the first one carries all.
    Nothing,
    /// The others together may send at most at this rate.
    Rate(Rate),
    /// Any: no limit of the path has been found.
    Anything,
}

/// Controller of the rate of the connections after the first, together: they send what the first
/// one, whose congestion control finds the free rate, leaves. See the module's description.
#[derive(Debug, Default)]
pub struct Sharing {
    round: Option<Round>,
    others: Option<Rate>,
    /// Rates of the others in the last round trips.
    carried: [Rate; LEARNING_ROUNDS],
    /// Time at which data first waited; `None` before.
    begun: Option<Time>,
    /// Time since which the first one has carried less than is free, in each round trip, while
    /// blocks waited; `None` if it has not in the last one.
    behind: Option<Time>,
    /// Free rate when the others last carried nothing.
    alone: Rate,
    /// Whether the connections after the first have blocks.
    opened: bool,
}

/// Measurements of the round trip that is in progress.
#[derive(Clone, Copy, Debug)]
struct Round {
    begin: Sample,
    /// Least rate of the first one's congestion control; `None` if it did not pace all the time.
    free: Option<Rate>,
    blocks_wait: bool,
}

impl Sharing {
    /// Sharing of connections of which those after the first have blocks already.
    #[must_use]
    pub fn opened() -> Self {
        Self { opened: true, ..Self::default() }
    }

    /// Processes a sample, of which there are to be several in a round trip; returns what the
    /// others may send from now on.
    pub fn on_sample(&mut self, now: &Sample) -> Share {
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
            // Those that have blocks continue; their rate is known a round trip after the first
            // limit.
            _ if self.opened => Share::Anything,
            _ => Share::Nothing,
        };
        self.opened |= share != Share::Nothing;
        share
    }

    /// Sets the rate of the others by a complete round trip of length `span`.
    fn judge(&mut self, round: &Round, now: &Sample, span: Span, free: Rate) {
        let first = (now.first - round.begin.first) / span;
        self.carried.rotate_right(1);
        self.carried[0] = (now.others - round.begin.others) / span;
        let known = self.carried.into_iter().min().unwrap_or_default();
        let allowed = self.others.unwrap_or(Rate::ZERO);
        let held_up = (now.held_up - round.begin.held_up) * 2 >= span;
        if self.carried.iter().all(|rate| rate.is_zero()) {
            self.alone = free;
        }
        let alone = self.alone.max(free);
        let bounded = |rate: Rate| if held_up { rate.min(alone) } else { rate };
        let (total, most) = (bounded(free + known), bounded(free + self.carried[0]) - first);
        let is_behind = round.blocks_wait && first < free - free * BEHIND_THRESHOLD;
        self.behind = is_behind.then(|| self.behind.unwrap_or(round.begin.at));
        let has_fallen_behind = self.behind.is_some_and(|since| now.at - since >= patience(now.round_trip));
        let ends = self.opened && !round.blocks_wait;
        let missing = total - first - allowed;
        let more = match (held_up || ends, has_fallen_behind) {
            (true, _) => missing * MISSING_STEP,
            (false, true) => missing.min(total * GROWTH_STEP),
            (false, false) => Rate::ZERO,
        };
        let rest = if self.opened { total * REST_SHARE } else { Rate::ZERO };
        self.others = Some((allowed + more).min(most).max(rest));
    }
}

/// Time for which data must have waited, or the first connection have carried less than is free,
/// before the others are given more; the first one's round-trip time determines it.
fn patience(round_trip: Span) -> Span {
    (round_trip * PATIENCE_ROUNDS).max(LEAST_PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(100);
    const CAPACITY: Rate = Rate::from_bits_per_second(1_000_000_000);

    /// A path of [`CAPACITY`] with `background` traffic in each round trip, and a first connection
    /// with this window.
    struct Path {
        window: Rate,
        background: fn(u64) -> Rate,
        is_held_up: bool,
        blocks_wait: bool,
    }

    impl Path {
        /// Rates of the first connection and of the others, by round trip.
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
                    let share = sharing.on_sample(&Sample {
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

    /// A first connection that does not see what the others take.
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
                self.sharing.on_sample(&Sample { at, round_trip: RTT, pacing, first, others, held_up, blocks_wait });
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
            let sample = Sample {
                at: Time::ORIGIN + Span::from_secs(second),
                round_trip: RTT,
                pacing: None,
                first: ByteCount::ZERO,
                others: ByteCount::ZERO,
                held_up: Span::ZERO,
                blocks_wait: second > 98,
            };
            assert_eq!(sharing.on_sample(&sample), Share::Nothing);
        }
    }

    #[test]
    fn without_a_limit_the_others_do_their_part_after_a_while() {
        let mut sharing = Sharing::default();
        let mut share_at = |millis| {
            sharing.on_sample(&Sample {
                at: Time::ORIGIN + Span::from_millis(millis),
                round_trip: RTT,
                pacing: None,
                first: ByteCount::ZERO,
                others: ByteCount::ZERO,
                held_up: Span::ZERO,
                blocks_wait: true,
            })
        };
        assert_eq!(share_at(0), Share::Nothing);
        assert_eq!(share_at(2000), Share::Nothing);
        assert_eq!(share_at(4000), Share::Anything);
    }
}
