//! TLS 1.3 over a socket that never blocks.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use icdc_trust::{PublicKey, explain, peer_key};

use super::raw::{Received, read_from, write_to};

/// Bytes read from the socket at a time: rustls alone would read 4 KiB.
const CHUNK: usize = 64 << 10;

/// A TLS session, and ciphertext that it has not processed yet.
#[derive(Debug)]
pub(super) struct Tls {
    session: rustls::Connection,
    raw: Vec<u8>,
    used: usize,
    close_notified: bool,
}

impl Tls {
    pub(super) fn new(session: rustls::Connection) -> Self {
        Self { session, raw: Vec::new(), used: 0, close_notified: false }
    }

    pub(super) fn peer_key(&self) -> Option<PublicKey> {
        peer_key(&self.session)
    }

    /// Continues the handshake; true once it is complete.
    pub(super) fn handshake(
        &mut self,
        socket: &TcpStream,
        readable: &mut bool,
        writable: &mut bool,
    ) -> io::Result<bool> {
        while self.session.is_handshaking() {
            let pushed = self.push(socket, writable)?;
            if !self.session.is_handshaking() {
                break;
            }
            match self.pull(socket, readable) {
                Ok(Received::Bytes(_)) => {}
                Ok(Received::WouldBlock) => return Ok(false),
                Ok(Received::End) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) => {
                    // The alert, as far as the socket takes it.
                    let _ = pushed.then(|| self.push(socket, writable));
                    return Err(error);
                }
            }
        }
        self.push(socket, writable)
    }

    /// Reads decrypted bytes, from the socket where there are none yet.
    pub(super) fn read(&mut self, into: &mut [u8], socket: &TcpStream, readable: &mut bool) -> io::Result<Received> {
        loop {
            match self.session.reader().read(into) {
                Ok(0) => return Ok(Received::End),
                Ok(count) => return Ok(Received::Bytes(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The connection has ended without close_notify.
                Err(error) => return Err(error),
            }
            if self.pull(socket, readable)? == Received::WouldBlock {
                return Ok(Received::WouldBlock);
            }
        }
    }

    /// Encrypts and sends what the socket takes; returns the number of bytes taken. Some of these
    /// may wait in the session.
    pub(super) fn write(&mut self, bytes: &[u8], socket: &TcpStream, writable: &mut bool) -> io::Result<usize> {
        let mut taken = 0;
        while self.push(socket, writable)? && taken < bytes.len() {
            taken += self.session.writer().write(&bytes[taken..])?;
        }
        Ok(taken)
    }

    /// Sends what the session has ready; false if the socket did not take all of it.
    pub(super) fn push(&mut self, socket: &TcpStream, writable: &mut bool) -> io::Result<bool> {
        let mut outlet = Outlet { socket, writable };
        while self.session.wants_write() {
            match self.session.write_tls(&mut outlet) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends close_notify; false if the socket did not take all of it.
    pub(super) fn close_notify(&mut self, socket: &TcpStream, writable: &mut bool) -> io::Result<bool> {
        if !self.close_notified {
            self.session.send_close_notify();
            self.close_notified = true;
        }
        self.push(socket, writable)
    }

    /// Passes more ciphertext to the session.
    fn pull(&mut self, socket: &TcpStream, readable: &mut bool) -> io::Result<Received> {
        if self.used == self.raw.len() {
            self.raw.resize(CHUNK, 0);
            self.used = 0;
            let received = read_from(socket, &mut self.raw, readable);
            // An idle connection keeps no buffer.
            match received {
                Ok(Received::Bytes(count)) => self.raw.truncate(count),
                _ => self.raw = Vec::new(),
            }
            match received? {
                Received::WouldBlock => return Ok(Received::WouldBlock),
                Received::End => {
                    self.session.read_tls(&mut io::empty())?;
                    return Ok(Received::End);
                }
                Received::Bytes(_) => {}
            }
        }
        let taken = self.session.read_tls(&mut &self.raw[self.used..])?;
        self.used += taken;
        self.session
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, explain(&error)))?;
        Ok(Received::Bytes(taken))
    }
}

/// The socket as `rustls` writes to it.
struct Outlet<'a> {
    socket: &'a TcpStream,
    writable: &'a mut bool,
}

impl Write for Outlet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match write_to(self.socket, bytes, self.writable)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
