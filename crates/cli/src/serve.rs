//! `icdc serve`: the daemon.

use anyhow::Context;
use icdc_transfer::{ServeConfig, StopSignal};

use crate::arguments::ServeArguments;
use crate::console::Console;
use crate::keygen::file_or_default;
use crate::{exit, logs, signals};

const STOPPING: &str = "stopping; running transfers make durable what they have (again: stop at once)";

/// Runs the daemon until a signal stops it.
pub(crate) fn run(arguments: ServeArguments, console: &Console) -> anyhow::Result<()> {
    logs::start(console, "info");
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
    icdc_transfer::serve(&config, &stop)?;
    Ok(())
}
