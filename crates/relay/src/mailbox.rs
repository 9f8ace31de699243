//! Letters to a thread that waits for events.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::clients::Place;
use crate::config::{Config, Listener};
use crate::status::ConnectionStatus;

/// What may be in a letter.
pub(crate) enum Letter {
    /// A connection has been accepted.
    Guest(Box<Guest>),
    /// A name has been resolved: for which connection, and which of its questions it was.
    Resolved((u64, u64), io::Result<Vec<SocketAddr>>),
    /// What do the connections do?
    Tell(Sender<Vec<ConnectionStatus>>),
    /// Another configuration is in force: connections that nobody uses yet are closed.
    Configured(Arc<Config>),
    /// Close what nobody uses; the relay is going to stop.
    Drain,
    /// Break off everything and end.
    End,
}

/// An accepted connection.
pub(crate) struct Guest {
    pub(crate) socket: TcpStream,
    pub(crate) client: SocketAddr,
    pub(crate) listener: Arc<Listener>,
    pub(crate) config: Arc<Config>,
    pub(crate) place: Place,
}

/// The letters of one thread, and what wakes it.
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    pub(crate) bell: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { letters: Mutex::default(), bell })
    }

    pub(crate) fn post(&self, letter: Letter) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        // It can only fail when it has been rung 2^64 times.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    pub(crate) fn take(&self) -> Vec<Letter> {
        let mut rung = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut rung);
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
