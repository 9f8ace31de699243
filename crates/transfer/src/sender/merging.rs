//! Equal names from several sources: the contents of `a/` and of `b/` are copied to one directory,
//! and both have an `x`. The later one replaces the earlier; the user is notified.
//!
//! Names are kept as hashes of 8 bytes, up to [`MOST_NAMES`]: memory is bounded whatever the
//! sources contain.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use icdc_protocol::message::Problem;

use super::sources::Root;

/// Maximum number of names that are compared: 64 MiB of hashes.
const MOST_NAMES: usize = 1 << 22;
/// Maximum number of equal names that are reported one by one.
const REPORTED: u64 = 20;

/// Hashes of the names of all sources so far, to detect equal names.
#[derive(Default)]
pub(super) struct Merging {
    /// Hashes of the names seen; `None` where no two sources can have the same name.
    seen: Option<HashSet<u64>>,
    hasher: RandomState,
    /// Bytes at the start of a path of the present source that are not part of its path at the
    /// destination.
    prefix: usize,
    equal: u64,
    last: Vec<u8>,
}

impl Merging {
    /// Index that compares names only if several sources are copied into one directory and may have
    /// equal names there.
    pub(super) fn of(roots: &[(u32, Root)]) -> Self {
        let merges = roots.len() > 1 && roots.iter().any(|(_, root)| root.name.is_none());
        Self { seen: merges.then(HashSet::new), ..Self::default() }
    }

    /// Begins a source, to which the items that follow belong.
    pub(super) fn enter(&mut self, root: &Root) {
        self.prefix = root.above_transfer_root();
    }

    /// Notes an item other than a directory; returns a problem to report if an earlier source has
    /// that name.
    pub(super) fn note(&mut self, path: &[u8]) -> Option<Problem> {
        let seen = self.seen.as_mut()?;
        let name = self.hasher.hash_one(path.get(self.prefix..)?);
        if seen.len() >= MOST_NAMES || seen.insert(name) {
            return None;
        }
        self.equal += 1;
        self.last = path.to_vec();
        let reason = "an earlier source has the same name; this one replaces it at the destination".into();
        (self.equal <= REPORTED).then(|| Problem { path: path.to_vec(), reason, error: false })
    }

    /// Reason why a move leaves an item at the source: at the destination it would replace one of
    /// an earlier source, or that cannot be told. `None` if it may be moved.
    pub(super) fn obstacle(&mut self, path: &[u8]) -> Option<&'static str> {
        let seen = self.seen.as_mut()?;
        if seen.len() >= MOST_NAMES {
            return Some("too many names of several sources come together; move the sources one after the other");
        }
        let is_new = seen.insert(self.hasher.hash_one(path.get(self.prefix..)?));
        (!is_new).then_some("an earlier source has the same name, which this one would replace; it stays at the source")
    }

    /// Problem that sums up the equal names that were not reported one by one.
    pub(super) fn summary(&mut self) -> Option<Problem> {
        let more = self.equal.checked_sub(REPORTED).filter(|more| *more > 0)?;
        let reason = format!("with this one, {more} more items replace those of the same name from earlier sources");
        Some(Problem { path: std::mem::take(&mut self.last), reason, error: false })
    }
}
