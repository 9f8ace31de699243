//! Runs a program with a time limit.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;

use icdc_packet::clock;
use icdc_stop::ChildProcess;
use icdc_units::Span;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Signal, kill_process_group};

use crate::harness::error::ExperimentError;
use crate::harness::processes::processor_time;

/// Result of a program that ran under a time limit.
pub(crate) struct Ended {
    /// Whether the program's exit status is 0.
    pub(crate) well: bool,
    /// The program's exit status; `None` if it was killed.
    pub(crate) code: Option<i32>,
    /// The program's output on standard error.
    pub(crate) errors: String,
    /// Time from the program's start to its exit.
    pub(crate) took: Span,
    /// Processor time of the program and of what it started and waited for.
    pub(crate) processor: Span,
    /// Whether the program was killed after its time limit.
    pub(crate) overran: bool,
}

/// Runs a program in a process group of its own, which is killed after `limit`. Each line of its
/// standard output goes to `line`.
pub(crate) fn run(command: &mut Command, limit: Span, mut line: impl FnMut(&str)) -> Result<Ended, ExperimentError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error| ExperimentError::io(format!("run {name}"), error);
    // A file, not a pipe, which processes left behind by the program could hold open.
    let mut stderr: File = memfd_create("stderr", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?.into();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr.try_clone().map_err(failed)?).process_group(0);
    let start = clock::now();
    let mut child = command.spawn().map_err(failed)?;
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let mut child = ChildProcess::new(child);
    let (took, overran) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let in_time = child.ends_within(limit);
            let took = clock::now() - start;
            if !in_time {
                // Its descendants are killed with it.
                let _ = kill_process_group(child.pid(), Signal::KILL);
            }
            (took, !in_time)
        });
        let mut text = Vec::new();
        while lines.read_until(b'\n', &mut text).is_ok_and(|length| length > 0) {
            line(String::from_utf8_lossy(&text).trim_end());
            text.clear();
        }
        watch.join().expect("watching does not panic")
    });
    // It has exited and is not reaped yet.
    let processor = processor_time::with_descendants(child.id());
    let status = child.wait().map_err(failed)?;
    let mut errors = Vec::new();
    stderr.rewind().and_then(|()| stderr.read_to_end(&mut errors)).map_err(failed)?;
    let errors = String::from_utf8_lossy(&errors).trim().to_owned();
    Ok(Ended { well: status.success(), code: status.code(), errors, took, processor, overran })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_read_and_what_lasts_too_long_is_killed() {
        let mut lines = Vec::new();
        let mut command = shell("echo one; echo two; echo oh >&2; exit 3");
        let ended = run(&mut command, Span::from_secs(60), |line| lines.push(line.to_owned())).unwrap();
        assert_eq!((lines, ended.errors.as_str()), (vec!["one".to_owned(), "two".to_owned()], "oh"));
        assert!(!ended.well && !ended.overran);
        let ended = run(&mut shell("sleep 600 & sleep 600"), Span::from_millis(50), |_| {}).unwrap();
        assert!(!ended.well && ended.overran && ended.took < Span::from_secs(300));
    }
}
