//! Progress of a change, reported as it goes.

use icdc_protocol::message::{ChangeCount, ChangedItem};

/// Error: the change is not to go on, because the reporter has ended it or a stop was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over;

/// Receiver of a change's progress, which shows it to the user or sends it to the requesting end;
/// may end the change.
pub trait Reporter {
    /// An item is made, removed or renamed; in a dry run, it would be removed.
    ///
    /// # Errors
    /// The change is not to go on.
    fn changed(&mut self, item: ChangedItem) -> Result<(), Over>;

    /// An item could not be changed, for this reason, a sentence for the user.
    ///
    /// # Errors
    /// The change is not to go on.
    fn failed(&mut self, path: &[u8], reason: String) -> Result<(), Over>;

    /// A removal would take this much; nothing is removed before this returns.
    ///
    /// # Errors
    /// Nothing is to be removed.
    fn counted(&mut self, count: &ChangeCount) -> Result<(), Over>;
}
