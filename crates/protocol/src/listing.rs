//! Listing of a tree: what an end is asked to list, and how it tells what is there.
//!
//! The items of a tree come depth first, those of each directory sorted by the bytes of their
//! names, so that two listings are compared as streams. A directory whose items follow them is
//! *open* until its `Leave`. A name is sent as the number of bytes that it shares with the name
//! before it in its directory, and the rest.
//!
//! ```text
//! near → far   Request (Job::List), then Used*
//! far → near   Accepted, Listed*, End
//! ```
//!
//! The far end sends on only as long as less than [`MAX_LISTED_AHEAD`](crate::limits::MAX_LISTED_AHEAD)
//! of what it has sent is unused: so neither end keeps more, and the connection never stands still
//! because nobody reads.

use icdc_filter::Rule;
use serde::{Deserialize, Serialize};

use crate::choice::TimeStamp;

/// Request for a listing of a directory or tree at the far end: names, metadata, digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    /// Path as the user wrote it, relative to the root that the key is confined to.
    pub path: Vec<u8>,
    /// Directories whose items are listed.
    pub reach: ListReach,
    /// Attributes that are reported of each item.
    pub detail: ListDetail,
    /// Rules over paths from the directory that is named: what they exclude is not listed, nor
    /// anything beneath it.
    pub rules: Vec<Rule>,
}

/// Depth of a listing: only the directory that is named, or all below it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListReach {
    /// Only the directory that the path names.
    Directory,
    /// The directory and all below it.
    Tree,
}

/// Attributes of an item that a listing has besides its name and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListDetail {
    /// Nothing.
    Names,
    /// Metadata, and targets of symbolic links.
    Metadata,
    /// Metadata, targets, and a digest of each regular file's contents.
    Digests(ListDigest),
}

/// Kind of digest of regular files that a listing is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ListDigest {
    /// A digest by which two ends compare files, 32 bytes: BLAKE3 of the contents; of a file of more
    /// than [`MAX_HASHED_HOLES`](crate::limits::MAX_HASHED_HOLES) bytes, the
    /// [`sparse_map`](crate::digest::sparse_map) of its blocks that are not all zero.
    Comparison,
    /// BLAKE3, 32 bytes, as `b3sum` prints it.
    Blake3,
    /// SHA-256, 32 bytes.
    Sha256,
    /// MD5, 16 bytes. It protects from errors, not from attackers.
    Md5,
}

impl ListDigest {
    /// Length of the digest in bytes.
    #[must_use]
    pub fn length(self) -> usize {
        match self {
            Self::Comparison | Self::Blake3 | Self::Sha256 => 32,
            Self::Md5 => 16,
        }
    }
}

/// Message of a listing: records from the far end, or from the near end how much of them it has
/// used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListMessage {
    /// Next records of the listing.
    Listed(Vec<Listed>),
    /// The listing is complete.
    End,
    /// The near end has used records of this [`weight`](Listed::weight) in all since its last
    /// `Used`.
    Used {
        /// Sum of the records' weights.
        weight: u32,
    },
}

/// A record of a listing: an item, or that a directory cannot be read or has no further items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listed {
    /// An item of the directory that was opened last; first of all, the item that the path names,
    /// whose name is empty.
    Item(ListedItem),
    /// The directory that was opened last cannot be read, for this reason: no items of it follow.
    Unread(String),
    /// The directory that was opened last has no further items.
    Leave,
}

/// An item of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedItem {
    /// Number of bytes at the start of the name that are those of the name before it in the
    /// directory; 0 for the first one.
    pub shared: u8,
    /// Rest of the name.
    pub rest: Vec<u8>,
    /// Kind of the item.
    pub kind: ListedKind,
    /// Metadata; `None` if it was not asked for.
    pub metadata: Option<ListedMetadata>,
}

/// Kind of a listed item, with the digest of a file or the target of a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListedKind {
    /// A regular file.
    File {
        /// Digest of the contents, or the reason why there is none; `None` if it was not asked for.
        digest: Option<Result<Vec<u8>, String>>,
    },
    /// A directory whose items follow, and are followed by `Leave`.
    Open,
    /// A directory whose items are not listed.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Target of the link, uninterpreted; empty if it was not asked for.
        target: Vec<u8>,
    },
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// Something that this end's system does not know.
    Unknown,
    /// A name whose item cannot be examined, for this reason.
    Unexamined(String),
}

/// Metadata of a listed item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMetadata {
    /// Length in bytes; of a symbolic link, that of its target.
    pub size: u64,
    /// Space in use on the disk, in bytes.
    pub allocated: u64,
    /// Permission bits (lower 12 bits).
    pub mode: u16,
    /// Number of names (hard links).
    pub links: u64,
    /// Numeric owner.
    pub user: u32,
    /// Numeric group.
    pub group: u32,
    /// Modification time.
    pub modified: TimeStamp,
    /// Whether the item is a regular file that this listing has told before under another name.
    pub repeated: bool,
}

impl Listed {
    /// Memory that the record takes at most, in bytes, as far as the limit on what is sent ahead
    /// goes.
    #[must_use]
    pub fn weight(&self) -> usize {
        const BASE: usize = 64;
        BASE + match self {
            Self::Leave => 0,
            Self::Unread(reason) => reason.len(),
            Self::Item(item) => {
                item.rest.len()
                    + match &item.kind {
                        ListedKind::Symlink { target } => target.len(),
                        ListedKind::File { digest: Some(Ok(digest)) } => digest.len(),
                        ListedKind::File { digest: Some(Err(reason)) } | ListedKind::Unexamined(reason) => reason.len(),
                        _ => 0,
                    }
            }
        }
    }
}
