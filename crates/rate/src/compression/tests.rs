use super::*;

/// A host that sends data which shrinks to `shrinks` per cent at level 1 and a little more above, over
/// a path of `network`, from a disk of `disk`.
#[derive(Clone, Copy)]
struct World {
    network: Rate,
    disk: Rate,
    shrinks: u64,
    processors: u64,
    /// Processor time in a second that other work of this process takes.
    busy: Span,
    /// Rate at which a thread compresses at level 1; level 3 takes twice as long.
    compresses: Rate,
}

const TICK: Span = Span::from_millis(20);
const BLOCK: ByteCount = ByteCount::from_mib(4);

fn mbyte(rate: u64) -> Rate {
    Rate::from_bytes_per_second(rate * 1_000_000)
}

const WORLD: World = World {
    network: Rate::from_bits_per_second(100_000_000),
    disk: Rate::from_bits_per_second(8_000_000_000),
    shrinks: 30,
    processors: 4,
    busy: Span::ZERO,
    compresses: Rate::from_bits_per_second(3_200_000_000),
};

/// A run of the decision in a world, which may change.
struct Run {
    decision: Compression,
    now: Time,
    observed: Observed,
    neighbours: Neighbours,
    samples: u64,
    /// Time for which threads have compressed.
    took: Span,
    changes: Vec<Change>,
}

impl Run {
    fn new(world: World) -> Self {
        Self {
            decision: Compression::new(Setting::Auto, world.processors),
            now: Time::ORIGIN,
            observed: Observed {
                limits: Bottleneck::None,
                delivered: ByteCount::ZERO,
                stand_for: ByteCount::ZERO,
                worked: Span::ZERO,
            },
            neighbours: Neighbours::default(),
            samples: 0,
            took: Span::ZERO,
            changes: Vec::new(),
        }
    }

    /// Lets the transfer run for so long; returns the level at the end.
    fn run(&mut self, world: World, time: Span) -> u8 {
        let end = self.now + time;
        let mut carry = ByteCount::ZERO;
        while self.now < end {
            let level = self.decision.level();
            let percent = if level == 0 { 100 } else { world.shrinks };
            let by_network = world.network * 100 / percent;
            let by_processors = speed(world, level) * world.processors;
            let goodput = by_network.min(world.disk).min(by_processors);
            self.observed.limits = if goodput == world.disk {
                Bottleneck::Disk
            } else if goodput == by_network {
                Bottleneck::Network
            } else {
                Bottleneck::Processor
            };
            self.now += TICK;
            self.observed.stand_for += goodput * TICK;
            self.observed.delivered += (goodput * percent / 100) * TICK;
            self.observed.worked += world.busy / 50;
            carry += goodput * TICK;
            while carry >= BLOCK {
                carry -= BLOCK;
                self.block(world);
            }
            self.changes.extend(self.decision.on_tick(self.now, self.observed));
        }
        self.decision.level()
    }

    fn block(&mut self, world: World) {
        let Attempt { level, sample } = self.decision.next(&mut self.neighbours);
        let mut tried = |level: u8, plain: ByteCount| {
            // A little less at higher levels.
            let compressed = plain * (world.shrinks.min(100) - 2 * u64::from(world.shrinks < 90)) / 100;
            let took = plain / speed(world, level);
            self.took += took;
            self.decision.on_trial(level, Trial { plain, compressed, took });
        };
        if sample {
            self.samples += 1;
            (1..=TOP_LEVEL).for_each(|level| tried(level, ByteCount::from_kib(64)));
        }
        if let Some(level) = level {
            tried(level, BLOCK);
            self.neighbours.on_tried(world.shrinks < 94);
        }
    }
}

fn speed(world: World, level: u8) -> Rate {
    match level {
        0 => mbyte(1_000_000),
        level => world.compresses * 2 / (1 + u64::from(level)),
    }
}

fn after(world: World, seconds: u64) -> (u8, Option<Reason>) {
    let mut run = Run::new(world);
    let level = run.run(world, Span::from_secs(seconds));
    (level, run.decision.reason())
}

#[test]
fn text_over_a_slow_path_is_compressed_soon_and_stays_so() {
    let mut run = Run::new(WORLD);
    assert!(run.run(WORLD, Span::from_secs(1)) > 0);
    assert!(run.run(WORLD, Span::from_secs(60)) > 0);
    assert!(run.changes.len() <= 3, "{:?}", run.changes);
    assert_eq!(run.decision.reason(), None);
}

#[test]
fn what_does_not_shrink_is_sent_as_it_is() {
    let noise = World { shrinks: 100, ..WORLD };
    assert_eq!(after(noise, 10), (0, Some(Reason::Data)));
    let mut run = Run::new(noise);
    run.run(noise, Span::from_secs(20));
    assert!(run.run(WORLD, Span::from_secs(20)) > 0, "it is seen when the data changes");
}

#[test]
fn what_does_not_shrink_costs_little() {
    for network in [mbyte(1), mbyte(12), mbyte(125), mbyte(1250)] {
        let noise = World { shrinks: 100, network, disk: mbyte(9000), ..WORLD };
        let (mut run, time) = (Run::new(noise), Span::from_secs(10));
        run.run(noise, time);
        assert!(run.took * 50 < time * noise.processors, "{:?} of {time:?} at {network}", run.took);
    }
}

#[test]
fn data_that_begins_to_shrink_is_seen_soon() {
    let noise = World { shrinks: 100, ..WORLD };
    let mut run = Run::new(noise);
    run.run(noise, Span::from_secs(600));
    assert!(run.run(WORLD, Span::from_secs(20)) > 0, "after ten minutes of noise");
}

#[test]
fn a_disk_that_limits_is_not_helped_and_nothing_is_sampled() {
    let slow = World { disk: mbyte(10), ..WORLD };
    let mut run = Run::new(slow);
    assert_eq!(run.run(slow, Span::from_secs(2)), 0);
    assert_eq!(run.decision.reason(), Some(Reason::Disk));
    let samples = run.samples;
    run.run(slow, Span::from_secs(60));
    assert_eq!(run.samples, samples);
}

#[test]
fn a_disk_that_limits_what_the_path_alone_would_not_bring_changes_nothing() {
    let both = World { disk: mbyte(30), ..WORLD };
    let mut run = Run::new(both);
    run.run(both, Span::from_secs(2));
    let changes = run.changes.len();
    assert!(run.run(both, Span::from_secs(60)) > 0, "a path of 12.5 MB/s brings 30");
    assert_eq!(run.changes.len(), changes, "{:?}", run.changes);
}

#[test]
fn a_path_that_is_faster_than_the_processors_is_left_alone() {
    let fast = World { network: mbyte(3000), disk: mbyte(9000), ..WORLD };
    assert_eq!(after(fast, 10), (0, Some(Reason::Processor)));
    let busy = World { busy: Span::from_secs(4), ..WORLD };
    assert_eq!(after(busy, 10), (0, Some(Reason::Processor)));
}

#[test]
fn a_level_that_was_lowered_is_raised_ever_more_seldom() {
    let mut run = Run::new(WORLD);
    run.run(WORLD, Span::from_secs(2));
    let slow = World { disk: mbyte(10), ..WORLD };
    for _ in 0..60 {
        run.run(slow, Span::from_millis(500));
        run.run(WORLD, Span::from_millis(500));
    }
    assert!(run.changes.iter().filter(|change| change.level > 0).count() <= 6, "{:?}", run.changes);
}

#[test]
fn a_fixed_level_is_the_users_and_never_is_never() {
    let mut fixed = Compression::new(Setting::Level(7), 1);
    let mut neighbours = Neighbours::default();
    assert_eq!(fixed.next(&mut neighbours), Attempt { level: Some(7), sample: false });
    fixed.on_trial(7, Trial::default());
    let mut never = Compression::new(Setting::Never, 1);
    assert_eq!(never.next(&mut neighbours), Attempt::default());
}

#[test]
fn blocks_whose_neighbours_do_not_shrink_are_tried_ever_more_seldom() {
    let mut neighbours = Neighbours::default();
    let mut tried = Vec::new();
    for block in 0..200 {
        if neighbours.tries() {
            tried.push(block);
            neighbours.on_tried(false);
        }
    }
    assert_eq!(tried, [0, 2, 5, 10, 19, 36, 69, 102, 135, 168]);
    while !neighbours.tries() {}
    neighbours.on_tried(true);
    assert!(neighbours.tries() && neighbours.tries(), "one that shrinks is followed by others");
}
