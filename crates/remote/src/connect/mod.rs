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

pub use error::ConnectError;
pub use far::Far;
pub(crate) use reach::{pinned, reach};
