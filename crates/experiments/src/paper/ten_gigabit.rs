//! The 10 Gbit/s paper's figures 3 to 9 and 15 at the rate that it had: 10 Gbit/s, up to 500 ms.
//!
//! What the paper shows (Tamatsukuri et al.): the peak rate is that of a local connection at any
//! round trip, once the buffers are three times RTT × bandwidth (figures 3 and 6, IPv6; 9, IPv4);
//! start-up takes about 2 s at 100 ms, 6 s at 400 ms and 8 s at 500 ms (figures 4, 5 and 15); with
//! frames of 9198 bytes more than 7 Gbit/s, with 1500 bytes about 3 Gbit/s, because the sender's
//! processor is full: 60 % of it for TCP, 40 % for soft interrupts, the application within 1 %
//! (figures 7 and 8).
//!
//! A machine that emulates the path and both hosts does not carry 10 Gbit/s with two processors, so
//! windows and start-up are simulated: the receiver announces half of its buffer, as Linux does; the
//! send buffer does not limit; there is no difference between IPv4 and IPv6 but the header, which is
//! not simulated (`window` measures both, live, at 1 Gbit/s). What frames and protocols cost is
//! measured live in fast mode, paced at a quarter of the rate: time of all processors, without what
//! the wire takes.

use std::sync::atomic::{AtomicBool, Ordering};

use icdc_lab::{Mode, Settings};
use icdc_packet::clock;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::{ReceiveWindow, Recorder, Simulation, payload_rate};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::arrivals::Arrivals;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::measured::{Measured, failures, marked};
use crate::harness::paths::path;
use crate::harness::processor_time::Spent;
use crate::harness::rate_control::algorithm;
use crate::harness::scenario::Scenario;
use crate::harness::simulated::{self, bulk};
use crate::harness::spread::Spread;
use crate::harness::trial::{self, Trial};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "ten-gigabit",
    about: "10 Gbit/s, up to 500 ms: buffers and start-up simulated, what frames of 1500 and 9000 bytes cost by IPv4 and IPv6 live (10 Gbit/s IPv6 LFN)",
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
const MTUS: [u64; 2] = [1500, 9000];
/// Buffers in halves of RTT × bandwidth, and the paper's finding.
const HALVES: [(u64, &str); 5] = [(2, ""), (3, ""), (4, ""), (6, "full"), (8, "full")];
/// Start-up and what follows.
const SIMULATED: Span = Span::from_secs(30);
/// The paper's kernel had BIC; today's have CUBIC, whose slow start ends before it loses.
const ALGORITHMS: [&str; 2] = ["bic", "cubic"];
const SECOND: Span = Span::from_secs(1);
/// What the paper says of start-up, in seconds.
const STARTS: [(Span, &str); 5] = [
    (ROUND_TRIPS[1], "about 2"),
    (ROUND_TRIPS[2], ""),
    (ROUND_TRIPS[3], ""),
    (ROUND_TRIPS[4], "6"),
    (ROUND_TRIPS[5], "8"),
];
/// The paper's distance when it looked at the processors.
const FAR: Span = ROUND_TRIPS[4];
/// So much two processors carry.
const PACED: Rate = Rate::from_bits_per_second(2_500_000_000);
const LIVE_SECONDS: u64 = 40;
/// Start-up is over.
const SETTLED: Span = Span::from_secs(20);
const RUNS: u64 = 3;

/// Frames and protocol.
#[derive(Clone, Copy)]
struct Frames {
    mtu: u64,
    ipv6: bool,
    /// The paper's rate.
    paper: &'static str,
}

const FRAMES: [Frames; 4] = [
    Frames { mtu: 1500, ipv6: false, paper: "about 3" },
    Frames { mtu: 1500, ipv6: true, paper: "about 3" },
    Frames { mtu: 9000, ipv6: false, paper: "more than 7" },
    Frames { mtu: 9000, ipv6: true, paper: "more than 7" },
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
    let frames = if bench.quick { &FRAMES[3..] } else { &FRAMES[..] };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let mut costs: Vec<(Frames, Vec<Cost>)> = frames.iter().map(|frames| (*frames, Vec::new())).collect();
    for run in 1..=runs {
        for (frames, all) in &mut costs {
            (bench.say)(&format!("{}, run {run} of {runs}", frames.name()));
            all.push(frames.cost(bench)?);
        }
    }
    tables.push(cost_table(&costs));
    let live = costs.iter().flat_map(|(frames, all)| all.iter().map(|cost| (frames.name(), &cost.measured)));
    Ok(Report { tables, plots: vec![plot], failures: failures(live), ..Report::default() })
}

fn settings(mtu: u64, round_trip: Span) -> Settings {
    // As much queue as fills the path, beside some frames: buffers limit, and what start-up takes
    // shows, not what losing its overshoot costs.
    let queue = RATE * round_trip + ByteCount::from_mib(1);
    Settings::symmetric(icdc_path::Settings { mtu: ByteCount::new(mtu), ..path(RATE, round_trip, queue) })
}

/// Payload by the millisecond.
fn arrivals(record: &Recorder) -> Vec<u32> {
    record.flows[0].arrived.iter().map(|bytes| u32::try_from(*bytes).unwrap_or(u32::MAX)).collect()
}

/// Figures 3, 6 and 9.
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

/// Figures 4, 5 and 15.
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

/// What a flow cost.
struct Cost {
    measured: Measured,
    /// Payload, once start-up was over, and the time in which it came.
    carried: ByteCount,
    time: Span,
    /// All processors', without the wire.
    spent: Spent,
}

impl Frames {
    fn name(self) -> String {
        format!("MTU {}, {}", self.mtu, if self.ipv6 { "IPv6" } else { "IPv4" })
    }

    fn cost(self, bench: &Bench<'_>) -> Result<Cost, ExperimentError> {
        let seconds = if bench.quick { SETTLED.as_secs() + 5 } else { LIVE_SECONDS };
        // Threads that keep processors awake would count.
        let settings = Settings { mode: Mode::Fast, let_sleep: true, ..settings(self.mtu, FAR) };
        let trial = Trial { ipv6: self.ipv6, rate: Some(PACED), ..Trial::new(settings, seconds, "cubic") };
        let (measured, (from, to, spent)) = trial::run_beside(bench, &trial, |lab, over| {
            let wire = lab.record.wire.id;
            let look = || (clock::now(), Spent::of_machine() - Spent::of_process(wire));
            wait(SETTLED, over);
            let (from, before) = look();
            let mut last = (from, before);
            while !over.load(Ordering::Relaxed) {
                last = look();
                wait(Span::from_millis(200), over);
            }
            Ok((from, last.0, last.1 - before))
        })?;
        let began = measured.recording.data_began(ByteCount::new(self.mtu));
        let arrivals = Arrivals::new(&measured.summary.series_ms);
        let carried = arrivals.sum(from - began, to - began);
        Ok(Cost { carried, time: to - from, spent, measured })
    }
}

fn wait(time: Span, over: &AtomicBool) {
    let until = clock::now() + time;
    while clock::now() < until && !over.load(Ordering::Relaxed) {
        clock::sleep_until(until.min(clock::now() + Span::from_millis(100)));
    }
}

/// Figures 7 and 8.
fn cost_table(costs: &[(Frames, Vec<Cost>)]) -> Table {
    let row = |(frames, all): &(Frames, Vec<Cost>)| {
        let spread = |value: &dyn Fn(&Cost) -> f64| Spread::of(all.iter().map(value));
        let part = |part: fn(&Spent) -> Span| {
            spread(&|cost| part(&cost.spent).ratio(cost.spent.busy().max(Span::from_millis(1)))).percent()
        };
        let gigabits = spread(&|cost| (cost.carried / cost.time).as_bits_per_second() as f64 / 1e9);
        let per_gigabyte = spread(&|cost| cost.spent.busy().as_secs_f64() / (cost.carried.as_u64() as f64 / 1e9));
        let mut cells = vec![
            frames.name(),
            frames.paper.to_owned(),
            gigabits.hundredths(),
            per_gigabyte.hundredths(),
            part(|spent| spent.user),
            part(|spent| spent.system),
            part(|spent| spent.interrupts),
            all.iter().filter(|cost| cost.measured.spoilt.is_some()).count().to_string(),
        ];
        if let Some(last) = all.last() {
            cells[0] = marked(frames.name(), &last.measured);
        }
        cells
    };
    Table {
        caption: format!(
            "Live, fast mode, {FAR}, paced at {PACED}, both hosts on this machine, from {SETTLED} on: rate, and time of the processors without the wire's; median (least to greatest)"
        ),
        header: [
            "",
            "paper, Gbit/s",
            "ours, Gbit/s",
            "processor seconds per GB",
            "programs, %",
            "TCP and system calls, %",
            "soft interrupts, %",
            "invalid runs",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: costs.iter().map(row).collect(),
    }
}
