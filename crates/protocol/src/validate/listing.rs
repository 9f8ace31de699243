//! Rules of messages of a listing. Order and nesting of the records are checked where the open
//! directories are known.

use super::names::path;
use super::rules::{Checked, require, text};
use crate::limits::{MAX_LISTED, MAX_LISTED_AHEAD, MAX_LISTED_BYTES, MAX_NAME};
use crate::message::{ListMessage, Listed, ListedItem, ListedKind};

pub(super) fn message(message: &ListMessage) -> Checked {
    match message {
        ListMessage::Listed(records) => {
            require((1..=MAX_LISTED).contains(&records.len()), "no record, or too many")?;
            let weight: usize = records.iter().map(Listed::weight).sum();
            require(weight <= MAX_LISTED_BYTES, "records too long in all")?;
            records.iter().try_for_each(listed)
        }
        ListMessage::End => Ok(()),
        ListMessage::Used { weight } => {
            require((1..=MAX_LISTED_AHEAD).contains(&(*weight as usize)), "nothing used, or more than may be sent")
        }
    }
}

fn listed(record: &Listed) -> Checked {
    match record {
        Listed::Item(item) => self::item(item),
        Listed::Unread(reason) => text(reason),
        Listed::Leave => Ok(()),
    }
}

fn item(item: &ListedItem) -> Checked {
    require(usize::from(item.shared) + item.rest.len() <= MAX_NAME, "a name too long")?;
    require(!item.rest.iter().any(|byte| matches!(byte, b'/' | 0)), "a name that is not one component of a path")?;
    match &item.kind {
        ListedKind::File { digest: Some(Ok(digest)) } => {
            require(matches!(digest.len(), 16 | 32), "a digest of no known length")?;
        }
        ListedKind::File { digest: Some(Err(reason)) } | ListedKind::Unexamined(reason) => text(reason)?,
        ListedKind::Symlink { target } => path(target)?,
        _ => {}
    }
    let Some(metadata) = &item.metadata else { return Ok(()) };
    require(metadata.mode <= 0o7777, "mode bits beyond 7777")?;
    require(metadata.modified.nanos < 1_000_000_000, "nanoseconds beyond a second")
}
