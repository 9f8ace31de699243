//! State of the two halves of a link, for the process that continues them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::key_schedule::TrafficSecret;

/// State of the sending half of a link, with which another process continues it.
#[derive(Serialize, Deserialize)]
pub struct OutletState {
    pub(super) secret: TrafficSecret,
    /// Number of records sent under this secret.
    pub(super) sequence: u64,
    /// Whether the peer asked for new keys in this direction too.
    pub(super) key_update_wanted: bool,
}

/// State of the receiving half of a link, with which another process continues it.
#[derive(Serialize, Deserialize)]
pub struct InletState {
    pub(super) secret: TrafficSecret,
    /// Number of records received under this secret.
    pub(super) sequence: u64,
    /// Bytes that are decrypted and not processed.
    pub(super) clear: Vec<u8>,
    /// Bytes that have arrived and are not decrypted.
    pub(super) unopened: Vec<u8>,
}

impl fmt::Debug for OutletState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutletState").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl fmt::Debug for InletState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InletState").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}
