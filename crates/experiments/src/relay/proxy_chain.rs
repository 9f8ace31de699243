//! Three sites, which the TCP-proxy paper (Yamanegi, Hama, Hasegawa, Murata et al.) names as future
//! work: two long paths one behind the other, and a relay at each site.
//!
//! ```text
//! plain ═ relay ═══ 100 Mbit/s, 60 ms ═══ relay ═══ 50 Mbit/s, 140 ms ═══ relay ═ plain
//! ```
//!
//! Both paths lose one packet in 100,000 at random, beside what their queues refuse (a tenth of
//! rate × round trip). Without relays, hosts pass both paths by one connection, with buffers of 64
//! KiB, and with 8 MiB, which do not limit. Each leg is measured alone as well: of a chain nothing
//! more can be had than of its slowest leg.
//!
//! Two labs stand at once, and their wires share a processor.

use icdc_lab::Settings;
use icdc_path::loss::Model;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::at_once::{self, Repeated};
use crate::harness::measurement::measured::{self, Measured};
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;
use crate::relay::plain_hosts::Plain;
use crate::relay::relayed::{self, Relayed, Relaying};

/// Scenario `proxy-chain` of `icdc lab run`: three relays on two long paths in a row, beside one
/// connection over both.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "proxy-chain",
    about: "three sites: two long paths and three relays with CUBIC, HighSpeed or icdc between them, beside one connection over both",
    has_rows: false,
    is_parallel: true,
    run,
};

/// Rate in Mbit/s and round-trip time in milliseconds of each leg.
const LEGS: [(u64, u64); 2] = [(100, 60), (50, 140)];
/// Random loss ratio of each path.
const LOSS: f64 = 1e-5;
/// Socket buffers of hosts that are not tuned.
const SMALL: ByteCount = ByteCount::from_kib(64);
/// Socket buffers of hosts that do not limit.
const AMPLE: ByteCount = ByteCount::from_mib(8);
/// Congestion controls between the relays that are compared.
const CHOICES: [&str; 3] = ["cubic", "highspeed", "icdc"];
/// Length of a run in seconds.
const SECONDS: u64 = 60;
const RUNS: u64 = 3;

/// Runs over both paths: through relays with the congestion control `cc`, or direct if it is
/// `None`.
struct Chained {
    cc: Option<&'static str>,
    buffer: ByteCount,
    runs: Vec<Relayed>,
}

/// Runs over one leg by itself, with the congestion control that relays have there.
struct Alone {
    leg: usize,
    cc: &'static str,
    runs: Vec<Measured>,
}

/// Settings of the two paths; `seed` is that of the random loss, which differs between them.
fn legs(seed: u64) -> Vec<Settings> {
    let leg = |(number, &(megabits, millis)): (usize, &(u64, u64))| {
        let (rate, round_trip) = (Rate::from_bits_per_second(megabits * 1_000_000), Span::from_millis(millis));
        let direction = path(rate, round_trip, rate * round_trip / 10);
        // Each path loses packets of its own.
        Settings::symmetric(icdc_path::Settings {
            loss: Model::Random(LOSS),
            seed: seed * 2 + number as u64,
            ..direction
        })
    };
    LEGS.iter().enumerate().map(leg).collect()
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let seconds = if bench.quick { 8 } else { SECONDS };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let choices = if bench.quick { &CHOICES[..1] } else { &CHOICES[..] };
    let past = [SMALL, AMPLE].map(|buffer| Chained { cc: None, buffer, runs: Vec::new() });
    let by = choices.iter().map(|cc| Chained { cc: Some(*cc), buffer: SMALL, runs: Vec::new() });
    let mut cases: Vec<Chained> = past.into_iter().chain(by).collect();
    let each = choices.iter().flat_map(|cc| [0, 1].map(|leg| Alone { leg, cc, runs: Vec::new() }));
    let mut alone: Vec<Alone> = each.collect();
    let relay = |bench: &Bench<'_>, case: &Chained, run| relayed::run(bench, &case.relaying(seconds, run + 1));
    at_once::repeat(bench, runs, &mut cases, relay)?;
    let measure = |bench: &Bench<'_>, alone: &Alone, run| {
        let leg = legs(run + 1).swap_remove(alone.leg);
        trial::run(bench, &Trial::new(leg, seconds, alone.cc))
    };
    at_once::repeat(bench, runs, &mut alone, measure)?;
    let relayed = cases.iter().flat_map(|case| case.runs.iter().map(|run| (case.name(), run)));
    let trials = alone.iter().flat_map(|alone| alone.runs.iter().map(|run| (alone.name(), run)));
    Ok(Report {
        failures: relayed::failures(relayed).into_iter().chain(measured::failures(trials)).collect(),
        tables: vec![table(&cases, &alone, seconds)],
        plots: vec![plot(&cases)],
        ..Report::default()
    })
}

impl Repeated for Alone {
    type Run = Measured;

    fn name(&self) -> String {
        let (megabits, millis) = LEGS[self.leg];
        format!("{} alone on the leg of {megabits} Mbit/s and {millis} ms", self.cc)
    }

    fn keep(&mut self, run: Measured) {
        self.runs.push(run);
    }
}

impl Alone {
    /// Goodput of the leg, in Mbit/s.
    fn goodput(&self) -> Spread {
        Spread::of(self.runs.iter().map(|measured| measured.summary.goodput_bps / 1e6))
    }
}

impl Repeated for Chained {
    type Run = Relayed;

    fn name(&self) -> String {
        match self.cc {
            Some(cc) => format!("three relays with {cc}, buffers {}", self.buffer),
            None => format!("one connection over both, buffers {}", self.buffer),
        }
    }

    fn keep(&mut self, run: Relayed) {
        self.runs.push(run);
    }
}

impl Chained {
    /// The measurement of this case, `seconds` long; `run` is the seed of the loss.
    fn relaying(&self, seconds: u64, run: u64) -> Relaying {
        Relaying {
            legs: legs(run),
            cc: self.cc,
            // The ample ones are those of a host of today.
            plain: Plain {
                congestion: if self.buffer == SMALL { "reno" } else { "cubic" },
                window_scaling: self.buffer > SMALL,
            },
            buffer: self.buffer,
            earlier: Span::ZERO,
            delay: Span::ZERO,
            lasts: Span::from_secs(seconds),
            beside: None,
        }
    }
}

/// Table of the goodput from end to end, beside that of each leg alone.
fn table(cases: &[Chained], alone: &[Alone], seconds: u64) -> Table {
    let row = |case: &Chained| {
        let of_leg = |leg| alone.iter().find(|alone| alone.leg == leg && Some(alone.cc) == case.cc);
        let goodput = |leg| of_leg(leg).map_or_else(String::new, |alone| alone.goodput().tenths("none"));
        let slowest = alone.iter().filter(|alone| Some(alone.cc) == case.cc).map(|alone| alone.goodput().median);
        let share = slowest.min_by(f64::total_cmp).map(|slowest| relayed::goodput(&case.runs).median / slowest * 100.0);
        vec![
            case.name(),
            relayed::goodput(&case.runs).tenths("none"),
            goodput(0),
            goodput(1),
            share.map_or_else(String::new, |share| format!("{share:.0}")),
            case.runs.iter().filter(|run| run.spoilt.is_some()).count().to_string(),
        ]
    };
    let leg = |(megabits, millis): (u64, u64)| format!("leg of {megabits} Mbit/s and {millis} ms alone, Mbit/s");
    Table {
        caption: format!(
            "Three sites, loss {LOSS:e} on each path, {seconds} s from the first byte: goodput, median (least to greatest)"
        ),
        header: vec![
            String::new(),
            "end to end, Mbit/s".to_owned(),
            leg(LEGS[0]),
            leg(LEGS[1]),
            "of the slowest leg alone, %".to_owned(),
            "invalid runs".to_owned(),
        ],
        rows: cases.iter().map(row).collect(),
    }
}

/// Plot of the rates over time in the first run of each case.
fn plot(cases: &[Chained]) -> Plot {
    let series = cases.iter().filter_map(|case| {
        let arrivals = case.runs.first()?.carried.arrivals();
        let rates = arrivals.rates_by(Span::from_millis(500), Span::ZERO, Span::MAX);
        let column = case.name().replace([' ', ','], "_");
        Some(Series::new(&case.name(), Stroke::Line, rates).column(&column))
    });
    Plot::new("Goodput in windows of 500 ms", Unit::BitsPerSecond, series.collect())
}
