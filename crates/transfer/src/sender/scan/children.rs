//! Entries of a directory that are yet to be visited, and how much is announced at each name.

use std::ops::Range;

use icdc_disk::tree::{Kind, Listing, TreeError};

use super::super::selection::{Child, Selection};

/// Reason given for an item that was listed and is gone. A session of a move that has not noticed
/// yet that its connection is lost may still remove what is at the destination, which is no failure
/// of the next one.
pub(super) const VANISHED: &str = "vanished while the directory was read";

/// Entries of a directory that are yet to be visited.
pub(super) enum Children {
    /// All names listed in the directory, from index `next` on.
    Listed { names: Listing, next: usize },
    /// The one name that is visited of contents that are left out; `None` when it was.
    Kept(Option<&'static [u8]>),
    /// Items of the selection at these places, which are beneath a path of `above` bytes (its
    /// slash included).
    Selected { places: Range<usize>, above: usize },
    /// Names of the list that begin with this path below the source, its slash included.
    Named { above: Vec<u8> },
}

/// An entry of a directory, to be visited.
pub(super) struct Named {
    pub(super) name: Vec<u8>,
    /// Kind of the entry according to its directory, which may have changed.
    pub(super) hint: Option<Kind>,
    pub(super) extent: Extent,
}

/// Extent of the announcement at a name: everything there, or only what a selection (a shard's
/// plan) or a list of names holds.
#[derive(Clone)]
pub(super) enum Extent {
    /// Everything at the name, with what is beneath it.
    All,
    /// Only selected items: the one at this place of the selection, if the name is one itself, and
    /// those at the places beneath it.
    Selected { place: Option<usize>, beneath: Range<usize> },
    /// Only what the list names beneath the name.
    Listed,
}

impl Extent {
    /// Text of the reason why a name cannot be examined, in the terms of this extent.
    pub(super) fn reason_of(&self, error: &TreeError) -> String {
        match self {
            Self::All | Self::Listed if error.is_missing() => VANISHED.into(),
            Self::Selected { .. } if error.is_missing() => "is gone since it was planned".into(),
            _ => error.to_string(),
        }
    }
}

impl Children {
    /// The next entry to visit; `None` at the end.
    pub(super) fn next(&mut self, selection: Option<&Selection>) -> Option<Named> {
        match self {
            Self::Listed { names, next } => {
                let entry = names.get(*next)?;
                *next += 1;
                Some(Named { name: entry.name.to_vec(), hint: entry.hint, extent: Extent::All })
            }
            // The scan reads the list.
            Self::Named { .. } => None,
            Self::Kept(name) => Some(Named { name: name.take()?.to_vec(), hint: None, extent: Extent::All }),
            Self::Selected { places, above } => {
                let Child { name, place, beneath } = selection?.first_child(places.clone(), *above)?;
                places.start = beneath.end;
                Some(Named { name, hint: None, extent: Extent::Selected { place, beneath } })
            }
        }
    }

    /// Length in bytes of the path from the source down to these entries, with its slash.
    pub(super) fn above(&self) -> usize {
        match self {
            Self::Listed { .. } | Self::Kept(_) | Self::Named { .. } => 0,
            Self::Selected { above, .. } => *above,
        }
    }
}
