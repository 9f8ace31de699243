//! `icdc serve`: the daemon, as a user or a service manager runs it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::FromArgMatches as _;
use icdc_daemon::{
    AuditConfig, AuditPlace, Inheritance, Listeners, Notice, Observers, OperatorRequests, Prepared, ServeConfig,
};
use icdc_schedule::RateSchedule;
use icdc_session_process::AllowedCongestion;
use icdc_stop::StopSignal;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGUSR2};

use crate::arguments::{self, Arguments, Command, ServeArguments};
use crate::config::{self, ApplyError};
use crate::console::Console;
use crate::keygen::file_or_default;
use crate::{exit, logs, reporting, signals};

/// Text printed at the first signal to stop.
const STOPPING: &str = "stopping; running transfers make durable what they have (again: stop at once)";
/// The option with which a daemon starts the next one, which takes over.
const SUCCESSOR: &str = "--successor";

/// Runs `icdc serve`: the daemon, until a signal stops it.
pub(crate) fn run(arguments: ServeArguments, console: &Console) -> anyhow::Result<()> {
    logs::start(console, logs::Level::INFO);
    // Before anything else: a signal may come as soon as the process is there, and would end it.
    let requests = OperatorRequests::default();
    for (signal, request) in [(SIGHUP, &requests.reload), (SIGUSR1, &requests.drain), (SIGUSR2, &requests.succeed)] {
        signal_hook::flag::register(signal, request.clone()).context("signals cannot be watched")?;
    }
    let audit = arguments.audit.map(|place| AuditConfig {
        place: match place {
            AuditPlace::File { path, .. } => {
                AuditPlace::File { path, longest: arguments.audit_size, kept: arguments.audit_keep }
            }
            AuditPlace::Journal => AuditPlace::Journal,
        },
        when_full: arguments.audit_full,
    });
    let config = ServeConfig {
        listen: arguments.listen,
        listeners: listeners(arguments.successor)?,
        root: arguments.root,
        authorized_keys: file_or_default(arguments.authorized_keys, "--authorized-keys", |paths| {
            paths.authorized_keys
        })?,
        identity: file_or_default(arguments.identity, "--identity", |paths| paths.identity)?,
        max_rate: arguments.max_rate,
        reread_max_rate,
        congestion: AllowedCongestion::Named(arguments.allow_cc),
        audit,
        metrics: arguments.metrics,
        // This very program, also once the file that it was started from has been replaced.
        session: ["/proc/self/exe", "session"].map(OsString::from).to_vec(),
        successor: successor(),
    };
    let prepared = Prepared::new(config)?;
    // Threads from here on: the rights that are not needed are given up.
    // Dropped at the end, they wait until all has been told.
    let hooks = reporting::of_sessions(&arguments.reporting)?;
    let marker = reporting::marker(&arguments.reporting)?;
    let observers = Observers { ended: hooks.as_ref().map(reporting::end_sink), marker };
    let stop = StopSignal::new();
    signals::watch(&stop, console, STOPPING, exit::FAILED).context("signals cannot be watched")?;
    let manager = ServiceManager::default();
    prepared.serve(observers, &stop, &requests, &|notice| manager.tell(&notice))?;
    Ok(())
}

/// Runs `icdc session`: one session of a daemon, which starts it for each. Ignores signals that the
/// terminal or the service manager sends to all: they concern the daemon.
pub(crate) fn session(console: &Console) -> anyhow::Result<()> {
    logs::start(console, logs::Level::INFO);
    signals::leave_to_parent().context("signals cannot be watched")?;
    Ok(icdc_session_process::session_process()?)
}

/// Where the daemon's listening sockets come from: the daemon before it, the service manager, or
/// itself.
fn listeners(is_successor: bool) -> anyhow::Result<Listeners> {
    if is_successor {
        return Ok(Listeners::Inherited(Inheritance::take().context("no daemon hands over")?));
    }
    let passed = icdc_tcp::passed_listeners();
    Ok(if passed.is_empty() { Listeners::Own } else { Listeners::Passed(passed) })
}

/// The limit of the rate as command line, files and variables have it now.
fn reread_max_rate() -> Result<Option<RateSchedule>, String> {
    let definition = arguments::command();
    let words: Vec<OsString> = std::env::args_os().collect();
    let line = |error: clap::Error| error.to_string();
    let matches = definition.clone().try_get_matches_from(&words).map_err(line)?;
    let (matches, _) = config::apply(definition, matches, words.into_iter()).map_err(|error| match error {
        ApplyError::Settings(error) => format!("{error:#}"),
        ApplyError::CommandLine(error) => line(error),
    })?;
    match Arguments::from_arg_matches(&matches).map_err(line)?.command {
        Command::Serve(arguments) => Ok(arguments.max_rate),
        _ => Err("the command line is not that of a daemon".to_owned()),
    }
}

/// Command line of the next daemon: this one's, with the program file that is installed now.
fn successor() -> Vec<OsString> {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("icdc"));
    // What the kernel adds to the name of a file that has been replaced.
    let text = own.to_string_lossy();
    let program = text.strip_suffix(" (deleted)").map_or_else(|| own.clone().into_os_string(), OsString::from);
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != SUCCESSOR);
    [program].into_iter().chain(arguments).chain([SUCCESSOR.into()]).collect()
}

/// Tells the service manager (systemd), if there is one, about the daemon's state.
#[derive(Default)]
struct ServiceManager {
    /// Number of sessions that the service manager was told last.
    sessions: Mutex<Option<usize>>,
    /// Whether the next daemon was announced: systemd listens to it now, and complains of others.
    is_succeeded: AtomicBool,
}

impl ServiceManager {
    /// Tells the service manager what the daemon notices; nothing once the next daemon was
    /// announced.
    fn tell(&self, notice: &Notice) {
        if self.is_succeeded.load(Ordering::Relaxed) {
            return;
        }
        self.is_succeeded.store(matches!(notice, Notice::Successor(_)), Ordering::Relaxed);
        let states = match notice {
            Notice::Ready => vec![NotifyState::Ready],
            Notice::Alive(sessions) => return self.tell_alive(*sessions),
            Notice::Reloading => {
                [Some(NotifyState::Reloading), NotifyState::monotonic_usec_now().ok()].into_iter().flatten().collect()
            }
            Notice::Stopping => vec![NotifyState::Stopping],
            Notice::Successor(process) => vec![NotifyState::MainPid(*process)],
        };
        self.send(&states);
    }

    /// Tells the service manager that the daemon is alive, and the number of sessions if it has
    /// changed.
    fn tell_alive(&self, sessions: usize) {
        let mut last = self.sessions.lock().expect("no panic while it is told");
        let text = format!("{sessions} sessions");
        let status = (last.replace(sessions) != Some(sessions)).then_some(NotifyState::Status(&text));
        let states: Vec<_> = [NotifyState::Watchdog].into_iter().chain(status).collect();
        self.send(&states);
    }

    /// Sends states to the service manager; without one it does nothing.
    fn send(&self, states: &[NotifyState<'_>]) {
        if let Err(error) = sd_notify::notify(states) {
            tracing::debug!("the service manager is not told: {error}");
        }
    }
}
