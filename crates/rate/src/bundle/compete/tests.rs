use super::*;
use crate::path_ceiling::Observation;

const BASE: Span = Span::from_millis(50);
const CAPACITY: Rate = Rate::from_bits_per_second(1_000_000_000);
const CARRIED_BEFORE: Rate = Rate::from_bits_per_second(800_000_000);

const LEFT: Rate = Rate::from_bits_per_second(300_000_000);

/// Cause of the queue of a path.
#[derive(Clone, Copy)]
enum Queue {
    /// A route that is longer by 30 ms, and nothing in the queue.
    Longer,
    /// A flow that keeps this number of bytes in flight.
    Window(ByteCount),
    /// Traffic of a rate of its own, which leaves 300 Mbit/s.
    Rate,
}

/// A bundle of four members that sends at `rate`, below its windows.
fn shown(at: Time, rtt: Span, delivered: ByteCount, rate: Rate, retransmitted: u64) -> Aggregate {
    let seen = Observation {
        at,
        rtt,
        least_rtt: BASE,
        delivered,
        retransmitted,
        packet: ByteCount::new(1448),
        window: ByteCount::from_mib(64),
        idle: false,
    };
    Aggregate { seen, usual_rtt: rtt, sent: delivered + rate * rtt, carried: rate, members: 4 }
}

/// Runs a bundle that begins at `rate` over such a path, until COMPETE ends, or for 20 s.
fn on(queue: Queue, rate: Rate) -> (Compete, Option<Transition>) {
    over(queue, rate, CARRIED_BEFORE)
}

/// Runs a bundle as [`on`], over a path that seemed to carry `before`.
fn over(queue: Queue, rate: Rate, before: Rate) -> (Compete, Option<Transition>) {
    let mut compete = Compete::new(rate, Some(before));
    let (mut delivered, mut standing) = (ByteCount::ZERO, Span::from_millis(30));
    let interval = Span::from_millis(10);
    for tick in 0..2000 {
        let rate = compete.ceiling();
        let rtt = match queue {
            Queue::Longer => BASE + Span::from_millis(30),
            Queue::Window(others) => others / (CAPACITY - rate).max(CAPACITY / 20),
            Queue::Rate => {
                standing = standing + rate * interval / CAPACITY - LEFT * interval / CAPACITY;
                BASE + standing
            }
        };
        let carried = if matches!(queue, Queue::Rate) && !standing.is_zero() { LEFT } else { rate };
        delivered += carried * interval;
        let aggregate = shown(Time::ORIGIN + interval * tick, rtt, delivered, rate, 0);
        match compete.update(&aggregate) {
            Some(Transition::Continue(_)) | None => {}
            turn => return (compete, turn),
        }
    }
    (compete, None)
}

#[test]
fn beside_one_that_fills_the_queue_it_takes_half_of_what_it_has_measured() {
    // The other one alone keeps 50 ms of the path's rate in the queue.
    let (compete, turn) = on(Queue::Window(CAPACITY * (BASE * 2)), CAPACITY / 16);
    assert_eq!(turn, None);
    let measured = compete.capacity.unwrap();
    assert!(measured > CAPACITY.scaled(7, 8) && measured < CAPACITY.scaled(9, 8), "{measured}");
    assert!(compete.rate > CAPACITY.scaled(7, 16) && compete.rate < CAPACITY.scaled(9, 16), "{}", compete.rate);
}

#[test]
fn one_that_came_late_and_has_seen_a_small_share_only_takes_half_as_well() {
    let little = CAPACITY / 25;
    let (compete, turn) = over(Queue::Window(CAPACITY * (BASE * 2)), little.scaled(7, 8), little);
    assert_eq!(turn, None);
    assert!(compete.rate > CAPACITY.scaled(7, 16) && compete.rate < CAPACITY.scaled(9, 16), "{}", compete.rate);
}

#[test]
fn traffic_of_a_rate_of_its_own_is_told_by_a_queue_that_does_not_stay() {
    for rate in [100, 200] {
        let (_, turn) = on(Queue::Rate, Rate::from_bits_per_second(rate * 1_000_000));
        assert_eq!(turn, Some(Transition::Inelastic), "{rate} Mbit/s");
    }
}

#[test]
fn a_longer_route_is_told_by_what_it_carries() {
    let (_, turn) = on(Queue::Longer, CARRIED_BEFORE / 8);
    assert_eq!(turn, Some(Transition::Longer(Span::from_millis(30))));
}

/// Runs a bundle over a path of [`CAPACITY`] without a queue, with or without losses; the end of
/// COMPETE, and the number of round trips until then.
fn without_a_queue(mut compete: Compete, loses: bool) -> (Option<Transition>, u64, Compete) {
    let mut delivered = ByteCount::ZERO;
    for round in 1..100 {
        let rate = compete.ceiling();
        delivered += rate * BASE;
        let aggregate = shown(Time::ORIGIN + BASE * round, BASE, delivered, rate, if loses { round } else { 0 });
        match compete.update(&aggregate) {
            Some(Transition::Continue(_)) | None => {}
            turn => return (turn, round, compete),
        }
    }
    (None, 100, compete)
}

#[test]
fn one_that_is_again_beside_others_takes_its_half_before_it_is_alone() {
    let (turn, rounds, compete) = without_a_queue(Compete::remembering(CAPACITY / 8, CAPACITY), false);
    let Some(Transition::Alone(carried)) = turn else { panic!("{turn:?}") };
    assert!(carried >= CAPACITY.scaled(7, 16) && compete.rate <= CAPACITY.scaled(9, 16), "{carried}");
    assert!(rounds < 16, "{rounds}");
}

#[test]
fn losses_far_below_half_of_a_remembered_capacity_make_it_doubtful() {
    let (turn, ..) = without_a_queue(Compete::remembering(CAPACITY / 8, CAPACITY), true);
    assert_eq!(turn, Some(Transition::Doubtful));
}
