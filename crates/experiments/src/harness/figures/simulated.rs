//! Simulations in parallel on all processors, with results in order.

use std::thread;

use icdc_lab::Settings;
use icdc_sim::{Acknowledgements, Flow, Observer, Outcome, ReceiveWindow, Recorder, SenderState, Simulation, simulate};
use icdc_units::{Span, Time};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::measurement::measured::Measured;
use crate::harness::measurement::workers;

/// Simulation of one bulk flow through a path like that of a lab in exact mode.
pub(crate) fn bulk(settings: &Settings, algorithm: &'static icdc_cc::Algorithm, duration: Span) -> Simulation {
    Simulation {
        forward: settings.forward.clone(),
        backward: settings.backward.clone(),
        flows: vec![Flow::bulk(algorithm, receive_window(settings))],
        duration,
        acknowledgements: Acknowledgements::EverySecond,
        segmentation: false,
    }
}

/// Simulation of one bulk flow as it was measured: a host sends no faster than the live one did at
/// its fastest over 20 ms, about as long as the bursts of a slow start take. How fast a window
/// leaves decides how large it is when the queue overflows. The receiver answers as many packets at
/// a time.
pub(crate) fn like(
    settings: &Settings,
    algorithm: &'static icdc_cc::Algorithm,
    duration: Span,
    live: &Measured,
) -> Simulation {
    let mut simulation = bulk(settings, algorithm, duration);
    let fastest = live.recording.fastest_sending(Span::from_millis(20));
    simulation.forward.line_rate = Some(fastest.max(settings.forward.rate));
    simulation.acknowledgements = answering(live.answered);
    simulation
}

/// A receiver whose acknowledgements answer `packets` packets on average.
pub(crate) fn answering(packets: f64) -> Acknowledgements {
    match packets.round() as u32 {
        0 | 1 => Acknowledgements::EveryPacket,
        2 => Acknowledgements::EverySecond,
        packets => Acknowledgements::Batches { packets, within: LONGEST_BATCH },
    }
}

/// Longest wait for the end of a batch: packets then come at most one per millisecond.
const LONGEST_BATCH: Span = Span::from_millis(1);

/// Receive window of a lab's hosts: half of the largest buffer.
fn receive_window(settings: &Settings) -> ReceiveWindow {
    let (receive, _) = settings.largest_buffers().expect("scenarios tune their hosts");
    ReceiveWindow::Tuned { most: receive / 2 }
}

/// Goodput at the applications over all simulations, in bit/s.
pub(crate) fn goodput(outcomes: &[Outcome]) -> Spread {
    Spread::of(outcomes.iter().map(|outcome| outcome.goodput().as_bits_per_second() as f64))
}

/// Runs the simulations, and gives their outcomes in the same order.
pub(crate) fn run_all(bench: &Bench<'_>, simulations: &[Simulation]) -> Result<Vec<Outcome>, ExperimentError> {
    let watched = run_all_watched(bench, simulations, |_| ())?;
    Ok(watched.into_iter().map(|(outcome, ())| outcome).collect())
}

/// Runs the simulations, each with an observer of its own, which is returned with the outcome.
pub(crate) fn run_all_watched<O: Observer + Send>(
    bench: &Bench<'_>,
    simulations: &[Simulation],
    observer: impl Fn(&Simulation) -> O + Sync,
) -> Result<Vec<(Outcome, O)>, ExperimentError> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let outcomes = workers::each(processors, simulations, |_, simulation| {
        let mut observer = observer(simulation);
        simulate(simulation, &mut observer).map(|outcome| (outcome, observer))
    });
    (bench.say)(&format!("{} simulations", simulations.len()));
    let all: Result<Vec<_>, _> = outcomes.into_iter().collect();
    Ok(all?)
}

/// The congestion window of the first flow over time, as (seconds, bytes).
pub(crate) fn windows(simulation: &Simulation, record: &Recorder) -> Vec<(f64, f64)> {
    let segment = simulation.segment().as_u64() as f64;
    let point =
        |(at, state): &(Time, SenderState)| ((*at - Time::ORIGIN).as_secs_f64(), f64::from(state.window) * segment);
    record.flows[0].states.iter().map(point).collect()
}
