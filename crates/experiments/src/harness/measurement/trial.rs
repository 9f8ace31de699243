//! One measurement in a lab of its own. It waits for a calm machine, and is repeated if the machine
//! disturbed it.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use icdc_lab::recording::Recording;
use icdc_lab::{Gauge, Heading, Lab, Settings, spoilt};
use icdc_units::{Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::measurement::measured::{self, MeasureSummary, Measured, SenderSample};
use crate::harness::measurement::rate_control::RateControl;
use crate::harness::measurement::rights::Rights;
use crate::harness::measurement::state_directory::StateDirectory;
use crate::harness::repetition::attempts;
use crate::harness::repetition::resolution::Resolution;
use crate::harness::traffic::shaper::{Shaper, Target};

/// An `icdc measure` from host a to host b in a lab, as a scenario requests it.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Settings of the lab.
    pub(crate) settings: Settings,
    /// Length of the measurement in seconds.
    pub(crate) seconds: u64,
    /// Ceiling of the sender's rate; `None` for no ceiling.
    pub(crate) rate: Option<Rate>,
    /// Congestion control of the sender.
    pub(crate) cc: RateControl,
    /// Known paths of an earlier measurement, see [`Measured::known`]; `None` to begin without any.
    pub(crate) known: Option<String>,
    /// Whether to use IPv6 in place of IPv4.
    pub(crate) ipv6: bool,
    /// Resolution in time at which the result is evaluated.
    pub(crate) resolution: Resolution,
    /// Additional shaper of the sender's traffic.
    pub(crate) shaper: Shaper,
}

impl Trial {
    /// A measurement of means by IPv4, without rate limit or shaper.
    pub(crate) fn new(settings: Settings, seconds: u64, cc: &'static str) -> Self {
        let cc = RateControl::Named(cc);
        let (resolution, shaper) = (Resolution::Means, Shaper::Nothing);
        Self { settings, seconds, rate: None, cc, known: None, ipv6: false, resolution, shaper }
    }

    /// A measurement of means by IPv4, at the rate that icdc finds.
    pub(crate) fn automatic(settings: Settings, seconds: u64, rights: Rights) -> Self {
        Self { cc: RateControl::Automatic(rights), ..Self::new(settings, seconds, "icdc") }
    }
}

/// Measures; returns the first attempt that the machine did not disturb, or the last one, marked as
/// invalid.
pub(crate) fn run(bench: &Bench<'_>, trial: &Trial) -> Result<Measured, ExperimentError> {
    run_beside(bench, trial, |_, _| Ok(())).map(|(measured, ())| measured)
}

/// Measures while `beside` runs in the lab; its flag is set when the measurement is over. Returns
/// both results.
pub(crate) fn run_beside<T: Send>(
    bench: &Bench<'_>,
    trial: &Trial,
    beside: impl Fn(&Lab, &AtomicBool) -> Result<T, ExperimentError> + Sync,
) -> Result<(Measured, T), ExperimentError> {
    let tolerance = trial.resolution.tolerance(trial.settings.round_trip());
    attempts::unspoilt(
        bench,
        tolerance,
        || once_beside(bench, trial, &beside),
        // A wrong algorithm would be the same in another attempt.
        |(measured, _)| measured.spoilt.as_deref().filter(|_| trial.cc.admits(&measured.summary.cc)),
    )
}

/// Sets a flag when dropped, also on a panic.
struct SetWhenOver<'a>(&'a AtomicBool);

impl Drop for SetWhenOver<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Measures once, without waiting for a calm machine, while `beside` runs in the lab. Returns both
/// results.
pub(crate) fn once_beside<T: Send>(
    bench: &Bench<'_>,
    trial: &Trial,
    beside: impl Fn(&Lab, &AtomicBool) -> Result<T, ExperimentError> + Sync,
) -> Result<(Measured, T), ExperimentError> {
    let tolerance = trial.resolution.tolerance(trial.settings.round_trip());
    let lab = TemporaryLab::new(bench, &trial.settings)?;
    let state = StateDirectory::make(lab.directory(), trial.known.as_deref())?;
    let _shaping = trial.shaper.start(bench, &lab, Target::HOST_B)?;
    let over = AtomicBool::new(false);
    let (measured, other) = thread::scope(|scope| {
        let other = scope.spawn(|| beside(&lab, &over));
        let measured = {
            let _over = SetWhenOver(&over);
            measure(bench.program, &lab.record.name, trial, &state)
        };
        (measured, other.join().expect("what happens beside does not panic"))
    });
    let ((summary, samples), other) = (measured?, other?);
    let page = lab.page()?;
    let recording = Recording::of(&page, Heading::Forward, Span::MAX);
    let unlike = trial.cc.unlike(&summary.cc);
    let measured = Measured {
        known: state.known(),
        recording,
        lateness: Span::from_nanos(page.gauge(Heading::Forward, Gauge::Lateness999)),
        queue_drops: page.gauge(Heading::Forward, Gauge::QueueDrops),
        answered: page.gauge(Heading::Forward, Gauge::Delivered) as f64
            / page.gauge(Heading::Backward, Gauge::Delivered).max(1) as f64,
        spoilt: unlike.or_else(|| spoilt(&page, &trial.settings, tolerance)),
        summary,
        samples,
    };
    Ok((measured, other))
}

/// Runs `icdc measure` from host a to host b of the lab `name`; returns its summary and samples.
fn measure(
    program: &Path,
    name: &str,
    trial: &Trial,
    state: &StateDirectory,
) -> Result<(MeasureSummary, Vec<SenderSample>), ExperimentError> {
    let text = program.display().to_string();
    let shell = format!("'{text}' lab exec --name {name} --shell");
    let seconds = trial.seconds.to_string();
    let mut arguments = vec!["lab", "exec", "--name", name, "a", "--"];
    if let RateControl::Automatic(rights) = trial.cc {
        arguments.extend(rights.prefix());
    }
    arguments.extend([text.as_str(), "measure", "--json", "--json-series", "--seconds", &seconds]);
    arguments.extend(["--ssh", &shell, "--remote-icdc", &text]);
    let named = trial.cc.kernel_name();
    if let Some(name) = &named {
        arguments.extend(["--cc", name]);
    }
    let rate = trial.rate.map(|rate| format!("{rate:#}"));
    if let Some(rate) = &rate {
        arguments.extend(["--rate", rate]);
    }
    arguments.push(if trial.ipv6 { "fd26:33::2" } else { "10.26.33.2" });
    measured::measured_by(Command::new(program).args(&arguments).env("XDG_STATE_HOME", &state.home))
}
