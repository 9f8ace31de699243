//! TCP connections and TLS handshakes: from a host and a port to a link.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};

use icdc_link::{Carrier, Link, LinkError, secure_client};
use icdc_stop::StopSignal;
use icdc_tcp::{Family, Patience, SocketSettings};
use icdc_transfer::Event;
use icdc_trust::{Identity, PublicKey, ServerPin, client_config};
use icdc_units::Span;
use rustls::ClientConfig;

use super::error::ConnectError;
use super::machine::Machine;

/// Time limit for making a TCP connection.
pub(super) const CONNECT_TIMEOUT: Span = Span::from_secs(15);
/// Time limit for a TLS handshake.
const HANDSHAKE_TIMEOUT: Span = Span::from_secs(15);

/// Makes a TCP connection to a port of a host, on its `machine` if that is known; gives up when
/// `stop` is requested. `unanswered` makes the error from the reason if the port does not answer.
pub fn reach(
    place: (&str, u16),
    machine: &Machine,
    family: Family,
    settings: &SocketSettings<'_>,
    stop: &StopSignal,
    unanswered: impl FnOnce(String) -> ConnectError,
) -> Result<TcpStream, ConnectError> {
    let cancel = match stop.descriptor() {
        Ok(cancel) => cancel,
        Err(error) => return Err(unanswered(error.to_string())),
    };
    let patience = Patience { timeout: CONNECT_TIMEOUT, cancel: Some(cancel.as_fd()) };
    machine.connect(place, family, patience, settings).map_err(|error| ConnectError::no_answer(error, unanswered))
}

/// Runs the connecting end of a TLS handshake over a connection; gives up when `stop` is requested.
pub(super) fn shake_hands(
    carrier: impl Into<Carrier>,
    config: Arc<ClientConfig>,
    stop: &StopSignal,
) -> Result<Link, LinkError> {
    let carrier = carrier.into();
    let twin = carrier.clone();
    let _given_up = stop.while_waiting(move || {
        // It fails if the peer was faster.
        let _ = twin.shutdown(Shutdown::Both);
    });
    secure_client(carrier, config, HANDSHAKE_TIMEOUT)
}

/// Makes a link of a connection, if the peer proves to hold `key`; [`ConnectError::WrongKey`] if
/// not.
pub fn pinned(
    carrier: impl Into<Carrier>,
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
    shake_hands(carrier, config, stop).map_err(|error| {
        let host = host.to_owned();
        let stranger = *stranger.lock().unwrap_or_else(PoisonError::into_inner);
        match stranger {
            _ if stop.is_requested() => ConnectError::Interrupted,
            Some(key) => ConnectError::WrongKey { host, port, fingerprint: key.fingerprint() },
            None => ConnectError::of_handshake(error, &host, port),
        }
    })
}

/// Event that says that a connection is being made to `host`.
pub(super) fn connecting(host: &str, port: u16) -> Event {
    let to = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    Event::Connecting { to }
}
