//! Figure 8 of the PSPacer paper (Takano et al., 2006): the first round trips of a TCP connection
//! over 500 Mbit/s and 200 ms with a queue of 1 MB, in windows of 500 us.
//!
//! The paper's results: unpaced and behind a token bucket, a round trip's packets come in one burst
//! at the rate of the line and then nothing does until the next; the bursts fill the queue. Behind
//! PSPacer, they are spread evenly at 500 Mbit/s or less, also while the window is small.
//!
//! Ours: the frames that the router's port receives, one by one. A window above the router's rate
//! fills the queue; one with nothing is silence. How many frames follow one another at the rate of
//! the line, in the whole run, tells how much queue a sender needs: half of them wait. Path,
//! senders and congestion control are those of `fifo.rs`.

use std::sync::atomic::Ordering;

use icdc_lab::Settings;
use icdc_packet::clock;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{ByteCount, Span, Time};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::FAR;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::measured::{Measured, failures, marked};
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;
use crate::harness::traffic::cross_traffic::FRAME;
use crate::harness::traffic::shaper::Shaper;
use crate::pacing::fifo::{CONGESTION, LINE, PAYLOAD, ROUND_TRIP, ROUTER};
use crate::pacing::spacing::{self, PUBLISHED, Spacing};

/// Scenario `fifo-start` of `icdc lab run`: rates in the first seconds of a TCP connection, unpaced
/// and paced (PSPacer, figure 8).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "fifo-start",
    about: "the first seconds of TCP at 500 Mbit/s and 200 ms in windows of 500 us: unpaced, token bucket, wire pacer (PSPacer, figure 8)",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Size of the router's queue.
const QUEUE: ByteCount = ByteCount::from_mib(1);
/// Window over which the rates are means.
const WINDOW: Span = Span::from_micros(500);
/// Time that the paper's figure shows.
const SHOWN: Span = Span::from_millis(2500);
/// Length of a measurement in seconds.
const SECONDS: u64 = 4;

/// Largest distance in time of two frames that count as following one another at the rate of the
/// line, which takes 12.3 us for each.
const TOGETHER: Span = Span::from_micros(18);

/// Senders that are compared: name, shaper, and the paper's finding.
const SENDERS: [(&str, Shaper, &str); 5] = [
    ("unpaced", Shaper::Nothing, "bursts at the rate of the line, then silence"),
    ("token bucket", Shaper::TokenBucket(ROUTER), "bursts, then silence"),
    ("policy", Shaper::Policy(PAYLOAD, None), ""),
    ("policy, bursts of 2 segments", Shaper::Policy(PAYLOAD, Some(2)), ""),
    ("wire pacer", Shaper::Wire(ROUTER), "spread evenly"),
];

/// Result of one sender: its measurement, and the rates in windows of its start.
struct Start {
    name: &'static str,
    paper: &'static str,
    measured: Measured,
    rates: Vec<(f64, f64)>,
    /// Longest run of frames without a gap, in frames.
    longest_run: usize,
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let senders = if bench.quick { &SENDERS[..1] } else { &SENDERS[..] };
    let mut starts = Vec::new();
    for &(name, shaper, paper) in senders {
        (bench.say)(name);
        starts.push(Start::of(bench, name, shaper, paper)?);
    }
    Ok(Report {
        tables: vec![table(&starts)],
        plots: starts.iter().map(plot).collect(),
        failures: failures(starts.iter().map(|start| (start.name.to_owned(), &start.measured))),
        ..Report::default()
    })
}

impl Start {
    /// Measures one sender; `paper` is the paper's finding on it.
    fn of(bench: &Bench<'_>, name: &'static str, shaper: Shaper, paper: &'static str) -> Result<Self, ExperimentError> {
        let direction = icdc_path::Settings { line_rate: Some(LINE), ..path(ROUTER, ROUND_TRIP, QUEUE) };
        // All frames on the line, also those before the first byte.
        let listed = (LINE * Span::from_secs(SECONDS + 10)).as_u64() / FRAME.as_u64();
        let settings = Settings { listed, ..Settings::symmetric(direction) };
        let trial = Trial { shaper, ..Trial::new(settings, SECONDS, CONGESTION) };
        let (measured, list) = trial::run_beside(bench, &trial, |lab, over| {
            while !over.load(Ordering::Relaxed) {
                clock::sleep_until(clock::now() + PUBLISHED);
            }
            clock::sleep_until(clock::now() + PUBLISHED);
            spacing::list(lab)
        })?;
        let data = list.iter().filter(|frame| frame.length >= FRAME);
        let begun = data.map(|frame| frame.at).min().unwrap_or(Time::ORIGIN);
        let to = FAR.parse::<std::net::Ipv4Addr>().expect("an address").into();
        let spacing = Spacing::of(&list, to, begun, Time::MAX);
        let (rates, longest_run) = (spacing.rates_by(WINDOW, SHOWN), spacing.longest_run(TOGETHER));
        Ok(Self { name, paper, measured, rates, longest_run })
    }

    /// Percentage of the windows whose rate satisfies `counts`, as text.
    fn share(&self, counts: impl Fn(f64) -> bool) -> String {
        let counted = self.rates.iter().filter(|(_, rate)| counts(*rate)).count();
        format!("{:.1}", counted as f64 / self.rates.len().max(1) as f64 * 100.0)
    }
}

/// Table with a row for each sender: greatest rate, windows above the router's rate and empty ones,
/// frames in a row, drops.
fn table(starts: &[Start]) -> Table {
    let router = ROUTER.as_bits_per_second() as f64;
    // A window holds a frame more or less than its share.
    let frame = (FRAME / WINDOW).as_bits_per_second() as f64;
    let row = |start: &Start| {
        let greatest = start.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        vec![
            marked(start.name.to_owned(), &start.measured),
            start.paper.to_owned(),
            format!("{:.0}", greatest / 1e6),
            start.share(|rate| rate > router + frame),
            start.share(|rate| rate == 0.0),
            start.longest_run.to_string(),
            start.measured.queue_drops.to_string(),
        ]
    };
    Table {
        caption: format!(
            "500 Mbit/s, 200 ms, queue 1 MiB: windows of {WINDOW} of the first {SHOWN}, as the router's port receives them"
        ),
        header: [
            "",
            "paper, figure 8",
            "greatest, Mbit/s on the wire",
            "windows above the router's rate, %",
            "windows with nothing, %",
            "most frames in a row at the rate of the line, whole run",
            "dropped at the queue, whole run",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: starts.iter().map(row).collect(),
    }
}

/// Plot of the rates in windows at the start.
fn plot(start: &Start) -> Plot {
    let column = start.name.replace([' ', ','], "_");
    let series = Series::new(start.name, Stroke::Line, start.rates.clone()).column(&column);
    Plot::new(&format!("{}, windows of {WINDOW}", start.name), Unit::BitsPerSecond, vec![series])
}
