//! A shell command that is run when a copy or a session has ended.
//!
//! Its text comes from the user who started icdc, and is passed to `sh -c` unchanged. The result is
//! passed on standard input and in the environment. It has a process group of its own, which is
//! killed after the time limit.

use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};

use icdc_stop::{ChildProcess, StopSignal};
use icdc_tcp::clock;
use icdc_units::Span;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, kill_process_group};
use thiserror::Error;

use crate::report::Report;

/// Maximum number of bytes of a command's output that are passed on.
const MOST_PRINTED: usize = 64 << 10;
/// Bytes that are written to, or read from, a command's pipe at once (`PIPE_BUF`): a pipe with room
/// takes them without blocking.
const AT_ONCE: usize = 4096;

/// Function that receives each line that a command prints.
pub type Lines = Box<dyn Fn(&str) + Send + Sync>;

/// Shell command (`--on-finish`) that is run when a copy or a session has ended, with a time limit.
#[derive(Clone, Debug)]
pub struct Command {
    /// Text of the command, which `sh -c` runs.
    pub text: String,
    /// Time limit of the command.
    pub limit: Span,
}

/// Reasons why a command failed.
#[derive(Debug, Error)]
pub enum CommandError {
    /// There is no shell, or no process, pipe or descriptor could be had.
    #[error("sh cannot be started: {0}")]
    Start(io::Error),
    /// The end of the command cannot be waited for.
    #[error("the command cannot be waited for: {0}")]
    Wait(io::Error),
    /// The command ended with a failure.
    #[error("the command failed: {0}")]
    Failed(ExitStatus),
    /// The command exceeded its time limit.
    #[error("the command was killed after {0}; --on-finish-timeout gives it more time")]
    TimedOut(Span),
    /// icdc was asked to stop.
    #[error("the command was killed: icdc was asked to stop")]
    Stopped,
}

impl Command {
    /// Runs the command and waits for its end; kills it at its time limit or when `stop` is
    /// requested. It gets the report on standard input and in its environment; its output goes to
    /// `lines`.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub fn run(&self, report: &Report, lines: &Lines, stop: &StopSignal) -> Result<(), CommandError> {
        let (reader, writer) = io::pipe().map_err(CommandError::Start)?;
        let asked = stop.descriptor().map_err(CommandError::Start)?;
        let mut child = self.start(report, writer).map_err(CommandError::Start)?;
        let input = child.stdin.take();
        let mut child = ChildProcess::new(child);
        let mut streams = Streams {
            input,
            unwritten: report.json().as_bytes(),
            output: Some(reader),
            printed: Printed { lines, line: Vec::new(), left: MOST_PRINTED, is_cut: false },
        };
        let deadline = clock::now() + self.limit;
        let (status, killed) = loop {
            let left = deadline - clock::now();
            match child.descriptor() {
                Some(ended) => streams.transfer(left, &[asked.as_fd(), ended]),
                None => streams.transfer(left.min(ChildProcess::LOOK), &[asked.as_fd()]),
            }
            match child.wait_for(Span::ZERO) {
                Ok(Some(status)) => break (status, None),
                Ok(None) => {}
                Err(error) => return Err(CommandError::Wait(error)),
            }
            let why = match () {
                () if clock::now() >= deadline => CommandError::TimedOut(self.limit),
                () if stop.is_requested() => CommandError::Stopped,
                () => continue,
            };
            break (end(&mut child).map_err(CommandError::Wait)?, Some(why));
        };
        // The last output; processes that it left running may print for ever.
        streams.input = None;
        streams.transfer(Span::ZERO, &[]);
        streams.printed.end();
        match killed {
            Some(why) => Err(why),
            None if status.success() => Ok(()),
            None => Err(CommandError::Failed(status)),
        }
    }

    /// Starts `sh -c` in a process group of its own, with the report's variables in its
    /// environment; `output` takes its standard output and its errors.
    fn start(&self, report: &Report, output: io::PipeWriter) -> io::Result<Child> {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &self.text]).envs(report.variables()).process_group(0);
        command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output);
        command.spawn()
    }
}

/// Kills the command and all processes that it has started; returns its exit status.
fn end(child: &mut ChildProcess) -> io::Result<ExitStatus> {
    // It has not been waited for, so the number is still its own.
    if kill_process_group(child.pid(), Signal::KILL).is_err() {
        child.kill()?;
    }
    child.wait()
}

/// Pipes of a running command: what it has yet to get on standard input, and its output.
struct Streams<'a> {
    input: Option<ChildStdin>,
    unwritten: &'a [u8],
    output: Option<PipeReader>,
    printed: Printed<'a>,
}

impl Streams<'_> {
    /// Writes and reads without blocking; waits up to `patience` for readiness, or until one of the
    /// `others` is readable.
    fn transfer(&mut self, patience: Span, others: &[BorrowedFd<'_>]) {
        loop {
            let mut ready = Vec::new();
            if let Some(input) = &self.input {
                ready.push(PollFd::new(input, PollFlags::OUT));
            }
            if let Some(output) = &self.output {
                ready.push(PollFd::new(output, PollFlags::IN));
            }
            let own = ready.len();
            ready.extend(others.iter().map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN)));
            if !poll(&mut ready, Some(&clock::timespec(patience))).is_ok_and(|count| count > 0) {
                return;
            }
            let events: Vec<bool> = ready[..own].iter().map(|fd| !fd.revents().is_empty()).collect();
            let (can_write, can_read) = match (self.input.is_some(), events.as_slice()) {
                (true, [write, rest @ ..]) => (*write, rest.contains(&true)),
                (_, rest) => (false, rest.contains(&true)),
            };
            if can_write {
                self.write();
            }
            if can_read {
                self.read();
            }
            // A command that prints without a pause must not delay the check for its end.
            if patience > Span::ZERO || !others.is_empty() || self.printed.is_cut {
                return;
            }
        }
    }

    /// Writes the next part of the report to the command's standard input; closes it when all is
    /// written, or the command has closed it.
    fn write(&mut self) {
        let Some(input) = &mut self.input else { return };
        let length = self.unwritten.len().min(AT_ONCE);
        match input.write(&self.unwritten[..length]) {
            Ok(written) if written > 0 && written < self.unwritten.len() => self.unwritten = &self.unwritten[written..],
            // All is written, or the command has closed its input.
            _ => self.input = None,
        }
    }

    /// Reads output that is there and passes it on; closes the pipe at its end.
    fn read(&mut self) {
        let Some(output) = &mut self.output else { return };
        let mut buffer = [0; AT_ONCE];
        match output.read(&mut buffer) {
            Ok(length @ 1..) => self.printed.add(&buffer[..length]),
            _ => self.output = None,
        }
    }
}

/// Splitter of a command's output into lines, up to [`MOST_PRINTED`] bytes in all.
struct Printed<'a> {
    lines: &'a Lines,
    line: Vec<u8>,
    left: usize,
    /// Whether the notice about left-out output was printed.
    is_cut: bool,
}

impl Printed<'_> {
    /// Passes on the complete lines of the output so far; what exceeds the limit is left out, with
    /// one notice.
    fn add(&mut self, text: &[u8]) {
        let taken = text.len().min(self.left);
        for byte in &text[..taken] {
            if *byte == b'\n' { self.end() } else { self.line.push(*byte) }
        }
        self.left -= taken;
        if taken < text.len() && !self.is_cut {
            self.is_cut = true;
            self.end();
            (self.lines)("… (what the command prints after this is left out)");
        }
    }

    /// Passes on the line that was collected, unless it is empty.
    fn end(&mut self) {
        if !self.line.is_empty() {
            (self.lines)(&String::from_utf8_lossy(&std::mem::take(&mut self.line)));
        }
    }
}
