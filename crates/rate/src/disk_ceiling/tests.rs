use proptest::prelude::*;

use super::*;

const BLOCK: u64 = 4 << 20;
const STEP: Span = Span::from_millis(10);
const FEEDBACK: usize = 10;

/// A path, the connections that share it, a ring, and a disk whose rate is a function of the
/// second.
struct Receiver<D> {
    path: Rate,
    /// Shares of the connections, and how far each has filled its first block.
    connections: Vec<(f64, f64)>,
    blocks: u32,
    disk: D,
    /// Steps until a ceiling takes effect at the ring.
    round_trip: usize,
}

/// State of the simulated disk at a sample.
#[derive(Clone, Copy, Debug)]
struct Seen {
    second: f64,
    level: f64,
    rate: Option<Rate>,
    ceiling: Option<Rate>,
    /// Bytes taken off the sockets, and bytes on the disk.
    taken: f64,
    written: f64,
}

impl<D: Fn(f64) -> Rate> Receiver<D> {
    fn one(path: Rate, disk: D, round_trip_ms: usize) -> Self {
        Self { path, connections: vec![(1.0, 0.0)], blocks: 64, disk, round_trip: round_trip_ms / 10 }
    }

    fn run(&self, seconds: usize) -> Vec<Seen> {
        let shares: f64 = self.connections.iter().map(|(share, _)| share).sum();
        let mut filling: Vec<f64> = self.connections.iter().map(|(_, filled)| filled * BLOCK as f64).collect();
        let mut ceilings = VecDeque::from(vec![None; self.round_trip]);
        let (mut waiting, mut allowed, mut written) = (VecDeque::new(), None, 0.0);
        let mut taken = 0.0;
        let (mut backlog, mut now, mut seen) = (Backlog::default(), Time::ORIGIN, Vec::new());
        for step in 0..seconds * 100 {
            now += STEP;
            let second = step as f64 / 100.0;
            let sent = ceilings.pop_front().flatten().unwrap_or(self.path).min(self.path) * STEP;
            for (index, (share, _)) in self.connections.iter().enumerate() {
                let used = waiting.len() + filling.iter().filter(|filled| **filled > 0.0).count();
                // Without a block nothing is taken off the socket.
                if filling[index] == 0.0 && used >= self.blocks as usize {
                    continue;
                }
                let arrived = sent.as_u64() as f64 * share / shares;
                (filling[index], taken) = (filling[index] + arrived, taken + arrived);
                while filling[index] >= BLOCK as f64 {
                    filling[index] -= BLOCK as f64;
                    waiting.push_back(BLOCK as f64);
                    backlog.arrived(now);
                }
            }
            let mut work = ((self.disk)(second) * STEP).as_u64() as f64;
            while let Some(front) = waiting.front_mut().filter(|_| work > 0.0) {
                let part = work.min(*front);
                (work, *front, written) = (work - part, *front - part, written + part);
                if *front <= 0.0 {
                    waiting.pop_front();
                    backlog.left(now, ByteCount::new(BLOCK));
                }
            }
            if step % FEEDBACK == 0 {
                let Load { blocks, rate } = backlog.sample(now);
                let size = ByteCount::new(u64::from(self.blocks) * BLOCK);
                let state = RingState { waiting: blocks, blocks: self.blocks, size, drained: rate };
                allowed = ceiling(&state, STEP * (self.round_trip + FEEDBACK) as u64);
                let level = f64::from(blocks) / f64::from(self.blocks);
                seen.push(Seen { second, level, rate, ceiling: allowed, taken, written });
            }
            ceilings.push_back(allowed);
        }
        seen
    }
}

/// Mean rate after `second` at which the disk was written to, or the sockets were read if that is
/// more.
fn mean(seen: &[Seen], second: f64) -> f64 {
    let (first, last) = (seen.iter().find(|seen| seen.second >= second).unwrap(), seen.last().unwrap());
    (last.written - first.written).max(last.taken - first.taken) * 8.0 / (last.second - first.second)
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

#[test]
fn a_disk_that_keeps_up_is_never_heard_of() {
    let seen = Receiver::one(mbit(900), |_| mbit(2000), 300).run(20);
    assert!(seen.iter().all(|seen| seen.ceiling.is_none()));
}

#[test]
fn the_rate_settles_at_a_slow_disks_within_four_seconds_of_the_first_feedback() {
    for round_trip in [10, 100, 300, 500] {
        let seen = Receiver::one(mbit(900), |_| mbit(400), round_trip).run(30);
        let first = seen.iter().position(|seen| seen.ceiling.is_some()).unwrap();
        for Seen { level, ceiling, .. } in &seen[first + 40..] {
            let ceiling = ceiling.map_or(0.0, |rate| rate.ratio(mbit(400)));
            // A block of 64 is as much as 5 to 20 % of the ceiling.
            assert!((0.7..1.3).contains(&ceiling), "{round_trip} {ceiling}");
            assert!((0.1..0.6).contains(level), "{level}");
        }
        assert!((0.99..1.01).contains(&(mean(&seen, 5.0) / 4e8)), "{round_trip} {}", mean(&seen, 5.0));
    }
}

#[test]
fn a_stall_of_a_second_neither_fills_the_ring_nor_leaves_the_disk_without_work() {
    let stalls = |second: f64| if second % 7.0 > 6.0 { Rate::ZERO } else { mbit(400) };
    let seen = Receiver::one(mbit(900), stalls, 300).run(60);
    for Seen { level, .. } in &seen[50..] {
        assert!((0.02..0.9).contains(level), "{level}");
    }
    assert!(seen.iter().flat_map(|seen| seen.ceiling).all(|ceiling| ceiling >= LEAST_CEILING));
}

#[test]
fn a_fast_disk_behind_a_long_path_does_not_make_it_swing() {
    let seen = Receiver::one(mbit(10_000), |_| mbit(8_000), 500).run(30);
    let tail: Vec<f64> = seen[200..].iter().map(|seen| seen.level).collect();
    let (least, most) =
        tail.iter().fold((1.0_f64, 0.0_f64), |(least, most), level| (least.min(*level), most.max(*level)));
    assert!(most - least < 0.25, "{least} to {most}");
    assert!(most < 0.95);
}

#[test]
fn a_pause_of_the_disk_at_the_start_costs_nothing_that_the_ring_has_room_for() {
    for (from, to) in [(0.0, 0.4), (0.3, 0.7), (1.0, 1.5)] {
        let disk = |second: f64| if (from..to).contains(&second) { Rate::ZERO } else { mbit(4000) };
        let seen = Receiver::one(mbit(1000), disk, 300).run(5);
        assert!(mean(&seen, to + 0.5) > 0.98e9, "{from}");
        assert!(seen.last().unwrap().written * 8.0 > 0.95 * 5e9, "{from}");
    }
}

#[test]
fn blocks_that_connections_are_filling_do_not_wait_for_the_disk() {
    for connections in [4, 16, 32, 64, 200] {
        let connections = (0..connections).map(|number| (1.0, f64::from(number) / f64::from(connections))).collect();
        let receiver = Receiver { connections, ..Receiver::one(mbit(1000), |_| mbit(2000), 300) };
        let seen = receiver.run(30);
        assert!(seen.iter().all(|seen| seen.ceiling.is_none()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// However blocks arrive and whenever the disk stalls: what the ring allows is never less than
    /// half of what the disk has taken while it had work, where it has not stalled it knows the
    /// disk's rate, and all that path and disk can do is done.
    #[test]
    fn no_reading_of_the_ring_lowers_the_rate_below_the_disks(
        path in 50..4000_u64,
        disk in 100..4000_u64,
        connections in prop::collection::vec((0.2..1.0_f64, 0.0..1.0_f64), 1..64),
        in_step in any::<bool>(),
        blocks in 32..256_u32,
        stalls in prop::collection::vec((0.0..40.0_f64, 0.0..1.5_f64), 0..6),
        round_trip in 0..50_usize,
    ) {
        let connections: Vec<(f64, f64)> =
            if in_step { vec![(1.0, 0.0); connections.len()] } else { connections };
        let stands = |second: f64| stalls.iter().any(|(from, long)| (*from..from + long).contains(&second));
        let rate = |second: f64| if stands(second) { Rate::ZERO } else { mbit(disk) };
        // A ring limits by itself that cannot hold what is on its way, or another block for each
        // connection while those that they have filled at the same moment wait.
        let on_its_way = mbit(path.min(disk)) * (STEP * (round_trip + FEEDBACK) as u64);
        let count = connections.len() as u64;
        let free = u64::from(blocks).saturating_sub(count);
        prop_assume!(free * BLOCK > on_its_way.as_u64() * 4 && free >= count.max(9));
        let seen = Receiver { path: mbit(path), connections, blocks, disk: rate, round_trip }.run(60);
        for now in &seen {
            let Some((ceiling, rate)) = now.ceiling.zip(now.rate) else { continue };
            prop_assert!(ceiling >= rate.scaled(49, 100), "{now:?}");
            // Two seconds of work take the longer the less there is to do.
            let memory = 3.0 * disk.div_ceil(path) as f64;
            let recent = stalls.iter().any(|(from, long)| (*from..from + long + memory).contains(&now.second));
            // Work counts in whole steps of the simulation.
            prop_assert!(recent || rate.ratio(mbit(disk)) > 0.6, "the disk's rate is known: {now:?}");
        }
        // After the last stall, when what it left in the ring has gone.
        let possible = path.min(disk) as f64 * 1e6;
        // Blocks of a ring that are all filled at the same moment are a level at which the sender
        // is held down, though the disk has not fallen behind: a ring with hardly more of them than
        // connections costs some of the rate.
        let least = if free * 4 < count * 5 { 0.85 } else { 0.9 };
        prop_assert!(mean(&seen, 48.0) > least * possible, "{} of {possible}", mean(&seen, 48.0));
    }
}
