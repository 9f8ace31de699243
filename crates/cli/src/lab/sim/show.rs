//! Results of a simulation as text and JSON.

use icdc_path::Counters;
use icdc_sim::{Flow, FlowOutcome};
use icdc_units::Time;
use serde_json::{Value, json};

use super::run::Run;
use crate::arguments::sim::describe;
use crate::copy::summary::{counted, megabits, seconds};
use crate::measure::show::milliseconds;

/// The simulation's result as lines for people.
pub(super) fn lines(run: &Run) -> Vec<String> {
    let outcome = &run.outcome;
    let mut first = vec![format!(
        "{} simulated in {}: {} at {} packets per second",
        seconds(outcome.simulated.as_secs_f64()),
        seconds(run.took.as_secs_f64()),
        counted(outcome.packets(), "packet"),
        run.packets_per_second(),
    )];
    if outcome.flows.len() > 1 {
        first.push(format!("{} together", megabits(outcome.goodput().as_bits_per_second())));
        first.push(format!("Jain's index {:.3}", outcome.fairness()));
    }
    first.push(format!("longest queue {}", outcome.forward.queue_max));
    let mut lines = vec![first.join("; ")];
    lines.extend(run.simulation.flows.iter().zip(&outcome.flows).map(|(given, flow)| line(given, flow)));
    lines
}

/// Line about a simulated flow.
fn line(given: &Flow, flow: &FlowOutcome) -> String {
    let mut words = vec![
        format!("{}: {} at {}", describe(given), flow.bytes, megabits(flow.goodput.as_bits_per_second())),
        format!("{} retransmitted", counted(flow.sender.retransmitted, "segment")),
        format!("{} lost at random, {} at the queue", flow.lost, flow.dropped),
    ];
    if flow.sender.timeouts > 0 {
        words.push(counted(flow.sender.timeouts, "timeout"));
    }
    words.push(format!("round-trip time least {}", milliseconds(flow.least_rtt.as_secs_f64())));
    if let Some(finished) = flow.finished {
        words.push(format!("done after {}", seconds((finished - flow.start).as_secs_f64())));
    }
    words.join("; ")
}

/// The simulation's result as a JSON object.
pub(super) fn summary(run: &Run) -> String {
    let (simulation, outcome) = (&run.simulation, &run.outcome);
    let flows: Vec<Value> =
        simulation.flows.iter().zip(&outcome.flows).map(|(given, flow)| describe_flow(given, flow)).collect();
    let sum = |value: fn(&FlowOutcome) -> u64| outcome.flows.iter().map(value).sum::<u64>();
    json!({
        "type": "summary",
        "simulated_seconds": outcome.simulated.as_secs_f64(),
        "seconds": run.took.as_secs_f64(),
        "packets": outcome.packets(),
        "packets_per_second": run.packets_per_second(),
        "bytes": sum(|flow| flow.bytes.as_u64()),
        "goodput_bps": outcome.goodput().as_bits_per_second(),
        "retransmitted_segments": sum(|flow| flow.sender.retransmitted),
        "fairness": outcome.fairness(),
        "mss_bytes": simulation.segment().as_u64(),
        "flows": flows,
        "a_to_b": direction(&simulation.forward, &outcome.forward),
        "b_to_a": direction(&simulation.backward, &outcome.backward),
    })
    .to_string()
}

/// JSON object of a simulated flow.
fn describe_flow(given: &Flow, flow: &FlowOutcome) -> Value {
    let parameters: serde_json::Map<String, Value> =
        given.parameters.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "cc": given.algorithm.name,
        "parameters": parameters,
        "start_seconds": (flow.start - Time::ORIGIN).as_secs_f64(),
        "finished_seconds": flow.finished.map(|at| (at - Time::ORIGIN).as_secs_f64()),
        "rate_bps": given.rate.map(|rate| rate.as_bits_per_second()),
        "bytes": flow.bytes.as_u64(),
        "goodput_bps": flow.goodput.as_bits_per_second(),
        "sent_segments": flow.sender.sent,
        "retransmitted_segments": flow.sender.retransmitted,
        "duplicate_segments": flow.duplicates,
        "random_drops_packets": flow.lost,
        "queue_drops_packets": flow.dropped,
        "recoveries": flow.sender.recoveries,
        "timeouts": flow.sender.timeouts,
        "probes": flow.sender.probes,
        "min_rtt_seconds": flow.least_rtt.as_secs_f64(),
    })
}

/// JSON object of one direction of the path, with the keys that `icdc lab status` has.
fn direction(settings: &icdc_path::Settings, counters: &Counters) -> Value {
    json!({
        "rate_bps": settings.rate.as_bits_per_second(),
        "delay_seconds": settings.delay.as_secs_f64(),
        "queue_limit_bytes": settings.queue.as_u64(),
        "offered_packets": counters.offered,
        "offered_bytes": counters.offered_bytes.as_u64(),
        "delivered_packets": counters.delivered,
        "delivered_bytes": counters.delivered_bytes.as_u64(),
        "random_drops_packets": counters.lost,
        "queue_drops_packets": counters.dropped,
        "line_drops_packets": counters.overrun,
        "queue_max_bytes": counters.queue_max.as_u64(),
    })
}
