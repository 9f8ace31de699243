//! What carries a link's records.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use icdc_units::{ByteCount, Rate, Span};

use super::write_clock::WriteClock;

/// A stream of bytes in both directions, watched and ended from any thread.
#[derive(Clone)]
pub enum Carrier {
    /// A TCP connection.
    Tcp(Arc<TcpStream>),
    /// Something that another program carries.
    Forwarded(Arc<Forwarded>),
}

/// The program that carries a stream; being dropped ends it.
pub trait ForwardingProgram: Send + Sync {
    /// Asks it to end and does not wait: the stream is of no use any more.
    fn end(&self);
}

/// A stream of bytes that another program carries, as ssh does.
pub struct Forwarded {
    socket: UnixStream,
    peer: String,
    clock: WriteClock,
    written: AtomicU64,
    /// It goes with the stream.
    program: Box<dyn ForwardingProgram>,
}

impl Forwarded {
    /// `socket` leads to `program`; `peer` names the other end in messages.
    #[must_use]
    pub fn new(socket: UnixStream, peer: String, program: impl ForwardingProgram + 'static) -> Self {
        let (clock, written) = (WriteClock::default(), AtomicU64::new(0));
        Self { socket, peer, clock, written, program: Box::new(program) }
    }
}

impl From<TcpStream> for Carrier {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(Arc::new(stream))
    }
}

impl From<Forwarded> for Carrier {
    fn from(forwarded: Forwarded) -> Self {
        Self::Forwarded(Arc::new(forwarded))
    }
}

impl Carrier {
    /// Ends one direction or both.
    ///
    /// # Errors
    /// The kernel's, if the peer was faster.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Forwarded(forwarded) => {
                forwarded.clock.stop();
                let shut = forwarded.socket.shutdown(how);
                if how == Shutdown::Both {
                    forwarded.program.end();
                }
                shut
            }
        }
    }

    /// The other end, for messages.
    pub(super) fn peer(&self) -> String {
        match self {
            Self::Tcp(stream) => {
                stream.peer_addr().map_or_else(|_| "a peer that is gone".to_owned(), |address| address.to_string())
            }
            Self::Forwarded(forwarded) => forwarded.peer.clone(),
        }
    }

    /// Flights of the handshake and frames are gathered into large writes here; the last piece of
    /// one must not wait for an acknowledgement.
    pub(super) fn send_at_once(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Forwarded(_) => Ok(()),
        }
    }

    /// The TCP connection, if it is one.
    pub(super) fn tcp(&self) -> Option<&Arc<TcpStream>> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Forwarded(_) => None,
        }
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&**stream).read(buffer),
            Self::Forwarded(forwarded) => (&forwarded.socket).read(buffer),
        }
    }

    /// Writes what is taken at once.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&**stream).write(bytes),
            Self::Forwarded(forwarded) => forwarded.write(bytes),
        }
    }

    pub(super) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => (&**stream).write_all(bytes),
            Self::Forwarded(forwarded) => forwarded.write_all(bytes),
        }
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Span>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout.map(Duration::from)),
            Self::Forwarded(forwarded) => forwarded.socket.set_read_timeout(timeout.map(Duration::from)),
        }
    }

    pub(super) fn set_write_timeout(&self, timeout: Option<Span>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(timeout.map(Duration::from)),
            Self::Forwarded(forwarded) => forwarded.socket.set_write_timeout(timeout.map(Duration::from)),
        }
    }

    /// Caps the pace at which it sends: the kernel's where it is TCP, that of the writes where
    /// another program sends.
    pub(super) fn set_rate(&self, rate: Rate) {
        match self {
            Self::Tcp(stream) => {
                if let Err(error) = icdc_tcp::set_pacing_rate(stream, rate) {
                    tracing::debug!("{}: pacing rate not set: {error}", self.peer());
                }
            }
            Self::Forwarded(forwarded) => forwarded.clock.set_rate(rate),
        }
    }

    /// Bytes that the peer's host has, or, where another program sends, that this one has taken.
    pub(super) fn delivered(&self) -> ByteCount {
        match self {
            Self::Tcp(stream) => icdc_tcp::info(stream)
                .map_or(ByteCount::ZERO, |info| info.bytes_acked + info.mss * u64::from(info.sacked)),
            Self::Forwarded(forwarded) => ByteCount::new(forwarded.written.load(Ordering::Relaxed)),
        }
    }
}

impl Forwarded {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let count = (&self.socket).write(&bytes[..self.clock.take(bytes.len())])?;
        self.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Forwarded(forwarded) => forwarded.socket.as_fd(),
        }
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Carrier").field(&self.peer()).finish()
    }
}
