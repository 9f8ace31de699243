//! `icdc far-end`: what ssh starts. Standard output belongs to the protocol.

use crate::console::Console;
use crate::logs;

/// Runs the far end.
pub(crate) fn run(console: &Console) -> anyhow::Result<()> {
    logs::start(console, logs::Level::OFF);
    Ok(icdc_daemon::far_end()?)
}
