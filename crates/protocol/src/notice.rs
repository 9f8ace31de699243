//! Notices: one message about many items that have not failed, for the user of the other end.

use serde::{Deserialize, Serialize};

/// Number of items of one session that met something, and the first ones. A later one of the same
/// kind replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The event that they have in common.
    pub kind: NoticeKind,
    /// Number of items, at least as many as are named.
    pub count: u64,
    /// Paths of the first ones, as the sending end of this message shows them.
    pub first: Vec<Vec<u8>>,
}

/// Kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// The receiver's file system keeps another modification time than it was given.
    TimeNotKept,
    /// A further name became a file of its own: another file has the first name by now.
    FirstNameReplaced,
    /// A further name became a file of its own: a newer file has the first name, and stays.
    FirstNameNewer,
    /// A further name became a file of its own: the receiver's system does not make the hard link.
    LinkRefused,
    /// Extended attributes were left out that are not carried.
    AttributesLeftOut,
    /// The receiver's file system does not let a mode be set.
    ModeNotKept,
    /// An earlier run has published it, and it was altered since: it is replaced.
    Altered,
}
