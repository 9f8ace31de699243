//! Untuned hosts with a long fat network between them: 1 Gbit/s, 300 ms, queue 2.5 MB; direct and
//! through two relays, beside what the tuned connection between the relays carries alone.
//!
//! The hosts have Reno, socket buffers of 64 KiB and no window scaling: 64 KiB per 300 ms are 1.7
//! Mbit/s. The relays have `icdc` between them, which is all that differs. Alone, the same
//! connection is made by `icdc measure` between the same two hosts. Goodput is what applications
//! read from the first byte on, start-up included; shares are of the leg alone in the same round.
//!
//! The path is emulated. A near network with a delay of its own is not, for the cables to the
//! relays have none; with 64 KiB a host reaches 1 Gbit/s up to 0.5 ms away from its relay. Hosts,
//! relays and the path share the processors of one machine.
//!
//! Relays remember what a leg has carried, so a connection is also measured that comes after
//! another one has gone.
//!
//! Setting up is measured in a lab of its own: from the call of `connect` to the first byte of an
//! answer to one byte.

use icdc_lab::Settings;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::measurement::measured::{self, Measured};
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;
use crate::relay::plain_hosts::Plain;
use crate::relay::relayed::{self, Relayed, Relaying};
use crate::relay::relays::Chain;

/// Scenario `proxy-lfn` of `icdc lab run`: untuned hosts over 1 Gbit/s and 300 ms, direct and
/// through two relays.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "proxy-lfn",
    about: "hosts with 64 KB buffers over 1 Gbit/s and 300 ms, direct and through two relays, beside the tuned leg alone",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(300);
/// Size of the path's queue.
const QUEUE: ByteCount = ByteCount::new(2_500_000);
/// Socket buffers of the untuned hosts.
const BUFFER: ByteCount = ByteCount::from_kib(64);
/// Settings of the untuned hosts.
const PLAIN: Plain = Plain { congestion: "reno", window_scaling: false };
/// Congestion control between the relays.
const CC: &str = "icdc";
/// Length of a run in seconds.
const SECONDS: u64 = 30;
const RUNS: u64 = 3;
/// The routes, in the order of the tables.
const NAMES: [&str; 4] =
    ["direct", "through two relays", "through two relays that know the path", "the tuned leg alone"];
/// Index of the tuned leg alone in [`NAMES`], with which the others are compared.
const ALONE: usize = 3;
/// Length of a connection's beginning whose mean rate is shown.
const EARLY: Span = Span::from_secs(1);
/// Time since the first byte after which start-up is over.
const STEADY: Span = Span::from_secs(4);

/// Length of the connection from which relays know the path.
const EARLIER: Span = Span::from_secs(8);

/// Results of one round, in which each way is measured once.
struct Round {
    direct: Relayed,
    relayed: Relayed,
    /// Result through the relays, after another connection.
    after: Relayed,
    alone: Measured,
}

/// Settings of the path between the relays.
fn settings() -> Settings {
    Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE))
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let seconds = if bench.quick { 10 } else { SECONDS };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let relaying = |cc, earlier| Relaying {
        legs: vec![settings()],
        cc,
        plain: PLAIN,
        buffer: BUFFER,
        earlier,
        delay: Span::ZERO,
        lasts: Span::from_secs(seconds),
        beside: None,
    };
    let mut rounds = Vec::new();
    for run in 1..=runs {
        (bench.say)(&format!("direct, run {run} of {runs}"));
        let direct = relayed::run(bench, &relaying(None, Span::ZERO))?;
        (bench.say)(&format!("through two relays, run {run} of {runs}"));
        let through = relayed::run(bench, &relaying(Some(CC), Span::ZERO))?;
        (bench.say)(&format!("through two relays that know the path, run {run} of {runs}"));
        let after = relayed::run(bench, &relaying(Some(CC), EARLIER))?;
        (bench.say)(&format!("the tuned leg alone, run {run} of {runs}"));
        let alone = trial::run(bench, &Trial::new(settings(), seconds, CC))?;
        rounds.push(Round { direct, relayed: through, after, alone });
    }
    (bench.say)("setting up");
    let tables = vec![table(&rounds, seconds), setting_up(bench)?];
    let relayed = rounds.iter().flat_map(|round| [&round.direct, &round.relayed, &round.after].into_iter().zip(NAMES));
    let relayed = relayed.map(|(measured, name)| (name.to_owned(), measured));
    let alone = rounds.iter().map(|round| (NAMES[ALONE].to_owned(), &round.alone));
    Ok(Report {
        tables,
        plots: plots(&rounds),
        failures: relayed::failures(relayed).into_iter().chain(measured::failures(alone)).collect(),
        ..Report::default()
    })
}

impl Round {
    /// Arrivals of the payload by each way, in the order of [`NAMES`].
    fn arrivals(&self) -> [Arrivals<'_>; 4] {
        let [direct, through, after] =
            [&self.direct, &self.relayed, &self.after].map(|relayed| relayed.carried.arrivals());
        [direct, through, after, Arrivals::new(&self.alone.summary.series_ms)]
    }

    /// Number of segments that were retransmitted on the leg by each way, in the order of
    /// [`NAMES`]; `None` if unknown.
    fn retransmitted(&self) -> [Option<u64>; 4] {
        let leg = |relayed: &Relayed| relayed.legs.first().map(|leg| leg.retransmissions);
        [None, leg(&self.relayed), leg(&self.after), Some(self.alone.summary.retransmitted_segments)]
    }
}

/// Table with a row for each way: goodput, and its share of that of the leg alone.
fn table(rounds: &[Round], seconds: u64) -> Table {
    const REQUIRED: [&str; 4] = ["1.7 Mbit/s", "≥ 95 %", "", ""];
    let bits = |rate: Rate| rate.as_bits_per_second() as f64;
    let row = |(place, (name, required)): (usize, (&str, &str))| {
        let mean = |round: &Round, which: usize, from| bits(round.arrivals()[which].mean(from, Span::MAX));
        let share = |from| {
            Spread::of(rounds.iter().map(|round| mean(round, place, from) / mean(round, ALONE, from) * 100.0))
                .tenths("none")
        };
        let goodput = |from| Spread::of(rounds.iter().map(|round| mean(round, place, from) / 1e6)).tenths("none");
        let early = |until| {
            let mean = |round: &Round| bits(round.arrivals()[place].mean(Span::ZERO, until));
            Spread::of(rounds.iter().map(|round| mean(round) / 1e6)).tenths("none")
        };
        let again = Spread::of(rounds.iter().filter_map(|round| Some(round.retransmitted()[place]? as f64)));
        vec![
            name.to_owned(),
            early(EARLY),
            goodput(Span::ZERO),
            share(Span::ZERO),
            required.to_owned(),
            goodput(STEADY),
            share(STEADY),
            if again.median.is_nan() { String::new() } else { again.whole() },
        ]
    };
    Table {
        caption: format!(
            "1 Gbit/s, 300 ms, queue 2.5 MB, ends with 64 KiB, {seconds} s from the first byte: median of {} (least to greatest)",
            rounds.len()
        ),
        header: [
            "",
            "first second, Mbit/s",
            "goodput, Mbit/s",
            "of the leg alone, %",
            "required",
            "after 4 s, Mbit/s",
            "of the leg alone, %",
            "segments retransmitted on the leg",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: NAMES.into_iter().zip(REQUIRED).enumerate().map(row).collect(),
    }
}

/// Measures the time from connecting to the first byte of an answer, direct and through relays;
/// gives the table.
fn setting_up(bench: &Bench<'_>) -> Result<Table, ExperimentError> {
    let chain = |warm| Some(Chain { cc: CC, warm });
    let mut rows = Vec::new();
    let mut direct = None;
    for (name, chain) in [
        ("direct", None),
        ("through two relays", chain(0)),
        ("through two relays that keep connections warm", chain(2)),
    ] {
        let took = relayed::first_answer(bench, &settings(), PLAIN, chain)?;
        let least = *direct.get_or_insert(took);
        let more = took.as_secs_f64() - least.as_secs_f64();
        rows.push(vec![
            name.to_owned(),
            format!("{:.2}", took.ratio(ROUND_TRIP)),
            format!("{:+.2}", more / ROUND_TRIP.as_secs_f64()),
            if chain.is_some() { "≤ +1".to_owned() } else { String::new() },
        ]);
    }
    Ok(Table {
        caption: "From connect to the first byte of an answer, in round trips of the path".to_owned(),
        header: ["", "round trips", "against direct", "required"].map(str::to_owned).to_vec(),
        rows,
    })
}

/// Plots of the rates in the first round.
fn plots(rounds: &[Round]) -> Vec<Plot> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let columns = ["direct", "relayed", "known_path", "alone"];
    let window = Span::from_millis(100);
    let drawn = first.arrivals().into_iter().zip(NAMES).zip(columns);
    let series = drawn.map(|((arrivals, name), column)| {
        Series::new(name, Stroke::Line, arrivals.rates_by(window, Span::ZERO, Span::MAX))
            .column(&format!("payload_{column}"))
    });
    let mut series: Vec<Series> = series.collect();
    let limit = payload_rate(&settings().forward).as_bits_per_second() as f64;
    let end = first.relayed.carried.arrivals().length().as_secs_f64();
    let line = vec![(0.0, limit), (end, limit)];
    series.push(Series::new("most that payload can reach", Stroke::Limit, line).column("limit"));
    let goodput = Plot::new("Goodput in windows of 100 ms", Unit::BitsPerSecond, series);
    let mut crossed = first.relayed.recording.plots(&settings().forward);
    for plot in &mut crossed {
        plot.title = format!("{}, through two relays", plot.title);
    }
    crossed.truncate(2);
    std::iter::once(goodput).chain(crossed).collect()
}
