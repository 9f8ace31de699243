//! The privileges with which a process tunes its sockets: its own, or those of a helper process.
//!
//! A session of a daemon runs as its key's user and without any capability. A few operations on its
//! sockets need the daemon's privileges all the same: it loads congestion control, enlarges buffers
//! and remembers known paths. The daemon carries them out as the session's helper. The addresses of
//! a path are read from the socket, so that nothing a user chooses says where anything is
//! remembered.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use icdc_rate::known_paths::Resumption;

use crate::congestion::PathHints;

/// A process with more privileges, such as a session's daemon, that carries out operations on
/// sockets of this process. If it does not answer in time, it has done nothing.
pub trait PrivilegedHelper: Send + Sync {
    /// Sets the congestion control of a socket to `algorithm`, one of icdc's own, and passes the
    /// hints about the socket to it. Returns whether the algorithm has received the hints, or why
    /// the socket cannot have it; `None` if there is no answer.
    fn set_congestion(
        &self,
        socket: BorrowedFd<'_>,
        algorithm: &str,
        hints: &PathHints,
    ) -> Option<Result<bool, String>>;

    /// Looks up what earlier connections found about the path of a socket: its rate and round-trip
    /// time; `None` if nothing is known, or there is no answer.
    fn known_path(&self, socket: BorrowedFd<'_>) -> Option<Resumption>;

    /// Remembers for later connections what this one found about its path.
    fn remember_path(&self, socket: BorrowedFd<'_>, found: Resumption);

    /// Enlarges the send buffer of a socket whose path is long.
    fn prepare_to_send(&self, socket: BorrowedFd<'_>);
}

/// With whose privileges sockets are tuned: this process's own, or those of a helper process.
/// Clones share the helper.
#[derive(Clone, Default)]
pub struct Privileges(Option<Arc<dyn PrivilegedHelper>>);

impl Privileges {
    /// Privileges of this process itself.
    #[must_use]
    pub const fn own() -> Self {
        Self(None)
    }

    /// Privileges of `helper`, which is asked for every operation that needs them.
    #[must_use]
    pub fn of_helper(helper: Arc<dyn PrivilegedHelper>) -> Self {
        Self(Some(helper))
    }

    /// The helper to ask; `None` where this process uses its own privileges.
    #[must_use]
    pub fn helper(&self) -> Option<&dyn PrivilegedHelper> {
        self.0.as_deref()
    }
}

impl fmt::Debug for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Privileges(of a helper)" } else { "Privileges(own)" })
    }
}
