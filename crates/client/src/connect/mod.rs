//! How a client gets a link to a far end: [`Far`] is a far end that can be connected, and connected
//! again after a cut.
//!
//! | far end | who starts it | keys |
//! |---|---|---|
//! | `[USER@]HOST:PATH` | this end, by ssh ([`ssh`]); perhaps with its own binary ([`send_self`]) | made for this run, exchanged over ssh |
//! | `icdc://HOST/PATH` | somebody, as a daemon ([`daemon`]) | identities, `known_hosts`, `authorized_keys` |
//!
//! Data connections have TLS 1.3, and both ends know whose key the other has. To a daemon they are
//! TCP; to a far end that ssh has started they take one of the [`routes`]. To either the user may
//! have them go by way of a proxy ([`by_proxy`]).

mod ahead;
pub mod back;
mod builds;
mod by_proxy;
pub(crate) mod daemon;
mod error;
mod far;
mod far_program;
mod foreign_text;
mod logins;
mod patient;
mod pool;
mod preamble;
mod processes;
mod reach;
mod remote_shell;
mod routes;
mod send_self;
pub(crate) mod ssh;
mod through_ssh;

use icdc_link::{Carrier, Link};
use icdc_protocol::limits::MAX_STREAMS;
use icdc_stop::StopSignal;

pub(crate) use ahead::Need;
pub use error::ConnectError;
pub use far::Far;
pub use preamble::greeting;
pub use reach::{pinned, reach};

/// Makes a further connection, of this number in its session, to a far end that has been reached;
/// gives up when the signal is requested.
pub type Further<'a> = Box<dyn Fn(u8, &StopSignal) -> Result<Link, ConnectError> + Send + Sync + 'a>;

/// Makes a connection, of this number, to the port of a far end that has been reached, by the same
/// route.
pub(crate) type Dial = Box<dyn Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Send + Sync>;

/// Connects to a far end.
pub trait Connect: Send {
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

    /// The most links, the first included, that can be made without a question to the user.
    fn most_links(&self) -> u8 {
        MAX_STREAMS
    }

    /// The least links, the first included, that leave this host by all that the user has named.
    fn least_links(&self) -> u8 {
        1
    }
}

impl Connect for Far {
    fn link(&mut self) -> Result<Link, ConnectError> {
        Self::link(self)
    }

    fn further(&mut self) -> Result<Further<'_>, ConnectError> {
        Ok(Self::further(self))
    }

    fn most_links(&self) -> u8 {
        Self::most_links(self)
    }

    fn least_links(&self) -> u8 {
        Self::least_links(self)
    }
}
