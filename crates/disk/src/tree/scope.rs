//! Scope of a tree.

use std::os::fd::OwnedFd;

/// Scope of a tree: where its names may lead.
#[derive(Debug)]
pub(super) enum Scope {
    /// Names may lead anywhere, with the rights of this user.
    Unconfined,
    /// Names lead only beneath this directory.
    Confined { root: OwnedFd },
}
