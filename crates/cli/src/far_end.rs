//! `icdc far-end`: what ssh starts. Standard output belongs to the protocol.

use crate::console::Console;
use crate::logs;

/// Runs `icdc far-end`: the far end of a copy, which ssh starts on the other host.
pub(crate) fn run(console: &Console) -> anyhow::Result<()> {
    logs::start(console, logs::Level::OFF);
    Ok(icdc_daemon::far_end()?)
}
