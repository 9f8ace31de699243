//! Deletion of items that the destination of a mirror has and its source has not.
//!
//! A name of the destination is *extra* if its directory was announced and the name was not, and
//! the sender has not told that it left the name out. Extra items are counted first and deleted
//! last, after everything that was announced is durable; nothing is deleted if any item has failed.

use icdc_filter::Rule;
use serde::{Deserialize, Serialize};

use crate::change::ChangedItem;

/// Settings by which a mirror's receiver deletes items that the source does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    /// Rules over paths from the transfer root: what they exclude is never deleted.
    pub rules: Vec<Rule>,
    /// Most items that may be deleted: if there are more, none is. `None` for no limit.
    pub max: Option<MaxDelete>,
    /// Whether a source directory without any item empties the destination; otherwise nothing is
    /// deleted, because an empty source is most often a file system that is not mounted.
    pub allow_empty_source: bool,
}

/// Deletion at the receiver of items that are not announced, as the sender is told of it: the
/// sender then tells what it leaves out, and awaits the end of the deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mirrored {
    /// Nothing is deleted.
    #[default]
    No,
    /// Items that the source does not have. What is left out counts as existing.
    KeepingExcluded,
    /// Items that the source does not have, and those that rules exclude. What is left out for another
    /// reason counts as existing.
    WithExcluded,
    /// Everything that is not announced, of the unfinished copy that becomes a snapshot.
    Snapshot,
}

/// Limit on the number of items that a mirror may delete; if there are more, it deletes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaxDelete {
    /// This many items.
    Items(u64),
    /// This part, in hundredths from 0 to 100, of the items in the destination's directories before
    /// the deletion.
    Percent(u8),
}

/// Items of a source directory that the sender does not announce though they may exist there, so
/// that the receiver does not delete those of their names. Where none comes for a directory, all
/// that is not announced in it counts as extra, and is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftOut {
    /// Items with these names exist at the source.
    Names(Vec<Vec<u8>>),
    /// The directory was not read, and any name may exist at the source.
    Unread,
}

/// Progress and outcome of a deletion, from the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deletion {
    /// These items are deleted, or would be in a dry run.
    Deleted(Vec<ChangedItem>),
    /// An extra item could not be deleted.
    Failed {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// The reason, as a sentence for the user.
        reason: String,
    },
    /// Nothing is deleted, for this reason, as a sentence for the user.
    Refused(String),
    /// The deletion has ended; no other message of it follows.
    Ended,
}
