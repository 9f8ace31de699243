//! Agreement of the simulator with the kernel: mean goodput of a flow through the same path, live
//! and in virtual time, for reno and cubic, which both implement, on six paths, and on the two
//! longest for the algorithms whose C file runs on both sides.
//!
//! Live and simulated path lose by the same seed, so that the same packets meet the same fate as
//! long as both sides send the same. Both senders are paced at the path's rate of payload alone,
//! about 6 % above what it carries with headers: without that ceiling the speed at which a host
//! happens to release a slow start's bursts decides the window at the first loss, and with it the
//! next minutes (scenario `cc-table` shows that).

use icdc_lab::Settings;
use icdc_path::loss::Model;
use icdc_report::{Report, Table};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::cells::ratio;
use crate::harness::figures::simulated::{self, bulk};
use crate::harness::hosts::paths::path;
use crate::harness::measurement::measured::{self, Measured, failures};
use crate::harness::measurement::rate_control::algorithm;
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;

/// Scenario `cc-agreement` of `icdc lab run`: goodput of a flow by the kernel beside that of the
/// simulator on the same path.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "cc-agreement",
    about: "mean goodput of paced flows, live against simulated, on two to six paths",
    has_rows: false,
    is_parallel: false,
    run,
};

/// A path on which live and simulated flows are compared, and the length of a run.
struct AgreementPath {
    megabits: u64,
    round_trip_ms: u64,
    /// Size of the queue as a multiple of the bandwidth-delay product.
    queue: f64,
    loss: f64,
    seconds: u64,
}

/// The paths that are compared.
const CASES: [AgreementPath; 6] = [
    AgreementPath { megabits: 100, round_trip_ms: 20, queue: 1.0, loss: 0.0, seconds: 20 },
    AgreementPath { megabits: 100, round_trip_ms: 50, queue: 0.5, loss: 1e-4, seconds: 20 },
    AgreementPath { megabits: 200, round_trip_ms: 100, queue: 0.5, loss: 0.0, seconds: 20 },
    AgreementPath { megabits: 500, round_trip_ms: 100, queue: 0.1, loss: 1e-5, seconds: 20 },
    AgreementPath { megabits: 1000, round_trip_ms: 300, queue: 0.1, loss: 0.0, seconds: 30 },
    AgreementPath { megabits: 1000, round_trip_ms: 300, queue: 0.1, loss: 1e-6, seconds: 30 },
];

/// Algorithms, and the number of paths, counted from the last, on which each runs.
const ALGORITHMS: [(&str, usize); 6] =
    [("reno", 6), ("cubic", 6), ("bic", 2), ("htcp", 2), ("highspeed", 2), ("scalable", 2)];
/// Number of seeds of the random loss, a live run and a simulation for each.
const SEEDS: u64 = 3;

impl AgreementPath {
    fn rate(&self) -> Rate {
        Rate::from_bits_per_second(self.megabits * 1_000_000)
    }

    /// Settings of the lab, live or simulated; `seed` is that of the random loss.
    fn settings(&self, seed: u64) -> Settings {
        let rate = self.rate();
        let round_trip = Span::from_millis(self.round_trip_ms);
        let queue = ByteCount::new(((rate * round_trip).as_u64() as f64 * self.queue) as u64);
        let loss = Model::Random(self.loss);
        Settings::symmetric(icdc_path::Settings { loss, seed, ..path(rate, round_trip, queue) })
    }

    /// Text that describes the path.
    fn name(&self) -> String {
        let Self { megabits, round_trip_ms, queue, loss, .. } = self;
        format!("{megabits} Mbit/s, {round_trip_ms} ms, queue {queue} BDP, loss {}", ratio(*loss))
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let (algorithms, cases, seeds) =
        if bench.quick { (&ALGORITHMS[..1], &CASES[..1], 1) } else { (&ALGORITHMS[..], &CASES[..], SEEDS) };
    let seeds = bench.runs.unwrap_or(seeds);
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for &(name, paths) in algorithms {
        for case in &cases[cases.len().saturating_sub(paths)..] {
            let (row, measured) = compare(bench, name, case, seeds)?;
            rows.push(row);
            all.extend(measured.into_iter().map(|measured| (format!("{name}, {}", case.name()), measured)));
        }
    }
    Ok(Report {
        tables: vec![Table {
            caption: format!("Goodput in Mbit/s, median of {seeds} (least to greatest)"),
            header: ["algorithm", "path", "live", "simulated", "live / simulated"].map(str::to_owned).to_vec(),
            rows,
        }],
        failures: failures(all.iter().map(|(name, measured)| (name.clone(), measured))),
        ..Report::default()
    })
}

/// Measures and simulates an algorithm on a path; returns the row of the table and the live runs.
fn compare(
    bench: &Bench<'_>,
    name: &'static str,
    case: &AgreementPath,
    seeds: u64,
) -> Result<(Vec<String>, Vec<Measured>), ExperimentError> {
    (bench.say)(&format!("{name}: {}", case.name()));
    let each = || (1..=seeds).map(|seed| case.settings(seed));
    let live: Vec<_> = each()
        .map(|settings| {
            trial::run(bench, &Trial { rate: Some(case.rate()), ..Trial::new(settings, case.seconds, name) })
        })
        .collect::<Result<_, _>>()?;
    let simulations: Vec<_> = each()
        .map(|settings| {
            let mut simulation = bulk(&settings, algorithm(name), Span::from_secs(case.seconds));
            simulation.flows[0].rate = Some(case.rate());
            simulation
        })
        .collect();
    let outcomes = simulated::run_all(bench, &simulations)?;
    let simulated = simulated::goodput(&outcomes);
    let measured = measured::goodput(&live);
    let row = vec![
        name.to_owned(),
        case.name(),
        measured.megabits(),
        simulated.megabits(),
        format!("{:.2}", measured.median / simulated.median),
    ];
    Ok((row, live))
}
