use super::*;

fn member(at: Time, sent: u64, delivered: u64, rtt_ms: u64) -> Member {
    let seen = Observation {
        at,
        rtt: Span::from_millis(rtt_ms),
        least_rtt: Span::from_millis(100),
        delivered: ByteCount::new(delivered),
        retransmitted: 0,
        packet: ByteCount::new(1000),
        window: ByteCount::new(100_000),
        idle: false,
    };
    Member { seen, sent: ByteCount::new(sent) }
}

fn at(millis: u64) -> Time {
    Time::ORIGIN + Span::from_millis(millis)
}

impl Bundle {
    /// A bundle that has found this `capacity`.
    pub(crate) fn holding(capacity: Rate) -> Self {
        let steering = Steering::holding(capacity);
        Self::with(Phase::Steered { steering, search: Search::new(Time::ORIGIN, capacity) })
    }
}

#[test]
fn what_a_member_that_has_left_delivered_stays_in_the_sum() {
    let mut bundle = Bundle::default();
    bundle.update(at(1), &[(0, member(at(1), 500, 300, 100)), (7, member(at(1), 50, 30, 100))], None);
    assert_eq!(bundle.totals, Totals { sent: ByteCount::new(550), delivered: ByteCount::new(330), retransmitted: 0 });
    bundle.update(at(2), &[(0, member(at(2), 600, 400, 100))], None);
    // One of the same number is another connection.
    bundle.update(at(3), &[(0, member(at(3), 600, 400, 100)), (7, member(at(3), 10, 10, 100))], None);
    assert_eq!(bundle.totals, Totals { sent: ByteCount::new(660), delivered: ByteCount::new(440), retransmitted: 0 });
}

#[test]
fn a_queue_is_what_all_members_see() {
    let mut bundle = Bundle::default();
    let rtt_at = |bundle: &mut Bundle, time, rtts: [u64; 2]| {
        let members = [0, 1].map(|number: Number| {
            let bytes = 100_000 * time;
            (number, member(at(time), bytes, bytes, rtts[usize::from(number)]))
        });
        bundle.note(at(time), &members);
        bundle.aggregate(at(time)).unwrap().seen.rtt
    };
    assert_eq!(rtt_at(&mut bundle, 1, [100, 180]), Span::from_millis(100));
    assert_eq!(rtt_at(&mut bundle, 2, [130, 180]), Span::from_millis(130));
}

#[test]
fn a_limit_is_shared_by_those_that_there_are() {
    let mut bundle = Bundle::default();
    let limit = Rate::from_bits_per_second(9_000_000);
    let two = [(0, member(at(1), 1, 1, 100)), (1, member(at(1), 1, 1, 100))];
    assert_eq!(bundle.update(at(1), &two, Some(limit)).ceilings, [(0, Some(limit / 2)), (1, Some(limit / 2))]);
    assert!(bundle.update(at(2), &two, Some(limit)).ceilings.is_empty());
    assert_eq!(bundle.update(at(3), &two[..1], Some(limit)).ceilings, [(0, Some(limit))]);
    assert_eq!(bundle.update(at(4), &[], Some(limit)).ceilings, []);
}

/// A bundle of two members on a path that carries more than they send: the bytes in flight and the
/// windows double with each round trip as soon as there are data.
struct Growing {
    bundle: Bundle,
    /// Window of one member, and bytes that it has sent.
    window: u64,
    sent: u64,
}

impl Growing {
    /// A round trip of 100 ms from `begin`, with data or without.
    fn round(&mut self, begin: u64, has_data: bool) {
        for step in 1..=10 {
            let now = begin + step * 10;
            let delivered = self.sent;
            self.sent += if has_data { self.window / 10 } else { 10 };
            let seen = Observation {
                window: ByteCount::new(self.window),
                idle: !has_data,
                ..member(at(now), 0, delivered, 100).seen
            };
            let member = Member { seen, sent: ByteCount::new(self.sent) };
            self.bundle.update(at(now), &[(0, member), (1, member)], None);
        }
        if has_data {
            self.window *= 2;
        }
    }
}

#[test]
fn a_sender_that_has_nothing_to_send_yet_learns_nothing_of_the_path() {
    let mut growing = Growing { bundle: Bundle::default(), window: 14_000, sent: 0 };
    for round in 0..10 {
        growing.round(round * 100, false);
    }
    for round in 10..13 {
        growing.round(round * 100, true);
    }
    assert_eq!(growing.bundle.capacity(), None, "its windows were not used, and did not grow for that");
}

#[test]
fn the_last_blocks_go_to_those_that_are_soon_done_with_them() {
    let (now, round_trip) = (Time::ORIGIN + Span::from_secs(1), Span::from_millis(300));
    let packet = ByteCount::new(1448);
    let of = |number: Number, packets: u64| {
        let seen = Observation {
            at: now,
            rtt: round_trip,
            least_rtt: round_trip,
            delivered: packet * packets,
            retransmitted: 0,
            packet,
            window: packet * packets,
            idle: false,
        };
        (number, Member { seen, sent: packet * (packets * 2) })
    };
    let mut bundle = Bundle::default();
    bundle.update(now, &[of(0, 800), of(1, 800), of(2, 1000), of(3, 20)], None);
    let takers = |blocks: u64| {
        let block = ByteCount::from_mib(1);
        (0..4).filter(|number| bundle.takes(*number, block, block * blocks)).collect::<Vec<Number>>()
    };
    // The slow one needs 131 times as long as all of them together.
    assert_eq!(takers(1000), [0, 1, 2, 3]);
    assert_eq!(takers(50), [0, 1, 2]);
    assert_eq!(takers(0), [0, 1, 2]);
    assert!(bundle.takes(9, ByteCount::from_mib(1), ByteCount::ZERO), "one that was not seen yet");
    // Twenty packets a round trip: a megabyte takes it 36 of them, and the others less than one.
    let megabyte = ByteCount::from_mib(1);
    let all_owed = |left: [u64; 4], frame: ByteCount| {
        let owed = |(number, left)| {
            let bytes = packet * left;
            Owed { number, bytes, blocks: bytes.as_u64().div_ceil(frame.as_u64()) }
        };
        (0..4).zip(left).map(owed).collect::<Vec<_>>()
    };
    let member_to_retire = |left: [u64; 4]| bundle.member_to_retire(&all_owed(left, megabyte), megabyte);
    assert_eq!(member_to_retire([0, 0, 0, 700]), Some(3));
    assert_eq!(member_to_retire([0, 0, 0, 80]), None, "what it has nearly sent is not sent anew");
    assert_eq!(member_to_retire([2800, 0, 0, 0]), None);
    assert_eq!(member_to_retire([70_000, 70_000, 70_000, 700]), None, "the others have as much to do");
    assert_eq!(member_to_retire([70_000, 70_000, 70_000, 1700]), None);
    assert_eq!(member_to_retire([0; 4]), None);
    let many_blocks = all_owed([0, 0, 0, 700], ByteCount::from_kib(16));
    assert_eq!(
        bundle.member_to_retire(&many_blocks, megabyte),
        None,
        "parts of 62 blocks, each of which comes aggregate"
    );
}

#[test]
fn none_of_many_that_are_all_slow_holds_up_the_end() {
    // 28 connections of 30 packets each: a path of 100 Mbit/s on which one packet of a thousand is
    // lost.
    let seen = Observation { window: ByteCount::new(30_000), ..member(at(1), 0, 0, 100).seen };
    let members: Vec<_> = (0..28).map(|number| (number, Member { seen, sent: ByteCount::ZERO })).collect();
    let mut bundle = Bundle::default();
    bundle.update(at(1), &members, None);
    let owed = |number| Owed { number, bytes: ByteCount::new(1_800_000 + 10_000 * u64::from(number)), blocks: 2 };
    let left: Vec<_> = (0..28).map(owed).collect();
    assert_eq!(bundle.member_to_retire(&left, ByteCount::from_mib(1)), None);
    let nothing = |of: &Owed| Owed { bytes: ByteCount::ZERO, blocks: 0, ..*of };
    let late: Vec<_> = left.iter().map(|of| if of.number == 9 { *of } else { nothing(of) }).collect();
    assert_eq!(bundle.member_to_retire(&late, ByteCount::from_mib(1)), None, "a block takes any other as long");
}

#[test]
fn a_member_has_enough_when_twice_its_window_is_on_the_way() {
    let mut bundle = Bundle::default();
    bundle.update(at(1), &[(0, member(at(1), 500, 300, 100))], None);
    assert_eq!(bundle.enough(0), Some(ByteCount::new(200_000)), "a window of 100 kB doubles");
    assert_eq!(bundle.enough(1), None, "it may not have been seen yet");
}
