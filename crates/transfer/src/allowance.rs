//! Payload that a session may still move, where that is limited.

use icdc_units::ByteCount;

/// Quota of payload bytes: payload is reserved from it before it is sent, or before what has
/// arrived is stored.
pub trait Allowance: Send + Sync {
    /// Reserves this many payload bytes more from the quota.
    ///
    /// # Errors
    /// Reason why no more may be moved, for the user at the other end.
    fn reserve(&self, bytes: ByteCount) -> Result<(), String>;
}
