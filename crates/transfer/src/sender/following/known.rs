//! Versions of items that have travelled, or are about to.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use icdc_watch::Place;

/// Most items that are known: 16 bytes for each, and a half more. Others travel again after a walk, as far as the
/// receiver finds that they differ.
const MOST: usize = 1 << 24;

/// Versions of followed items that were sent or are queued, by a hash of their places: a walk that
/// finds them again sends nothing.
#[derive(Debug, Default)]
pub(super) struct Known {
    versions: HashMap<u64, u64>,
    hasher: RandomState,
}

impl Known {
    /// Whether the item is known in this version.
    pub(super) fn has(&self, place: &Place, version: u64) -> bool {
        self.versions.get(&self.key(place)) == Some(&version)
    }

    /// Remembers the version of an item; does nothing for a new one when [`MOST`] are known.
    pub(super) fn insert(&mut self, place: &Place, version: u64) {
        let key = self.key(place);
        if self.versions.len() < MOST || self.versions.contains_key(&key) {
            self.versions.insert(key, version);
        }
    }

    pub(super) fn remove(&mut self, place: &Place) {
        let key = self.key(place);
        self.versions.remove(&key);
    }

    pub(super) fn clear(&mut self) {
        self.versions.clear();
    }

    fn key(&self, place: &Place) -> u64 {
        self.hasher.hash_one(place)
    }
}
