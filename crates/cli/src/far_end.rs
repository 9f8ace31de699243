//! `icdc far-end` and `icdc connect-for-ssh`: what ssh starts. Standard output belongs to the protocol.

use std::io::stdout;
use std::net::SocketAddr;

use icdc_protocol::message::Bootstrap;

use crate::console::Console;
use crate::logs;

/// Runs `icdc far-end`: the far end of a copy, which ssh starts on the other host.
pub(crate) fn run(told: Option<Bootstrap>, console: &Console) -> anyhow::Result<()> {
    logs::start(console, logs::Level::OFF);
    Ok(icdc_daemon::far_end(told)?)
}

/// Runs `icdc connect-for-ssh`: connects to an ssh server and passes the socket to ssh.
pub(crate) fn connect_for_ssh(address: SocketAddr) -> anyhow::Result<()> {
    Ok(icdc_client::connect_for_ssh(address, stdout())?)
}
