//! `icdc pace wire` on host a, as a process of its own.

use std::fmt::Display;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};

use icdc_lab::Lab;
use icdc_units::{ByteCount, Rate, Span};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::on_host;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::processor_time;

/// Text in the pacer's output once it is running.
const READY: &str = "mode:";
/// The pacer's command in error messages.
const PROGRAM: &str = "icdc pace wire";
/// Value of `--lead`, the longest stall that does not change the pacer's gaps: on a shared machine
/// stalls exceed the default.
pub(crate) const LEAD: Span = Span::from_millis(20);

/// Text of a class in the pacer's file, for what its filter lets through.
pub(crate) fn class(name: impl Display, rate: Rate, queue: ByteCount, filter: &str) -> String {
    format!("[[class]]\nname = \"{name}\"\nrate = \"{rate:#}\"\nqueue = \"{queue:#}\"\nfilter = [{{ {filter} }}]\n")
}

/// The process of a running `icdc pace wire`; killed when dropped.
pub(crate) struct WirePacer {
    child: Child,
    drain: Option<JoinHandle<()>>,
}

/// Summary of the pacer, the last line of its output.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PacerSummary {
    /// Time for which the pacer did not run although frames waited, in seconds.
    pub(crate) late_seconds: f64,
}

impl WirePacer {
    /// Starts the pacer at a device with these classes (TOML) and options; returns once it is
    /// running.
    pub(crate) fn start(
        bench: &Bench<'_>,
        lab: &Lab,
        device: &str,
        classes: &str,
        options: &[&str],
    ) -> Result<Self, ExperimentError> {
        let file = lab.directory().join(format!("classes-{device}.toml"));
        fs::write(&file, classes).map_err(|error| ExperimentError::io(format!("write {}", file.display()), error))?;
        let failed = |error| ExperimentError::io(format!("run {PROGRAM}"), error);
        let mut command = on_host(bench, lab, "a", Rights::All);
        // Reports cost it time; the one at the end is enough.
        command
            .arg(bench.program)
            .args(["pace", "wire", "--dev", device, "--json", "--interval", "1h", "--classes"])
            .arg(&file);
        command
            .args(["--lead", &LEAD.to_string()])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut pacer = Self { child, drain: None };
        let mut output = String::new();
        while !output.contains(READY) {
            if lines.read_line(&mut output).map_err(failed)? == 0 {
                return Err(ExperimentError::program(PROGRAM, output.trim().to_owned()));
            }
        }
        // A full pipe would block it.
        pacer.drain = Some(thread::spawn(move || drop(lines.read_to_string(&mut String::new()))));
        Ok(pacer)
    }

    /// Processor time that the pacer has used so far, in all its threads.
    pub(crate) fn used(&self) -> Span {
        processor_time::of_process(self.child.id())
    }

    /// Ends the pacer, and gives the summary of its output.
    pub(crate) fn stop(mut self) -> Result<PacerSummary, ExperimentError> {
        let failed = |error| ExperimentError::io(format!("end {PROGRAM}"), error);
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(|error| failed(error.into()))?;
        let mut text = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut text).map_err(failed)?;
        self.child.wait().map_err(failed)?;
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).map_err(|error| ExperimentError::program(PROGRAM, format!("{error}: {last}")))
    }
}

impl Drop for WirePacer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(drain) = self.drain.take() {
            let _ = drain.join();
        }
    }
}
