//! What a process with more rights does for the sockets of one with fewer.
//!
//! A session of a daemon runs as its key's user, and without any capability. A few tasks need the
//! daemon's rights all the same: known paths are remembered, and socket buffers enlarged. The daemon
//! does them. Every task concerns a socket that the session has; the addresses of a path are read from
//! that socket, so that nothing a user chooses says where anything is remembered.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use icdc_rate::known_paths::Resumption;

/// The process with more rights, as the one with fewer sees it. One that does not answer in time has
/// done nothing.
pub trait Lender: Send + Sync {
    /// As [`known_paths::resume`](crate::known_paths::resume).
    fn known_path(&self, socket: BorrowedFd<'_>) -> Option<Resumption>;

    /// Remembers what a connection found.
    fn remember_path(&self, socket: BorrowedFd<'_>, found: Resumption);

    /// As [`buffers::prepare_to_send`](crate::buffers::prepare_to_send).
    fn prepare_to_send(&self, socket: BorrowedFd<'_>);
}

static LENDER: OnceLock<Box<dyn Lender>> = OnceLock::new();

/// From now on this process has `lender` do what it may not do itself. The first one counts.
pub fn borrow_from(lender: Box<dyn Lender>) {
    let _ = LENDER.set(lender);
}

/// Whom this process asks; `None` for one that has all rights that its user has.
pub(crate) fn lender() -> Option<&'static dyn Lender> {
    LENDER.get().map(AsRef::as_ref)
}
