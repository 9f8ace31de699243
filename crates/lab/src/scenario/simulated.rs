//! Many simulations, on all processors, their results in the order asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use icdc_sim::{Acknowledgements, Flow, Observer, Outcome, ReceiveWindow, Recorder, Scenario, SenderState, simulate};
use icdc_units::{Span, Time};

use super::Bench;
use super::spread::Spread;
use super::trial::Measured;
use crate::LabError;
use crate::settings::Settings;

/// One bulk flow through what a lab in exact mode would be.
pub(super) fn bulk(settings: &Settings, algorithm: &'static icdc_cc::Algorithm, duration: Span) -> Scenario {
    Scenario {
        forward: settings.forward.clone(),
        backward: settings.backward.clone(),
        flows: vec![Flow::bulk(algorithm, receive_window(settings))],
        duration,
        acknowledgements: Acknowledgements::EverySecond,
        segmentation: false,
    }
}

/// One bulk flow as it was measured: a host sends no faster than the live one did at its fastest over 20 ms, about as long
/// as the bursts of a slow start take. How fast a window leaves decides how large it is when the queue overflows.
pub(super) fn like(
    settings: &Settings,
    algorithm: &'static icdc_cc::Algorithm,
    duration: Span,
    live: &Measured,
) -> Scenario {
    let mut scenario = bulk(settings, algorithm, duration);
    let fastest = live.recording.fastest_sending(Span::from_millis(20));
    scenario.forward.line_rate = Some(fastest.max(settings.forward.rate));
    scenario
}

/// What the hosts of a lab allow: half of the largest buffer becomes window.
fn receive_window(settings: &Settings) -> ReceiveWindow {
    let (receive, _) = settings.largest_buffers().expect("scenarios tune their hosts");
    ReceiveWindow::Tuned { most: receive / 2 }
}

/// The algorithm of this name.
pub(super) fn algorithm(name: &str) -> &'static icdc_cc::Algorithm {
    icdc_cc::find(name).expect("scenarios name algorithms that there are")
}

/// What arrived at the applications per second.
pub(super) fn goodput(outcomes: &[Outcome]) -> Spread {
    Spread::of(outcomes.iter().map(|outcome| outcome.goodput().as_bits_per_second() as f64))
}

/// Runs them.
pub(super) fn run_all(bench: &Bench<'_>, scenarios: &[Scenario]) -> Result<Vec<Outcome>, LabError> {
    let watched = run_all_watched(bench, scenarios, |_| ())?;
    Ok(watched.into_iter().map(|(outcome, ())| outcome).collect())
}

/// Runs them, each with an observer of its own, which comes back with the outcome.
pub(super) fn run_all_watched<O: Observer + Send>(
    bench: &Bench<'_>,
    scenarios: &[Scenario],
    observer: impl Fn(&Scenario) -> O + Sync,
) -> Result<Vec<(Outcome, O)>, LabError> {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Result<_, _>>>> = Mutex::new(scenarios.iter().map(|_| None).collect());
    let workers = thread::available_parallelism().map_or(1, usize::from).min(scenarios.len().max(1));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((index, scenario)) = take(&next, scenarios) {
                    let mut observer = observer(scenario);
                    let outcome = simulate(scenario, &mut observer).map(|outcome| (outcome, observer));
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(outcome);
                }
            });
        }
    });
    (bench.say)(&format!("{} simulations", scenarios.len()));
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let all: Result<Vec<_>, _> =
        outcomes.into_iter().map(|outcome| outcome.expect("every scenario was taken")).collect();
    Ok(all?)
}

/// The congestion window of the first flow, (seconds, bytes).
pub(super) fn windows(scenario: &Scenario, record: &Recorder) -> Vec<(f64, f64)> {
    let segment = scenario.segment().as_u64() as f64;
    let point =
        |(at, state): &(Time, SenderState)| ((*at - Time::ORIGIN).as_secs_f64(), f64::from(state.window) * segment);
    record.flows[0].states.iter().map(point).collect()
}

fn take<'a>(next: &AtomicUsize, scenarios: &'a [Scenario]) -> Option<(usize, &'a Scenario)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, scenarios.get(index)?))
}
