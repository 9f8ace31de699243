//! Symbolic links at the destination that are kept where the source has a directory.

use serde::{Deserialize, Serialize};

/// Treatment of symbolic links to directories at the destination: where the source has a directory of
/// that name, the directory that the link leads to is filled, and the link stays. It must lie in the
/// destination or in one of the directories that are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryLinks {
    /// Paths of the directories outside of the destination that links may lead into, absolute or from
    /// the parent of the destination.
    pub into: Vec<Vec<u8>>,
}
