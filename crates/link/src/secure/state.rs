//! Where the two halves of a link stand, for the process that goes on with them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::key_schedule::TrafficSecret;

/// Where the sending half stands.
#[derive(Serialize, Deserialize)]
pub struct OutletState {
    pub(super) secret: TrafficSecret,
    /// Records under this secret.
    pub(super) sequence: u64,
    /// The peer asked for new keys in this direction too.
    pub(super) key_update_wanted: bool,
}

/// Where the receiving half stands.
#[derive(Serialize, Deserialize)]
pub struct InletState {
    pub(super) secret: TrafficSecret,
    /// Records under this secret.
    pub(super) sequence: u64,
    /// What is decrypted and was not taken.
    pub(super) clear: Vec<u8>,
    /// What has arrived and is not decrypted.
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
