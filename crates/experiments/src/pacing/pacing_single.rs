//! Table 2 of the PSPacer paper (Takano et al., 2006): one class to one destination, from 8 kbit/s
//! to 930 Mbit/s on a line of 1 Gbit/s.
//!
//! The paper's results: the mean bandwidth is within half a per cent of the requested one (its own
//! count of a frame has 20 bytes less than the line takes), and bursts are of one packet, two from
//! 500 Mbit/s on. Ours: mean rate on the wire and the largest burst of any second, as the path had
//! received the frames, and what the pacer cost.

use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::scenario::Scenario;
use crate::harness::traffic::cross_traffic::FRAME;
use crate::pacing::paced::{self, Paced, error, frames};

/// Scenario `pacing-single` of `icdc lab run`: the wire pacer with one class, by its rate (PSPacer,
/// table 2).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pacing-single",
    about: "the wire pacer with one class of 8 kbit/s to 930 Mbit/s at 1 Gbit/s: rate, burst, cost (PSPacer, table 2)",
    has_rows: false,
    is_parallel: false,
    run,
};

const RUNS: u64 = 3;
/// Least length of a measurement.
const LENGTH: Span = Span::from_secs(10);
/// Least length of a measurement in a quick run of the scenario.
const QUICK: Span = Span::from_secs(3);
/// Least number of frames at each rate.
const LEAST_FRAMES: u64 = 20;
/// Rate from which bursts of two packets are allowed.
const FAST: Rate = Rate::from_bits_per_second(100_000_000);

/// Case of one class: its rate in kbit/s, and the paper's results.
struct SingleClass {
    kilobits: u64,
    /// The paper's mean bandwidth and burst.
    paper: [&'static str; 2],
}

/// A case of this rate in kbit/s, with the paper's mean bandwidth and burst; empty texts where it
/// has none.
const fn case(kilobits: u64, paper: [&'static str; 2]) -> SingleClass {
    SingleClass { kilobits, paper }
}

/// Rates of the class that are measured.
const CASES: [SingleClass; 10] = [
    case(8, ["7.96k", "1"]),
    case(64, ["", ""]),
    case(1_000, ["", ""]),
    case(10_000, ["9.95M", "1"]),
    case(50_000, ["", ""]),
    case(99_000, ["", ""]),
    case(200_000, ["", ""]),
    case(500_000, ["498M", "2"]),
    case(700_000, ["", ""]),
    case(930_000, ["926M", "2"]),
];

impl SingleClass {
    fn rate(&self) -> Rate {
        Rate::from_bits_per_second(self.kilobits * 1000)
    }

    /// Length of a measurement: enough for [`LEAST_FRAMES`] at the rate.
    fn length(&self, quick: bool) -> Span {
        let length = if quick { QUICK } else { LENGTH };
        length.max(FRAME * LEAST_FRAMES / self.rate())
    }

    /// Whether a quick run of the scenario measures this case.
    fn is_quick(&self) -> bool {
        [1_000, 99_000, 930_000].contains(&self.kilobits)
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let (mut errors, mut costs) = (Vec::new(), Vec::new());
    for case in CASES.iter().filter(|case| !bench.quick || case.is_quick()) {
        let mut all = Vec::new();
        for run in 1..=runs {
            (bench.say)(&format!("{}, run {run} of {runs}", case.rate()));
            let paced = paced::run(bench, &[case.rate()], case.length(bench.quick))?;
            failures.extend(paced.spoilt.iter().map(|why| format!("{}: {why}", case.rate())));
            errors.push((case.kilobits as f64 * 1e3, error(paced.classes[0].rate(), case.rate()) / 100.0));
            costs.push((case.kilobits as f64 * 1e3, paced.processor));
            all.push(paced);
        }
        rows.push(row(case, &all));
    }
    let over = |title, unit, points| {
        let series = Series::new("each run", Stroke::Points, points);
        Plot::new(title, unit, vec![series]).over("Rate asked for", Unit::BitsPerSecond)
    };
    let header = [
        "rate",
        "paper, mean bandwidth",
        "ours, mean rate, Mbit/s on the wire",
        "error, %",
        "required",
        "paper, burst, MTU",
        "ours, largest burst in a second, MTU",
        "required",
        "% of a processor",
        "required",
        "kept from running, ms",
    ];
    Ok(Report {
        tables: vec![Table {
            caption: format!("One class, 1 Gbit/s line, gap frames, median of {runs} (least to greatest)"),
            header: header.map(str::to_owned).to_vec(),
            rows,
        }],
        plots: vec![over("Error of the mean rate", Unit::Number, errors), over("Processor", Unit::Number, costs)],
        failures,
        ..Report::default()
    })
}

/// Row of the table for one rate, over the runs.
fn row(case: &SingleClass, runs: &[Paced]) -> Vec<String> {
    let spread = |value: &dyn Fn(&Paced) -> f64| Spread::of(runs.iter().map(value));
    let [paper_rate, paper_burst] = case.paper.map(str::to_owned);
    let burst = if case.rate() < FAST { "≤ 1" } else { "≤ 2" };
    let cost = if case.kilobits == 930_000 { "≤ 40" } else { "" };
    vec![
        case.rate().to_string(),
        paper_rate,
        spread(&|paced| paced.classes[0].rate().as_bits_per_second() as f64 / 1e6).thousandths(),
        spread(&|paced| error(paced.classes[0].rate(), case.rate())).thousandths(),
        "± 0.5".to_owned(),
        paper_burst,
        spread(&|paced| frames(paced.classes[0].burst())).hundredths(),
        burst.to_owned(),
        spread(&|paced| paced.processor * 100.0).tenths(""),
        cost.to_owned(),
        spread(&|paced| paced.summary.late_seconds * 1e3).tenths(""),
    ]
}
