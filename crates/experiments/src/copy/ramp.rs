//! Start-up of a flow, and its cost in losses: icdc on an unknown and on a known path, as root and
//! without privileges, beside CUBIC and BBR.
//!
//! Counted are round trips from the departure of the first byte of data until the throughput over
//! one round trip at the receiver is 90 % of the path's payload rate. The round trip at that rate
//! is included: a flow at full rate from its first byte needs one and a half. A path becomes known
//! by an earlier flow, whose rate the next one begins with.

use icdc_lab::Settings;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::measurement::measured::{Measured, failures};
use crate::harness::measurement::rate_control::RateControl;
use crate::harness::measurement::rights::Rights;
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;

/// Scenario `ramp` of `icdc lab run`: round trips until a flow has 90 % of the path's rate, and its
/// losses.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "ramp",
    about: "round trips to 90 % of the rate at 1 Gbit/s and 300 ms, path unknown and known, beside CUBIC and BBR",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(300);
/// Sizes of the path's queue that are measured.
const QUEUES: [ByteCount; 2] = [ByteCount::new(2_500_000), ByteCount::new(25_000_000)];
/// Length of a measurement in seconds.
const SECONDS: u64 = 10;
const RUNS: u64 = 5;
/// Length of time that the plots show.
const SHOWN: Span = Span::from_secs(5);

/// A kind of flow whose start is compared.
struct FlowKind {
    control: RateControl,
    is_known: bool,
    /// Most round trips, and required drops in per cent of one bandwidth-delay product, if any are;
    /// `None` if nothing is required.
    required: Option<(u32, Option<&'static str>)>,
}

/// The flows that are compared; one on a known path follows the one from which the path is known.
const CASES: [FlowKind; 6] = [
    case(RateControl::Automatic(Rights::All), false, Some((6, Some("< 2")))),
    case(RateControl::Automatic(Rights::All), true, Some((3, Some("< 2")))),
    case(RateControl::Automatic(Rights::Few), false, Some((13, None))),
    case(RateControl::Automatic(Rights::Few), true, Some((12, None))),
    case(RateControl::Named("cubic"), false, None),
    case(RateControl::Named("bbr"), false, None),
];

/// A kind of flow with its requirements, as in [`FlowKind`].
const fn case(control: RateControl, is_known: bool, required: Option<(u32, Option<&'static str>)>) -> FlowKind {
    FlowKind { control, is_known, required }
}

impl FlowKind {
    fn name(&self) -> String {
        match (self.control, self.is_known) {
            (RateControl::Named(_), _) => self.control.to_string(),
            (_, true) => format!("{}, known path", self.control),
            (_, false) => format!("{}, unknown path", self.control),
        }
    }
}

/// Row of the table: a kind of flow and the size of the queue, with its runs.
struct Ramps<'a> {
    case: &'a FlowKind,
    queue: ByteCount,
    runs: Vec<Measured>,
}

/// Measures the start-up of all kinds of flows before each queue; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let (queues, cases) = if bench.quick { (&QUEUES[..1], &CASES[..2]) } else { (&QUEUES[..], &CASES[..]) };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let (mut all, mut not_known) = (Vec::new(), Vec::new());
    for &queue in queues {
        let settings = Settings::symmetric(path(RATE, ROUND_TRIP, queue));
        let mut ramps: Vec<Ramps<'_>> = cases.iter().map(|case| Ramps { case, queue, runs: Vec::new() }).collect();
        for run in 1..=runs {
            // The rate that the flow before has found on the unknown path.
            let mut found = None;
            for ramp in &mut ramps {
                let name = ramp.name();
                (bench.say)(&format!("{name}, run {run} of {runs}"));
                let known = found.take().filter(|_| ramp.case.is_known);
                if ramp.case.is_known && known.is_none() {
                    not_known.push(format!("{name}: the flow before it found nothing worth remembering"));
                }
                let trial = Trial { cc: ramp.case.control, known, ..Trial::new(settings.clone(), SECONDS, "icdc") };
                let measured = trial::run(bench, &trial)?;
                found.clone_from(&measured.known);
                (bench.say)(&format!("  90 % after {:.1} round trips", round_trips(&measured, queue)));
                ramp.runs.push(measured);
            }
        }
        all.extend(ramps);
    }
    let measured = all.iter().flat_map(|ramp| ramp.runs.iter().map(|measured| (ramp.name(), measured)));
    Ok(Report {
        tables: vec![table(&all, runs)],
        failures: failures(measured).into_iter().chain(not_known).collect(),
        plots: all.iter().map(Ramps::plot).collect(),
        ..Report::default()
    })
}

/// Round trips from the departure of the first byte to 90 % of the rate; infinite where that is
/// never reached.
fn round_trips(measured: &Measured, queue: ByteCount) -> f64 {
    let wanted = payload_rate(&path(RATE, ROUND_TRIP, queue)).scaled(9, 10);
    let arrivals = Arrivals::new(&measured.summary.series_ms);
    let reached = arrivals.first_window(ROUND_TRIP, Span::ZERO, |_, mean| mean >= wanted);
    // The first byte took half a round trip.
    reached.map_or(f64::INFINITY, |end| (end + ROUND_TRIP / 2).ratio(ROUND_TRIP))
}

impl Ramps<'_> {
    fn name(&self) -> String {
        format!("{}, queue {}", self.case.name(), self.queue)
    }

    /// Cells of the row in the table.
    fn row(&self) -> Vec<String> {
        let round_trips = Spread::of(self.runs.iter().map(|measured| round_trips(measured, self.queue)));
        let frames = (RATE * ROUND_TRIP).ratio(path(RATE, ROUND_TRIP, self.queue).largest_frame());
        let dropped = Spread::of(self.runs.iter().map(|measured| measured.queue_drops as f64 / frames * 100.0));
        let (most_round_trips, most_dropped) = self
            .case
            .required
            .map_or((String::new(), ""), |(most, dropped)| (format!("≤ {most}"), dropped.unwrap_or_default()));
        vec![
            self.queue.to_string(),
            self.case.name(),
            round_trips.tenths("never"),
            most_round_trips,
            dropped.tenths("never"),
            most_dropped.to_owned(),
            self.runs.iter().filter(|measured| measured.spoilt.is_some()).count().to_string(),
        ]
    }

    /// Plot of the first run, from the departure of its first byte on.
    fn plot(&self) -> Plot {
        let measured = self.runs.first().expect("every case ran");
        let arrivals = Arrivals::new(&measured.summary.series_ms);
        let (start, most) = (ROUND_TRIP / 2, SHOWN - ROUND_TRIP / 2);
        let limit = payload_rate(&path(RATE, ROUND_TRIP, self.queue)).as_bits_per_second() as f64;
        let column = |what: &str| format!("{what}_{}", self.name().replace([' ', ','], "_"));
        let series = vec![
            Series::new("1 ms window", Stroke::Faint, arrivals.rates(start, most)).column(&column("payload")),
            Series::new("each round trip", Stroke::Strong, arrivals.rates_by(ROUND_TRIP, start, most))
                .column(&column("payload_round_trip")),
            Series::new("most that payload can reach", Stroke::Limit, vec![(0.0, limit), (SHOWN.as_secs_f64(), limit)])
                .column(&column("limit")),
        ];
        Plot::new(&self.name(), Unit::BitsPerSecond, series)
    }
}

/// Table with a row for each queue and kind of flow.
fn table(all: &[Ramps<'_>], runs: u64) -> Table {
    let header = [
        "queue",
        "",
        "round trips to 90 %",
        "required",
        "dropped in 10 s, % of one bandwidth-delay product",
        "required",
        "invalid runs",
    ];
    Table {
        caption: format!(
            "1 Gbit/s, 300 ms, MTU 1500: from the first byte of data until a round trip has carried 90 % of 941 Mbit/s, median of {runs} (least to greatest)"
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: all.iter().map(Ramps::row).collect(),
    }
}
