//! Messages to a worker thread, and the descriptor that wakes it up.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::clients::Slot;
use crate::config::{Config, Listener};
use crate::status::ConnectionStatus;

/// A message to a worker thread.
pub(crate) enum WorkerMessage {
    /// A connection has been accepted and is the worker's from now on.
    Accepted(Box<Accepted>),
    /// A name has been resolved, for a query of a connection.
    Resolved(QueryId, io::Result<Vec<SocketAddr>>),
    /// Sends the status of the worker's connections.
    Status(Sender<Vec<ConnectionStatus>>),
    /// Another configuration is in force: idle connections between relays are closed.
    Configured(Arc<Config>),
    /// The relay is about to stop: idle connections between relays are closed.
    Drain,
    /// Reset all connections and end the thread.
    Stop,
}

/// A query of a name by a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryId {
    /// The connection's id at its worker.
    pub(crate) connection: u64,
    /// Counts the queries of the connection: answers to earlier ones may come late.
    pub(crate) number: u64,
}

/// A connection that was accepted from a client.
pub(crate) struct Accepted {
    pub(crate) socket: TcpStream,
    pub(crate) client: SocketAddr,
    pub(crate) listener: Arc<Listener>,
    pub(crate) config: Arc<Config>,
    pub(crate) slot: Slot,
}

/// Queue of the messages to one worker thread.
pub(crate) struct Mailbox {
    messages: Mutex<Vec<WorkerMessage>>,
    /// Descriptor that is readable while there are messages.
    pub(crate) wakeup: OwnedFd,
}

impl Mailbox {
    /// An empty mailbox.
    pub(crate) fn new() -> io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { messages: Mutex::default(), wakeup })
    }

    /// Puts a message into the mailbox, and wakes the worker.
    pub(crate) fn post(&self, message: WorkerMessage) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // It fails only when the counter is full, and then the worker wakes up anyway.
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    /// Takes all messages out of the mailbox.
    pub(crate) fn take(&self) -> Vec<WorkerMessage> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wakeup, &mut count);
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
