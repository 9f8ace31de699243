//! A program that runs beside a measurement, and is ended with it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use icdc_packet::clock;
use icdc_units::Span;

use crate::LabError;

/// Whoever has not said that it is ready by then never will.
const PATIENCE: Span = Span::from_secs(10);
/// How often its words are looked at.
const STEP: Span = Span::from_millis(20);

/// It runs; ended when dropped.
pub(super) struct Server {
    child: Child,
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
    /// Starts it; what it says goes to the file `log`.
    pub(super) fn start(command: &mut Command, log: &Path) -> Result<Self, LabError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error| LabError::io(format!("run {name}"), error);
        let file = File::create(log).map_err(failed)?;
        let copy = file.try_clone().map_err(failed)?;
        let child = command.stdin(Stdio::null()).stdout(copy).stderr(file).spawn().map_err(failed)?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has said a word.
    pub(super) fn await_word(&mut self, word: &str) -> Result<(), LabError> {
        let until = clock::now() + PATIENCE;
        loop {
            let said = fs::read_to_string(&self.log).unwrap_or_default();
            if said.contains(word) {
                return Ok(());
            }
            let has_ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || clock::now() > until {
                let program = format!("the program that logs to {}", self.log.display());
                return Err(LabError::Program { program, words: said.trim().to_owned() });
            }
            clock::sleep_until(clock::now() + STEP);
        }
    }
}
