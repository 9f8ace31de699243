//! Settled items of followed sources that are being announced.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::settled::{Queue, Settled};

/// Batch of settled items of followed sources that the scan is announcing.
pub(super) struct Following {
    pub(super) queue: Arc<Queue>,
    /// Items of the batch that are not announced, by their paths as lists name them.
    pub(super) batch: HashMap<Vec<u8>, Settled>,
    /// Bytes at the start of an item's path that are not part of its path in the source.
    pub(super) above_source: usize,
}
