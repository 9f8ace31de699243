//! Rules of messages about the deletion of extra items, and about items that are removed at the source.

use super::names::is_component;
use super::rules::{Checked, require, text};
use crate::limits::{MAX_DELETED, MAX_DELETED_BYTES, MAX_SHOWN_PATH};
use crate::message::{ChangedItem, Deletion, LeftOut};

pub(super) fn left_out(what: &LeftOut) -> Checked {
    match what {
        LeftOut::Names(names) => {
            bounded(names.iter().map(Vec::len))?;
            require(names.iter().all(|name| is_component(name)), "a name that is not one component of a path")
        }
        LeftOut::Unread => Ok(()),
    }
}

pub(super) fn deletion(news: &Deletion) -> Checked {
    match news {
        Deletion::Deleted(items) => changed(items),
        Deletion::Failed { path, reason } => {
            shown(path)?;
            text(reason)
        }
        Deletion::Refused(reason) => text(reason),
        Deletion::Ended => Ok(()),
    }
}

/// Checks the items of a message that are made, removed or renamed.
pub(super) fn changed(items: &[ChangedItem]) -> Checked {
    bounded(items.iter().map(|item| item.path.len()))?;
    items.iter().try_for_each(|item| shown(&item.path))
}

/// Checks the length of an item's path that is shown to the user.
pub(super) fn shown(path: &[u8]) -> Checked {
    require(!path.is_empty() && path.len() <= MAX_SHOWN_PATH, "a path that is empty or too long")
}

/// Checks the number of names or paths in a message, given their lengths, and the sum of those.
fn bounded(lengths: impl ExactSizeIterator<Item = usize>) -> Checked {
    require((1..=MAX_DELETED).contains(&lengths.len()), "no name, or too many")?;
    require(lengths.sum::<usize>() <= MAX_DELETED_BYTES, "names too long in all")
}
