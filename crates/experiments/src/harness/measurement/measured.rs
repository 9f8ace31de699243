//! Result of one `icdc measure` in a lab.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::thread;

use icdc_lab::recording::Recording;
use icdc_units::{Span, Time};
use serde::Deserialize;

use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::repetition::attempts::{self, Figures};

/// Result of an `icdc measure` in a lab.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The summary of `icdc measure`.
    pub(crate) summary: MeasureSummary,
    /// The samples of the sender in its output.
    pub(crate) samples: Vec<SenderSample>,
    /// Contents of the program's `paths.json`, the known paths; `None` if it has none.
    pub(crate) known: Option<String>,
    /// The wire's recording from sender to receiver.
    pub(crate) recording: Recording,
    /// The emulator's lateness, 99.9 % quantile over packets.
    pub(crate) lateness: Span,
    /// Frames that the full queue dropped.
    pub(crate) queue_drops: u64,
    /// Mean number of packets per acknowledgement.
    pub(crate) answered: f64,
    /// Reason why the result is invalid, if it is.
    pub(crate) spoilt: Option<String>,
}

/// The last line of `icdc measure --json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MeasureSummary {
    pub(crate) cc: String,
    pub(crate) goodput_bps: f64,
    pub(crate) retransmitted_segments: u64,
    /// Origin of the samples' time, on this host's monotonic clock; `None` if the program did not
    /// report it.
    pub(crate) begun_monotonic_seconds: Option<f64>,
    /// Bytes of payload that arrived in each millisecond since the first.
    pub(crate) series_ms: Vec<u32>,
}

impl Figures for Measured {
    fn figures(&self) -> String {
        let MeasureSummary { goodput_bps, retransmitted_segments, .. } = self.summary;
        let goodput = goodput_bps / 1e6;
        format!("{goodput:.1} Mbit/s, the queue dropped {}, {retransmitted_segments} retransmitted", self.queue_drops)
    }
}

impl Measured {
    /// Time of a sample, in seconds since the recording's first millisecond, or since the samples'
    /// own origin if the program did not report that.
    pub(crate) fn seconds_of(&self, sample: &SenderSample) -> f64 {
        let recording = (self.recording.begun - Time::ORIGIN).as_secs_f64();
        self.summary.begun_monotonic_seconds.map_or(0.0, |begun| begun - recording) + sample.at_seconds
    }

    /// The sender's congestion window over time, as (seconds, bytes).
    pub(crate) fn windows(&self) -> Vec<(f64, f64)> {
        self.samples.iter().map(|sample| (sample.at_seconds, sample.cwnd_bytes as f64)).collect()
    }
}

/// A sample line of `icdc measure --json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SenderSample {
    pub(crate) at_seconds: f64,
    pub(crate) rtt_seconds: Option<f64>,
    pub(crate) cwnd_bytes: u64,
}

/// A line of `icdc measure --json`, by its type.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MeasureLine {
    Sample(SenderSample),
    Summary(MeasureSummary),
    #[serde(other)]
    Other,
}

/// Goodput at the applications over several measurements, in bit/s.
pub(crate) fn goodput(measured: &[Measured]) -> Spread {
    Spread::of(measured.iter().map(|measured| measured.summary.goodput_bps))
}

/// Runs an `icdc measure --json`, and gives its summary and its samples of the sender.
pub(crate) fn measured_by(command: &mut Command) -> Result<(MeasureSummary, Vec<SenderSample>), ExperimentError> {
    let failed = |error| ExperimentError::io("run icdc measure", error);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    // Read at the same time: a full pipe would block the program.
    let mut stderr = child.stderr.take().expect("piped");
    let errors = thread::spawn(move || {
        let mut errors = Vec::new();
        let _ = stderr.read_to_end(&mut errors);
        String::from_utf8_lossy(&errors).trim().to_owned()
    });
    let (mut summary, mut samples) = (None, Vec::new());
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        match serde_json::from_str(&line.map_err(failed)?) {
            Ok(MeasureLine::Summary(found)) => summary = Some(found),
            Ok(MeasureLine::Sample(sample)) => samples.push(sample),
            Ok(MeasureLine::Other) | Err(_) => {}
        }
    }
    let status = child.wait().map_err(failed)?;
    let errors = errors.join().expect("reading does not panic");
    match summary {
        Some(summary) if status.success() => Ok((summary, samples)),
        _ => Err(ExperimentError::program("icdc measure", errors)),
    }
}

/// The value as text, with a mark if its measurement is invalid.
pub(crate) fn marked(value: String, measured: &Measured) -> String {
    if measured.spoilt.is_some() { format!("{value} (invalid)") } else { value }
}

/// Messages about invalid measurements for a report.
pub(crate) fn failures<'a>(measured: impl IntoIterator<Item = (String, &'a Measured)>) -> Vec<String> {
    attempts::failures(measured.into_iter().map(|(name, measured)| (name, &measured.spoilt)))
}
