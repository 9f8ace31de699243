//! Names that a directory of the source has, each by a hash of 64 bits. Two names of one hash make one
//! item of a mirror stay though it is extra; none is deleted that the source has.

use std::hash::{DefaultHasher, Hasher};

/// Names that the source has in one directory, as hashes: a mirror deletes nothing of these names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceNames {
    hashes: Vec<u64>,
}

impl SourceNames {
    /// Adds a name.
    pub(super) fn insert(&mut self, name: &[u8]) {
        self.hashes.push(hash(name));
    }

    /// Sorts the names, for [`contains`](Self::contains).
    pub(super) fn sorted(mut self) -> Self {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        self
    }

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether the source has this name, or one with the same hash.
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.hashes.binary_search(&hash(name)).is_ok()
    }
}

/// Hash by which a name is kept.
fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_their_bytes() {
        let mut names = SourceNames::default();
        [&b"b"[..], b"a", b"\xff"].iter().for_each(|name| names.insert(name));
        let names = names.sorted();
        assert!(names.contains(b"a") && names.contains(b"\xff") && !names.contains(b"c") && !names.contains(b"A"));
    }
}
