//! What follows from certain losses.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use icdc_units::{Span, Time};
use support::{losing, packets, path, unwatched, watched};

const RTT: Span = Span::from_millis(100);

#[test]
fn slow_start_doubles_the_packets_of_each_round_trip() {
    let (_, diary) = watched(&path(10_000, RTT, 5000, 1));
    let round = |number: u64| {
        let begin = Time::ORIGIN + RTT * number;
        diary.sent.iter().filter(|sent| sent.at >= begin && sent.at < begin + RTT).count()
    };
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(round), [10, 20, 40, 80, 160, 320, 640]);
}

#[test]
fn one_packet_takes_one_round_trip() {
    let outcome = unwatched(&packets(path(1000, RTT, 100, 10), 1));
    let flow = &outcome.flows[0];
    // 12,304 ns for the packet, 720 ns for the acknowledgement on the wire.
    assert_eq!(flow.finished, Some(Time::ORIGIN + RTT + Span::from_nanos(12_304 + 720)));
    assert_eq!((flow.delivered, flow.sender.sent), (1, 1));
    assert_eq!(outcome.simulated, RTT + Span::from_nanos(13_024));
}

#[test]
fn two_selective_acknowledgements_are_proof_after_a_quarter_of_the_round_trip() {
    let (_, diary) = watched(&packets(losing(path(1000, RTT, 100, 10), &[1]), 3));
    let again = diary.sent.iter().find(|sent| sent.again).unwrap();
    // And 2 ms, the least that a timer waits.
    let waited = (again.at - Time::ORIGIN).ratio(RTT);
    assert!((1.26..1.29).contains(&waited), "{waited} round trips");
}

#[test]
fn one_loss_is_one_retransmission_and_one_halving() {
    let (outcome, diary) = watched(&packets(losing(path(1000, RTT, 5000, 60), &[400]), 20_000));
    let sender = outcome.flows[0].sender;
    assert_eq!((sender.retransmitted, sender.recoveries, sender.timeouts), (1, 1, 0));
    assert_eq!(outcome.flows[0].delivered, 20_000);
    let before = diary.states.iter().rfind(|(.., state)| state.threshold.is_none()).unwrap().2.window;
    let after = diary.states.iter().find(|(.., state)| state.threshold.is_some()).unwrap().2.threshold.unwrap();
    assert!(after <= before / 2 + 50 && after >= before / 2, "{before} → {after}");
    // Recovery ends at the threshold.
    let ended = diary.states.iter().skip_while(|(.., state)| state.threshold.is_none());
    let open = ended.clone().find(|(.., state)| state.recovery == icdc_cc::native::CongestionState::Open).unwrap();
    assert!((after..after + 3).contains(&open.2.window), "{} after {after}", open.2.window);
}

#[test]
fn half_a_window_lost_in_a_row_needs_no_timeout() {
    let burst: Vec<u64> = (700..1000).collect();
    let outcome = unwatched(&packets(losing(path(1000, RTT, 5000, 60), &burst), 20_000));
    let sender = outcome.flows[0].sender;
    assert_eq!((sender.retransmitted, sender.recoveries, sender.timeouts), (300, 1, 0));
    assert_eq!(outcome.flows[0].delivered, 20_000);
    assert_eq!(outcome.flows[0].duplicates, 0);
}

#[test]
fn every_second_packet_of_a_window_needs_no_timeout() {
    let comb: Vec<u64> = (700..1100).step_by(2).collect();
    let outcome = unwatched(&packets(losing(path(1000, RTT, 5000, 60), &comb), 20_000));
    let sender = outcome.flows[0].sender;
    assert_eq!((sender.retransmitted, sender.recoveries, sender.timeouts), (200, 1, 0));
}

#[test]
fn a_lost_retransmission_is_found_by_its_time() {
    let simulation = |numbers: &[u64]| packets(losing(path(1000, RTT, 5000, 60), numbers), 20_000);
    let (_, diary) = watched(&simulation(&[400]));
    let again = diary.sent.iter().position(|sent| sent.again).unwrap() as u64 + 1;
    let (outcome, diary) = watched(&simulation(&[400, again]));
    let sender = outcome.flows[0].sender;
    assert_eq!((sender.retransmitted, sender.recoveries, sender.timeouts), (2, 1, 0));
    let times: Vec<Time> = diary.sent.iter().filter(|sent| sent.again).map(|sent| sent.at).collect();
    // What is sent right after the first one comes back a round trip later.
    assert!(times[1] - times[0] < RTT + Span::from_millis(5), "{times:?}");
    assert_eq!(outcome.flows[0].delivered, 20_000);
}

#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    let outcome = unwatched(&packets(losing(path(1000, RTT, 100, 10), &[10]), 10));
    let flow = &outcome.flows[0];
    assert_eq!((flow.sender.probes, flow.sender.timeouts, flow.sender.retransmitted), (1, 0, 1));
    // The probe leaves with the timeout, three round trips here, after the last acknowledgement.
    assert!(flow.finished.unwrap() < Time::ORIGIN + RTT * 5 + Span::from_millis(1), "{:?}", flow.finished);
}

#[test]
fn when_all_is_lost_the_timer_begins_again() {
    // The first window, and the probe.
    let lost: Vec<u64> = (1..=11).collect();
    let (outcome, diary) = watched(&packets(losing(path(1000, RTT, 100, 10), &lost), 10));
    let flow = &outcome.flows[0];
    assert_eq!((flow.sender.probes, flow.sender.timeouts), (1, 1));
    assert_eq!(flow.delivered, 10);
    // After the timeout one packet, then two, …
    let after: Vec<Time> = diary.sent[11..].iter().map(|sent| sent.at).collect();
    assert!(after[1] - after[0] >= RTT && after[1] == after[2], "{after:?}");
    assert_eq!(flow.duplicates, 0);
}

#[test]
fn a_path_that_is_dead_for_a_while_is_asked_ever_less_often() {
    let lost: Vec<u64> = (1..=15).collect();
    let (outcome, diary) = watched(&packets(losing(path(1000, RTT, 100, 60), &lost), 10));
    let flow = &outcome.flows[0];
    assert_eq!((flow.sender.timeouts, flow.delivered), (5, 10));
    let times: Vec<Time> = diary.sent[11..16].iter().map(|sent| sent.at).collect();
    let gaps: Vec<Span> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] == pair[0] * 2), "{gaps:?}");
}
