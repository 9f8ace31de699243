//! One end of a TLS connection that carries frames as bytes, by rustls alone: nothing here reads or writes
//! a message by the code under test.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use icdc_protocol::Versions;
use icdc_trust::{Identity, PublicKey, ServerPin, client_config, server_config, server_name};
use rustls::{ClientConnection, Connection, ServerConnection};

use crate::peer::Server;
use crate::support::HERE;
use crate::support::daemon::Daemon;

/// Longest wait for the other end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long is waited for bytes before something else is looked at.
const MOMENT: Duration = Duration::from_millis(5);
/// Head length and payload length.
const PREFIX: usize = 8;

/// See the module's description.
pub(crate) struct Wire {
    stream: TcpStream,
    tls: Connection,
    /// What has been decrypted and is no whole frame yet.
    clear: Vec<u8>,
    ended: bool,
}

impl Wire {
    /// Connects to a daemon as the holder of `identity`.
    pub(crate) fn connect(identity: &Identity, daemon: &Daemon) -> Self {
        let (key, _) = PublicKey::parse_line(daemon.key()).unwrap();
        let stream = TcpStream::connect((HERE, daemon.port())).unwrap();
        let tls = ClientConnection::new(client_config(identity, ServerPin::Exact(key)), server_name()).unwrap();
        Self::begin(stream, tls.into())
    }

    /// The next connection to a server.
    pub(crate) fn accept(server: &Server) -> Self {
        Self::accept_offering(server, Versions::OURS)
    }

    /// The next connection to a server that says that it speaks `versions`.
    pub(crate) fn accept_offering(server: &Server, versions: Versions) -> Self {
        let mut config = server_config(server.identity(), |_| true);
        Arc::make_mut(&mut config).alpn_protocols = versions.names();
        let tls = ServerConnection::new(config).unwrap();
        Self::begin(server.accept_silently(), tls.into())
    }

    fn begin(mut stream: TcpStream, mut tls: Connection) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).unwrap();
        }
        tls.set_buffer_limit(None);
        stream.set_read_timeout(Some(MOMENT)).unwrap();
        let mut wire = Self { stream, tls, clear: Vec::new(), ended: false };
        wire.flush();
        wire
    }

    /// The version of the protocol that was agreed upon, as TLS names it.
    pub(crate) fn version(&self) -> String {
        String::from_utf8(self.tls.alpn_protocol().unwrap().to_vec()).unwrap()
    }

    /// The next frame; `None` if none has come for a moment.
    pub(crate) fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            self.take_clear();
            if let Some(length) = frame_length(&self.clear).filter(|length| *length <= self.clear.len()) {
                return Some(self.clear.drain(..length).collect());
            }
            if self.ended {
                return None;
            }
            match self.tls.read_tls(&mut self.stream) {
                Ok(0) => self.ended = true,
                Ok(_) => {
                    self.tls.process_new_packets().unwrap();
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => self.ended = true,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Takes what has been decrypted.
    fn take_clear(&mut self) {
        let mut chunk = [0; 16 << 10];
        loop {
            match self.tls.reader().read(&mut chunk) {
                // The other end's farewell.
                Ok(0) => return self.ended = true,
                Ok(count) => self.clear.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return self.ended = true,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sends a frame; the other end may be gone already.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        self.tls.writer().write_all(frame).unwrap();
        self.flush();
    }

    fn flush(&mut self) {
        while self.tls.wants_write() && self.tls.write_tls(&mut self.stream).is_ok() {}
    }

    /// Waits for a frame, which [`frame`](Self::frame) then answers; false if none comes.
    pub(crate) fn has_frame(&mut self) -> bool {
        let begun = Instant::now();
        while !self.has_ended() {
            if let Some(frame) = self.frame() {
                self.clear.splice(0..0, frame);
                return true;
            }
            assert!(begun.elapsed() < PATIENCE, "the other end says nothing");
        }
        false
    }

    /// Whether nothing more can come.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended && frame_length(&self.clear).is_none_or(|length| length > self.clear.len())
    }

    /// Ends this direction in order.
    pub(crate) fn say_farewell(&mut self) {
        self.tls.send_close_notify();
        self.flush();
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Takes what still comes, up to the other end's farewell.
    pub(crate) fn rest(&mut self) -> Vec<Vec<u8>> {
        let begun = Instant::now();
        let mut frames = Vec::new();
        while !self.has_ended() {
            frames.extend(self.frame());
            assert!(begun.elapsed() < PATIENCE, "the other end does not close");
        }
        frames
    }
}

/// Length of the frame that `bytes` begin with, once that is known.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let length = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    (bytes.len() >= PREFIX).then(|| PREFIX + length(0) + length(4))
}

/// The head of a frame.
pub(crate) fn head(frame: &[u8]) -> &[u8] {
    let length = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
    &frame[PREFIX..PREFIX + length]
}

/// What follows the head of a frame.
pub(crate) fn payload(frame: &[u8]) -> &[u8] {
    &frame[PREFIX + head(frame).len()..]
}
