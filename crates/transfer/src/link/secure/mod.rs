//! Links over TCP, encrypted with TLS 1.3.
//!
//! ```text
//! rustls: handshake, mutual authentication ─► traffic secrets ─┬─► outlet: records out ─┐
//!                                                              │                        ├─ one socket
//!                                                              └─► inlet:  records in  ─┘
//! ```
//!
//! rustls runs the handshake and keeps the key schedule. The records after it are made and opened
//! by [`icdc_record`], because rustls keeps both directions of a connection in one object: with
//! two, a thread that waits for the socket to take data never holds up the one that receives; a
//! payload is encrypted from its block straight into the buffer of the next write and decrypted
//! from the buffer of the last read straight into its block. The two halves meet only for a key
//! update.
//!
//! What this record layer does otherwise than rustls, and within RFC 8446: errors send no alert.
//! The socket is shut down instead, which the peer takes for a cut, and after a cut it connects
//! again.

mod handshake;
mod inlet;
mod key_schedule;
mod outlet;
#[cfg(test)]
mod tests;

use std::io::Read as _;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use icdc_rate::known_paths::Resumption;
use icdc_record::{Opener, Sealer};
use icdc_tcp::TcpInfo;
use icdc_tcp::algorithm::{self, Hold};
use icdc_trust::PublicKey;
use icdc_units::{ByteCount, Rate, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::handshake::Established;
use self::inlet::SecureInlet;
use self::key_schedule::{KeySchedule, next_key, record_key};
use self::outlet::SecureOutlet;
use super::{Control, DEAD_AFTER, Link, LinkError, SendTimes};
use crate::stand_in::StandIn;
use crate::{buffers, clock, known_paths};

const NO_PANIC: &str = "no panic while a value is taken or put";

/// Time that the last bytes and the peer's farewell have when a link is closed in order.
const FAREWELL: Span = Span::from_secs(2);

/// What a link over TCP allows before it gives up or takes new keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecureSettings {
    /// Longest time without a byte from the peer while this end waits for one.
    pub dead_after: Span,
    /// Records that are sent under one key. AES-GCM is good for 2^24.5 full records (RFC 8446
    /// section 5.5); the default is 2^23, 128 GiB of payload.
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
pub fn secure_client(stream: TcpStream, config: Arc<rustls::ClientConfig>, deadline: Span) -> Result<Link, LinkError> {
    secure_client_with(stream, config, deadline, SecureSettings::default())
}

/// [`secure_client`] with other settings.
///
/// # Errors
/// As [`secure_client`].
pub fn secure_client_with(
    stream: TcpStream,
    config: Arc<rustls::ClientConfig>,
    deadline: Span,
    settings: SecureSettings,
) -> Result<Link, LinkError> {
    let peer = peer_name(&stream);
    send_at_once(&stream, &peer)?;
    let established = handshake::client(&stream, &peer, config, deadline)?;
    link(stream, peer, established, settings)
}

/// Runs the listening end of a handshake and returns the link. The peer's key is then known
/// ([`LinkControl::peer_key`](super::LinkControl::peer_key)) and accepted by `config`.
///
/// # Errors
/// As [`secure_client`].
pub fn secure_server(stream: TcpStream, config: Arc<rustls::ServerConfig>, deadline: Span) -> Result<Link, LinkError> {
    secure_server_with(stream, config, deadline, SecureSettings::default())
}

/// [`secure_server`] with other settings.
///
/// # Errors
/// As [`secure_client`].
pub fn secure_server_with(
    stream: TcpStream,
    config: Arc<rustls::ServerConfig>,
    deadline: Span,
    settings: SecureSettings,
) -> Result<Link, LinkError> {
    let peer = peer_name(&stream);
    send_at_once(&stream, &peer)?;
    let established = handshake::server(&stream, &peer, config, deadline)?;
    link(stream, peer, established, settings)
}

/// Flights of the handshake and frames are gathered into large writes here; the last piece of one
/// must not wait for an acknowledgement.
fn send_at_once(stream: &TcpStream, peer: &str) -> Result<(), LinkError> {
    stream.set_nodelay(true).map_err(|error| LinkError::io(peer, "setsockopt(TCP_NODELAY)", error))
}

fn link(
    stream: TcpStream,
    peer: String,
    established: Established,
    settings: SecureSettings,
) -> Result<Link, LinkError> {
    let Established { transmit, receive, schedule, peer_key, cipher, role, early } = established;
    let no_key =
        |error: rustls::Error| LinkError::Handshake { peer: peer.clone(), reason: icdc_trust::explain(&error) };
    let (transmit, receive) = (record_key(&transmit).map_err(no_key)?, record_key(&receive).map_err(no_key)?);
    let schedule = Arc::new(schedule);
    let sealer = Sealer::new(transmit, next_key(&schedule, KeySchedule::next_transmit), settings.records_per_key);
    let mut opener = Opener::new(receive, next_key(&schedule, KeySchedule::next_receive), role, inlet::BUFFER);
    opener.room()[..early.len()].copy_from_slice(&early);
    opener.arrived(early.len());
    let deadlines =
        stream.set_read_timeout(Some(settings.dead_after.into())).and_then(|()| stream.set_write_timeout(None));
    deadlines.map_err(|error| LinkError::io(&peer, "setsockopt(SO_RCVTIMEO)", error))?;
    let connection = Arc::new(Connection {
        stream,
        peer,
        peer_key,
        cipher,
        key_update_wanted: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
        said_farewell: AtomicBool::new(false),
        heard_end: AtomicBool::new(false),
        congestion: Mutex::default(),
        known: Mutex::default(),
        stand_in: Mutex::default(),
        encrypt_nanos: AtomicU64::new(0),
        socket_nanos: AtomicU64::new(0),
        payload_received: AtomicU64::new(0),
        overhead_sent: AtomicU64::new(0),
    });
    let outlet = SecureOutlet::new(Arc::clone(&connection), sealer);
    let inlet = SecureInlet::new(Arc::clone(&connection), opener, settings.dead_after);
    Ok(Link::new(outlet, inlet, connection))
}

/// What the two halves and the control share.
struct Connection {
    stream: TcpStream,
    peer: String,
    peer_key: PublicKey,
    cipher: &'static str,
    /// The peer asked for new keys in the outlet's direction too.
    key_update_wanted: AtomicBool,
    /// This end has shut the connection down.
    stopped: AtomicBool,
    /// The outlet has ended its direction in order.
    said_farewell: AtomicBool,
    /// The inlet has seen the end of its direction, of whatever kind.
    heard_end: AtomicBool,
    /// Keeps the congestion control loaded for further connections.
    congestion: Mutex<Option<Hold>>,
    /// What was known of the path when it was chosen.
    known: Mutex<Option<Resumption>>,
    stand_in: Mutex<StandIn>,
    encrypt_nanos: AtomicU64,
    socket_nanos: AtomicU64,
    /// Bytes of payload that the inlet has decrypted.
    payload_received: AtomicU64,
    /// Bytes that the outlet has written and that were no payload.
    overhead_sent: AtomicU64,
}

impl Connection {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// What an error of the socket means.
    fn io(&self, call: &'static str, error: std::io::Error) -> LinkError {
        if self.is_stopped() { LinkError::Stopped } else { LinkError::io(&self.peer, call, error) }
    }

    fn cut(&self) -> LinkError {
        if self.is_stopped() { LinkError::Stopped } else { LinkError::Cut { peer: self.peer.clone() } }
    }

    /// Ends the connection without a farewell.
    fn abort(&self) {
        // It fails if the peer was faster, and then there is nothing left to end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Control for Connection {
    fn shutdown(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.abort();
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn is_hung_up(&self) -> bool {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut watched = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        poll(&mut watched, Some(&Timespec::default())).is_ok() && watched[0].revents().intersects(gone)
    }

    fn tcp_info(&self) -> Option<TcpInfo> {
        icdc_tcp::info(&self.stream).ok()
    }

    fn received(&self) -> ByteCount {
        ByteCount::new(self.payload_received.load(Ordering::Relaxed))
    }

    fn delivered(&self) -> ByteCount {
        let Some(info) = self.tcp_info() else { return ByteCount::ZERO };
        let overhead = ByteCount::new(self.overhead_sent.load(Ordering::Relaxed));
        info.bytes_acked + info.mss * u64::from(info.sacked) - overhead
    }

    fn set_rate(&self, rate: Rate) {
        if let Err(error) = icdc_tcp::set_pacing_rate(&self.stream, rate) {
            tracing::debug!("{}: pacing rate not set: {error}", self.peer);
        }
    }

    fn set_congestion(&self, name: Option<&str>) -> Result<Option<String>, String> {
        buffers::prepare_to_send(&self.stream);
        let chosen = match name {
            None => {
                let known = known_paths::resume(&self.stream);
                *self.known.lock().expect(NO_PANIC) = known;
                algorithm::choose_best(&self.stream, known)
            }
            Some(name) => algorithm::choose(&self.stream, name),
        };
        let chosen = chosen.map_err(|error| error.to_string())?;
        *self.congestion.lock().expect(NO_PANIC) = chosen.hold;
        Ok(chosen.instead)
    }

    fn known_path(&self) -> Option<Resumption> {
        *self.known.lock().expect(NO_PANIC)
    }

    fn stand_in(&self, work: &mut dyn FnMut(&mut StandIn, &TcpStream)) {
        work(&mut self.stand_in.lock().expect(NO_PANIC), &self.stream);
    }

    fn remember_path(&self, found: Resumption) {
        known_paths::remember(&self.stream, found);
    }

    fn congestion(&self) -> Option<String> {
        let own = self.stand_in.lock().expect(NO_PANIC).own().map(str::to_owned);
        own.or_else(|| icdc_tcp::congestion(&self.stream).ok())
    }

    fn send_times(&self) -> SendTimes {
        SendTimes {
            encrypt: Span::from_nanos(self.encrypt_nanos.load(Ordering::Relaxed)),
            socket: Span::from_nanos(self.socket_nanos.load(Ordering::Relaxed)),
        }
    }

    fn peer_key(&self) -> Option<PublicKey> {
        Some(self.peer_key)
    }

    fn cipher(&self) -> Option<&'static str> {
        Some(self.cipher)
    }
}

impl Drop for Connection {
    /// Closing a socket that holds unread data resets the connection, which takes the farewell from
    /// the peer that has not read it yet. So after a farewell what still arrives is read away, up
    /// to the peer's end.
    fn drop(&mut self) {
        if !self.said_farewell.load(Ordering::SeqCst) || self.heard_end.load(Ordering::SeqCst) || self.is_stopped() {
            return;
        }
        let end = clock::now() + FAREWELL;
        let mut scrap = [0; 16 << 10];
        loop {
            let left = end - clock::now();
            if left == Span::ZERO || self.stream.set_read_timeout(Some(left.into())).is_err() {
                return;
            }
            if !matches!((&self.stream).read(&mut scrap), Ok(1..)) {
                return;
            }
        }
    }
}

fn peer_name(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "a peer that is gone".to_owned(), |address| address.to_string())
}
