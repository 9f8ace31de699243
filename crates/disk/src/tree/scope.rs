//! Scope of a tree.

use std::os::fd::OwnedFd;

/// Places that names of a tree may lead to.
#[derive(Debug)]
pub(super) enum Scope {
    /// Anywhere, with the rights of this user.
    Unconfined,
    /// Beneath this directory.
    Confined { root: OwnedFd },
}
