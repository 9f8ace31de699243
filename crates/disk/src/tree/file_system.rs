//! A file system that is flushed as a whole.

use std::os::fd::OwnedFd;

use super::error::{Result, TreeError};

/// An open file system, which can be flushed. The kernel reports lost data once to each descriptor
/// that was open when they were lost: one that is opened later may miss a loss that was reported
/// to another process.
#[derive(Debug)]
pub struct FileSystem {
    descriptor: OwnedFd,
    path: String,
}

impl FileSystem {
    /// File system of `descriptor`, which was opened at the printable `path`.
    pub(super) fn new(descriptor: OwnedFd, path: String) -> Self {
        Self { descriptor, path }
    }

    /// Makes everything on the file system durable: one call in place of one for each of many small
    /// files.
    ///
    /// # Errors
    /// Errors of `syncfs`.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.descriptor).map_err(|errno| TreeError::new("syncfs", self.path.clone(), errno))
    }
}
