//! A program that is not waited for any longer than agreed.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;

use icdc_packet::clock;
use icdc_units::Span;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::{LabError, lab};

/// How a program ended.
pub(super) struct Ended {
    /// Whether with the status 0.
    pub(super) well: bool,
    /// What it said on its standard error.
    pub(super) words: String,
    /// From its start to its end.
    pub(super) took: Span,
    /// It was made to end.
    pub(super) overran: bool,
}

/// Runs a program in a process group of its own, which is killed after `limit`; `line` is told what comes on standard output.
pub(super) fn run(command: &mut Command, limit: Span, mut line: impl FnMut(&str)) -> Result<Ended, LabError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error| LabError::io(format!("run {name}"), error);
    // Not a pipe: what the program leaves behind may hold that open.
    let mut said: File = memfd_create("words", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?.into();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said.try_clone().map_err(failed)?).process_group(0);
    let start = clock::now();
    let mut child = command.spawn().map_err(failed)?;
    let group = Pid::from_child(&child);
    let process = pidfd_open(group, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let (took, overran) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let in_time = lab::ended_by(&process, start + limit);
            let took = clock::now() - start;
            if !in_time {
                // What it has started goes with it.
                let _ = kill_process_group(group, Signal::KILL);
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
    let status = child.wait().map_err(failed)?;
    let mut words = Vec::new();
    said.rewind().and_then(|()| said.read_to_end(&mut words)).map_err(failed)?;
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    Ok(Ended { well: status.success(), words, took, overran })
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
    fn what_it_says_is_told_and_what_lasts_too_long_is_ended() {
        let mut lines = Vec::new();
        let mut command = shell("echo one; echo two; echo oh >&2; exit 3");
        let ended = run(&mut command, Span::from_secs(60), |line| lines.push(line.to_owned())).unwrap();
        assert_eq!((lines, ended.words.as_str()), (vec!["one".to_owned(), "two".to_owned()], "oh"));
        assert!(!ended.well && !ended.overran);
        let ended = run(&mut shell("sleep 600 & sleep 600"), Span::from_millis(50), |_| {}).unwrap();
        assert!(!ended.well && ended.overran && ended.took < Span::from_secs(300));
    }
}
