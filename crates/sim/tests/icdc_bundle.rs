//! The algorithm `icdc` for several connections as one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use icdc_sim::{Flow, Pause, Pausing, ReceiveWindow};
use icdc_units::{ByteCount, Span};
use support::bundle_path::{self, COMING_AND_GOING, Path, comes_and_goes};

const LONG: Path = Path { seconds: 30, ..bundle_path::LONG };
const LARGE: ReceiveWindow = ReceiveWindow::Fixed(ByteCount::from_mib(1024));

fn member(window: ReceiveWindow) -> Flow {
    Flow { bundle: Some(0), ..Flow::bulk(icdc_cc::find("icdc").unwrap(), window) }
}

fn members(count: usize, window: ReceiveWindow) -> Vec<Flow> {
    vec![member(window); count]
}

/// Times in which nobody's processor runs, so that nothing is sent and nothing acknowledged.
fn pauses(length_ms: u64, every_ms: u64) -> Vec<Pause> {
    let at = |number: u64| every_ms * number + 37 + number * number * 7 % 50;
    let of_both = [Pausing::Sender, Pausing::Receiver];
    let pause = |number| {
        let (after, length) = (Span::from_millis(at(number)), Span::from_millis(length_ms));
        of_both.map(|of| Pause { of, after, length })
    };
    (0..30_000 / every_ms).flat_map(pause).collect()
}

#[test]
fn any_number_of_members_is_one_flow_with_one_start_up() {
    let alone = LONG.run(members(1, LARGE), Vec::new());
    assert!(alone.steady > 0.98 && alone.dropped == 0, "{} {}", alone.steady, alone.dropped);
    for count in [2, 4, 16] {
        let seen = LONG.run(members(count, LARGE), Vec::new());
        assert!(seen.slower < alone.slower * 1.03, "{count}: {} against {}", seen.slower, alone.slower);
        assert!(seen.steady > 0.98, "{count}: {}", seen.steady);
        assert_eq!(seen.dropped, 0, "{count}");
        let bytes = seen.outcome.flows.iter().map(|flow| flow.bytes);
        let (least, most) = (bytes.clone().min().unwrap(), bytes.max().unwrap());
        assert!(most.ratio(least) < 1.3, "{count}: {least} to {most}");
    }
}

#[test]
fn random_losses_cost_what_they_take() {
    let seen = Path { loss: 1e-4, ..LONG }.run(members(16, LARGE), Vec::new());
    assert!(seen.steady > 0.97 && seen.dropped == 0, "{} {}", seen.steady, seen.dropped);
}

#[test]
fn what_a_member_cannot_send_the_others_do() {
    let stalled = [Pause { of: Pausing::Sender, after: Span::from_secs(8), length: Span::from_secs(20) }];
    let stalls = Flow { pauses: stalled.to_vec(), ..member(LARGE) };
    for (name, bundle) in [
        ("the first", [vec![stalls.clone()], members(3, LARGE)].concat()),
        ("the last", [members(3, LARGE), vec![stalls]].concat()),
    ] {
        let seen = LONG.run(bundle, Vec::new());
        assert!(seen.steady > 0.95, "{name} stalls: {}", seen.steady);
        assert!(seen.dropped < 5000, "{name} stalls: {}", seen.dropped);
    }
}

#[test]
fn members_may_end_and_others_come() {
    let ends = Flow { stop: Some(Span::from_secs(8)), ..member(LARGE) };
    let comes = Flow { start: Span::from_secs(10), ..member(LARGE) };
    let seen = LONG.run([members(2, LARGE), vec![ends.clone(), ends, comes.clone(), comes]].concat(), Vec::new());
    assert!(seen.steady > 0.97 && seen.dropped < 5000, "{} {}", seen.steady, seen.dropped);
}

#[test]
fn two_bundles_share_a_path_whatever_the_number_of_their_members() {
    let path = Path { rtt: Span::from_millis(50), queue: 6_250_000, ..LONG };
    for (ours, theirs) in [(1, 1), (4, 1), (16, 4)] {
        let other = Flow { bundle: Some(1), start: Span::from_secs(3), ..member(LARGE) };
        let seen = path.run(members(ours, LARGE), vec![other; theirs]);
        let sum = |flows: &[icdc_sim::FlowOutcome]| flows.iter().map(|flow| flow.bytes.as_u64()).sum::<u64>();
        let share = sum(&seen.outcome.flows[..ours]) as f64 / sum(&seen.outcome.flows) as f64;
        assert!((0.4..0.66).contains(&share), "{ours} beside {theirs}: {share}");
    }
}

#[test]
fn a_bundle_beside_a_cubic_connection_that_was_there_before_gets_half() {
    let path = Path { rtt: Span::from_millis(50), queue: 6_250_000, bytes: 1_500_000_000, seconds: 45, ..LONG };
    let cubic = Flow::bulk(icdc_cc::find("cubic").unwrap(), LARGE);
    for count in [1, 4, 16] {
        let late = Flow { start: Span::from_secs(5), ..member(LARGE) };
        let seen = path.run(vec![late; count], vec![cubic.clone()]);
        let (ours, theirs) = seen.between(10, 45);
        assert!(ours > 0.42 && theirs > 0.42, "{count}: {ours} {theirs}");
    }
}

#[test]
fn beside_others_that_come_and_go_a_bundle_takes_what_they_leave() {
    for (mbit, least) in [(300, 0.93), (500, 0.9), (600, 0.88)] {
        let seen = COMING_AND_GOING.run(members(1, LARGE), vec![comes_and_goes(mbit)]);
        let (ours, theirs) = seen.between(20, 55);
        let share = ours / (1.0 - theirs);
        assert!(share > least, "{mbit} Mbit/s: {ours} beside {theirs}");
    }
}

#[test]
fn what_a_host_s_pauses_kept_from_being_sent_is_sent_later() {
    let undisturbed = LONG.run(members(1, LARGE), Vec::new());
    for (length, every) in [(10, 125), (30, 1000)] {
        let flow = Flow { pauses: pauses(length, every), ..member(LARGE) };
        let seen = LONG.run(vec![flow], Vec::new());
        assert!(seen.steady > 0.965 * undisturbed.steady, "{length} of {every}: {}", seen.steady);
        assert_eq!(seen.dropped, 0, "{length} of {every}");
    }
}
