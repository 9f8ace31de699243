//! Connections over datagrams that others make.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::ServerConfig;
use quinn_proto::crypto::rustls::QuicServerConfig;

use crate::engine::{Accepting, Command, Engine, Handle, StreamHandle};
use crate::error::DatagramError;
use crate::settings::Algorithm;
use crate::socket::Sockets;

/// A stream that another end has opened.
#[derive(Debug)]
pub struct Accepted {
    /// Its near end.
    pub socket: UnixStream,
    /// Address of the other end, which has shown that it receives there.
    pub peer: SocketAddr,
    /// The stream as this process goes on to watch it: a stranger may send little until it is trusted.
    pub incoming: StreamHandle,
}

/// Accepts connections at a UDP socket; dropping it accepts no more, and ends each connection with its last stream.
pub struct Listener {
    engine: Handle,
    address: SocketAddr,
}

impl Listener {
    /// Accepts connections whose handshake `tls` allows, and hands each of their streams to `take`.
    ///
    /// # Errors
    /// See [`DatagramError`].
    pub fn start(
        socket: UdpSocket,
        tls: Arc<rustls::ServerConfig>,
        algorithm: Algorithm,
        take: impl Fn(Accepted) + Send + 'static,
    ) -> Result<Self, DatagramError> {
        let sockets = Sockets::new(socket).map_err(DatagramError::kernel("setsockopt"))?;
        let address = sockets.address().map_err(DatagramError::kernel("getsockname"))?;
        let crypto = QuicServerConfig::try_from(tls).map_err(|error| DatagramError::Ended(error.to_string()))?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        // Another path would need a congestion control of its own.
        config.migration(false);
        let accepting = Accepting {
            config: Arc::new(config),
            take: Box::new(move |socket, peer, incoming| take(Accepted { socket, peer, incoming })),
        };
        Ok(Self { engine: Engine::start(sockets, algorithm, Some(accepting))?, address })
    }

    /// Accepts no more connections from now on.
    pub fn close(&self) {
        self.engine.give(Command::End);
    }

    /// Accepts no more connections, and waits for at most `patience` until what the streams have been given has arrived.
    pub fn finish(&self, patience: Duration) {
        self.engine.end(patience);
    }

    /// Address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
