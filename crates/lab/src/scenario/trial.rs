//! One measurement in a lab of its own, on a calm machine if there is one, repeated while the machine spoils it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use icdc_units::{Rate, Span};
use serde::Deserialize;

use super::simulated::algorithm;
use super::spread::Spread;
use super::{Bench, calm};
use crate::faults::spoilt;
use crate::recording::Recording;
use crate::settings::Settings;
use crate::wire::page::{Gauge, Way};
use crate::{Lab, LabError, lab};

/// A spoilt measurement is made so often at most.
const ATTEMPTS: u32 = 3;

/// What to measure.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// The lab.
    pub(super) settings: Settings,
    /// For how long.
    pub(super) seconds: u64,
    /// Ceiling of the sender.
    pub(super) rate: Option<Rate>,
    /// Congestion control of the sender.
    pub(super) cc: &'static str,
    /// By IPv6.
    pub(super) ipv6: bool,
    /// What is shown of it.
    pub(super) figure: Figure,
}

/// What a measurement is for, and with it how late one packet in a thousand may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Figure {
    /// Windows of a millisecond: by a hundredth of the round trip, or 1 ms.
    Milliseconds,
    /// Means of a second and longer: by a twentieth of the round trip, or 5 ms. They change by less than the share of
    /// time in which packets were late.
    Means,
}

impl Figure {
    fn tolerance(self, round_trip: Span) -> Span {
        match self {
            Self::Milliseconds => Span::from_millis(1).max(round_trip / 100),
            Self::Means => Span::from_millis(5).max(round_trip / 20),
        }
    }
}

impl Trial {
    /// By IPv4, at no ceiling, for means.
    pub(super) fn new(settings: Settings, seconds: u64, cc: &'static str) -> Self {
        Self { settings, seconds, rate: None, cc, ipv6: false, figure: Figure::Means }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// What `icdc measure` summed up.
    pub(super) summary: Summary,
    /// Its samples of the sender.
    pub(super) samples: Vec<Sample>,
    /// What the wire saw from sender to receiver.
    pub(super) recording: Recording,
    /// Largest burst in frames of full size.
    pub(super) burst_mtu: f64,
    /// One packet in a thousand was later than this.
    pub(super) lateness: Span,
    /// Frames that the full queue dropped.
    pub(super) queue_drops: u64,
    /// Why it must not be used, if so.
    pub(super) spoilt: Option<String>,
}

/// The last line of `icdc measure --json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Summary {
    pub(super) cc: String,
    pub(super) goodput_bps: f64,
    pub(super) retransmitted_segments: u64,
}

impl Measured {
    /// The sender's congestion window, (seconds, bytes).
    pub(super) fn windows(&self) -> Vec<(f64, f64)> {
        self.samples.iter().map(|sample| (sample.at_seconds, sample.cwnd_bytes as f64)).collect()
    }
}

/// A sample line of `icdc measure --json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sample {
    pub(super) at_seconds: f64,
    pub(super) rtt_seconds: Option<f64>,
    pub(super) cwnd_bytes: u64,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Sample(Sample),
    Summary(Summary),
    #[serde(other)]
    Other,
}

/// What arrived at the applications per second.
pub(super) fn goodput(measured: &[Measured]) -> Spread {
    Spread::of(measured.iter().map(|measured| measured.summary.goodput_bps))
}

/// Measures; gives the first attempt that the machine did not spoil, or the last one, marked.
pub(super) fn run(bench: &Bench<'_>, trial: &Trial) -> Result<Measured, LabError> {
    let tolerance = trial.figure.tolerance(trial.settings.round_trip());
    for attempt in 1.. {
        calm::wait(tolerance, bench.patience, bench.say);
        let measured = attempt_once(bench, trial, tolerance)?;
        match &measured.spoilt {
            // That would not change.
            Some(_) if measured.summary.cc != kernel_name(trial) => return Ok(measured),
            Some(why) if attempt < ATTEMPTS => (bench.say)(&format!("  attempt {attempt} is invalid ({why}); again")),
            Some(why) => {
                (bench.say)(&format!("  still invalid after {ATTEMPTS} attempts: {why}"));
                return Ok(measured);
            }
            None => return Ok(measured),
        }
    }
    unreachable!("the last attempt returns")
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A lab that is taken down however the measurement ends.
struct Temporary(Lab);

impl Drop for Temporary {
    fn drop(&mut self) {
        // One that cannot be taken down now is told by `icdc lab status`.
        let _ = lab::down(&self.0.state.name);
    }
}

fn attempt_once(bench: &Bench<'_>, trial: &Trial, tolerance: Span) -> Result<Measured, LabError> {
    let name = format!("run-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let lab = Temporary(Lab::lent(&name, &trial.settings, bench.program)?);
    let (summary, samples) = measure(bench.program, &name, trial)?;
    let page = lab.0.page()?;
    let recording = Recording::of(&page, Way::Forward, Span::MAX);
    let frame = trial.settings.forward.largest_frame().as_u64() as f64;
    let (used, wanted) = (&summary.cc, kernel_name(trial));
    let other = (*used != wanted).then(|| format!("{used} was used in place of {wanted}"));
    Ok(Measured {
        recording,
        burst_mtu: page.gauge(Way::Forward, Gauge::BurstMax) as f64 / frame,
        lateness: Span::from_nanos(page.gauge(Way::Forward, Gauge::Lateness999)),
        queue_drops: page.gauge(Way::Forward, Gauge::QueueDrops),
        spoilt: other.or_else(|| spoilt(&page, &trial.settings, tolerance)),
        summary,
        samples,
    })
}

/// Of icdc's own algorithms none that the kernel may have under the same name.
fn kernel_name(trial: &Trial) -> String {
    algorithm(trial.cc).kernel_name()
}

fn measure(program: &Path, name: &str, trial: &Trial) -> Result<(Summary, Vec<Sample>), LabError> {
    let text = program.display().to_string();
    let shell = format!("'{text}' lab exec --name {name} --shell");
    let seconds = trial.seconds.to_string();
    let mut words =
        vec!["lab", "exec", "--name", name, "a", &text, "measure", "--json", "--ssh", &shell, "--remote-icdc", &text];
    let cc = kernel_name(trial);
    words.extend(["--cc", &cc, "--seconds", &seconds]);
    let rate = trial.rate.map(|rate| format!("{rate:#}"));
    if let Some(rate) = &rate {
        words.extend(["--rate", rate]);
    }
    words.push(if trial.ipv6 { "fd26:33::2" } else { "10.26.33.2" });
    let failed = |error| LabError::io(format!("run {text} measure"), error);
    let mut child = Command::new(program)
        .args(&words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // Read meanwhile: a pipe that is full would hold the program up.
    let mut said = child.stderr.take().expect("piped");
    let words = thread::spawn(move || {
        let mut words = Vec::new();
        let _ = said.read_to_end(&mut words);
        String::from_utf8_lossy(&words).trim().to_owned()
    });
    let (mut summary, mut samples) = (None, Vec::new());
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        match serde_json::from_str(&line.map_err(failed)?) {
            Ok(Line::Summary(found)) => summary = Some(found),
            Ok(Line::Sample(sample)) => samples.push(sample),
            Ok(Line::Other) | Err(_) => {}
        }
    }
    let status = child.wait().map_err(failed)?;
    let words = words.join().expect("reading does not panic");
    match summary {
        Some(summary) if status.success() => Ok((summary, samples)),
        _ => Err(LabError::Program { program: "icdc measure".to_owned(), words }),
    }
}
