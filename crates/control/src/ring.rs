//! The receiver's ring between socket and disk holds the sender's rate down before TCP's window closes.
//!
//! ```text
//!  level = blocks in use / blocks of the ring          W = rate at which the disk empties it
//!
//!  ceiling = W · (1 + gain · (AIM − level))            while level > LOW, else none
//! ```
//!
//! At AIM the ring neither fills nor empties. A disk that is faster than the path keeps the ring empty and is never
//! heard of. `d level/dt = (ceiling − W) / ring`, so the level tends to AIM with the time constant `ring / (gain · W)`; news of it
//! take `delay` (a round trip and the interval of feedback) to have an effect, and the gain stays low enough that the
//! constant is several delays. AIM leaves most of the ring for what is on its way when the disk stalls, and some
//! data for the disk while the rate recovers.

use std::collections::VecDeque;

use icdc_units::{ByteCount, Rate, Span, Time};

/// Level at which the ring is held.
const AIM: f64 = 0.25;
/// Up to this level the disk is not what limits.
const LOW: f64 = 0.12;
/// Change of rate per change of level.
const GAIN: f64 = 3.0;
/// The time constant is at least so many delays.
const DELAYS: f64 = 4.0;
/// A disk that stands still shall find something to write when it goes on, and the path stays known.
const LEAST: Rate = Rate::from_bits_per_second(8_000_000);
/// The disk's rate is a mean over this time: a stall of a second halves it, and the level does the rest.
const MEAN_OVER: Span = Span::from_secs(2);

/// The receiver's end: how fast the disk empties the ring.
#[derive(Debug, Default)]
pub struct DrainRate {
    /// When, and bytes that had left the ring by then.
    drained: VecDeque<(Time, ByteCount)>,
}

impl DrainRate {
    /// Takes note of what has been received in all and what of it is still in the ring. Gives the mean rate over two
    /// seconds; zero before there is one.
    pub fn update(&mut self, now: Time, received: ByteCount, held: ByteCount) -> Rate {
        while self.drained.len() > 1 && self.drained.get(1).is_some_and(|(at, _)| now - *at >= MEAN_OVER) {
            self.drained.pop_front();
        }
        // Blocks that are taken and not yet full count as held, so that what has left may seem to shrink.
        let before = self.drained.back().map_or(ByteCount::ZERO, |(_, bytes)| *bytes);
        let drained = (received - held).max(before);
        self.drained.push_back((now, drained));
        match self.drained.front() {
            Some((since, bytes)) if now > *since => (drained - *bytes) / (now - *since),
            _ => Rate::ZERO,
        }
    }
}

/// What the receiver tells of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingState {
    /// Blocks in use.
    pub used: u32,
    /// Blocks of the ring.
    pub blocks: u32,
    /// Bytes of the ring.
    pub size: ByteCount,
    /// Rate at which the disk empties it.
    pub drained: Rate,
}

/// The sender's end: what the ring allows. `delay` is how long it takes until the ring sees what the sender does, and
/// the sender what the ring does. `None` while the disk is not what limits.
#[must_use]
pub fn ceiling(ring: &RingState, delay: Span) -> Option<Rate> {
    if ring.blocks == 0 {
        return None;
    }
    let level = f64::from(ring.used) / f64::from(ring.blocks);
    if level <= LOW {
        return None;
    }
    let drained = ring.drained.as_bits_per_second() as f64;
    let steadiest = 8.0 * ring.size.as_u64() as f64 / (DELAYS * drained.max(1.0) * delay.as_secs_f64().max(1e-3));
    let gain = GAIN.min(steadiest);
    let rate = drained * (1.0 + gain * (AIM - level)).max(0.0);
    Some(Rate::from_bits_per_second(rate as u64).max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4 << 20;
    const STEP: Span = Span::from_millis(100);

    /// A path of `path` with a delay of `steps`, a disk whose rate is a function of the second, and a ring of 64 blocks. Gives
    /// the level and the ceiling at each step.
    fn run(path: Rate, disk: impl Fn(f64) -> Rate, steps: usize, seconds: usize) -> Vec<(f64, Option<Rate>)> {
        let (mut ring, mut received, mut now) = (ByteCount::ZERO, ByteCount::ZERO, Time::ORIGIN);
        let mut on_the_way = VecDeque::from(vec![Rate::ZERO; steps]);
        let mut drain = DrainRate::default();
        let mut seen = Vec::new();
        for step in 0..seconds * 10 {
            now += STEP;
            let arrived = on_the_way.pop_front().unwrap_or_default() * STEP;
            received += arrived;
            ring = ring + arrived - disk(step as f64 / 10.0) * STEP;
            let used = ring.as_u64().div_ceil(BLOCK) as u32;
            let drained = drain.update(now, received, ByteCount::new(u64::from(used) * BLOCK));
            let state = RingState { used, blocks: 64, size: ByteCount::new(64 * BLOCK), drained };
            let ceiling = ceiling(&state, STEP * (steps as u64 + 1));
            seen.push((f64::from(used) / 64.0, ceiling));
            on_the_way.push_back(ceiling.unwrap_or(path).min(path));
        }
        seen
    }

    fn mbit(rate: u64) -> Rate {
        Rate::from_bits_per_second(rate * 1_000_000)
    }

    #[test]
    fn a_disk_that_keeps_up_is_never_heard_of() {
        let seen = run(mbit(900), |_| mbit(2000), 3, 20);
        assert!(seen.iter().all(|(_, ceiling)| ceiling.is_none()));
    }

    #[test]
    fn the_rate_settles_at_a_slow_disks_within_three_seconds_of_the_first_word() {
        for steps in [1, 3, 5] {
            let seen = run(mbit(900), |_| mbit(400), steps, 30);
            let first = seen.iter().position(|(_, ceiling)| ceiling.is_some()).unwrap();
            for (level, ceiling) in &seen[first + 30..] {
                let ceiling = ceiling.map_or(0.0, |rate| rate.ratio(mbit(400)));
                assert!((0.85..1.15).contains(&ceiling), "{steps} {ceiling} {seen:?}");
                assert!((0.1..0.9).contains(level), "{level}");
            }
        }
    }

    #[test]
    fn a_stall_of_a_second_neither_fills_the_ring_nor_leaves_the_disk_without_work() {
        let stalls = |second: f64| if second % 7.0 > 6.0 { Rate::ZERO } else { mbit(400) };
        let seen = run(mbit(900), stalls, 3, 60);
        for (level, _) in &seen[50..] {
            assert!((0.02..0.9).contains(level), "{level}");
        }
        assert!(seen.iter().flat_map(|(_, ceiling)| ceiling).all(|ceiling| *ceiling >= LEAST));
    }

    #[test]
    fn a_fast_disk_behind_a_long_path_does_not_make_it_swing() {
        let seen = run(mbit(10_000), |_| mbit(8_000), 5, 30);
        let tail: Vec<f64> = seen[200..].iter().map(|(level, _)| *level).collect();
        let (least, most) =
            tail.iter().fold((1.0_f64, 0.0_f64), |(least, most), level| (least.min(*level), most.max(*level)));
        assert!(most - least < 0.25, "{least} to {most}");
        assert!(most < 0.95);
    }
}
