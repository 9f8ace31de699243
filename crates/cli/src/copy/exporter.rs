//! `--metrics` and `--metrics-push`: the metrics of a run leave it at a steady interval, and at its
//! end.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use anyhow::Context;
use icdc_metrics::{Format, Reading, RunResult, text_file};
use icdc_units::Span;

use crate::clock::seconds_since_1970;
use crate::console::Console;
use crate::copy::metrics::LAST_SUCCESS;
use crate::copy::output::CopyOutput;
use crate::plan::output::MetricsOutput;

/// Time limit of each push of metrics.
const PATIENCE: Span = Span::from_secs(5);
/// Time limit of the last push at the end of a run, whose host name may have to be resolved.
const LAST_PATIENCE: Span = Span::from_secs(10);
/// Most that is read of an earlier run's file, in bytes: ours have some kilobytes.
const MOST_READ: u64 = 64 << 10;

/// Handle of the thread that writes and pushes a copy's metrics at an interval (`--metrics`,
/// `--metrics-push`).
pub(crate) struct Exporter {
    running: mpsc::Sender<Infallible>,
    through: mpsc::Receiver<Infallible>,
    console: Console,
}

/// State of the thread that exports a copy's metrics.
struct Job {
    output: MetricsOutput,
    copy_output: Arc<CopyOutput>,
    console: Console,
    started: u64,
    last_success: Option<f64>,
    /// The failure that was reported last, so that it is not repeated.
    told: Option<String>,
}

impl Exporter {
    /// Writes the file for the first time, and from then on at every interval.
    ///
    /// # Errors
    /// The file cannot be written. A gateway that cannot be reached is reported and tried again.
    pub(crate) fn start(
        output: MetricsOutput,
        copy_output: &Arc<CopyOutput>,
        console: &Console,
    ) -> anyhow::Result<Self> {
        let started = seconds_since_1970();
        let last_success = output.file.as_deref().and_then(|path| last_success(path, started));
        let copy_output = Arc::clone(copy_output);
        let job = Job { output, copy_output, console: console.clone(), started, last_success, told: None };
        job.write().context("--metrics")?;
        let (running, ended) = mpsc::channel();
        let (working, through) = mpsc::channel();
        let work = move || {
            // Dropped when the last metrics are out.
            let _working: mpsc::Sender<Infallible> = working;
            job.export(&ended);
        };
        thread::Builder::new().name("metrics".to_owned()).spawn(work).context("cannot start a thread for metrics")?;
        Ok(Self { running, through, console: console.clone() })
    }

    /// Writes and pushes for the last time, once the output knows how the run has ended.
    pub(crate) fn finish(self) {
        drop(self.running);
        if self.through.recv_timeout(LAST_PATIENCE.into()) == Err(RecvTimeoutError::Timeout) {
            self.console.complain(&format!("the last metrics were not pushed within {LAST_PATIENCE}"));
        }
    }
}

impl Job {
    /// Pushes and writes the metrics at each interval until the other end of `ended` is dropped,
    /// and once more then.
    fn export(mut self, ended: &mpsc::Receiver<Infallible>) {
        let mut is_running = true;
        while is_running {
            let pushed = self.push();
            self.tell(pushed);
            is_running = ended.recv_timeout(self.output.interval.into()) == Err(RecvTimeoutError::Timeout);
            let written = self.write();
            self.tell(written);
        }
        let pushed = self.push();
        self.tell(pushed);
    }

    /// Writes the metrics to the file of `--metrics`, if one is given.
    fn write(&self) -> anyhow::Result<()> {
        let Some(path) = &self.output.file else { return Ok(()) };
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        let text = self.reading().with_label("copy", &name).text(Format::Classic);
        text_file::replace(path, &text).with_context(|| format!("{}: the metrics cannot be written", path.display()))
    }

    /// Pushes the metrics to the gateway of `--metrics-push`, if one is given.
    fn push(&self) -> anyhow::Result<()> {
        let Some(gateway) = &self.output.gateway else { return Ok(()) };
        let text = self.reading().text(Format::Classic);
        gateway.push(&text, PATIENCE.into()).context("the metrics were not pushed")
    }

    /// The copy's metrics as they are now.
    fn reading(&self) -> Reading {
        let mut reading = self.copy_output.metrics();
        let help = "When the run began, since 1970";
        reading.gauge("icdc_copy_start_timestamp_seconds", help, [((), self.started.into())]);
        let is_complete = self.copy_output.result() == Some(RunResult::Complete);
        let success = if is_complete { Some(seconds_since_1970() as f64) } else { self.last_success };
        let help = "When a run was last complete, since 1970";
        reading.gauge(LAST_SUCCESS, help, success.map(|at| ((), at.into())));
        reading
    }

    /// Reports a failure, unless it is the same as the last one. It does not end the copy.
    fn tell(&mut self, result: anyhow::Result<()>) {
        let Err(error) = result else { return };
        let why = format!("{error:#}");
        if self.told.as_ref() != Some(&why) {
            self.console.complain(&why);
            self.told = Some(why);
        }
    }
}

/// The time of the last success, in seconds since 1970, that an earlier run has written into the
/// same file; `None` if there is none, or it is later than `now`.
fn last_success(path: &Path, now: u64) -> Option<f64> {
    // Opening a pipe would wait for its other end.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MOST_READ).read_to_string(&mut text).ok()?;
    let line = text.lines().find(|line| line.starts_with(LAST_SUCCESS))?;
    let at: f64 = line.rsplit(' ').next()?.parse().ok()?;
    (at > 0.0 && at <= now as f64).then_some(at)
}
