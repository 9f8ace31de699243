//! One measurement in a lab of its own, on a calm machine if there is one, repeated while the machine spoils it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use icdc_units::{Rate, Span, Time};
use serde::Deserialize;

use super::calm::Figures;
use super::control::{Control, Rights};
use super::shaper::{Shaper, Target};
use super::spread::Spread;
use super::{Bench, calm};
use crate::faults::spoilt;
use crate::recording::Recording;
use crate::settings::Settings;
use crate::wire::page::{Gauge, Way};
use crate::{Lab, LabError, lab, verdict};

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
    pub(super) cc: Control,
    /// What an earlier measurement knew of the path, see [`Measured::known`].
    pub(super) known: Option<String>,
    /// By IPv6.
    pub(super) ipv6: bool,
    /// What is shown of it.
    pub(super) figure: Figure,
    /// What else holds the sender back.
    pub(super) shaper: Shaper,
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
    pub(super) fn tolerance(self, round_trip: Span) -> Span {
        match self {
            Self::Milliseconds => verdict::tolerance_of_milliseconds(round_trip),
            Self::Means => verdict::tolerance_of_means(round_trip),
        }
    }
}

impl Trial {
    /// By IPv4, at no ceiling, held back by nothing, for means.
    pub(super) fn new(settings: Settings, seconds: u64, cc: &'static str) -> Self {
        let cc = Control::Named(cc);
        let (figure, shaper) = (Figure::Means, Shaper::Nothing);
        Self { settings, seconds, rate: None, cc, known: None, ipv6: false, figure, shaper }
    }

    /// The same at the rate that icdc finds.
    pub(super) fn automatic(settings: Settings, seconds: u64, rights: Rights) -> Self {
        Self { cc: Control::Automatic(rights), ..Self::new(settings, seconds, "icdc") }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// What `icdc measure` summed up.
    pub(super) summary: Summary,
    /// Its samples of the sender.
    pub(super) samples: Vec<Sample>,
    /// What it knows of the path: `paths.json`.
    pub(super) known: Option<String>,
    /// What the wire saw from sender to receiver.
    pub(super) recording: Recording,
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
    /// Where the samples' time begins on this host's monotonic clock.
    pub(super) begun_monotonic_seconds: Option<f64>,
    /// Bytes of payload that arrived in each millisecond since the first.
    pub(super) series_ms: Vec<u32>,
}

impl Figures for Measured {
    fn figures(&self) -> String {
        let Summary { goodput_bps, retransmitted_segments, .. } = self.summary;
        let goodput = goodput_bps / 1e6;
        format!("{goodput:.1} Mbit/s, the queue dropped {}, {retransmitted_segments} sent again", self.queue_drops)
    }
}

impl Measured {
    /// When a sample was taken, in seconds since the recording's first millisecond.
    pub(super) fn seconds_of(&self, sample: &Sample) -> f64 {
        let recording = (self.recording.begun - Time::ORIGIN).as_secs_f64();
        self.summary.begun_monotonic_seconds.map_or(0.0, |begun| begun - recording) + sample.at_seconds
    }

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
    run_beside(bench, trial, |_, _| Ok(())).map(|(measured, ())| measured)
}

/// The same while something else happens in the lab, which is told when the measurement is over. Gives what came of it, too.
pub(super) fn run_beside<T: Send>(
    bench: &Bench<'_>,
    trial: &Trial,
    beside: impl Fn(&Lab, &AtomicBool) -> Result<T, LabError> + Sync,
) -> Result<(Measured, T), LabError> {
    let tolerance = trial.figure.tolerance(trial.settings.round_trip());
    calm::unspoilt(
        bench,
        tolerance,
        || attempt_once(bench, trial, tolerance, &beside),
        // Another algorithm than asked for would not change.
        |(measured, _)| measured.spoilt.as_deref().filter(|_| trial.cc.admits(&measured.summary.cc)),
    )
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A lab that is taken down however the measurement ends.
pub(super) struct Temporary(pub(super) Lab);

impl Temporary {
    /// Under a name of its own; goes with this process at the latest.
    pub(super) fn new(bench: &Bench<'_>, settings: &Settings) -> Result<Self, LabError> {
        let name = format!("run-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Ok(Self(Lab::lent(&name, settings, bench.program)?))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // One that cannot be taken down now is told by `icdc lab status`.
        let _ = lab::down(&self.0.state.name);
    }
}

/// Says that something is over, also if it panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn attempt_once<T: Send>(
    bench: &Bench<'_>,
    trial: &Trial,
    tolerance: Span,
    beside: &(impl Fn(&Lab, &AtomicBool) -> Result<T, LabError> + Sync),
) -> Result<(Measured, T), LabError> {
    let lab = Temporary::new(bench, &trial.settings)?;
    let state = State::make(lab.0.directory(), trial)?;
    let _shaping = trial.shaper.start(bench, &lab.0, Target::HOST_B)?;
    let over = AtomicBool::new(false);
    let (measured, other) = thread::scope(|scope| {
        let other = scope.spawn(|| beside(&lab.0, &over));
        let measured = {
            let _over = Over(&over);
            measure(bench.program, &lab.0.state.name, trial, &state)
        };
        (measured, other.join().expect("what happens beside does not panic"))
    });
    let ((summary, samples), other) = (measured?, other?);
    let page = lab.0.page()?;
    let recording = Recording::of(&page, Way::Forward, Span::MAX);
    let used = &summary.cc;
    let unlike = (!trial.cc.admits(used)).then(|| format!("{used} was used in place of {}", trial.cc));
    let measured = Measured {
        known: state.known(),
        recording,
        lateness: Span::from_nanos(page.gauge(Way::Forward, Gauge::Lateness999)),
        queue_drops: page.gauge(Way::Forward, Gauge::QueueDrops),
        spoilt: unlike.or_else(|| spoilt(&page, &trial.settings, tolerance)),
        summary,
        samples,
    };
    Ok((measured, other))
}

/// Where the measured icdc keeps what it knows of paths: this user's own is neither used nor changed. It goes with the lab.
struct State {
    home: PathBuf,
}

impl State {
    fn make(lab: &Path, trial: &Trial) -> Result<Self, LabError> {
        let state = Self { home: lab.join("state") };
        let file = state.file();
        let directory = file.parent().expect("the file has a directory");
        let written = fs::create_dir_all(directory).and_then(|()| match &trial.known {
            Some(known) => fs::write(&file, known),
            None => Ok(()),
        });
        written.map_err(|error| LabError::io(format!("write {}", file.display()), error))?;
        Ok(state)
    }

    fn file(&self) -> PathBuf {
        self.home.join("icdc/paths.json")
    }

    fn known(&self) -> Option<String> {
        fs::read_to_string(self.file()).ok()
    }
}

fn measure(program: &Path, name: &str, trial: &Trial, state: &State) -> Result<(Summary, Vec<Sample>), LabError> {
    let text = program.display().to_string();
    let shell = format!("'{text}' lab exec --name {name} --shell");
    let seconds = trial.seconds.to_string();
    let mut words = vec!["lab", "exec", "--name", name, "a", "--"];
    if let Control::Automatic(rights) = trial.cc {
        words.extend(rights.words());
    }
    words.extend([text.as_str(), "measure", "--json", "--json-series", "--seconds", &seconds]);
    words.extend(["--ssh", &shell, "--remote-icdc", &text]);
    let named = trial.cc.kernel_name();
    if let Some(name) = &named {
        words.extend(["--cc", name]);
    }
    let rate = trial.rate.map(|rate| format!("{rate:#}"));
    if let Some(rate) = &rate {
        words.extend(["--rate", rate]);
    }
    words.push(if trial.ipv6 { "fd26:33::2" } else { "10.26.33.2" });
    measured_by(Command::new(program).args(&words).env("XDG_STATE_HOME", &state.home))
}

/// Runs an `icdc measure --json`.
pub(super) fn measured_by(command: &mut Command) -> Result<(Summary, Vec<Sample>), LabError> {
    let failed = |error| LabError::io("run icdc measure", error);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
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
