//! Comparison of contents before anything is sent. Renames of a mirror: a file that is new at the
//! source may be one that the destination has under a name that the source has no longer. Equal
//! files of a copy with [`Equality::Contents`](crate::message::Equality::Contents): the same with no
//! candidate but the file that has the item's name.
//!
//! ```text
//! receiver                                              sender
//! Candidates: files of equal size and time, their paths ─► nothing has one of them? read the item
//! read these files, compare        ◄─ CandidateAnswer: which are gone, digest of the item
//! equal: link or copy it, publish, Want::Renamed ─►
//! not equal: Want::All, as of any other item     ─►
//! ```

use serde::{Deserialize, Serialize};

use crate::message::EntryId;
use crate::outcome::FileDigest;

/// Files of the destination that may have become an announced item: they have its size and
/// modification time, under names that were not announced so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidates {
    /// Id of the item.
    pub id: EntryId,
    /// Places of the files, the likeliest first. Empty if only the digest is asked: the file that
    /// has the item's name has its size.
    pub places: Vec<CandidatePlace>,
}

/// Place of a file of the destination that may have become an announced item: its source, and its
/// path from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidatePlace {
    /// Number of the source in whose copy the file is.
    pub source: u32,
    /// Path of the file from the directory of that source.
    pub path: Vec<u8>,
}

/// The sender's answer to [`Candidates`]: which of the files the source has no longer, and the
/// digest of the item, with which the receiver compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateAnswer {
    /// Id of the item.
    pub id: EntryId,
    /// Bit `n` is set if the source has nothing at the `n`th place.
    pub gone: u32,
    /// Digest of the item; `None` if it cannot be read, and if there were candidates, also if none
    /// is gone, and in a dry run.
    pub digest: Option<FileDigest>,
}
