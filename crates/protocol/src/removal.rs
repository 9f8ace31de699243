//! Removal of what was moved: the sender removes an item at the source once the receiver has told
//! that it is published durably.

use serde::{Deserialize, Serialize};

/// An item that is removed at the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedItem {
    /// Path of the item from the source's parent.
    pub path: Vec<u8>,
    /// Whether the item is a directory.
    pub is_directory: bool,
}
