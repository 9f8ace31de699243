//! Figures 3 to 6, 9 and 15 of the paper about 10 Gbit/s (Tamatsukuri et al.) at the rate that it
//! had: 10 Gbit/s, up to 500 ms.
//!
//! The paper's results: the peak rate is that of a local connection at any round trip, once the
//! buffers are three times RTT × bandwidth (figures 3 and 6, IPv6; 9, IPv4); start-up takes about 2
//! s at 100 ms, 6 s at 400 ms and 8 s at 500 ms (figures 4, 5 and 15).
//!
//! A machine that emulates the path and both hosts does not carry 10 Gbit/s with two processors, so
//! all is simulated: the receiver announces half of its buffer, as Linux does; the send buffer does
//! not limit; there is no difference between IPv4 and IPv6 but the header, which is not simulated
//! (scenario `window` measures both, live, at 1 Gbit/s).

use icdc_lab::Settings;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::{ReceiveWindow, Recorder, Simulation, payload_rate};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::simulated::{self, bulk};
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::measurement::rate_control::algorithm;
use crate::harness::scenario::Scenario;

/// Scenario `ten-gigabit` of `icdc lab run`: simulated rate by socket buffers, and start-up, at 10
/// Gbit/s.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "ten-gigabit",
    about: "simulated: 10 Gbit/s, up to 500 ms, MTU 1500 and 9000: rate by socket buffers, and start-up (10 Gbit/s IPv6 LFN)",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(10_000_000_000);
const ROUND_TRIPS: [Span; 6] = [
    Span::from_millis(1),
    Span::from_millis(100),
    Span::from_millis(200),
    Span::from_millis(300),
    Span::from_millis(400),
    Span::from_millis(500),
];
/// MTUs with which the rate by buffer size is simulated, in bytes.
const MTUS: [u64; 2] = [1500, 9000];
/// Sizes of the receive buffer in halves of RTT × bandwidth, each with the paper's finding on the
/// rate.
const HALVES: [(u64, &str); 5] = [(2, ""), (3, ""), (4, ""), (6, "full"), (8, "full")];
/// Simulated time: start-up and what follows.
const SIMULATED: Span = Span::from_secs(30);
/// Algorithms whose start-up is simulated: the paper's kernel had BIC; today's have CUBIC, whose
/// slow start ends before it loses.
const ALGORITHMS: [&str; 2] = ["bic", "cubic"];
const SECOND: Span = Span::from_secs(1);
/// Round-trip times, each with the paper's start-up time in seconds as text.
const STARTS: [(Span, &str); 5] = [
    (ROUND_TRIPS[1], "about 2"),
    (ROUND_TRIPS[2], ""),
    (ROUND_TRIPS[3], ""),
    (ROUND_TRIPS[4], "6"),
    (ROUND_TRIPS[5], "8"),
];
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let mut tables = Vec::new();
    for &mtu in if bench.quick { &MTUS[1..] } else { &MTUS[..] } {
        (bench.say)(&format!("buffers, MTU {mtu}"));
        tables.push(buffers(bench, mtu)?);
    }
    (bench.say)("start-up");
    let (table, plot) = start_up(bench)?;
    tables.push(table);
    Ok(Report { tables, plots: vec![plot], ..Report::default() })
}

/// Settings of the path: its queue holds a bandwidth-delay product, so that start-up loses nothing.
fn settings(mtu: u64, round_trip: Span) -> Settings {
    // As much queue as fills the path, beside some frames: buffers limit, and what start-up takes
    // shows, not what losing its overshoot costs.
    let queue = RATE * round_trip + ByteCount::from_mib(1);
    Settings::symmetric(icdc_path::Settings { mtu: ByteCount::new(mtu), ..path(RATE, round_trip, queue) })
}

/// Bytes of payload that arrived, by the millisecond.
fn arrivals(record: &Recorder) -> Vec<u32> {
    record.flows[0].arrived.iter().map(|bytes| u32::try_from(*bytes).unwrap_or(u32::MAX)).collect()
}

/// Simulates figures 3, 6 and 9: throughput by buffer size and round-trip time.
fn buffers(bench: &Bench<'_>, mtu: u64) -> Result<Table, ExperimentError> {
    let round_trips = if bench.quick { &ROUND_TRIPS[..2] } else { &ROUND_TRIPS[..] };
    let simulation = |halves: u64, round_trip: Span| -> Simulation {
        let settings = settings(mtu, round_trip);
        let mut simulation = bulk(&settings, algorithm("cubic"), SIMULATED.min(round_trip * 25 + SECOND * 2));
        // Half of the buffer becomes window.
        simulation.flows[0].window = ReceiveWindow::Fixed(RATE * round_trip * halves / 4);
        simulation
    };
    let cells: Vec<Simulation> = HALVES
        .iter()
        .flat_map(|&(halves, _)| round_trips.iter().map(move |&round_trip| simulation(halves, round_trip)))
        .collect();
    let shares: Vec<String> = simulated::run_all_watched(bench, &cells, Recorder::new)?
        .iter()
        .zip(&cells)
        .map(|((_, record), simulation)| {
            let full = payload_rate(&simulation.forward);
            format!("{:.0}", Arrivals::new(&arrivals(record)).peak(SECOND).ratio(full) * 100.0)
        })
        .collect();
    let row = |((halves, paper), shares): (&(u64, &str), &[String])| {
        let begin = [format!("{} ×", *halves as f64 / 2.0), (*paper).to_owned()];
        begin.into_iter().chain(shares.iter().cloned()).collect()
    };
    Ok(Table {
        caption: format!(
            "Simulated, 10 Gbit/s, MTU {mtu}: greatest rate over a second by buffer (× RTT × bandwidth) and round trip, % of what payload can reach"
        ),
        header: ["buffer", "paper"]
            .map(str::to_owned)
            .into_iter()
            .chain(round_trips.iter().map(Span::to_string))
            .collect(),
        rows: HALVES.iter().zip(shares.chunks(round_trips.len())).map(row).collect(),
    })
}

/// Simulates figures 4, 5 and 15: the start-up of a connection.
fn start_up(bench: &Bench<'_>) -> Result<(Table, Plot), ExperimentError> {
    let starts = if bench.quick { &STARTS[..1] } else { &STARTS[..] };
    let simulation = |round_trip: Span, name: &str| bulk(&settings(9000, round_trip), algorithm(name), SIMULATED);
    let cells: Vec<Simulation> =
        starts.iter().flat_map(|&(round_trip, _)| ALGORITHMS.map(|name| simulation(round_trip, name))).collect();
    let records = simulated::run_all_watched(bench, &cells, Recorder::new)?;
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for ((round_trip, paper), records) in starts.iter().zip(records.chunks(ALGORITHMS.len())) {
        let mut row = vec![round_trip.to_string(), (*paper).to_owned()];
        for (name, (_, record)) in ALGORITHMS.iter().zip(records) {
            let bytes = arrivals(record);
            let arrivals = Arrivals::new(&bytes);
            let enough = arrivals.peak(SECOND).scaled(9, 10);
            let reached = arrivals.first_window(SECOND, Span::ZERO, |_, mean| mean >= enough);
            row.push(
                reached.map_or_else(|| "never".to_owned(), |at| format!("{:.1}", (at - SECOND / 2).as_secs_f64())),
            );
            let rates = arrivals.rates_by(Span::from_millis(100), Span::ZERO, SIMULATED);
            lines.push(Series::new(&format!("{name}, {round_trip}"), Stroke::Line, rates));
        }
        rows.push(row);
    }
    let header = ["round trip", "paper, s"].map(str::to_owned).into_iter();
    let table = Table {
        caption: "Simulated, 10 Gbit/s, MTU 9000, queue of one bandwidth-delay product: seconds to 90 % of the greatest rate over a second".to_owned(),
        header: header.chain(ALGORITHMS.map(|name| format!("{name}, s"))).collect(),
        rows,
    };
    Ok((table, Plot::new("Start-up at 10 Gbit/s, windows of 100 ms", Unit::BitsPerSecond, lines)))
}
