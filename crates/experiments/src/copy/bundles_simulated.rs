//! Several connections of an unprivileged user, steered as one, simulated at rates beyond this
//! machine: 100 and 400 Gbit/s at 300 ms, by the number of connections.
//!
//! MTU 9000, as is usual at such rates; the queue holds a tenth of the bandwidth-delay product;
//! buffers hold twice each connection's share of both. Rates are those of the second half of the
//! run, as a share of the path's payload rate.

use icdc_lab::Settings;
use icdc_report::{Report, Table};
use icdc_sim::{Flow, ReceiveWindow, Recorder, Simulation, payload_rate};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::simulated;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::rate_control;
use crate::harness::scenario::Scenario;

/// Scenario `bundles-sim` of `icdc lab run`: simulated rate of 16 to 64 connections steered as one
/// at 100 and 400 Gbit/s.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "bundles-sim",
    about: "simulated: 16 to 64 connections of an ordinary user at 100 and 400 Gbit/s and 300 ms",
    has_rows: false,
    is_parallel: false,
    run,
};

const GIGABIT: u64 = 1_000_000_000;
const ROUND_TRIP: Span = Span::from_millis(300);
/// Simulated time in a full run of the scenario.
const DURATION: Span = Span::from_secs(60);
const MTU: u64 = 9000;

/// Case: the rate of a path, and the number of connections that are steered as one on it.
#[derive(Clone, Copy)]
struct Bundled {
    gigabits: u64,
    connections: u64,
}

impl Bundled {
    /// Settings of the path.
    fn settings(self) -> Settings {
        let rate = Rate::from_bits_per_second(self.gigabits * GIGABIT);
        let queue = rate * ROUND_TRIP / 10;
        Settings::symmetric(icdc_path::Settings { mtu: ByteCount::new(MTU), ..path(rate, ROUND_TRIP, queue) })
    }

    /// Simulation of all connections as one bundle, each with its share of the receive window.
    fn simulation(self, duration: Span) -> Simulation {
        let settings = self.settings();
        let most = (settings.bandwidth_delay() + settings.forward.queue) * 2 / self.connections;
        let cubic = rate_control::algorithm("cubic");
        let member = Flow { bundle: Some(0), ..Flow::bulk(cubic, ReceiveWindow::Tuned { most }) };
        let flows = vec![member; self.connections as usize];
        Simulation { flows, segmentation: true, ..simulated::bulk(&settings, cubic, duration) }
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let (rates, counts, duration) =
        if bench.quick { (&[1][..], &[16][..], DURATION / 3) } else { (&[100, 400][..], &[16, 32, 64][..], DURATION) };
    let bundled = |gigabits| move |&connections| Bundled { gigabits, connections };
    let cases: Vec<Bundled> = rates.iter().flat_map(|&gigabits| counts.iter().map(bundled(gigabits))).collect();
    let simulations: Vec<_> = cases.iter().map(|case| case.simulation(duration)).collect();
    let watched = simulated::run_all_watched(bench, &simulations, Recorder::new)?;
    let row = |((case, simulation), (outcome, record)): ((&Bundled, &Simulation), &(icdc_sim::Outcome, Recorder))| {
        let bins = |from: usize| record.flows.iter().flat_map(move |flow| flow.arrived.iter().skip(from));
        let length = record.flows.iter().map(|flow| flow.arrived.len()).max().unwrap_or(0);
        let half = length / 2;
        let bytes: u64 = bins(half).map(|&bytes| bytes as u64).sum();
        let steady = ByteCount::new(bytes) / (record.step * (length - half).max(1) as u64);
        let share = |rate: Rate| format!("{:.1}", rate.ratio(payload_rate(&simulation.forward)) * 100.0);
        let sent: u64 = outcome.flows.iter().map(|flow| flow.sender.sent).sum();
        vec![
            format!("{} Gbit/s", case.gigabits),
            case.connections.to_string(),
            share(steady),
            "≥ 95".to_owned(),
            share(outcome.goodput()),
            outcome.forward.dropped.to_string(),
            sent.to_string(),
        ]
    };
    let header = [
        "path",
        "connections",
        "second half, % of what payload can reach",
        "required",
        "all of it, %",
        "dropped at the queue",
        "packets sent",
    ];
    let table = Table {
        caption: format!("{ROUND_TRIP}, MTU {MTU}, queue 0.1 × rate × RTT, {duration} simulated"),
        header: header.map(str::to_owned).to_vec(),
        rows: cases.iter().zip(&simulations).zip(&watched).map(row).collect(),
    };
    Ok(Report { tables: vec![table], ..Report::default() })
}
