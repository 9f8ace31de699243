//! The controller on simulated paths, where the first connection finds the rate and where each does
//! for itself; bundles are simulated packet by packet in `crates/sim`. `tests/throughput.txt` has
//! the result of each. A change of it is a change of the controller's behaviour; it is rewritten by
//! `ICDC_EXAMPLE=write cargo test -p icdc-rate throughput`.

mod world;

use std::fmt::Write as _;

use super::*;
use crate::path_ceiling::Observation;
use world::{Ends, Finds, World};

const TABLE: &str = include_str!("tests/throughput.txt");

const fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

/// Every combination that means something, each for 30 simulated seconds of which the last 20
/// count.
fn table() -> String {
    let mut text = String::from(
        "finds         connections  window  loss     ceilings   disk  processor |  kbit/s  connections  limited by  rates set\n",
    );
    for finds in [Finds::First, Finds::Nobody] {
        for connections in [1, 4] {
            for (window, loss) in [(None, 0), (Some(ByteCount::from_mib(3)), 0), (None, 20)] {
                for (user, key) in [(None, None), (Some(mbit(200)), None), (Some(mbit(200)), Some(mbit(80)))] {
                    for disk in [None, Some(mbit(120))] {
                        for processor in [None, Some(mbit(150))] {
                            let world =
                                World { finds, connections, window, loss, user, key, disk, processor, ..World::LONG };
                            let _ = writeln!(text, "{world} | {}", world.run());
                        }
                    }
                }
            }
        }
    }
    text
}

#[test]
fn throughput_is_what_the_table_says() {
    let (file, table) = (concat!(env!("CARGO_MANIFEST_DIR"), "/src/controller/tests/throughput.txt"), table());
    if std::env::var("ICDC_EXAMPLE").as_deref() == Ok("write") {
        std::fs::write(file, table).unwrap();
        return;
    }
    for (expected, found) in TABLE.lines().zip(table.lines()) {
        assert_eq!(expected, found);
    }
    assert_eq!(TABLE.lines().count(), table.lines().count());
}

#[test]
fn no_ceiling_is_exceeded_and_none_leaves_room_unused() {
    for finds in [Finds::First, Finds::Nobody] {
        for connections in [1, 2, 7] {
            for (user, key) in [(60, 400), (400, 60), (60, 60)] {
                let (user, key) = (Some(mbit(user)), Some(mbit(key)));
                let Ends { carried, limit, most, .. } = World { finds, connections, user, key, ..World::LONG }.run();
                assert!(most <= mbit(60), "{finds:?} {connections}: {most} for a moment");
                assert!((0.97..1.001).contains(&carried.ratio(mbit(60))), "{finds:?} {connections}: {carried}");
                let limiter = if key == Some(mbit(60)) { Limiter::Key } else { Limiter::User };
                assert_eq!(limit, Some(limiter), "{finds:?} {connections}");
            }
        }
    }
}

#[test]
fn what_the_first_connection_leaves_the_others_carry() {
    let world = World { connections: 4, window: Some(ByteCount::from_mib(1)), ..World::LONG };
    let Ends { carried, .. } = world.run();
    let alone = World { connections: 1, ..world }.run().carried;
    assert!(carried > alone * 3, "{carried}, and {alone} by one");
}

#[test]
fn a_slow_disk_neither_starves_nor_is_flooded() {
    for finds in [Finds::First, Finds::Nobody] {
        let Ends { carried, limit, fullest, .. } =
            World { finds, connections: 3, disk: Some(mbit(90)), ..World::LONG }.run();
        assert!((0.98..1.001).contains(&carried.ratio(mbit(90))), "{carried}");
        assert_eq!(limit, Some(Limiter::Disk));
        assert!(fullest < 0.9, "the ring was full to {fullest}, and TCP's window closes");
    }
}

#[test]
fn more_connections_come_where_one_processor_does_not_carry_all() {
    let Ends { connections, .. } = World { processor: Some(mbit(100)), ..World::LONG }.run();
    assert_eq!(connections, 4, "of 4 processors each has one");
    assert_eq!(World { processor: Some(mbit(5000)), ..World::LONG }.run().connections, 1);
}

/// Some connections of a transfer, as a controller sees them.
fn infos(count: u16, tcp: impl Fn(Number) -> Option<TcpState>) -> Vec<ConnectionInfo> {
    (0..count).map(|number| ConnectionInfo { number, lead: FIRST, tcp: tcp(number) }).collect()
}

const NO_RING: RingState = RingState { waiting: 0, blocks: 0, size: ByteCount::ZERO, drained: None };

/// A tick of the controller of a transfer whose user has not changed the ceiling.
fn on_tick(
    controller: &mut Controller,
    now: Time,
    connections: &[ConnectionInfo],
    ring: &RingState,
    pending: &Pending,
) -> Ticked {
    let user = controller.ceilings.user;
    controller.on_tick(now, Observed { connections, ring, pending, user })
}

/// The ceilings that those actions set, with the connections' numbers.
fn ceilings(actions: &[Action]) -> Vec<(Number, Rate)> {
    let set = actions.iter().filter_map(|action| match action {
        Action::SetCeiling(number, rate) => Some((*number, rate.expect("there is a ceiling"))),
        _ => None,
    });
    set.collect()
}

fn fixed(is_local: bool, ceilings: Ceilings) -> Controller {
    let setup = Setup { is_local, ..world::SETUP };
    Controller::new(Mode::PerConnection, setup, ceilings)
}

#[test]
fn a_ceiling_that_changes_while_data_flow_is_kept_at_once_and_used() {
    let changes = |now: Time| Some(Some(if now < Time::ORIGIN + Span::from_secs(20) { mbit(80) } else { mbit(40) }));
    for finds in [Finds::First, Finds::Nobody] {
        for connections in [1, 4] {
            let Ends { carried, limit, most, late, .. } = World { finds, connections, changes, ..World::LONG }.run();
            assert!(most <= mbit(80) && late <= mbit(40), "{finds:?} {connections}: {most}, {late}");
            assert!((0.97..1.001).contains(&carried.ratio(mbit(60))), "{finds:?} {connections}: {carried}");
            assert_eq!(limit, Some(Limiter::User), "{finds:?} {connections}");
        }
    }
}

#[test]
fn a_ceiling_that_changes_is_followed_and_nothing_remains_where_it_ends() {
    let mut controller = fixed(false, Ceilings::of(Some(mbit(90)), Some(mbit(8))));
    assert_eq!(ceilings(&controller.on_joined(1, FIRST)), [(0, mbit(4)), (1, mbit(4))]);
    let tick = |controller: &mut Controller, user: Option<Rate>| {
        let connections = infos(2, |_| None);
        let observed = Observed { connections: &connections, ring: &NO_RING, pending: &Pending::default(), user };
        controller.on_tick(Time::ORIGIN, observed).actions
    };
    assert_eq!(ceilings(&tick(&mut controller, Some(mbit(40)))), [(0, mbit(20)), (1, mbit(20))]);
    assert_eq!(ceilings(&tick(&mut controller, Some(mbit(200)))), [(0, mbit(45)), (1, mbit(45))], "the key's is lower");
    assert_eq!(controller.limit(), Some(Limit { rate: mbit(45), limiter: Limiter::Key }));
    let mut controller = fixed(false, Ceilings::of(None, Some(mbit(8))));
    controller.on_joined(1, FIRST);
    let none = [Action::SetCeiling(0, None), Action::SetCeiling(1, None)];
    assert_eq!(tick(&mut controller, None), none);
    assert_eq!(controller.limit(), None);
}

#[test]
fn no_connection_takes_data_in_a_pause_and_ceilings_stay_as_they_were() {
    for mode in [Mode::PerConnection, Mode::KernelPaced(Box::new(KernelPaced::new(false)))] {
        let mut controller = Controller::new(mode, world::SETUP, Ceilings::of(None, Some(mbit(8))));
        let mut tick = |user: Option<Rate>| {
            let connections = infos(1, |_| None);
            let pending = Pending { blocks_wait: true, ..Pending::default() };
            let observed = Observed { connections: &connections, ring: &NO_RING, pending: &pending, user };
            let actions = controller.on_tick(Time::ORIGIN, observed).actions;
            (ceilings(&actions), controller.takes(FIRST, ByteCount::new(1), None), controller.paused_by().is_some())
        };
        assert_eq!(tick(Some(mbit(8))), (vec![(0, mbit(8))], true, false));
        assert_eq!(tick(Some(Rate::ZERO)), (vec![], false, true));
        assert_eq!(tick(Some(Rate::ZERO)), (vec![], false, true));
        assert_eq!(tick(Some(mbit(9))), (vec![(0, mbit(9))], true, false));
    }
}

#[test]
fn a_ceiling_is_shared_by_those_that_there_are_and_set_once() {
    let mut controller = fixed(false, Ceilings::of(None, Some(mbit(90))));
    let mut tick = |count: u16| {
        let ticked = on_tick(&mut controller, Time::ORIGIN, &infos(count, |_| None), &NO_RING, &Pending::default());
        assert_eq!(ticked.next, Time::ORIGIN + TICK);
        ceilings(&ticked.actions)
    };
    assert_eq!(tick(1), [(0, mbit(90))]);
    assert_eq!(tick(1), []);
    assert_eq!(tick(3), [(0, mbit(30)), (1, mbit(30)), (2, mbit(30))]);
    assert_eq!(tick(3), []);
    assert_eq!(tick(1), [(0, mbit(90))]);
    assert_eq!(controller.limit(), Some(Limit { rate: mbit(90), limiter: Limiter::User }));
    // At once, and not only at the next tick.
    assert_eq!(ceilings(&controller.on_joined(7, FIRST)), [(0, mbit(45)), (7, mbit(45))]);
    assert_eq!(ceilings(&controller.on_joined(7, FIRST)), []);
    assert_eq!(ceilings(&controller.set_key_ceiling(Some(mbit(10)))), [(0, mbit(5)), (7, mbit(5))]);
    assert_eq!(controller.limit(), Some(Limit { rate: mbit(5), limiter: Limiter::Key }));
    assert_eq!(controller.key_ceiling(), Some(mbit(10)));
    assert_eq!(ceilings(&controller.set_key_ceiling(None)), [(0, mbit(45)), (7, mbit(45))]);
    assert_eq!(controller.key_ceiling(), None);
}

#[test]
fn a_key_whose_ceiling_is_zero_pauses_and_its_next_one_applies_at_once() {
    let key = |rate| Ceilings::of(rate, None);
    let tick = |controller: &mut Controller| {
        on_tick(controller, Time::ORIGIN, &infos(1, |_| None), &NO_RING, &Pending::default());
        (controller.takes(FIRST, ByteCount::new(1), None), controller.paused_by())
    };
    let mut controller = fixed(false, key(Some(Rate::ZERO)));
    assert_eq!(tick(&mut controller), (false, Some(Limiter::Key)));
    assert_eq!(controller.key_ceiling(), Some(Rate::ZERO));
    assert_eq!(ceilings(&controller.set_key_ceiling(Some(mbit(10)))), [(0, mbit(10))]);
    assert_eq!(tick(&mut controller), (true, None));
    assert_eq!(ceilings(&controller.set_key_ceiling(Some(Rate::ZERO))), [], "sockets keep what they have");
    assert_eq!(tick(&mut controller), (false, Some(Limiter::Key)));
}

#[test]
fn what_cannot_be_divided_is_the_firsts_and_the_sum_is_exact() {
    let mut controller = fixed(false, Ceilings::of(None, Some(Rate::from_bits_per_second(1_000_003))));
    let ticked = on_tick(&mut controller, Time::ORIGIN, &infos(7, |_| None), &NO_RING, &Pending::default());
    let set = ceilings(&ticked.actions);
    let equal = Rate::from_bits_per_second(142_857);
    assert_eq!(
        set,
        [
            (0, equal + Rate::from_bits_per_second(4)),
            (1, equal),
            (2, equal),
            (3, equal),
            (4, equal),
            (5, equal),
            (6, equal)
        ]
    );
}

#[test]
fn nobody_goes_without_a_ceiling_because_his_share_is_small() {
    let mut controller = fixed(false, Ceilings::of(None, Some(Rate::from_bits_per_second(10))));
    let ticked = on_tick(&mut controller, Time::ORIGIN, &infos(3, |_| None), &NO_RING, &Pending::default());
    assert_eq!(ceilings(&ticked.actions), [(0, LEAST_CEILING), (1, LEAST_CEILING), (2, LEAST_CEILING)]);
}

#[test]
fn within_one_host_the_receiver_itself_holds_the_sender_up() {
    let slow = RingState { waiting: 48, blocks: 64, size: ByteCount::from_mib(256), drained: Some(mbit(100)) };
    for (is_local, expected) in [(true, mbit(800)), (false, mbit(50))] {
        let mut controller = fixed(is_local, Ceilings::of(Some(mbit(800)), Some(mbit(900))));
        let ticked = on_tick(&mut controller, Time::ORIGIN, &infos(1, |_| None), &slow, &Pending::default());
        assert_eq!(ceilings(&ticked.actions), [(0, expected)]);
    }
}

#[test]
fn a_ring_that_fills_and_empties_is_told_once_each() {
    let mut controller = fixed(false, Ceilings::default());
    let mut causes = |waiting| {
        let ring = RingState { waiting, blocks: 64, size: ByteCount::from_mib(256), drained: Some(mbit(400)) };
        let ticked = on_tick(&mut controller, Time::ORIGIN, &infos(1, |_| None), &ring, &Pending::default());
        let paced = ticked.actions.into_iter().filter_map(|action| match action {
            Action::Paced(Pace { cause, ceiling }) => Some((cause, ceiling.is_some())),
            _ => None,
        });
        paced.collect::<Vec<_>>()
    };
    assert_eq!(causes(2), []);
    assert_eq!(causes(20), [(Cause::RingFills, true)]);
    assert_eq!(causes(21), []);
    assert_eq!(causes(0), [(Cause::RingEmptied, false)]);
}

#[test]
fn a_ring_that_is_told_of_seldom_is_filled_with_more_care() {
    let ceiling = |feedback_interval| {
        let setup = Setup { feedback_interval, ..world::SETUP };
        let mut controller = Controller::new(Mode::PerConnection, setup, Ceilings::default());
        let ring = RingState { waiting: 10, blocks: 64, size: ByteCount::from_mib(256), drained: Some(mbit(900)) };
        ceilings(&on_tick(&mut controller, Time::ORIGIN, &infos(1, |_| None), &ring, &Pending::default()).actions)[0].1
    };
    assert!(ceiling(Span::from_secs(2)) < ceiling(Span::from_millis(100)));
}

fn seen(at: Time, window: u64) -> TcpState {
    let rtt = Span::from_millis(100);
    let (packet, delivered) = (ByteCount::new(1000), ByteCount::new(window * 10));
    let seen = Observation {
        at,
        rtt,
        least_rtt: rtt,
        delivered,
        retransmitted: 0,
        packet,
        window: ByteCount::new(window),
        idle: false,
    };
    TcpState {
        round_trip: rtt,
        acknowledged: delivered,
        pacing_rate: None,
        max_pacing_rate: None,
        in_flight: true,
        window_limited: Span::ZERO,
        member: Some(Member { seen, sent: delivered }),
    }
}

#[test]
fn who_holds_up_the_end_is_retired_but_never_the_first() {
    let at = Time::ORIGIN + Span::from_secs(1);
    for (slow, retired) in [(1, vec![Action::Retire(1)]), (0, vec![])] {
        let bundle = Bundle::default();
        let mut controller = Controller::new(Mode::Bundle(Box::new(bundle)), world::SETUP, Ceilings::default());
        let tcp = |number| Some(seen(at, if number == slow { 20_000 } else { 1_000_000 }));
        let connections = infos(3, tcp);
        on_tick(&mut controller, at, &connections, &NO_RING, &Pending::default());
        let owed = |number| {
            let bytes = if number == slow { ByteCount::from_mib(4) } else { ByteCount::ZERO };
            Owed { number, bytes, blocks: u64::from(number == slow) }
        };
        let pending = Pending { owed: (0..3).map(owed).collect(), ..Pending::default() };
        let later = at + TICK;
        assert!(!controller.needs_owed(at) && controller.needs_owed(later));
        let actions = on_tick(&mut controller, later, &connections, &NO_RING, &pending).actions;
        let retires: Vec<_> = actions.into_iter().filter(|action| matches!(action, Action::Retire(_))).collect();
        assert_eq!(retires, retired);
        let takes = |number, unsent| controller.takes(number, ByteCount::from_mib(4), unsent);
        assert!(!takes(slow, Some(ByteCount::ZERO)) && takes(2, Some(ByteCount::ZERO)));
        // What is found later is announced on the first one.
        assert_eq!((takes(slow, None), takes(slow, Some(ByteCount::MAX))), (slow != FIRST, true));
    }
}

#[test]
fn a_bundle_is_not_looked_at_before_its_time_and_obeys_every_ceiling() {
    let mut controller =
        Controller::new(Mode::Bundle(Box::default()), world::SETUP, Ceilings::of(Some(mbit(40)), Some(mbit(80))));
    let at = Time::ORIGIN + Span::from_secs(1);
    let first = on_tick(&mut controller, at, &infos(2, |_| Some(seen(at, 1_000_000))), &NO_RING, &Pending::default());
    assert_eq!(ceilings(&first.actions), [(0, mbit(20)), (1, mbit(20))]);
    assert!(first.next > at && first.next <= at + TICK);
    let early = on_tick(&mut controller, at, &infos(3, |_| Some(seen(at, 1_000_000))), &NO_RING, &Pending::default());
    assert_eq!((ceilings(&early.actions), early.next), (vec![], first.next));
    let due = first.next;
    let ticked =
        on_tick(&mut controller, due, &infos(1, |_| Some(seen(due, 1_000_000))), &NO_RING, &Pending::default());
    assert_eq!(ceilings(&ticked.actions), [(0, mbit(40))]);
    assert_eq!(controller.limit(), Some(Limit { rate: mbit(40), limiter: Limiter::Key }));
    assert_eq!(controller.state(), Some(State::Climb));
}

/// A path on which no limit is found, as at its start: when the others are let send, in
/// milliseconds, and the ceilings that are set in 4 s.
fn without_a_limit_of_the_path(limits: Ceilings) -> (Vec<u64>, Vec<(Number, Rate)>) {
    let mut controller = Controller::new(Mode::KernelPaced(Box::new(KernelPaced::new(true))), world::SETUP, limits);
    assert!(controller.opens_later() && !controller.needs_owed(Time::ORIGIN));
    let pending = Pending { blocks_wait: true, ..Pending::default() };
    let (mut opened_at, mut set) = (Vec::new(), Vec::new());
    for step in 0..200_u64 {
        let at = Time::ORIGIN + Span::from_millis(step * 20);
        let tcp = |number| {
            let acknowledged = ByteCount::new(if number == FIRST { step * 100_000 } else { 0 });
            Some(TcpState { acknowledged, in_flight: false, ..seen(at, 1_000_000) })
        };
        let ticked = on_tick(&mut controller, at, &infos(2, tcp), &NO_RING, &pending);
        let opens = ticked.actions.contains(&Action::Open(1));
        assert!(!opens || ticked.actions.last() == Some(&Action::Open(1)), "the others have ceilings before they send");
        opened_at.extend(opens.then_some(step * 20));
        set.extend(ceilings(&ticked.actions));
    }
    (opened_at, set)
}

#[test]
fn the_others_wait_until_the_first_one_is_known_not_to_carry_all() {
    let (opened_at, set) = without_a_limit_of_the_path(Ceilings::of(None, Some(mbit(500))));
    assert_eq!(opened_at, [3200], "32 round trips, once");
    assert_eq!(set, [(0, mbit(500)), (0, mbit(250)), (1, mbit(250))]);
    assert_eq!(without_a_limit_of_the_path(Ceilings::default()), (vec![3200], vec![]), "nothing limits anybody");
}

#[test]
fn what_the_path_has_free_is_told_by_those_that_can_know() {
    let tick = |is_one_flow, held_up: bool| {
        let mut controller = Controller::new(
            Mode::KernelPaced(Box::new(KernelPaced::new(is_one_flow))),
            world::SETUP,
            Ceilings::default(),
        );
        let pending = Pending { blocks_wait: true, ..Pending::default() };
        for step in 0..100_u64 {
            let at = Time::ORIGIN + Span::from_millis(step * 20);
            let tcp = |number| {
                let window_limited = if held_up { Span::from_millis(step * 20) } else { Span::ZERO };
                let rate = if number == FIRST { mbit(300) } else { mbit(70) };
                let acknowledged = ByteCount::new(if number == FIRST { step * 250_000 } else { 0 });
                let in_flight = number < 2;
                Some(TcpState { acknowledged, pacing_rate: Some(rate), window_limited, in_flight, ..seen(at, 1) })
            };
            on_tick(&mut controller, at, &infos(3, tcp), &NO_RING, &pending);
        }
        controller.capacity()
    };
    assert_eq!(tick(true, false), Some(mbit(300)), "the others have nothing");
    assert_eq!(tick(true, true), Some(mbit(370)), "of the others one has something under way");
    assert_eq!(tick(false, true), None);
}

#[test]
fn what_connections_that_have_left_carried_is_not_forgotten_nor_counted_twice() {
    let mut paced = KernelPaced::new(true);
    let mut carried = |others: &[(Number, u64)]| {
        let info = |number, bytes| {
            let tcp = TcpState { acknowledged: ByteCount::new(bytes), ..seen(Time::ORIGIN, 1) };
            ConnectionInfo { number, lead: FIRST, tcp: Some(tcp) }
        };
        let mut connections = vec![info(FIRST, 1_000_000)];
        connections.extend(others.iter().map(|(number, bytes)| info(*number, *bytes)));
        paced.on_tick(Time::ORIGIN, &connections, true);
        paced.way(FIRST).by_others.as_u64()
    };
    assert_eq!(carried(&[(1, 100), (2, 50)]), 150);
    assert_eq!(carried(&[(1, 140), (2, 50)]), 190);
    assert_eq!(carried(&[(1, 150)]), 200);
    assert_eq!(carried(&[(1, 150), (3, 10)]), 210);
}

/// A bundle whose first connection's thread takes all of a processor, seen every 2 ms: how many
/// connections are asked for in two seconds, if nothing waits at every `gap`th tick.
fn asked_for(gap: u64) -> Option<u64> {
    let mut controller = Controller::new(Mode::Bundle(Box::default()), world::SETUP, Ceilings::default());
    (0..1000_u64).find_map(|step| {
        let now = Time::ORIGIN + Span::from_millis(step * 2);
        let pending =
            Pending { blocks_wait: gap > 1 && step % gap != 1, worked: Span::from_millis(step * 2), owed: Vec::new() };
        let actions =
            on_tick(&mut controller, now, &infos(1, |_| Some(seen(now, 1_000_000))), &NO_RING, &pending).actions;
        actions.into_iter().find_map(|action| match action {
            Action::WantConnections(count) => Some(count),
            _ => None,
        })
    })
}

#[test]
fn looks_that_a_bundle_wants_often_do_not_change_how_processors_are_watched() {
    assert_eq!(asked_for(10), Some(2), "a queue that is empty for a moment between two looks of the watch");
    assert_eq!(asked_for(1), None, "nothing ever waits");
}

#[test]
fn what_the_path_carries_is_a_ceiling_like_any_other() {
    let of = |user| {
        let mode = Mode::Bundle(Box::new(Bundle::holding(mbit(300))));
        let mut controller = Controller::new(mode, world::SETUP, Ceilings::of(None, Some(user)));
        let at = Time::ORIGIN + Span::from_secs(1);
        on_tick(&mut controller, at, &infos(2, |_| Some(seen(at, 1_000_000))), &NO_RING, &Pending::default());
        controller.limit().map(|limit| limit.limiter)
    };
    assert_eq!(of(mbit(900)), Some(Limiter::Path));
    assert_eq!(of(mbit(100)), Some(Limiter::User));
}

/// A transfer of `blocks` whole blocks over `connections` connections to a receiver with a ring.
struct Blocks {
    controller: Controller,
    blocks: u64,
    ring_blocks: u32,
}

impl Blocks {
    fn new(blocks: u64, connections: u16, ring_blocks: u32) -> Self {
        Self::of(fixed(false, Ceilings::default()), blocks, connections, ring_blocks)
    }

    /// [`Self::new`] on a long path.
    fn far(blocks: u64, connections: u16, ring_blocks: u32) -> Self {
        let mode = Mode::Bundle(Box::default());
        Self::of(Controller::new(mode, world::SETUP, Ceilings::default()), blocks, connections, ring_blocks)
    }

    fn of(mut controller: Controller, blocks: u64, connections: u16, ring_blocks: u32) -> Self {
        for number in 1..connections {
            controller.on_joined(number, FIRST);
        }
        Self { controller, blocks, ring_blocks }
    }

    fn place(&mut self, form: Form) -> Placement {
        let block = world::SETUP.block;
        let (total, ring_blocks) = (Some(block * self.blocks), self.ring_blocks);
        self.controller.place(Frame { length: block, form, ring_blocks, total })
    }

    /// Number of blocks that go in parts; those before go whole.
    fn in_parts(mut self) -> usize {
        let placed: Vec<_> = (0..self.blocks).map(|_| self.place(Form::Divisible)).collect();
        let whole = placed.iter().take_while(|placement| **placement == Placement::Whole).count();
        assert!(placed[whole..].iter().all(|placement| *placement == Placement::InParts), "{placed:?}");
        placed.len() - whole
    }
}

#[test]
fn as_many_blocks_as_there_are_connections_go_in_parts_at_the_end() {
    for connections in [2, 16, 32] {
        assert_eq!(Blocks::new(100, connections, 64).in_parts(), usize::from(connections));
    }
    assert_eq!(Blocks::new(100, 1, 64).in_parts(), 0, "one connection carries them in order");
    let few = [Blocks::new(20, 16, 64).in_parts(), Blocks::new(16, 16, 64).in_parts()];
    assert_eq!(few, [4, 0], "each has one before");
}

#[test]
fn on_a_long_path_a_transfer_of_fewer_blocks_than_connections_goes_in_parts() {
    let far = |blocks| Blocks::far(blocks, 16, 64).in_parts();
    assert_eq!([far(1), far(15), far(16), far(20)], [1, 15, 0, 4]);
    assert_eq!(Blocks::new(1, 16, 64).in_parts(), 0, "on a short path the windows would stay small");
    assert_eq!(Blocks::far(15, 16, 8).in_parts(), 4, "there is no room for more of them");
    assert_eq!(Blocks::far(1, 1, 64).in_parts(), 0);
}

#[test]
fn blocks_in_parts_are_no_more_than_half_of_the_ring() {
    assert_eq!(Blocks::new(100, 64, 64).in_parts(), 32);
    assert_eq!(Blocks::new(100, 64, 1).in_parts(), 0);
    let mut run = Blocks::new(64, 64, 4);
    (0..64).for_each(|_| run.controller.on_requeued(world::SETUP.block));
    let placed = (0..9).filter(|_| run.place(Form::Divisible) == Placement::InParts).count();
    assert_eq!(placed, 2, "what is sent once more counts as well");
}

#[test]
fn no_block_goes_in_parts_while_the_total_is_unknown_nor_one_that_cannot_be_divided() {
    let mut run = Blocks::new(4, 2, 64);
    (0..2).for_each(|_| assert_eq!(run.place(Form::Divisible), Placement::Whole));
    assert_eq!(run.place(Form::Indivisible), Placement::Whole);
    let length = world::SETUP.block;
    let unknown = Frame { length, form: Form::Divisible, ring_blocks: 64, total: None };
    assert_eq!(run.controller.place(unknown), Placement::Whole);
    assert_eq!(run.controller.place(Frame { total: Some(length * 4), ..unknown }), Placement::InParts);
}

#[test]
fn each_way_has_a_connection_of_its_own_that_finds_the_rate() {
    let limits = Ceilings::of(None, Some(mbit(400)));
    let mut controller = Controller::new(Mode::KernelPaced(Box::new(KernelPaced::new(true))), world::SETUP, limits);
    let opened = |actions: &[Action]| {
        let number = |action: &Action| if let Action::Open(number) = action { Some(*number) } else { None };
        actions.iter().filter_map(number).collect::<Vec<_>>()
    };
    let leads = [0, 1, 0, 1, 1];
    let first = controller.on_joined(1, 1);
    assert_eq!((ceilings(&first), opened(&first)), (vec![(0, mbit(200)), (1, mbit(200))], vec![1]), "at once");
    let others = [controller.on_joined(2, 0), controller.on_joined(3, 1), controller.on_joined(4, 1)].concat();
    assert_eq!((ceilings(&others), opened(&others)), (vec![], vec![]));
    // The leading connection of the second way is held up by its window, that of the first carries what is free.
    let pending = Pending { blocks_wait: true, ..Pending::default() };
    let (mut opens, mut set) = (Vec::new(), Vec::new());
    for step in 0..100_u64 {
        let at = Time::ORIGIN + Span::from_millis(step * 20);
        let info = |number: Number| {
            let (rate, held_up) = match number {
                0 => (mbit(100), Span::ZERO),
                1 => (mbit(20), Span::from_millis(step * 20)),
                _ => (Rate::ZERO, Span::ZERO),
            };
            let acknowledged = rate * Span::from_millis(step * 20);
            let pacing_rate = (number < 2).then_some(mbit(100));
            let tcp = TcpState { acknowledged, pacing_rate, window_limited: held_up, ..seen(at, 1) };
            ConnectionInfo { number, lead: leads[usize::from(number)], tcp: Some(tcp) }
        };
        let infos: Vec<_> = (0..5).map(info).collect();
        let actions = on_tick(&mut controller, at, &infos, &NO_RING, &pending).actions;
        opens.extend(opened(&actions));
        set.extend(ceilings(&actions));
    }
    assert_eq!(opens, [3, 4], "only the second way has room for others");
    assert!(set.iter().all(|(number, _)| leads[usize::from(*number)] == 1), "{set:?}");
    // The connection that led the second way has ended: another one leads it, and all keep within the ceiling.
    let info = |number, lead| ConnectionInfo { number, lead, tcp: Some(seen(Time::ORIGIN, 1)) };
    let infos = [info(0, 0), info(3, 3), info(4, 3)];
    let at = Time::ORIGIN + Span::from_secs(3);
    let actions = on_tick(&mut controller, at, &infos, &NO_RING, &pending).actions;
    assert_eq!((opened(&actions), ceilings(&actions)), (vec![], vec![(3, mbit(100)), (4, mbit(100))]));
}
