//! Rates, order and shares over whole runs.

use icdc_units::{Rate, Span};
use proptest::prelude::*;

use super::*;
use crate::QueueSettings;

/// A frame that left: class, position at which it began, its number, its length.
type Left = (usize, u64, u64, u64);

fn class(name: &str, parent: Option<&str>, rate: Option<u64>, ceiling: Option<u64>) -> ClassSettings {
    ClassSettings {
        name: name.to_owned(),
        parent: parent.map(str::to_owned),
        rate: rate.map(Rate::from_bits_per_second),
        ceiling: ceiling.map(Rate::from_bits_per_second),
        queue: QueueSettings { limit: ByteCount::MAX, ..QueueSettings::default() },
        filters: Vec::new(),
    }
}

fn scheduler(line: u64, classes: &[ClassSettings]) -> Scheduler<u64> {
    let default = &classes.last().unwrap().name;
    Scheduler::new(Tree::new(Rate::from_bits_per_second(line), classes, Some(default)).unwrap())
}

fn push(scheduler: &mut Scheduler<u64>, class: usize, number: u64, length: u64) {
    assert!(scheduler.push(
        Time::ORIGIN,
        class,
        Waiting { packet: number, length: ByteCount::new(length), ecn_capable: false }
    ));
}

/// All that leaves until `end`, while `lengths` frames of each class wait again and again.
fn run(scheduler: &mut Scheduler<u64>, busy: &[usize], lengths: &[u64], end: u64) -> Vec<Left> {
    let mut left = Vec::new();
    let mut number = 0;
    for &class in busy {
        for _ in 0..2 {
            push(scheduler, class, number, lengths[number as usize % lengths.len()]);
            number += 1;
        }
    }
    while scheduler.position().as_u64() < end {
        match scheduler.next(Time::ORIGIN) {
            Step::Send { class, packet, length, .. } => {
                left.push((class, scheduler.position().as_u64() - length.as_u64(), packet, length.as_u64()));
                push(scheduler, class, number, lengths[number as usize % lengths.len()]);
                number += 1;
            }
            Step::Gap(bytes) => scheduler.advance(bytes),
            Step::Idle => panic!("something waits"),
        }
    }
    left
}

fn bytes_of(left: &[Left], class: usize) -> u64 {
    left.iter().filter(|left| left.0 == class).map(|left| left.3).sum()
}

proptest! {
    /// Over any second, and any other span: what a class sends is its rate × time within a frame.
    #[test]
    fn a_class_keeps_its_rate_over_every_span(line in 1_000_000_u64..10_000_000_000, share in 0.001_f64..1.0, lengths in prop::collection::vec(84_u64..1539, 1..20)) {
        let rate = ((line as f64 * share) as u64).max(8_000);
        let mut scheduler = scheduler(line, &[class("only", None, Some(rate), None)]);
        let left = run(&mut scheduler, &[0], &lengths, 2_000_000);
        let frame = *lengths.iter().max().unwrap() as f64;
        let sums: Vec<u64> = left.iter().scan(0, |sum, left| { let before = *sum; *sum += left.3; Some(before) }).collect();
        for from in (0..left.len()).step_by(7) {
            for to in (from..left.len()).step_by(11) {
                let sent = (sums[to] - sums[from]) as f64;
                let meant = (left[to].1 - left[from].1) as f64 * rate as f64 / line as f64;
                prop_assert!((sent - meant).abs() <= frame + 1.0, "{sent} for {meant}");
            }
        }
    }

    /// Whatever the classes: each has its rate to within what one frame of every other class can
    /// delay it, and keeps its order.
    #[test]
    fn classes_do_not_take_from_each_other(weights in prop::collection::vec(1_u64..1000, 2..12), lengths in prop::collection::vec(84_u64..1539, 1..20), load in 0.1_f64..1.0) {
        let line = 1_000_000_000;
        let sum: u64 = weights.iter().sum();
        let rates: Vec<u64> = weights.iter().map(|weight| ((line as f64 * load) as u64 * weight / sum).max(8_000)).collect();
        prop_assume!(rates.iter().sum::<u64>() <= line);
        let mut classes: Vec<_> = rates.iter().enumerate().map(|(index, rate)| class(&index.to_string(), None, Some(*rate), None)).collect();
        classes.push(class("rest", None, None, None));
        let mut scheduler = scheduler(line, &classes);
        let busy: Vec<usize> = (0..classes.len()).collect();
        let left = run(&mut scheduler, &busy, &lengths, 3_000_000);
        let slack = 1539 * (classes.len() as u64 + 2);
        let end = scheduler.position().as_u64();
        for (index, rate) in rates.iter().enumerate() {
            let meant = u128::from(end) * u128::from(*rate) / u128::from(line);
            let sent = u128::from(bytes_of(&left, index));
            prop_assert!(sent.abs_diff(meant) <= u128::from(slack), "class {index}: {sent} for {meant}");
            let numbers: Vec<u64> = left.iter().filter(|left| left.0 == index).map(|left| left.2).collect();
            prop_assert!(numbers.is_sorted());
        }
        // Best effort fills the line.
        prop_assert_eq!(left.iter().map(|left| left.3).sum::<u64>(), end);
    }
}

#[test]
fn the_gap_is_that_of_the_paper() {
    // A tenth of the line: after a frame of 1538 bytes nine times as much of nothing.
    let mut scheduler = scheduler(1_000_000_000, &[class("only", None, Some(100_000_000), None)]);
    push(&mut scheduler, 0, 0, 1538);
    push(&mut scheduler, 0, 1, 1538);
    assert!(matches!(scheduler.next(Time::ORIGIN), Step::Send { packet: 0, .. }));
    assert_eq!(scheduler.next(Time::ORIGIN), Step::Gap(ByteCount::new(9 * 1538)));
    scheduler.advance(ByteCount::new(9 * 1538));
    assert!(matches!(scheduler.next(Time::ORIGIN), Step::Send { packet: 1, .. }));
    assert_eq!(scheduler.next(Time::ORIGIN), Step::Idle);
}

/// The longest queue of a class before a bottleneck of its own share of the line, in full frames.
fn burst(left: &[Left], class: usize, share: f64) -> f64 {
    let (mut queue, mut longest, mut before) = (0.0_f64, 0.0_f64, 0);
    for &(_, at, _, length) in left.iter().filter(|left| left.0 == class) {
        queue = (queue - (at - before) as f64 * share).max(0.0) + length as f64;
        (longest, before) = (longest.max(queue), at);
    }
    longest / 1538.0
}

/// A frame may be late by its own interval and another's frame, and early by the given number of
/// bytes.
#[test]
fn classes_burst_by_two_frames_beside_others_of_all_rates() {
    let line = 1_000_000_000;
    let table_4 = [20, 50, 100, 300, 500];
    for rates in [&table_4[..], &[40, 100, 250, 600], &[8, 90, 440, 450], &[333, 333, 333]] {
        let class = |rate: &u64| class(&rate.to_string(), None, Some(rate * 1_000_000), None);
        let mut classes: Vec<_> = rates.iter().map(class).collect();
        for (number, class) in classes.iter_mut().enumerate() {
            class.name = number.to_string();
        }
        for early in [0, 384] {
            let mut scheduler = scheduler(line, &classes).with_early(ByteCount::new(early));
            let busy: Vec<usize> = (0..rates.len()).collect();
            let left = run(&mut scheduler, &busy, &[1538], 10_000_000);
            for (class, rate) in rates.iter().enumerate() {
                let share = *rate as f64 / 1000.0;
                let bound = if rates == table_4 { 2.0 } else { 2.0 + share * (1.0 + early as f64 / 1538.0) };
                let burst = burst(&left, class, share);
                assert!(burst <= bound, "{rate} of {rates:?}, early by {early}: {burst}");
            }
        }
    }
}

#[test]
fn frames_that_may_be_early_spare_short_gaps_and_keep_the_rate() {
    let mut scheduler =
        scheduler(1_000_000_000, &[class("only", None, Some(930_000_000), None)]).with_early(ByteCount::new(384));
    let left = run(&mut scheduler, &[0], &[1538], 10_000_000);
    let share = bytes_of(&left, 0) as f64 / scheduler.position().as_u64() as f64;
    assert!((share - 0.93).abs() < 0.0005, "{share}");
    let gaps = left.windows(2).filter(|two| two[1].1 > two[0].1 + two[0].3).count();
    assert!(gaps * 3 < left.len(), "{gaps} gaps for {} frames", left.len());
    assert!(burst(&left, 0, 0.93) < 1.3);
    // Where gaps are long, nothing is early.
    let mut slow =
        self::scheduler(1_000_000_000, &[class("only", None, Some(100_000_000), None)]).with_early(ByteCount::new(384));
    let left = run(&mut slow, &[0], &[1538], 1_000_000);
    assert!(left.windows(2).all(|two| two[1].1 - two[0].1 == 15_380), "{left:?}");
}

#[test]
fn nothing_is_saved_up_while_a_class_has_nothing_to_send() {
    let mut scheduler = scheduler(1_000_000_000, &[class("only", None, Some(100_000_000), None)]);
    scheduler.advance(ByteCount::new(1_000_000_000));
    for number in 0..3 {
        push(&mut scheduler, 0, number, 1538);
    }
    assert!(matches!(scheduler.next(Time::ORIGIN), Step::Send { .. }));
    assert_eq!(scheduler.next(Time::ORIGIN), Step::Gap(ByteCount::new(9 * 1538)));
}

#[test]
fn a_parents_ceiling_bounds_what_its_classes_borrow() {
    let line = 1_000_000_000;
    let classes = [
        class("site", None, Some(200_000_000), Some(300_000_000)),
        class("a", Some("site"), Some(50_000_000), Some(line)),
        class("b", Some("site"), Some(150_000_000), None),
        class("c", Some("site"), None, None),
        class("rest", None, None, Some(100_000_000)),
    ];
    let mut scheduler = scheduler(line, &classes);
    let left = run(&mut scheduler, &[1, 2, 3, 4], &[1538], 20_000_000);
    let share = |class| bytes_of(&left, class) as f64 / 20_000_000.0;
    let near = |class, wanted: f64| assert!((share(class) - wanted).abs() < 0.003, "{class}: {}", share(class));
    near(2, 0.150);
    near(4, 0.100);
    // What is left of the ceiling, 100 Mbit/s, is shared by those that may borrow; one has its own
    // rate besides.
    near(1, 0.050 + 0.050);
    near(3, 0.050);
    assert!((share(1) + share(2) + share(3) - 0.300).abs() < 0.003);
}

#[test]
fn best_effort_is_shared_evenly_and_starves_nobody() {
    let classes =
        [class("a", None, None, None), class("b", None, None, None), class("paced", None, Some(900_000_000), None)];
    let mut scheduler = scheduler(1_000_000_000, &classes);
    let left = run(&mut scheduler, &[0, 1, 2], &[1538, 300], 10_000_000);
    let [a, b, paced] = [0, 1, 2].map(|class| bytes_of(&left, class) as f64 / 10_000_000.0);
    assert!((paced - 0.9).abs() < 0.002, "{paced}");
    assert!((a - b).abs() < 0.002 && a > 0.045, "{a} {b}");
}

#[test]
fn a_full_queue_drops_in_its_class_only() {
    let limited = ClassSettings {
        queue: QueueSettings { limit: ByteCount::new(3 * 1538), ..QueueSettings::default() },
        ..class("limited", None, Some(1_000_000), None)
    };
    let mut scheduler = scheduler(1_000_000_000, &[limited, class("rest", None, None, None)]);
    let waiting = |packet| Waiting { packet, length: ByteCount::new(1538), ecn_capable: false };
    let taken = (0..10).filter(|number| scheduler.push(Time::ORIGIN, 0, waiting(*number))).count();
    assert!((0..1000).all(|number| scheduler.push(Time::ORIGIN, 1, waiting(number))));
    let dropped: Vec<u64> = scheduler.classes().map(|(_, counters, _)| counters.dropped).collect();
    assert_eq!((taken, dropped), (3, vec![7, 0]));
}

#[test]
fn a_class_counts_what_those_within_it_do() {
    let short = QueueSettings { limit: ByteCount::new(4 * 1538), ..QueueSettings::default() };
    let within = |name, rate| ClassSettings { queue: short, ..class(name, Some("site"), Some(rate), None) };
    let classes = [
        class("site", None, Some(100_000_000), None),
        within("a", 60_000_000),
        within("b", 20_000_000),
        class("rest", None, None, None),
    ];
    let mut scheduler = scheduler(1_000_000_000, &classes);
    for number in 0..30 {
        let waiting = Waiting { packet: number, length: ByteCount::new(1538), ecn_capable: false };
        scheduler.push(Time::ORIGIN, 1 + number as usize % 3, waiting);
    }
    let mut left = 0;
    while left < 5 {
        match scheduler.next(Time::ORIGIN) {
            Step::Send { .. } => left += 1,
            Step::Gap(bytes) => scheduler.advance(bytes),
            Step::Idle => break,
        }
    }
    let told: Vec<_> = scheduler.classes().map(|(_, counters, waiting)| (counters, waiting)).collect();
    let sum = |value: fn(&ClassCounters) -> u64| value(&told[1].0) + value(&told[2].0);
    assert_eq!(told[0].0.packets, sum(|counters| counters.packets));
    assert_eq!((told[0].0.dropped, sum(|counters| counters.dropped)), (12, 12));
    assert_eq!(told[0].0.bytes, told[1].0.bytes + told[2].0.bytes);
    assert_eq!(told[0].1, told[1].1 + told[2].1);
    assert!(!told[0].1.is_zero() && told[0].0.packets > 0, "{told:?}");
}

#[test]
fn other_classes_lose_no_frame_and_keep_counters() {
    let line = 1_000_000_000;
    let before = [
        class("stays", None, Some(100_000_000), None),
        class("goes", None, Some(1_000_000), None),
        class("rest", None, None, None),
    ];
    let mut scheduler = scheduler(line, &before);
    for number in 0..100 {
        push(&mut scheduler, number as usize % 3, number, 1538);
    }
    for _ in 0..10 {
        if let Step::Gap(bytes) = scheduler.next(Time::ORIGIN) {
            scheduler.advance(bytes);
        }
    }
    let sent: u64 = scheduler.classes().map(|(_, counters, _)| counters.packets).sum();
    let small = QueueSettings { limit: ByteCount::new(1538), ..QueueSettings::default() };
    let stays = ClassSettings { queue: small, ..class("stays", None, Some(50_000_000), None) };
    let after =
        Tree::new(Rate::from_bits_per_second(line), &[stays, class("rest", None, None, None)], Some("rest")).unwrap();
    let mut scheduler = scheduler.with(Time::ORIGIN + Span::from_millis(1), after);
    let mut numbers = Vec::new();
    loop {
        match scheduler.next(Time::ORIGIN) {
            Step::Send { packet, .. } => numbers.push(packet),
            Step::Gap(bytes) => scheduler.advance(bytes),
            Step::Idle => break,
        }
    }
    assert_eq!(numbers.len() as u64 + sent, 100);
    let order: Vec<u64> = numbers.iter().copied().filter(|number| number % 3 == 0).collect();
    assert!(order.is_sorted());
    let counted: u64 = scheduler.classes().map(|(_, counters, _)| counters.packets).sum();
    assert!(counted >= numbers.len() as u64, "those of a class that is gone are gone");
}

#[test]
fn a_thousand_classes_keep_their_rates() {
    let classes: Vec<_> = (0..1000).map(|index| class(&index.to_string(), None, Some(900_000), None)).collect();
    let mut scheduler = scheduler(1_000_000_000, &classes);
    let busy: Vec<usize> = (0..1000).collect();
    let end = 50_000_000;
    let left = run(&mut scheduler, &busy, &[1538], end);
    for index in 0..1000 {
        let meant = end as f64 * 0.0009;
        let sent = bytes_of(&left, index) as f64;
        assert!((sent - meant).abs() <= 2.0 * 1538.0, "class {index}: {sent} for {meant}");
    }
}
