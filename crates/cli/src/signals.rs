//! The first SIGINT or SIGTERM asks for a clean stop, the second ends the process. For a copy,
//! SIGHUP asks for a clean stop as well, unless it is ignored, and SIGUSR1 for its status. The limit on file sizes does not end
//! the process.

use std::io;
use std::sync::Arc;

use icdc_stop::StopSignal;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals};

use crate::console::Console;
use crate::exit;

/// Catches SIGXFSZ: a write beyond the file size limit (`ulimit -f`) then gives an error, as on a
/// full disk, instead of killing the process.
pub(crate) fn survive_file_size_limit() {
    // Where it cannot be handled, it ends the process as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Keeps signals from ending this process that a terminal sends to all that was started from it, or
/// a service manager to all processes of a service: the parent gets them as well, and decides.
pub(crate) fn leave_to_parent() -> io::Result<()> {
    for signal in [SIGINT, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Watches for SIGINT and SIGTERM on a thread of its own: the first one requests `stop` and prints
/// `announcement`, the second ends the process with the exit code `code`.
pub(crate) fn watch(stop: &StopSignal, console: &Console, announcement: &'static str, code: u8) -> io::Result<()> {
    watch_for(&[SIGINT, SIGTERM], stop, console, announcement, code)
}

/// As [`watch`], for these signals.
fn watch_for(
    signals: &[i32],
    stop: &StopSignal,
    console: &Console,
    announcement: &'static str,
    code: u8,
) -> io::Result<()> {
    watch_stages(signals, vec![(stop.clone(), announcement)], || false, console, code)
}

/// Watches for signals on a thread of its own. Each makes the next of the requests and prints its
/// text, or all of them if it `hastens`; one more ends the process with `code`.
fn watch_stages(
    signals: &[i32],
    requests: Vec<(StopSignal, &'static str)>,
    hastens: impl Fn() -> bool + Send + 'static,
    console: &Console,
    code: u8,
) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let console = console.clone();
    icdc_limits::thread::start("signals", move || {
        for signal in &mut signals {
            let is_first = requests.iter().all(|(request, _)| !request.is_requested());
            // A shell and its terminal both send it.
            if !is_first && signal == SIGHUP {
                continue;
            }
            let mut left = requests.iter().filter(|(request, _)| !request.is_requested());
            let next = if hastens() { left.next_back() } else { left.next() };
            let Some((request, announcement)) = next else { signal_hook::low_level::exit(code.into()) };
            console.complain(announcement);
            request.request();
        }
    })?;
    Ok(())
}

/// Who stops a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoppedBy {
    /// Its user: SIGINT, SIGTERM and, unless it is ignored (`nohup`), SIGHUP, which comes when the terminal is closed.
    Terminal,
    /// The process that has started it, which gets these signals as well: SIGTERM.
    Parent,
}

/// Watches for the signals that stop a copy which follows its sources: the first one makes the first of the requests, for
/// the end of the following, the second one the second, for a clean stop, as the first one does while the copy `is_stalled`: paused, or waiting for
/// another one, so that nothing more could arrive. With each request is what the user is told then.
pub(crate) fn watch_following(
    by: StoppedBy,
    requests: [(StopSignal, &'static str); 2],
    console: &Console,
    is_stalled: impl Fn() -> bool + Send + 'static,
) {
    tell_unwatched(watch_stages(by.signals(), requests.into(), is_stalled, console, exit::INTERRUPTED), console);
}

/// Watches for the signals that stop a copy: the first one requests `stop`, the second ends the process.
pub(crate) fn watch_copy(by: StoppedBy, stop: &StopSignal, console: &Console, announcement: &'static str) {
    tell_unwatched(watch_for(by.signals(), stop, console, announcement, exit::INTERRUPTED), console);
}

/// Hands the signals that stop a copy, and SIGUSR1, to `hand_on` on a thread of its own, until this is dropped.
pub(crate) struct HandedOn(Handle);

impl HandedOn {
    /// Begins to hand signals on: SIGUSR1 as it is, all others as the SIGTERM that stops a copy of this process. A
    /// SIGHUP behind another one counts for nothing, as for a copy that its user stops.
    ///
    /// # Errors
    /// Signals cannot be watched.
    pub(crate) fn start(hand_on: impl Fn(Signal) + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new(StoppedBy::Terminal.signals().iter().chain(&[SIGUSR1]))?;
        let handle = signals.handle();
        icdc_limits::thread::start("signals", move || {
            let mut is_first = true;
            for signal in &mut signals {
                match signal {
                    SIGUSR1 => hand_on(Signal::USR1),
                    SIGHUP if !is_first => {}
                    _ => {
                        is_first = false;
                        hand_on(Signal::TERM);
                    }
                }
            }
        })?;
        Ok(Self(handle))
    }
}

impl Drop for HandedOn {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Prints the status on SIGUSR1, as `dd` does, until this is dropped.
pub(crate) struct StatusOnSignal(Handle);

impl StatusOnSignal {
    /// Begins to print what `status` gives. Where signals cannot be watched, says so, and SIGUSR1 is ignored.
    pub(crate) fn start(console: &Console, status: impl Fn() -> String + Send + 'static) -> Option<Self> {
        let watched = Signals::new([SIGUSR1]).and_then(|mut signals| {
            let (handle, printer) = (signals.handle(), console.clone());
            icdc_limits::thread::start("status", move || {
                for _ in &mut signals {
                    printer.complain(&status());
                }
            })?;
            Ok(Self(handle))
        });
        watched.inspect_err(|error| console.complain(&format!("SIGUSR1 cannot be watched: {error}"))).ok()
    }
}

impl Drop for StatusOnSignal {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl StoppedBy {
    /// The signals that ask for a stop.
    fn signals(self) -> &'static [i32] {
        match self {
            Self::Parent => &[SIGTERM],
            Self::Terminal if ignores_hangup() => &[SIGINT, SIGTERM],
            Self::Terminal => &[SIGINT, SIGTERM, SIGHUP],
        }
    }
}

/// Whether this process ignores SIGHUP because its starter (`nohup`) wants it to survive the
/// terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored & (1 << (SIGHUP - 1)) != 0)
}

/// Watches for signals to stop by `stop`; where that cannot be done, says so and goes on, and a
/// signal ends the process at once.
pub(crate) fn watch_if_possible(stop: &StopSignal, console: &Console, announcement: &'static str) {
    tell_unwatched(watch(stop, console, announcement, exit::INTERRUPTED), console);
}

/// Tells the user if signals cannot be watched.
fn tell_unwatched(watched: io::Result<()>, console: &Console) {
    if let Err(error) = watched {
        console.complain(&format!("signals cannot be watched, Ctrl-C will end at once: {error}"));
    }
}
