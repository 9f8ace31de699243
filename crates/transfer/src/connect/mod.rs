//! How a client gets a link to a far end: [`Far`] is a far end that can be connected, and connected
//! again after a cut.
//!
//! | far end | who starts it | keys |
//! |---|---|---|
//! | `[USER@]HOST:PATH` | this end, by ssh ([`ssh`]); perhaps with its own binary ([`send_self`]) | made for this run, exchanged over ssh |
//! | `icdc://HOST/PATH` | somebody, as a daemon ([`daemon`]) | identities, `known_hosts`, `authorized_keys` |
//!
//! In both cases the data connection is TCP with TLS 1.3, and both ends know whose key the other has.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};

use icdc_tcp::{Beginning, Family, Patience};
use icdc_trust::{Identity, PublicKey, ServerPin, client_config};
use icdc_units::Span;
use rustls::ClientConfig;

use crate::event::{Event, EventSink};
use crate::link::{Link, LinkError, secure_client};
use crate::location::Location;
use crate::options::CopyOptions;
use crate::stop::StopSignal;

pub(crate) mod daemon;
mod error;
pub(crate) mod message_writer;
mod patient;
mod remote_shell;
mod send_self;
pub(crate) mod ssh;

pub use error::ConnectError;

/// Patience for a TCP connection.
pub(crate) const CONNECT_PATIENCE: Span = Span::from_secs(15);
/// Patience for a TLS handshake.
pub(crate) const HANDSHAKE_PATIENCE: Span = Span::from_secs(15);

/// A TCP connection to a port of a host, given up when `stop` is requested. `unanswered` makes an error of what the
/// port did not do.
pub(crate) fn reach(
    (host, port): (&str, u16),
    family: Family,
    beginning: &Beginning<'_>,
    stop: &StopSignal,
    unanswered: impl FnOnce(String) -> ConnectError,
) -> Result<TcpStream, ConnectError> {
    let cancel = match stop.descriptor() {
        Ok(cancel) => cancel,
        Err(error) => return Err(unanswered(error.to_string())),
    };
    let patience = Patience { timeout: CONNECT_PATIENCE, cancel: Some(cancel.as_fd()) };
    icdc_tcp::connect_with(host, port, family, patience, beginning)
        .map_err(|error| ConnectError::no_answer(error, unanswered))
}

/// The connecting end of a handshake, given up when `stop` is requested.
pub(crate) fn shake_hands(stream: TcpStream, config: Arc<ClientConfig>, stop: &StopSignal) -> Result<Link, LinkError> {
    let twin = stream.try_clone();
    let _given_up = twin.ok().map(|twin| {
        stop.while_waiting(move || {
            // It fails if the peer was faster.
            let _ = twin.shutdown(Shutdown::Both);
        })
    });
    secure_client(stream, config, HANDSHAKE_PATIENCE)
}

/// Makes a link of a connection to the holder of `key`.
pub(crate) fn pinned(
    stream: TcpStream,
    (host, port): (&str, u16),
    identity: &Identity,
    key: PublicKey,
    stop: &StopSignal,
) -> Result<Link, ConnectError> {
    let stranger = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&stranger);
    let verify = move |shown: &PublicKey| {
        if *shown == key {
            return Ok(());
        }
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(*shown);
        Err(format!("{} was expected", key.fingerprint()))
    };
    let config = client_config(identity, ServerPin::Verify(Box::new(verify)));
    shake_hands(stream, config, stop).map_err(|error| {
        let host = host.to_owned();
        let stranger = *stranger.lock().unwrap_or_else(PoisonError::into_inner);
        match stranger {
            _ if stop.is_requested() => ConnectError::Interrupted,
            Some(key) => ConnectError::WrongKey { host, port, fingerprint: key.fingerprint() },
            None => ConnectError::Handshake { host, port, reason: error.to_string() },
        }
    })
}

/// Tells that a connection is being made.
fn connecting(host: &str, port: u16) -> Event {
    let to = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    Event::Connecting { to }
}

/// A far end that can be connected and reconnected.
pub struct Far {
    path: Vec<u8>,
    name: String,
    way: Way,
    events: EventSink,
}

enum Way {
    Ssh(Box<ssh::SshFar>),
    Daemon(daemon::DaemonFar),
}

impl Far {
    /// Reaches the far end: starts it by ssh, or makes sure that the daemon is the known one. Gives up when `stop` is
    /// requested, now and in [`Far::link`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// If `location` is local.
    pub fn open(
        location: &Location,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        let way = match location {
            Location::Ssh { host, .. } => Way::Ssh(Box::new(ssh::SshFar::open(host, options, events, stop)?)),
            Location::Daemon { host, port, .. } => {
                events(connecting(host, *port));
                Way::Daemon(daemon::DaemonFar::open(host, *port, options, stop)?)
            }
            Location::Local(path) => {
                unreachable!("{} is local: nothing to connect to", path.display())
            }
        };
        let name = location.host_name().unwrap_or_default().to_owned();
        Ok(Self { path: location.path().to_vec(), name, way, events: Arc::clone(events) })
    }

    /// Connects, the first time and every further time. Starts the far side anew by ssh when its
    /// listener is gone.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn link(&mut self) -> Result<Link, ConnectError> {
        match &mut self.way {
            Way::Ssh(far) => far.link(),
            Way::Daemon(far) => far.link(&self.events),
        }
    }

    /// The path there, as the user wrote it.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Name of the host, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.clone()
    }
}
