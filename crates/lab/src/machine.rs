//! Settings of the kernel that are one for the whole machine and that labs change: the first lab
//! that needs another value writes it, the last one to go restores what there was.
//!
//! `net.core.netdev_max_backlog` limits the packets that wait for a host's work. Its default of
//! 1000 packets is 12 ms at 1 Gbit/s: a host that does not get to run for longer would lose packets
//! that the path delivered. Stock hosts (see [`Settings::stock`]) need the limits of buffers that
//! an application asks for, and a namespace may only take an algorithm as its default that
//! everybody may use.

use std::fs;
use std::path::PathBuf;

use crate::registry;
use crate::settings::Settings;

/// Least `net.core.netdev_max_backlog` of a machine with labs, in packets: a fifth of a second at
/// 10 Gbit/s and 1500 bytes.
const BACKLOG: u64 = 200_000;
/// Linux's default size of a socket buffer, in bytes (socket(7)).
const STOCK_BUFFER: u64 = 212_992;
/// Algorithms that Linux allows unprivileged programs where CUBIC is the default.
const STOCK_ALGORITHMS: &str = "reno cubic";

/// A file below `/proc/sys/net`, and the value that a lab writes there, given the settings of the
/// lab and the previous value.
struct MachineSetting {
    file: &'static str,
    wanted: fn(&Settings, &str) -> Option<String>,
}

/// All machine-wide kernel settings that labs change.
const ALL: [MachineSetting; 4] = [
    MachineSetting { file: "core/netdev_max_backlog", wanted: backlog },
    MachineSetting { file: "core/rmem_max", wanted: buffer },
    MachineSetting { file: "core/wmem_max", wanted: buffer },
    MachineSetting { file: "ipv4/tcp_allowed_congestion_control", wanted: algorithms },
];

/// Value for `netdev_max_backlog`: [`BACKLOG`], or `None` to leave a previous value that is as
/// large.
fn backlog(_: &Settings, before: &str) -> Option<String> {
    before.parse().is_ok_and(|before: u64| before < BACKLOG).then(|| BACKLOG.to_string())
}

/// Value for `rmem_max` and `wmem_max` of a lab with stock hosts; `None` for any other lab, which
/// leaves them.
fn buffer(settings: &Settings, _: &str) -> Option<String> {
    settings.stock.then(|| STOCK_BUFFER.to_string())
}

/// Value for `tcp_allowed_congestion_control` of a lab with stock hosts; `None` for any other lab.
fn algorithms(settings: &Settings, _: &str) -> Option<String> {
    settings.stock.then(|| STOCK_ALGORITHMS.to_owned())
}

impl MachineSetting {
    /// Path of the setting's file below `/proc/sys/net`.
    fn path(&self) -> PathBuf {
        PathBuf::from("/proc/sys/net").join(self.file)
    }

    /// Path of the file that stores the previous value; `None` if there is no directory for it.
    fn memo(&self) -> Option<PathBuf> {
        let (_, name) = self.file.split_once('/')?;
        Some(registry::directory().ok()?.parent()?.join(name))
    }

    /// Writes the value that the lab needs, after storing the previous one for [`Self::restore`].
    /// Does nothing if the lab needs no other value, and ignores a refusal by the kernel.
    fn change(&self, settings: &Settings) {
        let Ok(before) = fs::read_to_string(self.path()) else { return };
        let before = before.trim();
        let Some(wanted) = (self.wanted)(settings, before).filter(|wanted| wanted != before) else { return };
        let Some(memo) = self.memo() else { return };
        // The value that an earlier lab found is that of the machine.
        let noted = memo.exists() || fs::write(&memo, before).is_ok();
        if noted && fs::write(self.path(), wanted).is_err() {
            let _ = fs::remove_file(&memo);
        }
    }

    /// Writes the stored previous value back, and deletes it from the store; nothing if none is
    /// stored.
    fn restore(&self) {
        let Some(memo) = self.memo() else { return };
        if let Ok(before) = fs::read_to_string(&memo)
            && fs::write(self.path(), before.trim()).is_ok()
        {
            let _ = fs::remove_file(&memo);
        }
    }
}

/// Applies the settings that the lab needs, where that is permitted; packets that the wire's
/// devices drop otherwise are counted in any case.
pub(crate) fn change(settings: &Settings) {
    ALL.iter().for_each(|setting| setting.change(settings));
}

/// Restores the values that the machine had before the first lab; called when the last lab goes.
pub(crate) fn restore() {
    ALL.iter().for_each(MachineSetting::restore);
}
