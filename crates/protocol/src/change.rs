//! Changes of names: what an end is asked to make, remove or rename, and what it tells of that.
//!
//! ```text
//! near → far   Request (Job::Change), Proceed (after Counted), Used*
//! far → near   Accepted, (Changed | Failed)* and Counted (of a removal), (Changed | Failed)*, End
//! ```
//!
//! A removal is counted first. Nothing is removed before the near end has answered by `Proceed`, and
//! then no more items than were counted. As in a listing, the far end sends on only as long as less
//! than [`MAX_LISTED_AHEAD`](crate::limits::MAX_LISTED_AHEAD) of what it has sent is unused.

use serde::{Deserialize, Serialize};

/// Request to make directories, or to remove or rename items, at the far end. Paths are as the user
/// wrote them, relative to the root that the key is confined to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeRequest {
    /// Make directories.
    MakeDirectories {
        /// Paths of the directories.
        paths: Vec<Vec<u8>>,
        /// Whether directories above them that are missing are made, and those that exist are no
        /// failure.
        mkpath: bool,
    },
    /// Remove items.
    Remove {
        /// Paths of the items, with patterns.
        paths: Vec<Vec<u8>>,
        /// Whether directories are removed, with everything in them.
        recursive: bool,
        /// Whether nothing is removed, and what would be is told.
        dry_run: bool,
        /// Whether each removed item is told.
        names: bool,
    },
    /// Rename an item.
    Rename {
        /// Path of the item.
        from: Vec<u8>,
        /// Its new path, or that of an existing directory into which the item goes.
        to: Vec<u8>,
        /// Whether an item that has the new path is replaced.
        replace: bool,
    },
}

impl ChangeRequest {
    /// Paths of the request.
    #[must_use]
    pub fn paths(&self) -> Vec<Vec<u8>> {
        match self {
            Self::MakeDirectories { paths, .. } | Self::Remove { paths, .. } => paths.clone(),
            Self::Rename { from, to, .. } => vec![from.clone(), to.clone()],
        }
    }
}

/// Message of a change: the near end agrees to a removal that was counted, the far end tells what
/// is made, removed or renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeMessage {
    /// A removal would take this much.
    Counted(ChangeCount),
    /// The near end agrees to what was counted.
    Proceed,
    /// These items are made, removed or renamed, or would be removed in a dry run.
    Changed(Vec<ChangedItem>),
    /// An item could not be changed.
    Failed {
        /// Path of the item, from the path in the request on.
        path: Vec<u8>,
        /// The reason, as a sentence for the user.
        reason: String,
    },
    /// The change has ended; in all, this much is changed, or would be removed in a dry run.
    End(ChangeCount),
    /// The near end has used messages of this [`weight`](ChangeMessage::weight) in all since its
    /// last `Used`.
    Used {
        /// Sum of the messages' weights.
        weight: u32,
    },
}

impl ChangeMessage {
    /// Memory that the message takes at most, in bytes, as far as the limit on what is sent ahead
    /// goes.
    #[must_use]
    pub fn weight(&self) -> usize {
        const BASE: usize = 64;
        BASE + match self {
            Self::Changed(items) => items.iter().map(|item| BASE + item.path.len()).sum(),
            Self::Failed { path, reason } => path.len() + reason.len(),
            Self::Counted(_) | Self::Proceed | Self::End(_) | Self::Used { .. } => 0,
        }
    }
}

/// Number of items that a change is about, or has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCount {
    /// Number of items, directories included.
    pub items: u64,
    /// Number of directories.
    pub directories: u64,
    /// Length of the regular files, in bytes; of a file with several names, once for each.
    pub bytes: u64,
}

/// An item that is made, removed or renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedItem {
    /// Path of the item: of a mirror below the destination, of a move from the source's parent, of a
    /// change from the path in the request on.
    pub path: Vec<u8>,
    /// Whether the item is a directory.
    pub is_directory: bool,
}
