//! The ICDC paper's figures 5, 6, 9, 10 and 11 on an emulated path: 1 Gbit/s and 302 ms, one stream
//! of BIC, unpaced, paced by its socket, and with longer gaps between the frames.
//!
//! The paper's results (Tanida, Inaba, Hiraki): unpaced, the throughput in windows of 1 ms and of
//! 1000 ms differ widely, because TCP sends a round trip's worth in a burst and then waits; with
//! inter-packet gaps of 167 bytes in place of 12, both coincide at 860 Mbit/s. On a real path with
//! traffic of others, the unpaced stream is unstable and the paced one holds 860 Mbit/s, although
//! its windows of 1 ms scatter; from disk to disk 86 % of the bottleneck are reached.
//!
//! Ours: gaps are the wire pacer's, with gap frames. The others on the path take a twentieth of it
//! every other 5 s, since nothing is known of the paper's. The copy from disk to disk is icdc's, by
//! the same algorithm and with the same gaps.

use icdc_lab::Settings;
use icdc_lab::recording::Recording;
use icdc_report::{Plot, Report, Table, views};
use icdc_units::{ByteCount, Rate, Span};

use crate::copy::copying::{self, Copied, Copying, payload};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::at_once::{self, Repeated};
use crate::harness::measurement::measured::{Measured, SenderSample};
use crate::harness::measurement::rate_control::RateControl;
use crate::harness::measurement::rights::Rights;
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::processes::scratch::Scratch;
use crate::harness::repetition::attempts;
use crate::harness::repetition::resolution::Resolution;
use crate::harness::scenario::Scenario;
use crate::harness::traffic::cross_traffic::CrossTraffic;
use crate::harness::traffic::shaper::{Shaper, Target};

/// Scenario `icdc-pseudo` of `icdc lab run`: one stream of BIC, unpaced and paced, alone, beside
/// others and from disk to disk (ICDC, figures 5 to 11).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "icdc-pseudo",
    about: "one stream of BIC over 1 Gbit/s and 302 ms: unpaced, paced, with longer gaps; alone, beside others, from disk to disk (ICDC)",
    has_rows: true,
    is_parallel: false,
    run,
};

const ROUND_TRIP: Span = Span::from_millis(302);
const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Size of the path's queue.
const QUEUE: ByteCount = ByteCount::new(2_500_000);
const CONGESTION: &str = "bic";
/// Payload rate of the stream that is paced by its socket.
const PACED: Rate = Rate::from_bits_per_second(860_000_000);
/// Rate of full frames with gaps of 167 bytes, given as the wire pacer counts rates, with gaps of
/// 12: 1538 of 1693 bytes.
const WITH_GAPS: Rate = Rate::from_bits_per_second(908_446_544);
/// The cross-traffic: a twentieth of the path's rate, on and off each 5 s.
const OTHERS: CrossTraffic =
    CrossTraffic { rate: Rate::from_bits_per_second(50_000_000), quiet: FIVE_SECONDS, half_period: FIVE_SECONDS };
/// Length of each phase with and without cross-traffic.
const FIVE_SECONDS: Span = Span::from_secs(5);
/// Length of a measurement from memory to memory, in seconds.
const SECONDS: u64 = 40;
/// Size of the file that is copied from disk to disk.
const SIZE: ByteCount = ByteCount::new(3_000_000_000);
/// Size of the copied file in a quick run of the scenario.
const QUICK_SIZE: ByteCount = ByteCount::new(300_000_000);
const RUNS: u64 = 3;

/// Pacing of the stream: not at all, by its socket, or by the wire pacer with gaps between frames.
#[derive(Clone, Copy, PartialEq)]
enum Pacing {
    Nothing,
    Socket,
    Gaps,
}

/// Conditions of the stream: alone, beside cross-traffic, or from disk to disk.
#[derive(Clone, Copy, PartialEq)]
enum Conditions {
    Alone,
    BesideOthers,
    DiskToDisk,
}

/// Row of the table: a stream with its pacing and conditions, the paper's findings, and the runs.
struct Stream {
    pacing: Pacing,
    conditions: Conditions,
    /// Figure, and what it shows: the mean, and the windows of a millisecond.
    paper: [&'static str; 3],
    runs: Vec<StreamRun>,
}

/// Result of one run of a stream.
struct StreamRun {
    recording: Recording,
    samples: Vec<(f64, SenderSample)>,
    /// Payload rate over the whole run, in Mbit/s.
    whole: f64,
    retransmitted: u64,
    lateness: Span,
    spoilt: Option<String>,
    /// Time for which data came, in milliseconds, without retransmissions after the receiver has
    /// ended.
    length: usize,
}

/// Rows of the table: pacing, conditions, and the paper's figure, mean rate in Mbit/s, and finding
/// on the windows of 1 ms and 1000 ms.
const STREAMS: [(Pacing, Conditions, [&str; 3]); 7] = [
    (Pacing::Nothing, Conditions::Alone, ["5", "", "differ widely"]),
    (Pacing::Socket, Conditions::Alone, ["", "", ""]),
    (Pacing::Gaps, Conditions::Alone, ["6", "860", "coincide"]),
    (Pacing::Nothing, Conditions::BesideOthers, ["9", "unstable", "differ widely"]),
    (Pacing::Socket, Conditions::BesideOthers, ["", "", ""]),
    (Pacing::Gaps, Conditions::BesideOthers, ["10", "860", "scatter"]),
    (Pacing::Gaps, Conditions::DiskToDisk, ["11", "86 % of the bottleneck", ""]),
];

/// Settings of the lab. For gap frames, which need a line that they fill, the path has a line rate.
fn settings(pacing: Pacing) -> Settings {
    let line_rate = (pacing == Pacing::Gaps).then_some(RATE);
    Settings::symmetric(icdc_path::Settings { line_rate, ..path(RATE, ROUND_TRIP, QUEUE) })
}

/// Size on the wire of a full frame of the path.
fn frame() -> ByteCount {
    path(RATE, ROUND_TRIP, QUEUE).largest_frame()
}

impl Repeated for Stream {
    type Run = StreamRun;

    fn name(&self) -> String {
        let pacing = match self.pacing {
            Pacing::Nothing => "unpaced",
            Pacing::Socket => "paced by the socket",
            Pacing::Gaps => "gaps of 167 bytes",
        };
        let conditions = match self.conditions {
            Conditions::Alone => "",
            Conditions::BesideOthers => ", beside others",
            Conditions::DiskToDisk => ", disk to disk",
        };
        format!("{pacing}{conditions}")
    }

    fn keep(&mut self, run: StreamRun) {
        self.runs.push(run);
    }
}

impl Stream {
    /// Shaper in front of the stream: the wire pacer if it is paced by gaps.
    fn shaper(&self) -> Shaper {
        if self.pacing == Pacing::Gaps { Shaper::Wire(WITH_GAPS) } else { Shaper::Nothing }
    }

    /// Measures the stream from memory to memory, beside cross-traffic if its conditions say so.
    fn measure(&self, bench: &Bench<'_>, seconds: u64) -> Result<StreamRun, ExperimentError> {
        let trial = Trial {
            rate: (self.pacing == Pacing::Socket).then_some(PACED),
            shaper: self.shaper(),
            // Unpaced or beside others, windows of a millisecond differ by more than a stall of
            // this machine could make them differ.
            resolution: match (self.pacing, self.conditions) {
                (Pacing::Socket | Pacing::Gaps, Conditions::Alone) => Resolution::Milliseconds,
                _ => Resolution::Means,
            },
            ..Trial::new(settings(self.pacing), seconds, CONGESTION)
        };
        if self.conditions == Conditions::BesideOthers {
            let beside = trial::run_beside(bench, &trial, |lab, over| OTHERS.send(lab, over))?;
            return Ok(StreamRun::of(beside.0));
        }
        trial::run(bench, &trial).map(StreamRun::of)
    }

    /// Measures a copy of icdc from disk to disk.
    fn copy(&self, bench: &Bench<'_>, size: ByteCount) -> Result<StreamRun, ExperimentError> {
        let scratch = Scratch::on_disk(size * 2)?;
        let source = scratch.file("data", size)?;
        let copying = Copying {
            settings: settings(self.pacing),
            scratch: &scratch,
            source: &source,
            rights: Rights::All,
            options: ["--streams", "1", "--cc", CONGESTION].map(str::to_owned).to_vec(),
            receiver: None,
            limit: Span::from_secs(600),
        };
        let (mut copied, ()) = copying::run_beside(bench, &copying, |lab| {
            let _shaping = self.shaper().start(bench, lab, Target::HOST_B)?;
            Ok((copying::copy(bench, lab, &copying, |_| {})?, ()))
        })?;
        copied.spoilt = copied.spoilt.or_else(|| RateControl::Named(CONGESTION).unlike(&copied.summary.congestion));
        Ok(StreamRun::of_copy(copied))
    }
}

impl StreamRun {
    /// Result of a measurement from memory to memory.
    fn of(measured: Measured) -> Self {
        let at = |sample: &SenderSample| (measured.seconds_of(sample), sample.clone());
        Self {
            samples: measured.samples.iter().map(at).collect(),
            whole: measured.summary.goodput_bps / 1e6,
            retransmitted: measured.summary.retransmitted_segments,
            lateness: measured.lateness,
            spoilt: measured.spoilt,
            length: measured.summary.series_ms.len(),
            recording: measured.recording,
        }
    }

    /// Result of a copy from disk to disk.
    fn of_copy(copied: Copied) -> Self {
        let bins = &copied.recording.bins;
        let end = bins.iter().rposition(|bin| bin.delivered >= frame()).map_or(0, |last| last + 1);
        Self {
            length: end.saturating_sub(copied.recording.data_begins(frame())),
            samples: Vec::new(),
            whole: copied.summary.bytes as f64 * 8.0 / copied.took.as_secs_f64() / 1e6,
            retransmitted: copied.summary.retransmitted_segments,
            lateness: copied.lateness,
            spoilt: copied.spoilt,
            recording: copied.recording,
        }
    }

    /// Payload rate that the path delivered in the second half, in Mbit/s.
    fn steady(&self) -> f64 {
        let (from, to) = self.half();
        payload(self.recording.mean_rate_between(from, to), &settings(Pacing::Nothing)) / 1e6
    }

    /// Begin and end of the second half, when start-up is over, as milliseconds of the recording.
    fn half(&self) -> (usize, usize) {
        let begin = self.recording.data_begins(frame());
        let end = (begin + self.length).min(self.recording.bins.len());
        (begin.midpoint(end).min(end), end)
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let (seconds, size) = if bench.quick { (10, QUICK_SIZE) } else { (SECONDS, SIZE) };
    let streams = STREAMS.map(|(pacing, conditions, paper)| Stream { pacing, conditions, paper, runs: Vec::new() });
    let mut streams = bench.wanted(streams.into(), Stream::name)?;
    let once = |bench: &Bench<'_>, stream: &Stream, _| match stream.conditions {
        Conditions::DiskToDisk => stream.copy(bench, size),
        Conditions::Alone | Conditions::BesideOthers => stream.measure(bench, seconds),
    };
    at_once::repeat(bench, runs, &mut streams, once)?;
    let all = streams.iter().flat_map(|stream| stream.runs.iter().map(|run| (stream.name(), &run.spoilt)));
    Ok(Report {
        tables: vec![table(&streams)],
        plots: streams.iter().flat_map(plots).collect(),
        failures: attempts::failures(all),
        ..Report::default()
    })
}

/// Table with a row for each stream, beside the paper's findings.
fn table(streams: &[Stream]) -> Table {
    let frame = frame();
    let row = |stream: &Stream| {
        let spread = |value: &dyn Fn(&StreamRun) -> f64| Spread::of(stream.runs.iter().map(value));
        let burst = |from: usize, to: usize, run: &StreamRun| run.recording.largest_burst(from, to).ratio(frame);
        let [figure, mean, windows] = stream.paper.map(str::to_owned);
        vec![
            stream.name(),
            figure,
            mean,
            spread(&StreamRun::steady).whole(),
            windows,
            spread(&|run| run.recording.variation(run.half().0, run.half().1)).percent(),
            spread(&|run| run.whole).whole(),
            spread(&|run| run.retransmitted as f64).whole(),
            spread(&|run| run.recording.queue_drops_from(0) as f64).whole(),
            spread(&|run| burst(0, run.half().0, run)).whole(),
            spread(&|run| burst(run.half().0, run.half().1, run)).whole(),
            stream.runs.iter().map(|run| run.lateness).max().unwrap_or_default().to_string(),
            stream.runs.iter().filter(|run| run.spoilt.is_some()).count().to_string(),
        ]
    };
    Table {
        caption: "1 Gbit/s, 302 ms, queue 2.5 MB, one stream of BIC; rates in Mbit/s of payload, of all on the path where others are; median (least to greatest)".to_owned(),
        header: [
            "",
            "paper, figure",
            "paper, mean",
            "second half",
            "paper, windows of 1 ms and 1000 ms",
            "variation of 1 ms windows, second half, %",
            "whole run",
            "segments retransmitted",
            "packets dropped at the queue",
            "largest burst in a second, first half with start-up, MTU",
            "second half, MTU",
            "99.9 % late by at most",
            "invalid runs",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: streams.iter().map(row).collect(),
    }
}

/// Plots of the stream's first run.
fn plots(stream: &Stream) -> Vec<Plot> {
    let Some(run) = stream.runs.first() else { return Vec::new() };
    let mut plots = run.recording.plots(&settings(stream.pacing).forward);
    if !run.samples.is_empty() {
        let samples = |value: fn(&SenderSample) -> f64| {
            run.samples.iter().map(|(at, sample)| (*at, value(sample))).collect::<Vec<_>>()
        };
        plots.push(views::congestion_window(samples(|sample| sample.cwnd_bytes as f64)));
        plots.push(views::round_trip_time(samples(|sample| sample.rtt_seconds.unwrap_or(f64::NAN))));
    }
    plots.into_iter().map(|plot| plot.of(&stream.name())).collect()
}
