//! `icdc far-end`: what ssh starts. Standard output belongs to the protocol.

use crate::console::Console;
use crate::logs;

/// Runs the far end of a copy: the process that ssh starts on the other host.
pub(crate) fn run(console: &Console) -> anyhow::Result<()> {
    logs::start(console, logs::Level::OFF);
    Ok(icdc_daemon::far_end()?)
}
