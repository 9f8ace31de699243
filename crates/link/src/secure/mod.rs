//! Links over TCP, encrypted with TLS 1.3.
//!
//! ```text
//! rustls: handshake, mutual authentication ─► traffic secrets ─┬─► outlet: records out ─┐
//!                                                              │                        ├─ one socket
//!                                                              └─► inlet:  records in  ─┘
//! ```
//!
//! rustls runs the handshake. The records after it are made and opened by [`icdc_record`], under
//! keys of [`key_schedule`], because rustls keeps both directions of a connection in one object:
//! with two, a thread that waits for the socket to take data never holds up the one that receives;
//! a payload is encrypted from its block straight into the buffer of the next write and decrypted
//! from the buffer of the last read straight into its block. The two halves meet only for a key
//! update.
//!
//! What this record layer does otherwise than rustls, and within RFC 8446: errors send no alert.
//! The socket is shut down instead, which the peer takes for a cut, and after a cut it connects
//! again.

mod carrier;
mod connection;
mod handed_over;
mod handshake;
mod inlet;
mod key_schedule;
mod outlet;
mod state;
#[cfg(test)]
mod tests;
mod write_clock;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use icdc_record::{Opener, RecordError, Sealer};
use icdc_tcp::clock;
use icdc_units::Span;

pub use self::carrier::{Carrier, Forwarded, ForwardingProgram, OverDatagrams, OwnConnection};
use self::connection::Connection;
pub use self::handed_over::{HandedOver, LinkState};
use self::handshake::Established;
use self::inlet::SecureInlet;
use self::outlet::SecureOutlet;
pub use self::state::{InletState, OutletState};
pub use self::write_clock::SharedPacer;
use crate::error::LinkError;
use crate::halves::DEAD_AFTER;
use crate::link::Link;

/// Limits of a secure link: when it gives up and when it changes keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecureSettings {
    /// Maximum time without a byte from the peer while this end waits for one.
    pub dead_after: Span,
    /// Number of records that are sent under one key. AES-GCM is good for 2^24.5 full records (RFC
    /// 8446 section 5.5); the default is 2^23, 128 GiB of payload.
    pub records_per_key: u64,
}

impl Default for SecureSettings {
    fn default() -> Self {
        Self { dead_after: DEAD_AFTER, records_per_key: 1 << 23 }
    }
}

/// Runs the connecting end of a handshake and returns the link.
///
/// The server's verdict on this end's key comes after the handshake: if it refuses, the first
/// `receive` fails with [`LinkError::KeyRefused`].
///
/// # Errors
/// If the handshake fails, or is not complete when `deadline` has passed since the call, however
/// busy the peer keeps the line.
pub fn secure_client(
    stream: impl Into<Carrier>,
    config: Arc<rustls::ClientConfig>,
    deadline: Span,
) -> Result<Link, LinkError> {
    secure_client_with(stream, config, deadline, SecureSettings::default())
}

/// [`secure_client`] with other settings.
///
/// # Errors
/// As [`secure_client`].
pub fn secure_client_with(
    stream: impl Into<Carrier>,
    config: Arc<rustls::ClientConfig>,
    deadline: Span,
    settings: SecureSettings,
) -> Result<Link, LinkError> {
    let (carrier, peer) = prepared(stream)?;
    let begin = clock::now();
    let established = handshake::client(&carrier, &peer, config, deadline)?;
    link(carrier, peer, established, Some(clock::now() - begin), settings)
}

/// Runs the listening end of a handshake and returns the link. The peer's key is then known
/// ([`LinkControl::peer_key`](crate::LinkControl::peer_key)) and accepted by `config`.
///
/// # Errors
/// As [`secure_client`].
pub fn secure_server(
    stream: impl Into<Carrier>,
    config: Arc<rustls::ServerConfig>,
    deadline: Span,
) -> Result<Link, LinkError> {
    secure_server_with(stream, config, deadline, SecureSettings::default())
}

/// [`secure_server`] with other settings.
///
/// # Errors
/// As [`secure_client`].
pub fn secure_server_with(
    stream: impl Into<Carrier>,
    config: Arc<rustls::ServerConfig>,
    deadline: Span,
    settings: SecureSettings,
) -> Result<Link, LinkError> {
    let (carrier, peer) = prepared(stream)?;
    let established = handshake::server(&carrier, &peer, config, deadline)?;
    link(carrier, peer, established, None, settings)
}

/// Converts a stream to a carrier that sends small writes at once; returns it with the name of its
/// peer.
fn prepared(stream: impl Into<Carrier>) -> Result<(Carrier, String), LinkError> {
    let carrier = stream.into();
    let peer = carrier.peer();
    carrier.send_at_once().map_err(|error| LinkError::io(&peer, "setsockopt(TCP_NODELAY)", error))?;
    Ok((carrier, peer))
}

/// Link over a carrier whose handshake is complete. `handshake_time` is `None` at the listening
/// end.
fn link(
    carrier: Carrier,
    peer: String,
    established: Established,
    handshake_time: Option<Span>,
    settings: SecureSettings,
) -> Result<Link, LinkError> {
    let Parts { outlet, inlet, connection } = assemble(carrier, peer, established, handshake_time, settings)?;
    Ok(Link::new(outlet, inlet, connection))
}

/// Parts from which a secure link is assembled.
struct Parts {
    outlet: SecureOutlet,
    inlet: SecureInlet,
    connection: Arc<Connection>,
}

/// Sets up both halves of a link after a handshake, or after a handover from another process.
fn assemble(
    carrier: Carrier,
    peer: String,
    established: Established,
    handshake_time: Option<Span>,
    settings: SecureSettings,
) -> Result<Parts, LinkError> {
    let Established { transmit, receive, peer_key, version, role, early } = established;
    let no_key = |error: RecordError| LinkError::Handshake { peer: peer.clone(), reason: error.to_string() };
    let (send_key, receive_key) = (transmit.record_key().map_err(no_key)?, receive.record_key().map_err(no_key)?);
    let cipher = transmit.suite();
    let sealer = Sealer::new(send_key, transmit.next_keys(), settings.records_per_key);
    let mut opener = Opener::new(receive_key, receive.next_keys(), role, inlet::BUFFER);
    opener.room()[..early.len()].copy_from_slice(&early);
    opener.arrived(early.len());
    let step = settings.dead_after / inlet::STEPS;
    let deadlines = carrier.set_read_timeout(Some(step)).and_then(|()| carrier.set_write_timeout(None));
    deadlines.map_err(|error| LinkError::io(&peer, "setsockopt(SO_RCVTIMEO)", error))?;
    let connection = Arc::new(Connection {
        carrier,
        peer,
        peer_key,
        version,
        cipher,
        handshake_time,
        key_update_wanted: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
        said_farewell: AtomicBool::new(false),
        heard_end: AtomicBool::new(false),
        encrypt_nanos: AtomicU64::new(0),
        socket_nanos: AtomicU64::new(0),
        silence_nanos: AtomicU64::new(0),
        payload_received: AtomicU64::new(0),
        overhead_sent: AtomicU64::new(0),
    });
    let outlet = SecureOutlet::new(Arc::clone(&connection), sealer, transmit);
    let inlet = SecureInlet::new(Arc::clone(&connection), opener, receive, settings.dead_after);
    Ok(Parts { outlet, inlet, connection })
}
