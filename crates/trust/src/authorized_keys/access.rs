//! Access of a key to the files beneath its root.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of the key whose drop box it is.
pub type Owner = [u8; 32];

/// Access to the files beneath a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Files may be fetched.
    Read,
    /// Files may be delivered, also in place of others.
    Write,
    /// Both.
    ReadWrite,
    /// Files that are not there yet may be delivered: nothing is replaced, removed, read or listed.
    DropBox {
        /// Unfinished files are kept apart from those of other keys by this.
        owner: Owner,
    },
}

impl Access {
    /// Reads the value of `rights=`; what it is for the key of the line.
    pub(super) fn parse(text: &str) -> Option<fn(Owner) -> Self> {
        match text {
            "r" => Some(|_| Self::Read),
            "w" => Some(|_| Self::Write),
            "rw" | "wr" => Some(|_| Self::ReadWrite),
            "drop-box" => Some(|owner| Self::DropBox { owner }),
            _ => None,
        }
    }

    /// Files may be fetched.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Files may be delivered.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite | Self::DropBox { .. })
    }

    /// Owner of the drop box, if it is one.
    #[must_use]
    pub fn drop_box(self) -> Option<Owner> {
        match self {
            Self::DropBox { owner } => Some(owner),
            Self::Read | Self::Write | Self::ReadWrite => None,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadWrite => "rw",
            Self::Read => "r",
            Self::Write => "w",
            Self::DropBox { .. } => "drop-box",
        })
    }
}
