//! The kernel's limit on packets that wait for a host's work (`net.core.netdev_max_backlog`), one
//! for the whole machine.
//!
//! Its default of 1000 packets is 12 ms at 1 Gbit/s: a host that does not get to run for longer
//! would lose packets that the path delivered. The first lab raises it, the last one to go restores
//! it.

use std::fs;
use std::path::PathBuf;

use crate::registry;

const LIMIT: &str = "/proc/sys/net/core/netdev_max_backlog";
/// Packets: a fifth of a second at 10 Gbit/s and 1500 bytes.
const WANTED: u64 = 200_000;

fn memo() -> Option<PathBuf> {
    Some(registry::directory().ok()?.parent()?.join("netdev_max_backlog"))
}

/// Raises the limit where that is allowed; what the wire's devices drop is counted in any case.
pub(crate) fn raise() {
    let Some(before) = fs::read_to_string(LIMIT).ok().and_then(|text| text.trim().parse::<u64>().ok()) else { return };
    let Some(memo) = memo().filter(|_| before < WANTED) else { return };
    if fs::write(&memo, before.to_string()).is_ok() && fs::write(LIMIT, WANTED.to_string()).is_err() {
        let _ = fs::remove_file(&memo);
    }
}

/// Gives the machine its own limit back.
pub(crate) fn restore() {
    let Some(memo) = memo() else { return };
    if let Ok(before) = fs::read_to_string(&memo)
        && fs::write(LIMIT, before.trim()).is_ok()
    {
        let _ = fs::remove_file(&memo);
    }
}
