//! Whatever the path and the flows are like.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use icdc_path::Settings;
use icdc_path::loss::Model;
use icdc_sim::{Acknowledgements, Flow, ReceiveWindow, Simulation, SimulationError};
use icdc_units::{ByteCount, Rate, Span};
use proptest::prelude::*;
use support::{PAYLOAD, WIRE, path, reno, watched};

fn models() -> impl Strategy<Value = Model> {
    prop_oneof![
        Just(Model::None),
        (0.0..0.3).prop_map(Model::Random),
        (0.0..0.2, 1.0..9.0).prop_map(|(ratio, mean_length)| Model::Burst { ratio, mean_length }),
        prop::collection::vec(0_u64..300, 0..40).prop_map(Model::Listed),
    ]
}

fn directions() -> impl Strategy<Value = Settings> {
    (models(), 1_000_000_u64..1_000_000_000, 0_u64..200, 0_u64..30, 1_u64..300, any::<u64>(), any::<bool>()).prop_map(
        |(loss, rate, delay, jitter, queue, seed, line)| Settings {
            loss,
            rate: Rate::from_bits_per_second(rate),
            delay: Span::from_millis(delay),
            jitter: Span::from_millis(jitter),
            queue: ByteCount::new(queue * WIRE),
            line_rate: line.then(|| Rate::from_bits_per_second(rate * 2)),
            seed,
            ..Settings::default()
        },
    )
}

/// (algorithm, packets, start in ms, additional delay in ms, pacing rate, receive window in
/// packets, tuned)
type Given = (usize, u64, u64, u64, Option<u64>, u64, bool);

fn flow((algorithm, packets, start, delay, rate, window, tuned): Given) -> Flow {
    let window = ByteCount::new(window * PAYLOAD);
    let window = if tuned { ReceiveWindow::Tuned { most: window } } else { ReceiveWindow::Fixed(window) };
    Flow {
        bytes: Some(ByteCount::new(packets * PAYLOAD)),
        start: Span::from_millis(start),
        extra_delay: Span::from_millis(delay),
        rate: rate.map(Rate::from_bits_per_second),
        ..Flow::bulk(&icdc_cc::all()[algorithm], window)
    }
}

fn flows() -> impl Strategy<Value = Vec<Given>> {
    let rate = prop::option::of(1_000_000_u64..100_000_000);
    let algorithm = 0..icdc_cc::all().len();
    prop::collection::vec((algorithm, 1_u64..600, 0_u64..2000, 0_u64..100, rate, 1_u64..500, any::<bool>()), 1..4)
}

proptest! {
    #[test]
    fn everything_arrives_once_and_in_order(
        forward in directions(), backward in directions(), flows in flows(), batches in any::<bool>(), segmentation in any::<bool>(),
    ) {
        let acknowledgements = if batches {
            Acknowledgements::Batches { packets: 8, within: Span::from_micros(300) }
        } else {
            Acknowledgements::EverySecond
        };
        let simulation = Simulation {
            forward,
            backward,
            flows: flows.iter().copied().map(flow).collect(),
            // Timeouts double: what is lost three times in a row takes its time, but not for ever.
            duration: Span::from_secs(100_000),
            acknowledgements,
            segmentation,
        };
        let (outcome, diary) = watched_coarsely(&simulation);
        let wanted: u64 = flows.iter().map(|given| given.1).sum();
        prop_assert_eq!(diary.read, wanted, "{:?}", outcome);
        for (flow, given) in outcome.flows.iter().zip(&flows) {
            prop_assert!(flow.finished.is_some(), "{:?}", flow);
            prop_assert_eq!((flow.delivered, flow.arrived), (given.1, given.1));
            let ends = flow.arrived + flow.duplicates + flow.lost + flow.dropped + flow.on_the_way;
            prop_assert_eq!(flow.sender.sent, ends, "{:?}", flow);
            prop_assert_eq!(flow.sender.sent, given.1 + flow.sender.retransmitted);
        }
        prop_assert_eq!(outcome.forward.offered, outcome.packets());
        prop_assert_eq!(outcome.forward.overrun, 0);
        prop_assert!(diary.states.iter().all(|(.., state)| state.window >= 1));
        let (again, seen) = watched_coarsely(&simulation);
        prop_assert_eq!(outcome, again);
        prop_assert_eq!(diary.sent, seen.sent);
    }
}

/// Looks each second: some of these transfers take a day.
fn watched_coarsely(simulation: &Simulation) -> (icdc_sim::Outcome, support::Diary) {
    let mut diary = support::Diary { every: Span::from_secs(1), ..support::Diary::default() };
    let outcome = icdc_sim::simulate(simulation, &mut diary).unwrap();
    (outcome, diary)
}

#[test]
fn seeds_matter() {
    let losing = |seed| {
        let mut simulation = path(100, Span::from_millis(20), 100, 10);
        simulation.forward.loss = Model::Random(0.01);
        simulation.forward.seed = seed;
        watched(&simulation).1.sent
    };
    assert!(losing(1) == losing(1) && losing(1) != losing(2));
}

#[test]
fn a_flow_stops_when_it_is_told() {
    let mut simulation = path(100, Span::from_millis(20), 100, 10);
    simulation.flows[0].stop = Some(Span::from_secs(2));
    let (outcome, diary) = watched(&simulation);
    assert!(diary.sent.last().unwrap().at.as_nanos() <= 2_100_000_000);
    assert!(outcome.flows[0].finished.is_some() && outcome.simulated < Span::from_secs(3));
}

#[test]
fn what_cannot_be_is_refused() {
    let usual = || path(100, Span::from_millis(20), 100, 10);
    let errors = [
        (Simulation { flows: Vec::new(), ..usual() }, "0 flows"),
        (Simulation { duration: Span::ZERO, ..usual() }, "no time"),
        (Simulation { flows: vec![Flow { bytes: Some(ByteCount::ZERO), ..reno() }], ..usual() }, "nothing to send"),
        (Simulation { flows: vec![Flow { rate: Some(Rate::ZERO), ..reno() }], ..usual() }, "no rate"),
        (Simulation { flows: vec![Flow { extra_delay: Span::from_secs(31), ..reno() }], ..usual() }, "too long"),
        (
            Simulation {
                flows: vec![reno(), Flow { start: Span::from_secs(2), stop: Some(Span::from_secs(1)), ..reno() }],
                ..usual()
            },
            "flow 2 stops",
        ),
        (Simulation { forward: Settings { rate: Rate::ZERO, ..usual().forward }, ..usual() }, "bottleneck"),
    ];
    for (simulation, words) in errors {
        let error = simulation.check().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let unknown = Flow { parameters: vec![("warp".into(), 9)], ..reno() };
    let refused = icdc_sim::simulate(&Simulation { flows: vec![unknown], ..usual() }, &mut ());
    assert!(matches!(refused, Err(SimulationError::Parameter(_))));
}
