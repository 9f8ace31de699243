//! `icdc serve`: the daemon.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use icdc_remote::ServeConfig;
use icdc_stop::StopSignal;
use signal_hook::consts::SIGHUP;

use crate::arguments::ServeArguments;
use crate::console::Console;
use crate::keygen::file_or_default;
use crate::{exit, logs, signals};

const STOPPING: &str = "stopping; running transfers make durable what they have (again: stop at once)";

/// Runs the daemon until a signal stops it; SIGHUP has it read its files again.
pub(crate) fn run(arguments: ServeArguments, console: &Console) -> anyhow::Result<()> {
    logs::start(console, "info");
    // Before anything else: the signal may come as soon as the process is there, and would end it.
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reload)).context("SIGHUP cannot be watched")?;
    let config = ServeConfig {
        listen: arguments.listen,
        root: arguments.root,
        authorized_keys: file_or_default(arguments.authorized_keys, "--authorized-keys", |paths| {
            paths.authorized_keys
        })?,
        identity: file_or_default(arguments.identity, "--identity", |paths| paths.identity)?,
    };
    let stop = StopSignal::new();
    signals::watch(&stop, console, STOPPING, exit::FAILED).context("signals cannot be watched")?;
    icdc_remote::serve(&config, &stop, &reload)?;
    Ok(())
}
