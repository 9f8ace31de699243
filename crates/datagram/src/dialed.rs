//! A connection over datagrams that this end makes.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, unbounded};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, ConnectionHandle};

use crate::clock;
use crate::congestion::{FlowState, SharedFlow};
use crate::engine::{Command, ConnectProgress, Engine, Handle, pair};
use crate::error::DatagramError;
use crate::settings::{Algorithm, any};
use crate::socket::Sockets;

/// Time for the end of a stream to arrive when the connection is given up: the process may end right after.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two looks at whether the caller has given up.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A connection to another end. Dropping it ends the connection once its streams have ended, and waits for that for
/// two seconds at most.
pub struct Dialed {
    engine: Handle,
    connection: ConnectionHandle,
    flow: SharedFlow,
    progress: Receiver<ConnectProgress>,
}

impl Dialed {
    /// Connects to `remote`, for at most `patience` and until `is_given_up`.
    ///
    /// # Errors
    /// See [`DatagramError`].
    pub fn connect(
        remote: SocketAddr,
        tls: Arc<rustls::ClientConfig>,
        algorithm: Algorithm,
        patience: Duration,
        is_given_up: impl Fn() -> bool,
    ) -> Result<Self, DatagramError> {
        let socket = UdpSocket::bind(any(remote)).map_err(DatagramError::kernel("bind"))?;
        let sockets = Sockets::new(socket).map_err(DatagramError::kernel("setsockopt"))?;
        let tls = QuicClientConfig::try_from(tls).map_err(|error| DatagramError::Ended(error.to_string()))?;
        let engine = Engine::start(sockets, algorithm, None)?;
        let (told, progress) = unbounded();
        engine.give(Command::Connect(remote, Box::new(ClientConfig::new(Arc::new(tls))), told));
        let deadline = clock::now() + patience;
        let mut begun = None;
        loop {
            match progress.recv_timeout(POLL_INTERVAL) {
                Ok(ConnectProgress::Begun(connection, flow)) => begun = Some((connection, flow)),
                Ok(ConnectProgress::Connected) => {
                    let (connection, flow) = begun.expect("it is told first");
                    return Ok(Self { engine, connection, flow, progress });
                }
                Ok(ConnectProgress::Ended(error)) => return Err(error),
                Err(RecvTimeoutError::Disconnected) => return Err(DatagramError::Ended("its thread has ended".into())),
                Err(RecvTimeoutError::Timeout) if is_given_up() => return Err(DatagramError::GivenUp),
                Err(RecvTimeoutError::Timeout) if clock::now() >= deadline => {
                    return Err(DatagramError::NoAnswer { timeout: patience.into() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Opens a stream; the socket is its near end. It ends at once if the connection has ended.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub fn open(&self) -> Result<UnixStream, DatagramError> {
        let (near, far) = pair().map_err(DatagramError::kernel("socketpair"))?;
        self.engine.give(Command::Open(self.connection, near));
        Ok(far)
    }

    /// Whether the connection has ended: streams that are opened end at once.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !matches!(self.progress.try_recv(), Err(TryRecvError::Empty))
    }

    /// State of the congestion control.
    #[must_use]
    pub fn state(&self) -> FlowState {
        self.flow.lock().state()
    }
}

impl Drop for Dialed {
    fn drop(&mut self) {
        self.engine.end(CLOSE_TIMEOUT);
    }
}
