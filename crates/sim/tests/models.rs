//! Flows against closed forms.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use icdc_path::Settings;
use icdc_path::loss::Model;
use icdc_sim::{Acknowledgements, Flow, ReceiveWindow, Simulation};
use icdc_units::{ByteCount, Rate, Span};
use support::{PAYLOAD, WIRE, packets, path, reno, unwatched, watched};

/// Payload that the bottleneck carries.
fn capacity(simulation: &Simulation) -> f64 {
    simulation.forward.rate.as_bits_per_second() as f64 * PAYLOAD as f64 / WIRE as f64
}

#[test]
fn reno_saws_between_a_half_and_the_whole_of_what_the_path_holds() {
    let (rtt, queue) = (Span::from_millis(50), 20);
    let mut simulation = path(100, rtt, queue, 400);
    simulation.flows[0].start = Span::ZERO;
    let (outcome, diary) = watched(&simulation);
    let holds = (simulation.forward.rate * rtt).as_u64() as f64 / WIRE as f64 + queue as f64;
    let recoveries = outcome.flows[0].sender.recoveries as f64;
    // The window grows by one a round trip from half of what the path holds to all of it: 3/8 of
    // its square per loss.
    let per_loss = outcome.flows[0].delivered as f64 / recoveries / (holds * holds * 0.375);
    assert!((0.9..1.1).contains(&per_loss), "{per_loss} of the packets per loss, {recoveries} losses");
    assert_eq!(outcome.flows[0].sender.timeouts, 0);
    let steady: Vec<f64> = diary
        .states
        .iter()
        .filter(|(at, ..)| at.as_nanos() > 60_000_000_000)
        .map(|(.., s)| f64::from(s.window))
        .collect();
    let mean = steady.iter().sum::<f64>() / steady.len() as f64 / holds;
    assert!((0.72..0.78).contains(&mean), "{mean} of what the path holds");
    let highest = steady.iter().copied().fold(0.0, f64::max) / holds;
    assert!((0.97..1.03).contains(&highest), "{highest}");
    let share = outcome.goodput().as_bits_per_second() as f64 / capacity(&simulation);
    assert!((0.74..0.84).contains(&share), "{share} of the bottleneck");
}

#[test]
fn reno_with_a_queue_that_holds_the_path_keeps_it_full() {
    let rtt = Span::from_millis(50);
    let simulation = path(100, rtt, 450, 100);
    let outcome = unwatched(&simulation);
    let share = outcome.goodput().as_bits_per_second() as f64 / capacity(&simulation);
    assert!((0.97..=1.0).contains(&share), "{share}");
}

#[test]
fn random_loss_gives_the_rate_of_mathis() {
    let rtt = Span::from_millis(100);
    for (ratio, seed) in [(1e-3, 1), (1e-3, 2), (1e-2, 3)] {
        let mut simulation = path(1000, rtt, 1000, 3000);
        simulation.forward.loss = Model::Random(ratio);
        simulation.forward.seed = seed;
        let outcome = unwatched(&simulation);
        let window = outcome.goodput().as_bits_per_second() as f64 / 8.0 / PAYLOAD as f64 * rtt.as_secs_f64();
        let constant = window * ratio.sqrt();
        // √(3/2) = 1.22 for regular loss (Mathis et al. 1997), √(π/2) = 1.25 to 1.31 for
        // independent loss (Misra and Ott 1999); less at one per cent, where timeouts matter.
        assert!((1.05..1.38).contains(&constant), "{constant} at {ratio}");
    }
}

#[test]
fn bbr_goes_by_the_rate_also_after_it_has_measured_the_round_trip_anew() {
    let mut simulation = path(100, Span::from_millis(10), 500, 25);
    simulation.flows = vec![Flow::bulk(icdc_cc::find("bbr").unwrap(), reno().window)];
    let (outcome, diary) = watched(&simulation);
    let sent_in = |second| diary.sent.iter().filter(|sent| sent.at.as_nanos() / 1_000_000_000 == second).count();
    let per_second = capacity(&simulation) / 8.0 / PAYLOAD as f64;
    // Each ten seconds the window is small for 0.2 s.
    for second in 1..25 {
        let share = sent_in(second) as f64 / per_second;
        assert!((0.72..1.1).contains(&share), "second {second}: {share}");
    }
    assert!(outcome.goodput().as_bits_per_second() as f64 > 0.93 * capacity(&simulation));
    // A path that holds 81 packets: once it is known, no more than as much again waits.
    let late = diary.states.iter().filter(|(at, ..)| at.as_nanos() > 2_000_000_000);
    assert!(late.map(|(.., state)| state.window).max().unwrap() < 200);
}

#[test]
fn two_flows_share_fairly() {
    let mut simulation = path(100, Span::from_millis(40), 300, 300);
    simulation.flows.push(Flow { start: Span::from_secs(3), ..reno() });
    simulation.forward.jitter = Span::from_micros(500);
    let outcome = unwatched(&simulation);
    assert!(outcome.fairness() > 0.95, "{}", outcome.fairness());
    assert!(outcome.goodput().as_bits_per_second() as f64 > 0.95 * capacity(&simulation));
}

#[test]
fn a_longer_round_trip_gets_less() {
    let mut simulation = path(100, Span::from_millis(20), 200, 200);
    simulation.flows.push(Flow { extra_delay: Span::from_millis(100), ..reno() });
    let outcome = unwatched(&simulation);
    let [near, far] = [0, 1].map(|index| outcome.flows[index].goodput.as_bits_per_second());
    assert!(near > 2 * far && far > 0, "{near} {far}");
    assert!(outcome.flows[1].least_rtt >= Span::from_millis(120));
}

#[test]
fn a_paced_flow_leaves_the_queue_empty() {
    let mut simulation = path(1000, Span::from_millis(100), 1000, 20);
    simulation.flows[0].rate = Some(Rate::from_bits_per_second(500_000_000));
    let (outcome, diary) = watched(&simulation);
    assert_eq!(outcome.flows[0].dropped, 0);
    assert!(diary.longest_queue <= ByteCount::new(10 * WIRE), "{}", diary.longest_queue);
    let late = diary.sent.iter().rfind(|sent| sent.at.as_nanos() < 10_000_000_000).unwrap().number;
    let steady = (outcome.flows[0].sender.sent - late) * PAYLOAD * 8 / 10;
    assert!((steady as f64 / 5e8 - 1.0).abs() < 0.01, "{steady}");
    // Each packet by itself.
    let times: Vec<_> = diary.sent.iter().skip_while(|sent| sent.number < late).map(|sent| sent.at).collect();
    let gap = ByteCount::new(PAYLOAD) / Rate::from_bits_per_second(500_000_000);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= gap / 2), "packets leave one by one");
    simulation.segmentation = true;
    let (_, diary) = watched(&simulation);
    let times: Vec<_> = diary.sent.iter().skip_while(|sent| sent.number < late).map(|sent| sent.at).collect();
    let first = times.windows(2).position(|pair| pair[1] > pair[0]).unwrap() + 1;
    let aggregate = times[first..].iter().take_while(|at| **at == times[first]).count();
    // A millisecond of 62.5 MB/s are 61,035 bytes.
    assert_eq!(aggregate, 42);
}

#[test]
fn the_receive_window_limits() {
    let mut simulation = path(1000, Span::from_millis(100), 1000, 30);
    simulation.flows[0].window = ReceiveWindow::Fixed(ByteCount::new(100 * PAYLOAD));
    let (outcome, diary) = watched(&simulation);
    let rate = outcome.flows[0].goodput.as_bits_per_second() as f64;
    assert!((rate / (100.0 * PAYLOAD as f64 * 8.0 / 0.1) - 1.0).abs() < 0.03, "{rate}");
    // A window that does not limit does not grow: slow start ends where half of it is in use.
    assert!(diary.states.iter().all(|(.., state)| state.window <= 200));
}

#[test]
fn a_tuned_window_keeps_ahead_of_slow_start() {
    let fixed = packets(path(1000, Span::from_millis(100), 20_000, 60), 100_000);
    let mut tuned = fixed.clone();
    tuned.flows[0].window = ReceiveWindow::Tuned { most: ByteCount::from_mib(64) };
    let [fixed, tuned] = [fixed, tuned].map(|simulation| unwatched(&simulation).flows[0].finished.unwrap());
    assert!(tuned < fixed + Span::from_millis(300), "{tuned:?} {fixed:?}");
}

#[test]
fn batches_halve_the_acknowledgements_again_and_the_rate_stays() {
    let mut simulation = path(1000, Span::from_millis(10), 2000, 5);
    let single = unwatched(&simulation);
    simulation.acknowledgements = Acknowledgements::Batches { packets: 16, within: Span::from_micros(200) };
    let batches = unwatched(&simulation);
    assert!(
        batches.backward.offered * 6 < single.backward.offered,
        "{} {}",
        batches.backward.offered,
        single.backward.offered
    );
    assert!(batches.goodput() > single.goodput().scaled(9, 10), "{} {}", batches.goodput(), single.goodput());
}

#[test]
fn a_line_is_never_overrun() {
    let mut simulation = path(100, Span::from_millis(50), 1000, 10);
    simulation.forward = Settings { line_rate: Some(Rate::from_bits_per_second(120_000_000)), ..simulation.forward };
    let outcome = unwatched(&simulation);
    assert_eq!(outcome.forward.overrun, 0);
    assert!(outcome.goodput().as_bits_per_second() as f64 > 0.8 * capacity(&simulation), "{}", outcome.goodput());
}

#[test]
fn a_window_that_the_line_does_not_let_out_does_not_grow() {
    let mut simulation = path(100, Span::from_millis(50), 1000, 20);
    // Slower than the bottleneck: nothing is lost, and the window would grow for ever.
    simulation.forward.line_rate = Some(Rate::from_bits_per_second(80_000_000));
    let (outcome, diary) = watched(&simulation);
    assert_eq!(outcome.forward.dropped, 0);
    let (.., last) = diary.states.last().unwrap();
    assert!(u64::from(last.window) <= 2 * last.in_flight + 20, "{last:?}");
}
