//! Table 4 and figure 7 of the PSPacer paper (Takano et al., 2006): five classes of 20 to 500
//! Mbit/s share a line of 1 Gbit/s at the same time.
//!
//! The paper's results: the mean of the bandwidths over two consecutive packets is 19.9, 49.9, 100,
//! 304 and 500 Mbit/s, and bursts are of two packets. Such a mean is above the rate where packets
//! are not evenly spaced, and they cannot all be: a packet of another class takes its time on the
//! line whole. Two packets of the class of 300 Mbit/s have 6⅔ places on the line: where they take
//! six or eight of them, beside a class of 500 Mbit/s that has every second place, the mean of
//! their bandwidths is 305.6 Mbit/s; where those give way, theirs grows. What is required is the
//! paper's value. The rate itself, bytes over time, stands beside it.

use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::scenario::Scenario;
use crate::pacing::paced::{self, Paced, error, frames};

/// Scenario `pacing-classes` of `icdc lab run`: the wire pacer with five classes of different rates
/// at once (PSPacer, table 4 and figure 7).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pacing-classes",
    about: "the wire pacer with classes of 20, 50, 100, 300 and 500 Mbit/s at once at 1 Gbit/s (PSPacer, table 4, figure 7)",
    has_rows: false,
    is_parallel: false,
    run,
};

const RUNS: u64 = 3;
/// Length of a measurement.
const LENGTH: Span = Span::from_secs(10);
/// Length of a measurement in a quick run of the scenario.
const QUICK: Span = Span::from_secs(3);
/// Classes: rate in Mbit/s, and the paper's mean bandwidths over one packet and over two, in
/// Mbit/s.
const CLASSES: [(u64, f64, f64); 5] =
    [(20, 20.5, 19.9), (50, 33.1, 49.9), (100, 103.0, 100.0), (300, 332.0, 304.0), (500, 506.0, 500.0)];
/// Time from the first frame that plots show, in seconds: short enough to be legible.
const DRAWN: f64 = 0.02;

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let length = if bench.quick { QUICK } else { LENGTH };
    let rates = CLASSES.map(|(megabits, ..)| Rate::from_bits_per_second(megabits * 1_000_000));
    let mut all = Vec::new();
    for run in 1..=runs {
        (bench.say)(&format!("five classes, run {run} of {runs}"));
        all.push(paced::run(bench, &rates, length)?);
    }
    let header = [
        "class, Mbit/s",
        "rate, error, %",
        "required",
        "paper, n = 1",
        "ours, n = 1",
        "paper, n = 2",
        "ours, n = 2",
        "from the paper's, %",
        "required",
        "n = 2, least",
        "n = 2, greatest",
        "paper, burst, MTU",
        "ours, largest burst in a second, MTU",
        "required",
    ];
    let spread = |value: fn(&Paced) -> f64| Spread::of(all.iter().map(value));
    let cost = spread(|paced| paced.processor * 100.0).tenths("");
    let late = spread(|paced| paced.summary.late_seconds * 1e3).tenths("");
    Ok(Report {
        summary: vec![("pacer".to_owned(), format!("{cost} % of a processor, kept from running for {late} ms"))],
        tables: vec![Table {
            caption: format!(
                "Five classes at once, 1 Gbit/s line, gap frames: mean bandwidth over n consecutive packets, Mbit/s on the wire, median of {runs} (least to greatest)"
            ),
            header: header.map(str::to_owned).to_vec(),
            rows: (0..CLASSES.len()).map(|class| row(class, rates[class], &all)).collect(),
        }],
        plots: [1, 2].map(|count| plot(count, &all[0])).to_vec(),
        failures: all.iter().filter_map(|paced| paced.spoilt.clone()).collect(),
        ..Report::default()
    })
}

/// Row of the table for one class (its index and rate), over the runs.
fn row(class: usize, rate: Rate, runs: &[Paced]) -> Vec<String> {
    let (megabits, one, two) = CLASSES[class];
    let spread = |value: &dyn Fn(&Paced) -> f64| Spread::of(runs.iter().map(value));
    let over = |count: usize| move |paced: &Paced| paced.classes[class].summary(count).mean / 1e6;
    let mean = over(2);
    vec![
        megabits.to_string(),
        spread(&|paced| error(paced.classes[class].rate(), rate)).thousandths(),
        "± 0.5".to_owned(),
        one.to_string(),
        spread(&over(1)).tenths(""),
        two.to_string(),
        spread(&mean).tenths(""),
        spread(&|paced| (mean(paced) / two - 1.0) * 100.0).tenths(""),
        "± 1".to_owned(),
        spread(&|paced| paced.classes[class].summary(2).least / 1e6).tenths(""),
        spread(&|paced| paced.classes[class].summary(2).greatest / 1e6).tenths(""),
        "2".to_owned(),
        spread(&|paced| frames(paced.classes[class].burst())).hundredths(),
        "≤ 2".to_owned(),
    ]
}

/// The beginning of figure 7: bandwidth of each class over `count` consecutive packets.
fn plot(count: usize, paced: &Paced) -> Plot {
    let line = |(class, (megabits, ..)): (usize, &(u64, f64, f64))| {
        let points = paced.classes[class].bandwidths(count).take_while(|(at, _)| *at < DRAWN).collect::<Vec<_>>();
        Series::new(&format!("{megabits} Mbit/s"), Stroke::Line, points)
    };
    let title = format!("Bandwidth over {count} consecutive packets");
    Plot::new(&title, Unit::BitsPerSecond, CLASSES.iter().enumerate().map(line).collect()).over("Time", Unit::Seconds)
}
