//! Time that a connection takes to fill the path, by round-trip time.
//!
//! The paper's values (Tamatsukuri et al., 10 Gbit/s, buffers tuned): about 2 s at 100 ms, 5 to 6 s
//! at 400 ms, 8 s at 500 ms to full rate. Slow start doubles per round trip, so the time grows with
//! RTT · log2(rate · RTT). Ours: until the mean over a second reaches 90 % of the greatest such
//! mean, less half of that second.

use icdc_lab::Settings;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::cells::mbit;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::measured::{failures, marked};
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;

/// Scenario `startup` of `icdc lab run`: time until a connection fills the path, by round-trip
/// time.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "startup",
    about: "time to 90 % of the rate at round-trip times of 100 to 500 ms (10 Gbit/s IPv6 LFN)",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Round-trip times, each with the paper's start-up time in seconds as text.
const CASES: [(Span, &str); 4] = [
    (Span::from_millis(100), "about 2"),
    (Span::from_millis(200), ""),
    (Span::from_millis(400), "5 to 6"),
    (Span::from_millis(500), "8"),
];
/// Window whose mean rate tells when the path is filled.
const WINDOW: Span = Span::from_secs(1);

/// Measures the time until a connection fills the path, by round trip; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let cases = if bench.quick { &CASES[..1] } else { &CASES[..] };
    let (mut rows, mut plots, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for &(round_trip, paper) in cases {
        (bench.say)(&format!("round trip {round_trip}"));
        // The queue holds one bandwidth-delay product, so that the time of start-up itself shows,
        // without losses by its overshoot.
        let settings = Settings::symmetric(path(RATE, round_trip, RATE * round_trip));
        let seconds = if bench.quick { 6 } else { 20 };
        let measured = trial::run(bench, &Trial::new(settings, seconds, "cubic"))?;
        let peak = measured.recording.peak_rate();
        let reached = measured.recording.reaches(peak.scaled(9, 10), WINDOW).map(|at| at - WINDOW / 2);
        let time = reached.map_or_else(|| "never".to_owned(), |at| format!("{:.1}", at.as_secs_f64()));
        let round_trips = reached.map_or_else(String::new, |at| format!("{:.0}", at.ratio(round_trip)));
        rows.push(vec![round_trip.to_string(), paper.to_owned(), marked(time, &measured), round_trips, mbit(peak)]);
        let mean = icdc_report::reduce::sliding_means(
            &measured.recording.throughput(),
            Span::from_millis(100),
            Span::from_millis(10),
        );
        plots.push((format!("{round_trip}"), mean));
        all.push((format!("round trip {round_trip}"), measured));
    }
    let series = plots
        .into_iter()
        .map(|(name, mean)| Series::new(&name, Stroke::Line, mean).column(&format!("throughput_rtt_{name}")));
    Ok(Report {
        tables: vec![Table {
            caption: "1 Gbit/s, queue of one bandwidth-delay product, CUBIC".to_owned(),
            header: ["round trip", "paper, s", "ours, s", "round trips", "greatest rate, Mbit/s on the wire"]
                .map(str::to_owned)
                .to_vec(),
            rows,
        }],
        plots: vec![Plot::new("Throughput, 100 ms mean", Unit::BitsPerSecond, series.collect())],
        failures: failures(all.iter().map(|(name, measured)| (name.clone(), measured))),
        ..Report::default()
    })
}
