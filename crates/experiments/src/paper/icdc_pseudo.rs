//! The ICDC paper's emulated path: 1 Gbit/s and 302 ms, one stream unpaced and one paced at 860
//! Mbit/s.
//!
//! What the paper shows: unpaced, the throughput in windows of 1 ms and of 1000 ms differ wildly,
//! because TCP sends a round trip's worth in a burst and then waits; paced just under the rate of
//! the path, both coincide at 860 Mbit/s (Tanida, Inaba, Hiraki, figures of the experiment with the
//! pseudo long-distance environment).

use icdc_lab::Settings;
use icdc_report::{Report, Table, views};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::arrivals::Arrivals;
use crate::harness::bench::Bench;
use crate::harness::cells::mbit;
use crate::harness::error::ExperimentError;
use crate::harness::measured::{self, Measured, failures, marked};
use crate::harness::paths::path;
use crate::harness::resolution::Resolution;
use crate::harness::scenario::Scenario;
use crate::harness::trial::{self, Trial};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "icdc-pseudo",
    about: "one stream over 1 Gbit/s and 302 ms, unpaced and paced at 860 Mbit/s, in windows of 1 ms and 1000 ms (ICDC)",
    has_rows: false,
    is_parallel: false,
    run,
};

const ROUND_TRIP: Span = Span::from_millis(302);
const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const QUEUE: ByteCount = ByteCount::new(2_500_000);
const PACED: Rate = Rate::from_bits_per_second(860_000_000);

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let settings = Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE));
    let seconds = if bench.quick { 10 } else { 30 };
    let trial = |rate, resolution| Trial { rate, resolution, ..Trial::new(settings.clone(), seconds, "cubic") };
    // Unpaced, windows of a millisecond differ by more than a stall of this machine could make them
    // differ.
    (bench.say)("unpaced");
    let unpaced = trial::run(bench, &trial(None, Resolution::Means))?;
    (bench.say)("paced at 860 Mbit/s");
    let paced = trial::run(bench, &trial(Some(PACED), Resolution::Milliseconds))?;
    let mut plots = Vec::new();
    for (name, measured) in [("unpaced", &unpaced), ("paced", &paced)] {
        let [throughput, queue, _, burstiness] =
            measured.recording.plots(&settings.forward).try_into().expect("four plots");
        let samples = |value: fn(&measured::SenderSample) -> f64| {
            measured.samples.iter().map(|sample| (measured.seconds_of(sample), value(sample))).collect::<Vec<_>>()
        };
        for plot in [
            throughput,
            queue,
            burstiness,
            views::congestion_window(samples(|sample| sample.cwnd_bytes as f64)),
            views::round_trip_time(samples(|sample| sample.rtt_seconds.unwrap_or(f64::NAN))),
        ] {
            plots.push(plot.of(name));
        }
    }
    Ok(Report {
        tables: vec![table(&unpaced, &paced, settings.forward.largest_frame())],
        plots,
        failures: failures([("unpaced".to_owned(), &unpaced), ("paced".to_owned(), &paced)]),
        ..Report::default()
    })
}

fn table(unpaced: &Measured, paced: &Measured, frame: ByteCount) -> Table {
    let row = |name: &str, paper: &str, value: &dyn Fn(&Measured) -> String| {
        vec![name.to_owned(), paper.to_owned(), marked(value(unpaced), unpaced), marked(value(paced), paced)]
    };
    // The second half, when start-up is over.
    let half =
        |measured: &Measured| (measured.recording.bins.len() / 2, measured.recording.bins.len().saturating_sub(400));
    Table {
        caption: "1 Gbit/s, 302 ms, queue 2.5 MB, one stream".to_owned(),
        header: ["", "paper, paced", "ours, unpaced", "ours, paced at 860 Mbit/s"].map(str::to_owned).to_vec(),
        rows: vec![
            // What is paced is payload, headers are not counted.
            row("mean of the second half, Mbit/s of payload", "860", &|measured| {
                let arrivals = Arrivals::new(&measured.summary.series_ms);
                mbit(arrivals.mean(arrivals.length() / 2, arrivals.length()))
            }),
            row("the same on the wire, headers and frames included, Mbit/s", "", &|measured| {
                let (from, to) = half(measured);
                mbit(measured.recording.mean_rate_between(from, to))
            }),
            row("variation of the 1 ms windows, % of the mean", "near 0", &|measured| {
                let (from, to) = half(measured);
                format!("{:.1}", measured.recording.variation(from, to) * 100.0)
            }),
            row("mean of the whole run, Mbit/s of payload", "", &|measured| {
                format!("{:.0}", measured.summary.goodput_bps / 1e6)
            }),
            row("segments retransmitted", "", &|measured| measured.summary.retransmitted_segments.to_string()),
            row("packets dropped at the queue", "", &|measured| measured.queue_drops.to_string()),
            row("largest burst in a second, second half, MTU", "", &|measured| {
                let (from, to) = half(measured);
                format!("{:.0}", measured.recording.largest_burst(from, to).ratio(frame))
            }),
            row("largest burst in a second, first half with start-up, MTU", "", &|measured| {
                format!("{:.0}", measured.recording.largest_burst(0, half(measured).0).ratio(frame))
            }),
            row("99.9 % of deliveries late by at most", "", &|measured| measured.lateness.to_string()),
        ],
    }
}
