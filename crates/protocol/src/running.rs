//! Concurrent copies: another process writes the receiver's destination.

use serde::{Deserialize, Serialize};

/// Another process that writes the receiver's destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Path that the process writes, as the receiver shows it.
    pub path: Vec<u8>,
    /// Process id on the receiver's host; `None` where that cannot be seen.
    pub pid: Option<u32>,
    /// Seconds since the process was started; `None` where that cannot be seen.
    pub age: Option<u64>,
    /// Reaction of the receiver to it.
    pub then: IfRunning,
}

/// Treatment of a copy that another process is writing already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfRunning {
    /// Wait for the end of that process, and take over what it has published.
    #[default]
    Wait,
    /// Copy nothing, and report success.
    Skip,
    /// Copy nothing, and report a failure.
    Fail,
}
