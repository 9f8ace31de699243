//! Progress of a walk of followed trees.

use icdc_disk::tree::{Directory, Listing};
use icdc_watch::Place;

/// Directories that are yet to be walked, and the one that is being walked.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) waiting: Vec<Place>,
    pub(super) present: Option<Level>,
}

/// The directory that is being walked.
pub(super) struct Level {
    pub(super) place: Place,
    pub(super) directory: Directory,
    pub(super) names: Listing,
    pub(super) next: usize,
}

impl Walk {
    /// Adds a directory, which is walked with everything beneath it.
    pub(super) fn add(&mut self, directory: Place) {
        self.waiting.push(directory);
    }

    /// Whether nothing is left to be walked.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.present.is_none()
    }

    /// Forgets what is left to be walked.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}
