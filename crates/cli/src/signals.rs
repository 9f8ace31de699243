//! The first SIGINT or SIGTERM asks for a clean stop, the second ends the process. A limit of file
//! sizes ends none.

use std::io;
use std::sync::Arc;

use icdc_stop::StopSignal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::console::Console;
use crate::exit;

/// What would make a file larger than the limit (`ulimit -f`) gives an error, as on a full disk,
/// instead of killing the process.
pub(crate) fn survive_file_size_limit() {
    // Where it cannot be handled, it ends the process as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Ignores what a terminal sends to all that was started from it, or a service manager to all processes of a
/// service: another process is asked, and decides.
pub(crate) fn leave_to_parent() -> io::Result<()> {
    for signal in [SIGINT, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Watches for signals on a thread of its own. `announcement` is what the user is told at the first
/// one, `code` the exit code at the second.
pub(crate) fn watch(stop: &StopSignal, console: &Console, announcement: &'static str, code: u8) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (stop, console) = (stop.clone(), console.clone());
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in &mut signals {
            if stop.is_requested() {
                signal_hook::low_level::exit(code.into());
            }
            console.complain(announcement);
            stop.request();
        }
    })?;
    Ok(())
}

/// The same for work that does not depend on it: where signals cannot be watched, one ends it at
/// once.
pub(crate) fn watch_if_possible(stop: &StopSignal, console: &Console, announcement: &'static str) {
    if let Err(error) = watch(stop, console, announcement, exit::INTERRUPTED) {
        console.complain(&format!("signals cannot be watched, Ctrl-C will end at once: {error}"));
    }
}
