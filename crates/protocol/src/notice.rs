//! Notices: one message about many items that have not failed, for the user of the other end.

use serde::{Deserialize, Serialize};

/// Number of items of one session that met the same event, and the first of them. A later notice of
/// the same kind replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The event that the items have in common.
    pub kind: NoticeKind,
    /// Number of items that met the event, at least as many as are named.
    pub count: u64,
    /// Paths of the first of these items, as the sending end of this message shows them.
    pub first: Vec<Vec<u8>>,
}

/// Event that items have met without failing and that a notice tells the user of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// The receiver's file system stores another modification time than it was given.
    TimeNotKept,
    /// A hard link became a file of its own: another file has the first name by now.
    FirstNameReplaced,
    /// A hard link became a file of its own: the destination stays as it is at the first name.
    FirstNameKept,
    /// A hard link became a file of its own: the receiver's system does not make the link.
    LinkRefused,
    /// Extended attributes that are not carried were left out.
    AttributesLeftOut,
    /// The receiver's file system does not let a mode be set.
    ModeNotKept,
    /// An earlier run has published the item, and it was altered since: it is replaced.
    Altered,
    /// A file of a move is equal at the receiver by size and time alone, and stays at the source.
    KeptAtSource,
}
