//! `icdc pace wire` on host a, as a process of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};

use icdc_units::Span;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::Bench;
use super::control::Rights;
use super::copying::on_host;
use crate::{Lab, LabError};

/// What it says when it is at work.
const READY: &str = "mode:";
const PROGRAM: &str = "icdc pace wire";
/// So long a stall leaves its gaps as they are: a shared machine keeps any thread from running for longer than the usual lead bears.
pub(super) const LEAD: Span = Span::from_millis(20);

/// The process; killed when dropped.
pub(super) struct WirePacer {
    child: Child,
    words: Option<JoinHandle<()>>,
}

/// What it told when it ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    /// Time for which it was kept from running although frames waited.
    pub(super) late_seconds: f64,
}

impl WirePacer {
    /// Starts it at a device with these classes (TOML), and options if there are some; it is at work then.
    pub(super) fn start(
        bench: &Bench<'_>,
        lab: &Lab,
        device: &str,
        classes: &str,
        options: &[&str],
    ) -> Result<Self, LabError> {
        let file = lab.directory().join(format!("classes-{device}.toml"));
        fs::write(&file, classes).map_err(|error| LabError::io(format!("write {}", file.display()), error))?;
        let failed = |error| LabError::io(format!("run {PROGRAM}"), error);
        let mut command = on_host(bench, lab, "a", Rights::All);
        // What it tells meanwhile costs it time; what it tells in the end is enough.
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
        let mut pacer = Self { child, words: None };
        let mut said = String::new();
        while !said.contains(READY) {
            if lines.read_line(&mut said).map_err(failed)? == 0 {
                return Err(LabError::Program { program: PROGRAM.to_owned(), words: said.trim().to_owned() });
            }
        }
        // A pipe that is full would hold it up.
        pacer.words = Some(thread::spawn(move || drop(lines.read_to_string(&mut String::new()))));
        Ok(pacer)
    }

    /// Processor time that it has used so far, in all its threads.
    pub(super) fn used(&self) -> Span {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // Fields 14 and 15 of proc(5); the name in parentheses may contain anything.
        let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Span::from_secs(ticks) / rustix::param::clock_ticks_per_second()
    }

    /// Ends it.
    pub(super) fn stop(mut self) -> Result<Told, LabError> {
        let failed = |error| LabError::io(format!("end {PROGRAM}"), error);
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(|error| failed(error.into()))?;
        let mut text = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut text).map_err(failed)?;
        self.child.wait().map_err(failed)?;
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last)
            .map_err(|error| LabError::Program { program: PROGRAM.to_owned(), words: format!("{error}: {last}") })
    }
}

impl Drop for WirePacer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(words) = self.words.take() {
            let _ = words.join();
        }
    }
}
