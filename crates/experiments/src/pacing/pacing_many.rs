//! Table 3 of the PSPacer paper (Takano et al., 2006): classes for many destinations at once, all
//! of one rate; the paper's 96 of 10 Mbit/s, and a thousand.
//!
//! The paper's results: of 96 classes of 10 Mbit/s each has 9.89 to 9.92 Mbit/s (its own count of a
//! frame has 20 bytes less than the line takes), in bursts of one packet; a commodity PC of 2006
//! takes a hundred classes.

use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::scenario::Scenario;
use crate::pacing::paced::{self, Paced, error, frames};
use crate::pacing::spacing::Spacing;

/// Scenario `pacing-many` of `icdc lab run`: the wire pacer with 96 and with 1,000 classes of one
/// rate (PSPacer, table 3).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pacing-many",
    about: "the wire pacer with 96 and with 1,000 classes at once at 1 Gbit/s: least and greatest rate, burst (PSPacer, table 3)",
    has_rows: false,
    is_parallel: false,
    run,
};

const RUNS: u64 = 3;
/// Length of a measurement.
const LENGTH: Span = Span::from_secs(10);
/// Length of a measurement in a quick run of the scenario.
const QUICK: Span = Span::from_secs(3);

/// Cases: number of classes, the rate of each, and the paper's least, mean and greatest rate in
/// Mbit/s and burst in packets.
const CASES: [(usize, Rate, [&str; 4]); 2] = [
    (96, Rate::from_bits_per_second(10_000_000), ["9.89", "9.91", "9.92", "1"]),
    (1000, Rate::from_bits_per_second(930_000), ["", "", "", ""]),
];

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let length = if bench.quick { QUICK } else { LENGTH };
    let (mut rows, mut plots, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for (classes, rate, paper) in CASES {
        let mut all = Vec::new();
        for run in 1..=runs {
            let name = format!("{classes} classes of {rate}");
            (bench.say)(&format!("{name}, run {run} of {runs}"));
            let paced = paced::run(bench, &vec![rate; classes], length)?;
            failures.extend(paced.spoilt.iter().map(|why| format!("{name}: {why}")));
            if run == 1 {
                plots.push(plot(&name, &paced));
            }
            all.push(paced);
        }
        rows.push(row(classes, rate, paper, &all));
    }
    let header = [
        "classes",
        "rate of each",
        "paper, least, mean, greatest, Mbit/s",
        "ours, least, Mbit/s on the wire",
        "mean",
        "greatest",
        "largest error, %",
        "required",
        "paper, burst, MTU",
        "ours, largest burst in a second, MTU",
        "required",
        "% of a processor",
        "kept from running, ms",
    ];
    Ok(Report {
        tables: vec![Table {
            caption: format!("Classes of one rate, 1 Gbit/s line, gap frames, median of {runs} (least to greatest)"),
            header: header.map(str::to_owned).to_vec(),
            rows,
        }],
        plots,
        failures,
        ..Report::default()
    })
}

/// Row of the table for one number of classes, over the runs.
fn row(classes: usize, rate: Rate, paper: [&str; 4], runs: &[Paced]) -> Vec<String> {
    let spread = |value: &dyn Fn(&Paced) -> f64| Spread::of(runs.iter().map(value));
    let of_classes = |paced: &Paced, value: &dyn Fn(&Spacing) -> f64| Spread::of(paced.classes.iter().map(value));
    let rates = |paced: &Paced| of_classes(paced, &|class| class.rate().as_bits_per_second() as f64 / 1e6);
    let mean = |paced: &Paced| {
        let sum: Rate = paced.classes.iter().map(Spacing::rate).sum();
        sum.as_bits_per_second() as f64 / 1e6 / classes as f64
    };
    let [least, middle, greatest, burst] = paper;
    let paper_rates = if least.is_empty() { String::new() } else { format!("{least}, {middle}, {greatest}") };
    vec![
        classes.to_string(),
        rate.to_string(),
        paper_rates,
        spread(&|paced| rates(paced).least).thousandths(),
        spread(&mean).thousandths(),
        spread(&|paced| rates(paced).greatest).thousandths(),
        spread(&|paced| of_classes(paced, &|class| error(class.rate(), rate).abs()).greatest).thousandths(),
        "≤ 0.5".to_owned(),
        burst.to_owned(),
        spread(&|paced| of_classes(paced, &|class| frames(class.burst())).greatest).hundredths(),
        "≤ 1".to_owned(),
        spread(&|paced| paced.processor * 100.0).tenths(""),
        spread(&|paced| paced.summary.late_seconds * 1e3).tenths(""),
    ]
}

/// Plot of the mean rate of each class.
fn plot(name: &str, paced: &Paced) -> Plot {
    let rate = |(number, class): (usize, &Spacing)| (number as f64 + 1.0, class.rate().as_bits_per_second() as f64);
    let rates = paced.classes.iter().enumerate().map(rate).collect::<Vec<_>>();
    Plot::new(name, Unit::BitsPerSecond, vec![Series::new("mean rate", Stroke::Points, rates)])
        .over("Class", Unit::Number)
}
