//! Links from a client to a far end. [`Far`] is a far end that can be connected, and connected
//! again after a cut.
//!
//! | far end | who starts it | keys |
//! |---|---|---|
//! | `[USER@]HOST:PATH` | this end, by ssh (`ssh`); perhaps with its own binary (`send_self`) | made for this run, exchanged over ssh |
//! | `icdc://HOST/PATH` | its operator, as a daemon (`daemon`) | identities, `known_hosts`, `authorized_keys` |
//!
//! Data connections use TLS 1.3, and both ends know each other's key. To a daemon they are TCP; to
//! a far end that ssh has started they take one of the `routes`. In both cases the user may name
//! a proxy (`by_proxy`).

mod ahead;
pub mod back;
mod builds;
mod by_datagrams;
mod by_proxy;
mod connect_for_ssh;
pub(crate) mod daemon;
mod error;
mod far;
mod far_program;
mod foreign_text;
mod logins;
mod machine;
mod patient;
mod pool;
mod preamble;
mod processes;
mod race;
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
pub use connect_for_ssh::connect_for_ssh;
pub use error::ConnectError;
pub use far::Far;
pub use machine::Machine;
pub use preamble::greeting;
pub use reach::{pinned, reach};

/// Function that makes the further link of a given number to a far end that has been reached; it
/// gives up when the signal is requested.
pub type Further<'a> = Box<dyn Fn(u8, &StopSignal) -> Result<Link, ConnectError> + Send + Sync + 'a>;

/// Function that finds out whether datagrams reach the far end, and has a connection ready for the next session if they do; it
/// gives up when the signal is requested.
pub type Reaches = Box<dyn Fn(&StopSignal) -> bool + Send + Sync>;

/// Function that makes the connection of a given number to the port of a far end that has been
/// reached, by the same route.
pub(crate) type Dial = Box<dyn Fn(u8, &StopSignal) -> Result<Carrier, ConnectError> + Send + Sync>;

/// A far end to which a session's links can be made; the way it is reached does not matter to the
/// session.
pub trait Connect: Send {
    /// Makes the first link of a session, the first time and again after a cut.
    ///
    /// # Errors
    /// See [`ConnectError`].
    fn link(&mut self) -> Result<Link, ConnectError>;

    /// Returns a function that makes further links to the far end of the last [`Self::link`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    fn further(&mut self) -> Result<Further<'_>, ConnectError>;

    /// Returns a function that finds out whether datagrams reach the far end of the last [`Self::link`]; `None` where they carry
    /// its session already, or may not, or are known to be of no use.
    fn datagrams(&self) -> Option<Reaches> {
        None
    }

    /// True if the session of the last [`Self::link`] goes over datagrams although the user has not asked for it.
    fn is_over_datagrams(&self) -> bool {
        false
    }

    /// Has later links go over datagrams, which [`Self::datagrams`] has found to reach the far end.
    fn take_datagrams(&mut self) {}

    /// Has later links go over TCP again, as datagrams do not arrive or carry less than that.
    fn leave_datagrams(&mut self) {}

    /// Maximum number of links, the first included, that can be made without a question to the
    /// user.
    fn most_links(&self) -> u8 {
        MAX_STREAMS
    }

    /// Minimum number of links, the first included, that use every egress that the user has named.
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

    fn datagrams(&self) -> Option<Reaches> {
        Self::datagrams(self)
    }

    fn is_over_datagrams(&self) -> bool {
        Self::is_over_datagrams(self)
    }

    fn take_datagrams(&mut self) {
        Self::take_datagrams(self);
    }

    fn leave_datagrams(&mut self) {
        Self::leave_datagrams(self);
    }

    fn most_links(&self) -> u8 {
        Self::most_links(self)
    }

    fn least_links(&self) -> u8 {
        Self::least_links(self)
    }
}
