//! Rules of messages of a change.

use super::deletion::{changed, shown};
use super::rules::{Checked, require, text};
use crate::limits::MAX_LISTED_AHEAD;
use crate::message::{ChangeCount, ChangeMessage};

pub(super) fn message(message: &ChangeMessage) -> Checked {
    match message {
        ChangeMessage::Counted(count) | ChangeMessage::End(count) => self::count(count),
        ChangeMessage::Proceed => Ok(()),
        ChangeMessage::Changed(items) => changed(items),
        ChangeMessage::Failed { path, reason } => shown(path).and_then(|()| text(reason)),
        ChangeMessage::Used { weight } => {
            require((1..=MAX_LISTED_AHEAD).contains(&(*weight as usize)), "nothing used, or more than may be sent")
        }
    }
}

/// Checks that no more directories than items are counted.
fn count(count: &ChangeCount) -> Checked {
    require(count.directories <= count.items, "more directories than items")
}
