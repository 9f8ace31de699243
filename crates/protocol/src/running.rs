//! Concurrent copies: another process writes the receiver's destination.

use serde::{Deserialize, Serialize};

/// Another process that writes the receiver's destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Path that it writes, as the receiver shows it.
    pub path: Vec<u8>,
    /// Its number on the receiver's host, where that can be seen.
    pub pid: Option<u32>,
    /// Seconds since it was started, where that can be seen.
    pub age: Option<u64>,
    /// Treatment by the receiver.
    pub then: IfRunning,
}

/// Treatment of a copy that another process is writing already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfRunning {
    /// Wait for its end, and take over what it has published.
    #[default]
    Wait,
    /// Copy nothing, and succeed.
    Skip,
    /// Nothing is copied, and that is a failure.
    Fail,
}
