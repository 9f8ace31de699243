//! How far a tree reaches.

use std::os::fd::OwnedFd;

/// Where the names of a tree may lead.
#[derive(Debug)]
pub(super) enum Scope {
    /// Anywhere, with the rights of this user.
    Unconfined,
    /// Beneath this directory.
    Confined { root: OwnedFd },
}
