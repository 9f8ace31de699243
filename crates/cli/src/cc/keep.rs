//! An algorithm stays loaded while a command runs.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;

use icdc_tcp::congestion::Loaded;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Runs `command` with an algorithm loaded, and returns its exit code as a shell tells it.
///
/// Signals to this process are for the command: it would else run on without the algorithm. Those
/// of the terminal's keys reach it anyway.
pub(super) fn while_running(_loaded: Loaded, command: &[OsString]) -> Result<u8, String> {
    let Some((program, words)) = command.split_first() else { return Err("there is no command to run".to_owned()) };
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])
        .map_err(|error| format!("signals cannot be watched: {error}"))?;
    let handle = signals.handle();
    let (hand, handed) = mpsc::channel::<Child>();
    // Before the command: one that runs would have nobody who waits for it.
    let waiting = icdc_limits::thread::start("wait", move || {
        let ended = handed.recv().map(|mut child| child.wait());
        handle.close();
        ended
    });
    let waiting = waiting.map_err(|error| error.to_string())?;
    let child = Command::new(program)
        .args(words)
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", program.to_string_lossy()))?;
    let process = Pid::from_child(&child);
    hand.send(child).map_err(|_| "waiting for the command failed".to_owned())?;
    for signal in signals.forever() {
        let passed_on = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            _ => continue,
        };
        // It may have ended just now.
        let _ = kill_process(process, passed_on);
    }
    let ended = waiting.join().map_err(|_| ()).and_then(|ended| ended.map_err(|_| ()));
    let ended = ended.map_err(|()| "waiting for the command failed".to_owned())?;
    ended.map(code).map_err(|error| format!("wait: {error}"))
}

/// Exit code of a command as a shell tells it: 128 plus the number of the signal that ended it, if
/// one did.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::exit::FAILED)
}
