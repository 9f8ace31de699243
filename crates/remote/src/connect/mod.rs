//! How a client gets a link to a far end: [`Far`] is a far end that can be connected, and connected
//! again after a cut.
//!
//! | far end | who starts it | keys |
//! |---|---|---|
//! | `[USER@]HOST:PATH` | this end, by ssh ([`ssh`]); perhaps with its own binary ([`send_self`]) | made for this run, exchanged over ssh |
//! | `icdc://HOST/PATH` | somebody, as a daemon ([`daemon`]) | identities, `known_hosts`, `authorized_keys` |
//!
//! In both cases the data connection is TCP with TLS 1.3, and both ends know whose key the other
//! has.

pub(crate) mod daemon;
mod error;
mod far;
mod patient;
mod reach;
mod remote_shell;
mod send_self;
pub(crate) mod ssh;

use icdc_link::Link;

pub use error::ConnectError;
pub use far::Far;
pub(crate) use reach::{pinned, reach};

/// Makes a further connection to a far end that has been reached.
pub(crate) type Further<'a> = Box<dyn Fn() -> Result<Link, ConnectError> + Send + Sync + 'a>;

/// Connects to a far end.
pub(crate) trait Connect: Send {
    /// Makes the first link of a session, the first time and again after a cut.
    ///
    /// # Errors
    /// See [`ConnectError`].
    fn link(&mut self) -> Result<Link, ConnectError>;

    /// What makes further links to the same far end.
    ///
    /// # Errors
    /// See [`ConnectError`].
    fn further(&mut self) -> Result<Further<'_>, ConnectError>;
}

impl Connect for Far {
    fn link(&mut self) -> Result<Link, ConnectError> {
        Self::link(self)
    }

    fn further(&mut self) -> Result<Further<'_>, ConnectError> {
        Self::further(self)
    }
}
