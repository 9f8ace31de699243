//! A background program of a measurement, which is ended with it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use icdc_packet::clock;
use icdc_stop::ChildProcess;
use icdc_units::Span;

use crate::harness::error::ExperimentError;

/// Time limit for a program to become ready.
const TIMEOUT: Span = Span::from_secs(10);
/// Interval at which the server's output is checked.
const STEP: Span = Span::from_millis(20);

/// A program that runs in the background of a measurement; ended when dropped.
pub(crate) struct Server {
    child: ChildProcess,
    log: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts the server; its standard output and standard error go to the file `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, ExperimentError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error| ExperimentError::io(format!("run {name}"), error);
        let file = File::create(log).map_err(failed)?;
        let copy = file.try_clone().map_err(failed)?;
        let child = command.stdin(Stdio::null()).stdout(copy).stderr(file).spawn().map_err(failed)?;
        Ok(Self { child: ChildProcess::new(child), log: log.to_owned() })
    }

    /// Process id of the server.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `word` is in the server's output.
    pub(crate) fn await_output(&mut self, word: &str) -> Result<(), ExperimentError> {
        let until = clock::now() + TIMEOUT;
        let mut has_ended = false;
        loop {
            let output = fs::read_to_string(&self.log).unwrap_or_default();
            if output.contains(word) {
                return Ok(());
            }
            if has_ended || clock::now() > until {
                let program = format!("the program that logs to {}", self.log.display());
                let silent = if has_ended { String::new() } else { format!("no {word:?} within {TIMEOUT}; ") };
                return Err(ExperimentError::program(program, format!("{silent}{}", output.trim())));
            }
            has_ended = self.child.ends_within(STEP);
        }
    }
}
