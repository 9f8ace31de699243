//! Rate and evenness of a flow after start-up, on paths of several lengths and rates.
//!
//! Steady means from ten round trips and a second after the first byte on. Goodput is a share of
//! the path's TCP payload rate: 1448 of 1538 bytes by IPv4 and MTU 1500, 1428 by IPv6, 8948 of 9038
//! by MTU 9000. 2 Gbit/s are measured by both MTUs: with frames of 1500 bytes the machine, not the
//! path, may limit.
//!
//! Evenness is the standard deviation of windows of a millisecond as a share of their mean. It is
//! shown where the round trip is 300 ms or longer, and the emulator was late by less than a
//! hundredth of it.

use icdc_lab::Settings;
use icdc_report::{Plot, Report, Series, Stroke, Table, views};
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::measurement::measured::{Measured, failures};
use crate::harness::measurement::rights::Rights;
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::repetition::resolution::Resolution;
use crate::harness::scenario::Scenario;

/// Scenario `steady` of `icdc lab run`: goodput, drops and evenness of a flow after start-up, by
/// rate, round trip and IP version.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "steady",
    about: "steady goodput, drops and evenness at 10 to 500 ms, 0.1 to 2 Gbit/s, IPv4 and IPv6",
    has_rows: false,
    is_parallel: false,
    run,
};

const RUNS: u64 = 3;
/// Round trip from which the emulator must be punctual enough for windows of a millisecond.
const LONG: Span = Span::from_millis(300);
/// Bytes that IPv6's header is longer than IPv4's.
const IPV6: u64 = 20;

/// Case: a path, IP version and privileges, with the requirements.
struct SteadyPath {
    megabits: u64,
    round_trip: Span,
    queue: ByteCount,
    mtu: u64,
    ipv6: bool,
    rights: Rights,
    /// Least goodput in % of what payload can reach, most drops, greatest variation.
    required: [&'static str; 3],
}

/// Requirements of a privileged flow at 1 Gbit/s and 300 ms.
const FULL: [&str; 3] = ["≥ 97.2", "0", "≤ 0.10"];
/// Requirements of an unprivileged flow at 1 Gbit/s and 300 ms.
const UNPRIVILEGED: [&str; 3] = ["≥ 93.5", "< 1e-5", "≤ 0.25"];
/// Requirements of a privileged flow on other paths.
const ELSEWHERE: [&str; 3] = ["≥ 93", "0", ""];
/// Requirements of a privileged flow by IPv6 at 1 Gbit/s and 300 ms.
const IPV6_TOO: [&str; 3] = ["as IPv4 ± 1", "0", "≤ 0.10"];

/// Cases that are measured, one row of the table each.
const CASES: [SteadyPath; 11] = [
    case(1000, 300, 2_500_000, FULL),
    SteadyPath { ipv6: true, ..case(1000, 300, 2_500_000, IPV6_TOO) },
    case(1000, 300, 25_000_000, FULL),
    SteadyPath { rights: Rights::Few, ..case(1000, 300, 2_500_000, UNPRIVILEGED) },
    SteadyPath { rights: Rights::Few, ..case(1000, 300, 25_000_000, UNPRIVILEGED) },
    case(1000, 10, 2_500_000, ELSEWHERE),
    case(1000, 100, 2_500_000, ELSEWHERE),
    case(1000, 500, 2_500_000, ELSEWHERE),
    case(100, 100, 250_000, ELSEWHERE),
    case(2000, 100, 5_000_000, ELSEWHERE),
    SteadyPath { mtu: 9000, ..case(2000, 100, 5_000_000, ELSEWHERE) },
];

/// A case of a privileged flow by IPv4 and MTU 1500.
const fn case(megabits: u64, millis: u64, queue: u64, required: [&'static str; 3]) -> SteadyPath {
    SteadyPath {
        megabits,
        round_trip: Span::from_millis(millis),
        queue: ByteCount::new(queue),
        mtu: 1500,
        ipv6: false,
        rights: Rights::All,
        required,
    }
}

impl SteadyPath {
    /// Settings of one direction of the path.
    fn direction(&self) -> icdc_path::Settings {
        let rate = Rate::from_bits_per_second(self.megabits * 1_000_000);
        icdc_path::Settings { mtu: ByteCount::new(self.mtu), ..path(rate, self.round_trip, self.queue) }
    }

    fn name(&self) -> String {
        let Self { megabits, round_trip, queue, mtu, rights, .. } = self;
        let protocol = if self.ipv6 { "IPv6" } else { "IPv4" };
        format!("{megabits} Mbit/s, {round_trip}, queue {queue}, MTU {mtu}, {protocol}, {}", rights.name())
    }

    /// The measurement of this case.
    fn trial(&self, quick: bool) -> Trial {
        let seconds = match (quick, self.round_trip > LONG) {
            (true, _) => 8,
            (false, true) => 30,
            (false, false) => 20,
        };
        let resolution = if self.round_trip >= LONG { Resolution::Milliseconds } else { Resolution::Means };
        let settings = Settings::symmetric(self.direction());
        Trial { ipv6: self.ipv6, resolution, ..Trial::automatic(settings, seconds, self.rights) }
    }

    /// Time from the first byte after which the flow counts as steady.
    fn from(&self) -> Span {
        self.round_trip * 10 + Span::from_secs(1)
    }

    /// Greatest payload rate that the path can carry.
    fn limit(&self) -> Rate {
        let direction = self.direction();
        let limit = payload_rate(&direction);
        let header = if self.ipv6 { IPV6 } else { 0 };
        limit - direction.rate.scaled(header, direction.largest_frame().as_u64())
    }
}

/// Figures of a measurement after start-up: goodput in per cent of the most that is possible, drops
/// as a share of the packets sent, and variation of the rate by the millisecond.
struct SteadyState {
    goodput: f64,
    drops: f64,
    variation: f64,
}

impl SteadyState {
    /// Figures of a measurement of this case.
    fn of(case: &SteadyPath, measured: &Measured) -> Self {
        let arrivals = Arrivals::new(&measured.summary.series_ms);
        let (from, to) = (case.from(), arrivals.length());
        let begun = measured.recording.data_begins(case.direction().largest_frame());
        let index = |at: Span| begun + at.as_millis() as usize;
        let sent = arrivals.sum(from, to).ratio(case.direction().mtu);
        Self {
            goodput: arrivals.mean(from, to).ratio(case.limit()) * 100.0,
            drops: measured.recording.queue_drops_from(index(from)) as f64 / sent.max(1.0),
            variation: measured.recording.variation(index(from), index(to)),
        }
    }
}

/// Measures rate and evenness after start-up in all cases; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let cases = if bench.quick { &CASES[..2] } else { &CASES[..] };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let (mut rows, mut plots, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for case in cases {
        let mut steady = Vec::new();
        for run in 1..=runs {
            (bench.say)(&format!("{}, run {run} of {runs}", case.name()));
            let measured = trial::run(bench, &case.trial(bench.quick))?;
            if run == 1 {
                plots.push(plot(case, &measured));
            }
            let of = SteadyState::of(case, &measured);
            (bench.say)(&format!("  steady at {:.1} % of the most, variation {:.3}", of.goodput, of.variation));
            steady.push((of, measured.spoilt.is_some()));
            all.push((case.name(), measured));
        }
        rows.push(row(case, &steady));
    }
    let header = [
        "rate, Mbit/s",
        "round trip",
        "queue",
        "MTU",
        "IP",
        "",
        "goodput, % of what payload can reach",
        "required",
        "dropped at the queue, of what was sent",
        "required",
        "variation of 1 ms windows",
        "required",
        "invalid runs",
    ];
    Ok(Report {
        tables: vec![Table {
            caption: format!("Steady state of one flow, median of {runs} (least to greatest)"),
            header: header.map(str::to_owned).to_vec(),
            rows,
        }],
        plots,
        failures: failures(all.iter().map(|(name, measured)| (name.clone(), measured))),
        ..Report::default()
    })
}

/// Row of the table for a case, over the runs; true for a run that is invalid.
fn row(case: &SteadyPath, runs: &[(SteadyState, bool)]) -> Vec<String> {
    let spread = |value: fn(&SteadyState) -> f64| Spread::of(runs.iter().map(|(steady, _)| value(steady)));
    let drops = spread(|steady| steady.drops);
    let drops = if drops.greatest > 0.0 {
        format!("{:.0e} ({:.0e} to {:.0e})", drops.median, drops.least, drops.greatest)
    } else {
        "0".to_owned()
    };
    let variation =
        if case.round_trip >= LONG { spread(|steady| steady.variation).thousandths() } else { String::new() };
    let [goodput, most_drops, most_variation] = case.required.map(str::to_owned);
    vec![
        case.megabits.to_string(),
        case.round_trip.to_string(),
        case.queue.to_string(),
        case.mtu.to_string(),
        if case.ipv6 { "6" } else { "4" }.to_owned(),
        case.rights.name().to_owned(),
        spread(|steady| steady.goodput).tenths("none"),
        goodput,
        drops,
        most_drops,
        variation,
        most_variation,
        runs.iter().filter(|(_, spoilt)| *spoilt).count().to_string(),
    ]
}

/// Plot of the first run: throughput and drops over time.
fn plot(case: &SteadyPath, measured: &Measured) -> Plot {
    let arrivals = Arrivals::new(&measured.summary.series_ms);
    let mut plot = views::throughput(arrivals.rates(Span::ZERO, Span::MAX), Some(case.limit()), Vec::new());
    plot.title = case.name();
    let drops = measured.recording.bins.iter().skip(measured.recording.data_begins(case.direction().largest_frame()));
    let drops: Vec<(f64, f64)> = drops
        .enumerate()
        .filter(|(_, bin)| bin.queue_drops > 0)
        .map(|(index, bin)| (index as f64 / 1e3, f64::from(bin.queue_drops)))
        .collect();
    if !drops.is_empty() {
        plot.series.push(Series::new("drops, queue full", Stroke::Marks, drops));
    }
    plot
}
