//! Makes the report of a simulation.

use icdc_report::{Plot, Report, Series, Stroke, Table, Uniform, Unit, views};
use icdc_sim::{FlowRecord, SenderState};
use icdc_units::Span;

use super::run::Run;
use super::show;
use crate::arguments::sim::describe;
use crate::clock::utc_now;
use crate::command_line::command_line;
use crate::copy::summary::{megabits, seconds};
use crate::measure::show::milliseconds;

/// The report's page about a simulation.
pub(super) fn report(run: &Run) -> Report {
    let (simulation, outcome) = (&run.simulation, &run.outcome);
    let path = &simulation.forward;
    Report {
        title: "icdc lab sim".into(),
        command: command_line(std::env::args_os()),
        outcome: show::lines(run).swap_remove(0),
        summary: vec![
            ("Started".into(), utc_now()),
            ("Goodput, all flows".into(), megabits(outcome.goodput().as_bits_per_second())),
            ("Simulated time".into(), seconds(outcome.simulated.as_secs_f64())),
            ("Bottleneck".into(), path.rate.to_string()),
            ("Round-trip time".into(), (path.delay + simulation.backward.delay).to_string()),
            ("Queue".into(), path.queue.to_string()),
            ("Segment".into(), simulation.segment().to_string()),
            ("Jain's index".into(), format!("{:.4}", outcome.fairness())),
        ],
        tables: vec![table(run)],
        plots: plots(run),
        ..Report::default()
    }
}

/// Table of the simulated flows, a row each.
fn table(run: &Run) -> Table {
    let header = ["flow", "goodput", "bytes", "retransmitted", "lost at random", "queue full", "timeouts", "least RTT"];
    let row = |(index, (given, flow)): (usize, (&icdc_sim::Flow, &icdc_sim::FlowOutcome))| {
        vec![
            format!("{}: {}", index + 1, describe(given)),
            megabits(flow.goodput.as_bits_per_second()),
            flow.bytes.to_string(),
            flow.sender.retransmitted.to_string(),
            flow.lost.to_string(),
            flow.dropped.to_string(),
            flow.sender.timeouts.to_string(),
            milliseconds(flow.least_rtt.as_secs_f64()),
        ]
    };
    let flows = run.simulation.flows.iter().zip(&run.outcome.flows);
    Table {
        caption: "Flows".into(),
        header: header.map(str::to_owned).to_vec(),
        rows: flows.enumerate().map(row).collect(),
    }
}

/// Plots of a simulation: throughput, queue, and the state of each sender.
fn plots(run: &Run) -> Vec<Plot> {
    let record = &run.record;
    let mut marks = Vec::new();
    for (name, counts) in [("drops, queue full", &record.dropped), ("lost at random", &record.lost)] {
        if !counts.is_empty() {
            marks.push(views::marks(name, uniform(record.step, counts)));
        }
    }
    let mut plots = vec![views::throughput(together(run), Some(run.simulation.forward.rate), marks)];
    if record.flows.len() > 1 {
        plots.push(shares(run));
    }
    plots.push(views::queue(uniform(record.step, &record.queue), Some(run.simulation.forward.queue)));
    for (index, flow) in record.flows.iter().enumerate() {
        let mut views = states(flow, record.step, run.simulation.segment().as_u64() as f64);
        if record.flows.len() > 1 {
            for plot in &mut views {
                plot.title = format!("{}, flow {}", plot.title, index + 1);
            }
        }
        plots.extend(views);
    }
    plots
}

/// Values at equal distances of `step`, from the start of the simulation.
fn uniform(step: Span, values: &[i64]) -> Uniform {
    Uniform::new(Span::ZERO, step, values.to_vec())
}

/// Sum of the arrival rates of all flows, by time.
fn together(run: &Run) -> Uniform {
    let length = run.record.flows.iter().map(|flow| flow.arrived.len()).max().unwrap_or(0);
    let mut sum = vec![0; length];
    for flow in &run.record.flows {
        sum.iter_mut().zip(&flow.arrived).for_each(|(sum, bytes)| *sum += bytes);
    }
    Uniform::rates(Span::ZERO, run.record.step, sum)
}

/// Plot of each flow's arrival rate, in bins of a second.
fn shares(run: &Run) -> Plot {
    let step = run.record.step;
    let steps = (Span::from_secs(1).as_nanos() / step.as_nanos()).max(1);
    let line = |(index, flow): (usize, &FlowRecord)| {
        let seconds = flow.arrived.chunks(steps as usize).map(|bins| bins.iter().sum()).collect();
        let name = format!("flow {}", index + 1);
        let rates = Uniform::rates(Span::ZERO, step * steps, seconds);
        Series::new(&name, Stroke::Line, rates).column(&format!("throughput_flow_{}", index + 1))
    };
    Plot::new("Throughput of the flows", Unit::BitsPerSecond, run.record.flows.iter().enumerate().map(line).collect())
}

/// Plots of a sender's state over time, such as its congestion window; `segment` is the size of a
/// segment in bytes.
fn states(flow: &FlowRecord, step: Span, segment: f64) -> Vec<Plot> {
    let points = |value: &dyn Fn(&SenderState) -> Option<f64>| -> Vec<(f64, f64)> {
        flow.states.iter().filter_map(|(at, state)| Some((at.as_nanos() as f64 / 1e9, value(state)?))).collect()
    };
    let mut window = views::congestion_window(points(&|state| Some(f64::from(state.window) * segment)));
    let threshold = points(&|state| state.threshold.map(|packets| f64::from(packets) * segment));
    if !threshold.is_empty() {
        window.series.push(Series::new("threshold", Stroke::Limit, threshold).column("ssthresh"));
    }
    if !flow.retransmitted.is_empty() {
        window.series.push(views::marks("retransmitted", uniform(step, &flow.retransmitted)));
    }
    let pacing = points(&|state| state.pacing_rate.map(|rate| rate.as_bits_per_second() as f64));
    let mut plots = vec![window, views::round_trip_time(points(&|state| Some(state.rtt.as_secs_f64())))];
    if !pacing.is_empty() {
        plots.push(views::pacing_rate(pacing));
    }
    plots
}
