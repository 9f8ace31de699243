//! How far the simulator agrees with the kernel: mean goodput of the same flow through the same path, live and in
//! virtual time, for the algorithms that both have of their own: reno and cubic.
//!
//! Live and simulated path lose by the same seed, so that the same packets meet the same fate as long as both sides send the
//! same. A simulated host sends as fast as the live one did. The algorithms whose C files run on both sides stand in `cc-table`.

use icdc_path::loss::Model;
use icdc_report::{Report, Table};
use icdc_units::{ByteCount, Rate, Span};

use super::simulated::{self, algorithm, like};
use super::trial::{self, Measured, Trial};
use super::{Bench, Scenario, failures, path, ratio};
use crate::LabError;
use crate::settings::Settings;

pub(super) const SCENARIO: Scenario =
    Scenario { name: "cc-agreement", about: "mean goodput live against simulated: reno and cubic on six paths", run };

/// A path, and for how long it is used.
struct Case {
    megabits: u64,
    round_trip_ms: u64,
    /// Queue by the bandwidth-delay product.
    queue: f64,
    loss: f64,
    seconds: u64,
}

const CASES: [Case; 6] = [
    Case { megabits: 100, round_trip_ms: 20, queue: 1.0, loss: 0.0, seconds: 20 },
    Case { megabits: 100, round_trip_ms: 50, queue: 0.5, loss: 1e-4, seconds: 30 },
    Case { megabits: 200, round_trip_ms: 100, queue: 0.5, loss: 0.0, seconds: 30 },
    Case { megabits: 500, round_trip_ms: 100, queue: 0.1, loss: 1e-5, seconds: 30 },
    Case { megabits: 1000, round_trip_ms: 300, queue: 0.1, loss: 0.0, seconds: 40 },
    Case { megabits: 1000, round_trip_ms: 300, queue: 0.1, loss: 1e-6, seconds: 40 },
];

const ALGORITHMS: [&str; 2] = ["reno", "cubic"];
const SEEDS: u64 = 3;

impl Case {
    fn settings(&self, seed: u64) -> Settings {
        let rate = Rate::from_bits_per_second(self.megabits * 1_000_000);
        let round_trip = Span::from_millis(self.round_trip_ms);
        let queue = ByteCount::new(((rate * round_trip).as_u64() as f64 * self.queue) as u64);
        let loss = Model::Random(self.loss);
        Settings::symmetric(icdc_path::Settings { loss, seed, ..path(rate, round_trip, queue) })
    }

    fn name(&self) -> String {
        let Self { megabits, round_trip_ms, queue, loss, .. } = self;
        format!("{megabits} Mbit/s, {round_trip_ms} ms, queue {queue} BDP, loss {}", ratio(*loss))
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, LabError> {
    let (algorithms, cases, seeds) =
        if bench.quick { (&ALGORITHMS[..1], &CASES[..1], 1) } else { (&ALGORITHMS[..], &CASES[..], SEEDS) };
    let seeds = bench.runs.unwrap_or(seeds);
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for &name in algorithms {
        for case in cases {
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

fn compare(
    bench: &Bench<'_>,
    name: &'static str,
    case: &Case,
    seeds: u64,
) -> Result<(Vec<String>, Vec<Measured>), LabError> {
    (bench.say)(&format!("{name}: {}", case.name()));
    let each = || (1..=seeds).map(|seed| case.settings(seed));
    let live: Vec<_> = each()
        .map(|settings| trial::run(bench, &Trial::new(settings, case.seconds, name)))
        .collect::<Result<_, _>>()?;
    let simulations: Vec<_> = each()
        .zip(&live)
        .map(|(settings, live)| like(&settings, algorithm(name), Span::from_secs(case.seconds), live))
        .collect();
    let outcomes = simulated::run_all(bench, &simulations)?;
    let simulated = simulated::goodput(&outcomes);
    let measured = trial::goodput(&live);
    let row = vec![
        name.to_owned(),
        case.name(),
        measured.megabits(),
        simulated.megabits(),
        format!("{:.2}", measured.median / simulated.median),
    ];
    Ok((row, live))
}
