//! Access of a key to the files beneath its root.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Identifier of a drop box: the 32 bytes of the public key that owns it.
pub type Owner = [u8; 32];

/// Access of a key to the files beneath its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Files may be fetched only.
    Read,
    /// Files may be delivered only, also in place of existing ones.
    Write,
    /// Files may be fetched and delivered.
    ReadWrite,
    /// Only new files may be delivered: nothing is replaced, removed, read or listed.
    DropBox {
        /// Key by which unfinished files are kept apart from those of other keys.
        owner: Owner,
    },
}

impl Access {
    /// Parses the value of `rights=`; returns a function from the key of the line to its access,
    /// `None` for an unknown value.
    pub(super) fn parse(text: &str) -> Option<fn(Owner) -> Self> {
        match text {
            "r" => Some(|_| Self::Read),
            "w" => Some(|_| Self::Write),
            "rw" | "wr" => Some(|_| Self::ReadWrite),
            "drop-box" => Some(|owner| Self::DropBox { owner }),
            _ => None,
        }
    }

    /// Whether files may be fetched.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether files may be delivered.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite | Self::DropBox { .. })
    }

    /// Owner of the drop box; `None` if the access is not to a drop box.
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
