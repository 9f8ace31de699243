//! A part of the sources that one of several runs copies; together the runs copy the whole.
//!
//! Items are in scan order: by source, depth first, names by bytes. Directories above them are
//! announced as well, but stay open to their owner, because another run may be working in them;
//! their final metadata come with a selection that names them.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use icdc_disk::tree::{Kind, Stat};
use icdc_protocol::message::{Digest, EntryId};

/// Explicit list of items, in scan order, that one of several runs (a shard of a plan) copies, with
/// the digests of those that were published.
#[derive(Debug)]
pub struct Selection {
    id: Digest,
    items: Vec<Selected>,
    digests: Mutex<Vec<Option<Digest>>>,
}

/// One item of a selection: its source, path, and state when it was selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Index of the item's source, in the order of the command line.
    pub source: u32,
    /// Path of the item below the source; empty for the source itself.
    pub path: Vec<u8>,
    /// State of the item when it was selected.
    pub state: SelectedState,
}

/// State of an item when it was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedState {
    /// A directory; its contents do not matter.
    Directory,
    /// An item that is not a directory.
    Other {
        /// Size of a regular file, or length of the target of a symbolic link, in bytes.
        size: u64,
        /// Modification time: seconds since 1970, and nanoseconds (below 1e9).
        mtime: (i64, u32),
    },
}

/// Error: the items are not in scan order; index of the first item that belongs before its
/// predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("item {0} does not come after the one before it")]
pub struct NotInOrder(pub usize);

impl Selection {
    /// Selection of `items`, which are in scan order; `id` distinguishes this selection from all
    /// others.
    ///
    /// # Errors
    /// [`NotInOrder`].
    pub fn new(id: Digest, items: Vec<Selected>) -> Result<Self, NotInOrder> {
        let wrong = items.windows(2).position(|pair| scan_order(&pair[0], &pair[1]) != Ordering::Less);
        if let Some(before) = wrong {
            return Err(NotInOrder(before + 1));
        }
        let digests = Mutex::new(vec![None; items.len()]);
        Ok(Self { id, items, digests })
    }

    /// The selected items, in scan order.
    #[must_use]
    pub fn items(&self) -> &[Selected] {
        &self.items
    }

    /// Digests of the items that were published, by the items' places; `None` for all others.
    #[must_use]
    pub fn digests(&self) -> Vec<Option<Digest>> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Identifier that distinguishes this selection from all others.
    pub(super) fn id(&self) -> &Digest {
        &self.id
    }

    /// Records the digests of the published entries for the items that were announced under these
    /// entry ids.
    pub(super) fn note(&self, announced: &[(EntryId, usize)], published: &[(EntryId, Digest)]) {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, place) in announced {
            if let Ok(found) = published.binary_search_by_key(id, |(entry, _)| *entry) {
                digests[*place] = Some(published[found].1);
            }
        }
    }

    /// Range of the positions in [`items`](Self::items) that belong to this source.
    pub(super) fn of_source(&self, source: u32) -> Range<usize> {
        let bound = |least| self.items.partition_point(|item| item.source < least);
        bound(source)..bound(source.saturating_add(1))
    }

    /// First child directly below the path of `above` bytes (its slash included) that all items at
    /// `places` are beneath; `None` if there are none.
    pub(super) fn first_child(&self, places: Range<usize>, above: usize) -> Option<Child> {
        let first = self.items[places.clone()].first()?;
        let name = first.path.get(above..)?.split(is_slash).next()?.to_vec();
        let end = above + name.len();
        let is_whole = first.path.len() == end;
        let is_within = |item: &Selected| {
            item.path.get(..end) == first.path.get(..end) && matches!(item.path.get(end), None | Some(b'/'))
        };
        let all = self.items[places.clone()].partition_point(is_within);
        let beneath = places.start + usize::from(is_whole)..places.start + all;
        Some(Child { name, place: is_whole.then_some(places.start), beneath })
    }
}

/// A child name of a directory, with the selected items at or beneath it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) name: Vec<u8>,
    /// Index of the child in the selection, if it is an item itself.
    pub(super) place: Option<usize>,
    /// Index range of the selected items beneath the child.
    pub(super) beneath: Range<usize>,
}

impl SelectedState {
    /// State of the item that `stat` describes.
    #[must_use]
    pub fn of(stat: &Stat) -> Self {
        match stat.kind {
            Kind::Directory => Self::Directory,
            _ => Self::Other { size: stat.size, mtime: (stat.mtime.seconds, stat.mtime.nanos) },
        }
    }
}

/// Compares two items by the order in which a scan finds them.
#[must_use]
pub fn scan_order(one: &Selected, other: &Selected) -> Ordering {
    let by_components = || one.path.split(is_slash).cmp(other.path.split(is_slash));
    one.source.cmp(&other.source).then_with(by_components)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what `split` takes")]
fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    fn selection(paths: &[&str]) -> Selection {
        let state = SelectedState::Other { size: 1, mtime: (2, 3) };
        let items = paths.iter().map(|path| Selected { source: 0, path: path.as_bytes().to_vec(), state });
        Selection::new([0; 32], items.collect()).unwrap()
    }

    #[test]
    fn children_come_in_scan_order_with_what_is_beneath_them() {
        let selection = selection(&["a", "a/b", "a/b/c", "a/d", "a.txt", "b/x/y"]);
        let child = |name: &str, place, beneath| Child { name: name.as_bytes().to_vec(), place, beneath };
        assert_eq!(selection.of_source(0), 0..6);
        assert_eq!(selection.of_source(1), 6..6);
        assert_eq!(selection.first_child(0..6, 0), Some(child("a", Some(0), 1..4)));
        assert_eq!(selection.first_child(1..4, 2), Some(child("b", Some(1), 2..3)));
        assert_eq!(selection.first_child(3..4, 2), Some(child("d", Some(3), 4..4)));
        assert_eq!(selection.first_child(4..6, 0), Some(child("a.txt", Some(4), 5..5)));
        assert_eq!(selection.first_child(5..6, 0), Some(child("b", None, 5..6)));
        assert_eq!(selection.first_child(6..6, 0), None);
    }

    #[test]
    fn items_out_of_order_are_refused() {
        let state = SelectedState::Directory;
        for paths in [["a.txt", "a/b"], ["a", "a"], ["b", "a"]] {
            let items = paths.map(|path| Selected { source: 0, path: path.as_bytes().to_vec(), state });
            assert_eq!(Selection::new([0; 32], items.to_vec()).unwrap_err(), NotInOrder(1));
        }
    }
}
