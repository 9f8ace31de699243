//! Handshakes: rustls' unbuffered connections over a socket with a deadline for the whole.
//!
//! rustls is fed one record at a time, so that what the peer sends right behind its last handshake
//! message is never decrypted by it, but left for the link's own record layer.

use std::io;
use std::sync::Arc;

use icdc_protocol::Versions;
use icdc_protocol::version::{LONGEST_LINE, NONE_IN_COMMON, version_named};
use icdc_record::Role;
use icdc_record::format::HEADER;
use icdc_tcp::{TcpInfo, clock};
use icdc_trust::PublicKey;
use icdc_units::{Span, Time};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, ExtractedSecrets, ServerConfig};

use super::carrier::Carrier;
use super::key_schedule::{Direction, FirstSecrets, TrafficSecret, cipher_of};
use crate::error::LinkError;

/// Maximum number of handshake bytes that are buffered: a handshake of raw public keys takes about
/// 2 KiB from either side, and a stranger is not allowed much more.
const MAX_BUFFERED: usize = 64 << 10;
/// Maximum length of the body of a record in a handshake (RFC 8446 section 5.2).
const MAX_BODY: usize = (1 << 14) + 256;

/// Result of a completed TLS handshake.
pub(super) struct Established {
    pub(super) transmit: Direction,
    pub(super) receive: Direction,
    pub(super) peer_key: PublicKey,
    /// Protocol version that was agreed upon.
    pub(super) version: u32,
    pub(super) role: Role,
    /// Bytes that arrived behind the handshake.
    pub(super) early: Vec<u8>,
}

/// Runs the connecting end of a TLS handshake over `carrier`.
pub(super) fn client(
    carrier: &Carrier,
    peer: &str,
    config: Arc<ClientConfig>,
    deadline: Span,
) -> Result<Established, LinkError> {
    let first = Arc::<FirstSecrets>::default();
    let mut config = ClientConfig::clone(&config);
    config.key_log = first.clone();
    let offered = Versions::named(&config.alpn_protocols);
    let connection = UnbufferedClientConnection::new(config.into(), icdc_trust::server_name());
    Handshake::new(carrier, peer, deadline, first, offered).run(connection)
}

/// Runs the listening end of a TLS handshake over `carrier`.
pub(super) fn server(
    carrier: &Carrier,
    peer: &str,
    config: Arc<ServerConfig>,
    deadline: Span,
) -> Result<Established, LinkError> {
    let first = Arc::<FirstSecrets>::default();
    let mut config = ServerConfig::clone(&config);
    config.key_log = first.clone();
    let offered = Versions::named(&config.alpn_protocols);
    Handshake::new(carrier, peer, deadline, first, offered).run(UnbufferedServerConnection::new(config.into()))
}

/// A TLS handshake in progress.
struct Handshake<'a> {
    socket: Socket<'a>,
    /// Bytes that have arrived and are not used up.
    incoming: Vec<u8>,
    /// Number of these bytes that rustls may see: whole records.
    shown: usize,
    outgoing: Vec<u8>,
    first: Arc<FirstSecrets>,
    /// Protocol versions that this end offers; `None` if its configuration names none.
    offered: Option<Versions>,
}

impl<'a> Handshake<'a> {
    /// A handshake that has not begun. It must be complete when `deadline` has passed since now.
    /// `first` is the key log of its configuration, from which the traffic secrets are taken in the
    /// end; `offered` is what the other end is told if no version is common.
    fn new(
        carrier: &'a Carrier,
        peer: &'a str,
        deadline: Span,
        first: Arc<FirstSecrets>,
        offered: Option<Versions>,
    ) -> Self {
        let socket = Socket { carrier, peer, deadline, end: clock::now() + deadline };
        Self { socket, incoming: Vec::new(), shown: 0, outgoing: Vec::new(), first, offered }
    }

    /// Runs the handshake to its end. If it was late or cut and the path seems to drop large
    /// packets, the error says that.
    fn run<C: Party>(self, connection: Result<C, rustls::Error>) -> Result<Established, LinkError> {
        let (carrier, peer) = (self.socket.carrier, self.socket.peer);
        self.negotiate(connection).map_err(|error| match error {
            LinkError::Late { .. } | LinkError::Cut { .. } => black_hole(carrier, peer).unwrap_or(error),
            other => other,
        })
    }

    /// Exchanges the messages of the handshake until it is complete.
    fn negotiate<C: Party>(mut self, connection: Result<C, rustls::Error>) -> Result<Established, LinkError> {
        let mut connection = connection.map_err(|error| self.socket.failed(&error))?;
        loop {
            let UnbufferedStatus { discard, state } = connection.process(&mut self.incoming[..self.shown]);
            let mut complete = false;
            let mut starved = false;
            match state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.outgoing),
                Ok(ConnectionState::TransmitTlsData(transmit)) => {
                    self.socket.write(&self.outgoing)?;
                    self.outgoing.clear();
                    transmit.done();
                }
                Ok(ConnectionState::BlockedHandshake) => starved = true,
                Ok(ConnectionState::WriteTraffic(_)) => complete = true,
                Ok(other) => return Err(LinkError::Protocol(format!("unexpected {other:?} within a handshake"))),
                Err(error) => {
                    self.discard(discard);
                    self.say_why(&mut connection);
                    return Err(self.socket.failed(&error));
                }
            }
            self.discard(discard);
            if complete && !connection.common().is_handshaking() {
                return match (connection.common().alpn_protocol(), self.offered) {
                    (Some(NONE_IN_COMMON), Some(ours)) => Err(self.exchange_versions(&mut connection, ours)),
                    _ => self.establish(connection),
                };
            }
            if complete || starved {
                self.show_next_record()?;
            }
        }
    }

    /// Takes the keys of both directions, the peer's key and the version from a complete handshake.
    fn establish<C: Party>(self, connection: C) -> Result<Established, LinkError> {
        let common = connection.common();
        let version = common.alpn_protocol().and_then(version_named);
        let version = version.ok_or_else(|| self.socket.failed(&rustls::Error::NoApplicationProtocol))?;
        let no_key = rustls::Error::NoCertificatesPresented;
        let peer_key = icdc_trust::peer_key(common).ok_or_else(|| self.socket.failed(&no_key))?;
        let unknown = rustls::Error::General("a cipher suite that icdc does not know was agreed upon".into());
        let cipher = common.negotiated_cipher_suite().and_then(|suite| cipher_of(suite.suite()));
        let cipher = cipher.ok_or_else(|| self.socket.failed(&unknown))?;
        let secrets = connection.into_secrets().map_err(|error| self.socket.failed(&error))?;
        let (client, server) = self.first.take().map_err(|error| self.socket.failed(&error))?;
        let (transmit, receive) = match C::ROLE {
            Role::Client => (client, server),
            Role::Server => (server, client),
        };
        let direction = |(sequence, _), secret| Direction::new(TrafficSecret::new(cipher, secret), sequence);
        Ok(Established {
            transmit: direction(secrets.tx, transmit),
            receive: direction(secrets.rx, receive),
            peer_key,
            version,
            role: C::ROLE,
            early: self.incoming[self.shown..].to_vec(),
        })
    }

    /// Exchanges versions when none is common to both ends (each tells the other its own) and
    /// returns the error.
    fn exchange_versions<C: Party>(&mut self, connection: &mut C, ours: Versions) -> LinkError {
        match self.hear_versions(connection, ours) {
            Ok(theirs) => LinkError::OtherVersions { peer: self.socket.peer.to_owned(), theirs, ours },
            Err(error) => error,
        }
    }

    /// Sends this end's protocol versions, and receives the peer's.
    fn hear_versions<C: Party>(&mut self, connection: &mut C, ours: Versions) -> Result<Versions, LinkError> {
        let mut to_tell = Some(ours.line());
        let mut heard = Vec::new();
        loop {
            let UnbufferedStatus { mut discard, state } = connection.process(&mut self.incoming[..self.shown]);
            let mut starved = false;
            match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => match to_tell.take() {
                    Some(line) => {
                        let mut record = [0; 256];
                        let length = traffic.encrypt(line.as_bytes(), &mut record).expect("a line fits into a record");
                        self.socket.write(&record[..length])?;
                    }
                    None => starved = true,
                },
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|error| self.socket.failed(&error))?;
                        discard += record.discard;
                        heard.extend_from_slice(record.payload);
                    }
                }
                Ok(_) => return Err(self.socket.refused("it has no version of the protocol in common with this end")),
                Err(error) => return Err(self.socket.failed(&error)),
            }
            self.discard(discard);
            if heard.ends_with(b"\n") || heard.len() > LONGEST_LINE {
                let theirs = Versions::parse_line(&heard);
                return theirs.ok_or_else(|| self.socket.refused("it does not tell which versions it speaks"));
            }
            if starved {
                self.show_next_record()?;
            }
        }
    }

    /// Discards the first `count` bytes, which rustls has used up.
    fn discard(&mut self, count: usize) {
        self.incoming.drain(..count);
        self.shown -= count;
    }

    /// Shows rustls one record more, reading as much as that takes.
    fn show_next_record(&mut self) -> Result<(), LinkError> {
        self.buffer(self.shown + HEADER)?;
        let header = &self.incoming[self.shown..];
        let body = usize::from(u16::from_be_bytes([header[3], header[4]]));
        // Content types 20 to 23, any version that begins with 3: everything that begins a record
        // of TLS.
        if !matches!(header, [20..=23, 3, ..]) || body > MAX_BODY {
            return Err(self.socket.refused("it does not speak TLS 1.3: is it another service?"));
        }
        let end = self.shown + HEADER + body;
        self.buffer(end)?;
        self.shown = end;
        Ok(())
    }

    /// Reads from the socket until `length` bytes are buffered; an error if that is more than a
    /// handshake may have.
    fn buffer(&mut self, length: usize) -> Result<(), LinkError> {
        if length > MAX_BUFFERED {
            return Err(self.socket.refused("its handshake is longer than any of icdc's"));
        }
        let mut chunk = [0; 4096];
        while self.incoming.len() < length {
            let count = self.socket.read(&mut chunk)?;
            self.incoming.extend_from_slice(&chunk[..count]);
        }
        Ok(())
    }

    /// Sends the alert that rustls has prepared, if the socket takes it.
    fn say_why<C: Party>(&mut self, connection: &mut C) {
        loop {
            // Not an empty buffer: rustls may remember messages in what it has been shown.
            match connection.process(&mut self.incoming[..self.shown]).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.outgoing),
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                _ => break,
            }
        }
        if let Err(error) = self.socket.write(&self.outgoing) {
            tracing::debug!("alert not sent: {error}");
        }
    }
}

/// Error for a failed handshake with `peer` if the path drops large packets; `None` if it does not
/// seem to.
fn black_hole(carrier: &Carrier, peer: &str) -> Option<LinkError> {
    let Carrier::Tcp(socket, _) = carrier else { return None };
    let info = icdc_tcp::info(&**socket).ok().filter(TcpInfo::loses_large_segments)?;
    Some(LinkError::BlackHole { peer: peer.to_owned(), mtu: info.path_mtu.as_u64() })
}

/// Appends to `outgoing` what `rustls` has ready to be sent.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) {
    let start = outgoing.len();
    if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
        outgoing.resize(start + needed.required_size, 0);
        data.encode(&mut outgoing[start..]).expect("the buffer has the size that was asked for");
    }
}

/// A socket on which every wait ends at the deadline of the whole handshake.
struct Socket<'a> {
    carrier: &'a Carrier,
    peer: &'a str,
    deadline: Span,
    end: Time,
}

impl Socket<'_> {
    /// Reads at least one byte, within the deadline.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        loop {
            let left = self.time_left()?;
            let read = self.carrier.set_read_timeout(Some(left)).and_then(|()| self.carrier.read(buffer));
            match read {
                Ok(0) => return Err(LinkError::Cut { peer: self.peer.to_owned() }),
                Ok(count) => return Ok(count),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(LinkError::io(self.peer, "recv", error)),
            }
        }
    }

    /// Writes all bytes, within the deadline.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), LinkError> {
        while !bytes.is_empty() {
            let left = self.time_left()?;
            let written = self.carrier.set_write_timeout(Some(left)).and_then(|()| self.carrier.write(bytes));
            match written {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(LinkError::io(self.peer, "send", error)),
            }
        }
        Ok(())
    }

    /// Time left until the deadline, more than zero; an error once it has passed.
    fn time_left(&self) -> Result<Span, LinkError> {
        let left = self.end - clock::now();
        if left == Span::ZERO {
            return Err(LinkError::Late { peer: self.peer.to_owned(), deadline: self.deadline });
        }
        // Sockets count in microseconds and take 0 for no limit.
        Ok(left.max(Span::from_micros(1)))
    }

    /// Link error for an error of `rustls`, with a remedy for the user where one is known.
    fn failed(&self, error: &rustls::Error) -> LinkError {
        self.refused(&icdc_trust::explain(error))
    }

    /// Link error for a handshake that this end breaks off for this reason.
    fn refused(&self, reason: &str) -> LinkError {
        LinkError::Handshake { peer: self.peer.to_owned(), reason: reason.to_owned() }
    }
}

/// Whether the error is only a signal or the time limit of the socket: the deadline decides.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// One side of a TLS handshake: client or server.
trait Party: Sized {
    type Data;

    /// Role of this end in the handshake.
    const ROLE: Role;

    /// Processes received records; returns what `rustls` wants done next.
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// State that is the same for client and server: version, peer's key, cipher suite.
    fn common(&self) -> &CommonState;

    /// Record numbers and keys of both directions, after the handshake.
    fn into_secrets(self) -> Result<ExtractedSecrets, rustls::Error>;
}

impl Party for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    const ROLE: Role = Role::Client;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn into_secrets(self) -> Result<ExtractedSecrets, rustls::Error> {
        Ok(self.dangerous_into_kernel_connection()?.0)
    }
}

impl Party for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    const ROLE: Role = Role::Server;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn into_secrets(self) -> Result<ExtractedSecrets, rustls::Error> {
        Ok(self.dangerous_into_kernel_connection()?.0)
    }
}
