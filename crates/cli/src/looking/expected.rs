//! Contents that an item should have, by a list of digests or a receipt.

use std::sync::Arc;

/// Contents that an item of a list should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A regular file with this digest.
    File(Vec<u8>),
    /// A further name of a regular file, which has one of these digests: a receipt tells size and time only, and these
    /// are of the files that have both.
    OneOf(Arc<[Vec<u8>]>),
    /// A symbolic link, with the digest of its target.
    Link(Vec<u8>),
}

impl Expected {
    /// Whether contents of this digest are what is expected.
    pub(super) fn is(&self, digest: &[u8]) -> bool {
        match self {
            Self::File(expected) | Self::Link(expected) => expected == digest,
            Self::OneOf(expected) => expected.iter().any(|expected| expected == digest),
        }
    }
}
