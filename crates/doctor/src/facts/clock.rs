//! The clock: what it is read from, and whether it is kept right.

use crate::System;

/// Directory with the kernel's clock source in use and those available.
const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

/// The kernel's clock source and its synchronization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Current clock source, `tsc`, `hpet` and so on; `None` if it cannot be read.
    pub source: Option<String>,
    /// Clock sources that are available.
    pub sources: Vec<String>,
    /// Whether NTP or the like keeps the clock right; `None` if unknown.
    pub synchronized: Option<bool>,
}

impl Clock {
    /// Reads the state of the system's clock; only the running system is asked whether it is
    /// synchronized.
    pub(super) fn read(system: &System) -> Self {
        let sources = system.text(&format!("{SOURCES}/available_clocksource")).unwrap_or_default();
        Self {
            source: system.text(&format!("{SOURCES}/current_clocksource")),
            sources: sources.split_whitespace().map(str::to_owned).collect(),
            synchronized: system.is_running().then(is_synchronized).flatten(),
        }
    }
}

/// Whether the kernel considers the clock synchronized (adjtimex(2)); `None` if it does not say.
fn is_synchronized() -> Option<bool> {
    // SAFETY: all zeros is a valid timex, with no mode set: nothing is changed.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a timex that the kernel fills and that lives through the call.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    (result >= 0).then_some(result != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0)
}
